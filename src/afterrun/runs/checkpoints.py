"""Checkpoints: state that a run saves on its way. From the newest resumable one it can be resumed.

A resumable checkpoint keeps the tree until a newer one takes its place, the run completes or is cancelled, or
somebody says that nobody will resume it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import sqlalchemy as sa

from afterrun.core.times import to_datetime
from afterrun.runs import contents
from afterrun.runs.access import expect, hold, hold_as_owner, look_at
from afterrun.runs.contents import Display
from afterrun.runs.database import Database, Transaction
from afterrun.runs.endings import forget_checkpoints, one_run
from afterrun.runs.errors import WrongState
from afterrun.runs.lineage import lineage_block, refuse, step_block
from afterrun.runs.numbers import next_number
from afterrun.runs.obligations import open_work
from afterrun.runs.parts import Place, exact, page_of, row_of, shown
from afterrun.runs.schema import runs
from afterrun.runs.side_tables import checkpoints
from afterrun.runs.views import Attempt, Run, moment
from afterrun.runs.words import LIVE, PAGE, RunStatus, Work

ORDER: Final = (checkpoints.c.generation, checkpoints.c.number)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A checkpoint of a generation, saved by an ``attempt`` or by the run itself.

    ``settled_at`` is when a resumable one stopped to be the one to resume from.
    """

    run: str
    generation: int
    number: int
    attempt: Attempt | None
    resumable: bool
    made_at: datetime
    settled_at: datetime | None


class Checkpoints:
    """Saves and gives checkpoints. Raises as `Steps` does."""

    def __init__(self, database: Database) -> None:
        """Work on a store."""
        self._database = database

    def save(
        self, of: str | Attempt, content: bytes | None, *, resumable: bool = True, epoch: int | None = None
    ) -> Checkpoint:
        """Save state of a running run, or of the current attempt at a step.

        A resumable one takes the place of the one before it.
        """
        attempt = of if isinstance(of, Attempt) else None
        run = of if isinstance(of, str) else of.run
        with self._database.writing() as transaction:
            found = hold_as_owner(transaction, run, epoch)
            refuse(lineage_block(transaction, run) if attempt is None else step_block(transaction, attempt))
            expect(found, [RunStatus.RUNNING], "save a checkpoint")
            if resumable:
                forget_checkpoints(transaction, one_run(found))
            number = next_number(transaction, checkpoints, run_id=run, generation=found.generation)
            transaction.insert(
                checkpoints,
                run_id=run,
                generation=found.generation,
                number=number,
                step=attempt and attempt.step,
                attempt=attempt and attempt.number,
                content_id=contents.store(transaction, content),
                resumable=int(resumable),
                made_at=transaction.now,
            )
            generation = found.generation
            if resumable:
                open_work(transaction, found, Work.CHECKPOINT, generation=generation, subject=str(number))
            return _checkpoint(_row(transaction, (run, generation, number)))

    def newest(self, run: str, *, resumable: bool = False) -> Checkpoint | None:
        """Return the newest checkpoint of a run, with ``resumable`` the one to resume from, or nothing."""
        wanted = sa.select(checkpoints).where(checkpoints.c.run_id == run)
        if resumable:
            wanted = wanted.where(OPEN)
        newest = wanted.order_by(*(column.desc() for column in ORDER)).limit(1)
        with self._database.reading() as transaction:
            look_at(transaction, run)
            row = transaction.one(newest)
        return None if row is None else _checkpoint(row)

    def content_of(self, checkpoint: Checkpoint) -> bytes | None:
        """Return exactly what a checkpoint holds. Raises `NotFound` and `PayloadUnreadable`."""
        with self._database.reading() as transaction:
            _row(transaction, _place(checkpoint))
            return exact(transaction, checkpoints.c.content_id, _place(checkpoint), "checkpoint")

    def display_of(self, checkpoint: Checkpoint) -> Display | None:
        """Return what may be shown of that; it needs no key."""
        with self._database.reading() as transaction:
            return shown(transaction, checkpoints.c.content_id, _place(checkpoint), "checkpoint")

    def of(self, run: str, *, after: tuple[int, int] | None = None, limit: int = PAGE) -> list[Checkpoint]:
        """Return checkpoints of a run by generation and number, those ``after`` one such place, as a page."""
        with self._database.reading() as transaction:
            rows = page_of(transaction, checkpoints, run, after=after, limit=limit)
        return [_checkpoint(row) for row in rows]

    def unresumed(self, *, limit: int = PAGE) -> list[Checkpoint]:
        """Return the checkpoints of runs that ended and may be resumed, those of the oldest runs first."""
        ended = sa.select(runs.c.id).where(runs.c.id == checkpoints.c.run_id, runs.c.ended_at.is_not(None))
        wanted = sa.select(checkpoints).where(OPEN, ended.exists()).order_by(checkpoints.c.run_id, *ORDER)
        with self._database.reading() as transaction:
            return [_checkpoint(row) for row in transaction.rows(wanted.limit(limit))]

    def forget(self, run: str) -> None:
        """Say that nobody will resume a run that ended; its checkpoints keep it no more."""
        with self._database.writing() as transaction:
            found = hold(transaction, run)
            _refuse_live(found)
            forget_checkpoints(transaction, one_run(found))


OPEN: Final = sa.and_(checkpoints.c.resumable == sa.literal_column("1"), checkpoints.c.settled_at.is_(None))
"""Finds the checkpoints to resume from, by the words of their index."""


def _refuse_live(run: Run) -> None:
    if run.status in LIVE:
        raise WrongState("the run goes on, and may need its checkpoints: cancel it first", status=run.status)


def _place(checkpoint: Checkpoint) -> Place:
    return checkpoint.run, checkpoint.generation, checkpoint.number


def _row(transaction: Transaction, place: Place) -> sa.Row[Any]:
    return row_of(transaction, checkpoints, place, "checkpoint")


def _checkpoint(row: sa.Row[Any]) -> Checkpoint:
    attempt = None if row.step is None else Attempt(row.run_id, row.generation, row.step, row.attempt)
    return Checkpoint(
        run=row.run_id,
        generation=row.generation,
        number=row.number,
        attempt=attempt,
        resumable=bool(row.resumable),
        made_at=to_datetime(row.made_at),
        settled_at=moment(row.settled_at),
    )
