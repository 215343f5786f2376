"""Pages of what a store holds, for people and APIs: bounded in rows, and without any content."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

import sqlalchemy as sa

from afterrun.core.times import to_datetime
from afterrun.runs.access import look_at
from afterrun.runs.database import Database
from afterrun.runs.effect_rows import ORDER, Effect, effects_of
from afterrun.runs.schema import approvals, attempts, decisions, obligations, runs, steps
from afterrun.runs.side_tables import effects
from afterrun.runs.steps import CURRENT_ATTEMPT, STEP_COLUMNS, step_of
from afterrun.runs.trees import scope_of
from afterrun.runs.views import COLUMNS, Run, Step, moment, runs_of
from afterrun.runs.words import LIVE, EffectStatus

QuestionKind = Literal["approval", "decision"]
Place = tuple[int, int]
"""A generation and a number in it: what a page of a run's parts goes on after."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A question as it stands. ``answer`` is the choice of a decision, one of ``choices`` if it has some."""

    kind: QuestionKind
    generation: int
    number: int
    subject: str
    status: str
    choices: tuple[str, ...]
    answer: str | None
    asked_at: datetime
    ended_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Live runs by status, open work by kind, and when the oldest queued run was made."""

    runs: dict[str, int]
    work: dict[str, int]
    oldest_queued: datetime | None


class Pages:
    """Reads pages. ``limit`` bounds the rows of one; what comes after the last of them is the next page."""

    def __init__(self, database: Database) -> None:
        """Read a store."""
        self._database = database

    def steps(self, run: str, *, after: Place | None = None, limit: int) -> list[Step]:
        """Return steps of a run by generation and number. Raises `RunNotFound`."""
        wanted = sa.select(*STEP_COLUMNS).join_from(steps, attempts, CURRENT_ATTEMPT)
        wanted = _page(wanted.where(steps.c.run_id == run), steps, after, limit)
        with self._database.reading() as transaction:
            look_at(transaction, run)
            return [step_of(row) for row in transaction.rows(wanted)]

    def tree(self, run: str, *, after: str | None = None, limit: int) -> list[Run]:
        """Return a run and all below it by id, which is the order of creation. Raises `RunNotFound`."""
        with self._database.reading() as transaction:
            root = look_at(transaction, run).root
            inside = runs.c.root_id == root if run == root else runs.c.id.in_(scope_of(run, root))
            wanted = sa.select(*COLUMNS).where(inside).order_by(runs.c.id).limit(limit)
            if after is not None:
                wanted = wanted.where(runs.c.id > after)
            return runs_of(transaction.rows(wanted))

    def questions(
        self, run: str, *, kind: QuestionKind, pending: bool, after: Place | None = None, limit: int
    ) -> list[Asked]:
        """Return what a run has asked of one kind, in the order in which it asked. Raises `RunNotFound`."""
        table = approvals if kind == "approval" else decisions
        wanted = sa.select(table).where(table.c.run_id == run)
        if pending:
            wanted = wanted.where(table.c.status == "pending")
        with self._database.reading() as transaction:
            look_at(transaction, run)
            return list(_asked(kind, transaction.rows(_page(wanted, table, after, limit))))

    def in_doubt(self, run: str, *, limit: int) -> list[Effect]:
        """Return the first effects of a run that somebody has to settle. Raises `RunNotFound`."""
        wanted = sa.select(effects).where(
            effects.c.run_id == run, effects.c.status == EffectStatus.AMBIGUOUS, effects.c.ended_at.is_(None)
        )
        with self._database.reading() as transaction:
            look_at(transaction, run)
            return effects_of(transaction.rows(wanted.order_by(*ORDER).limit(limit)))

    def progress(self, run: str) -> str | None:
        """Return what a run last said of its progress, scrubbed. Raises `RunNotFound`."""
        with self._database.reading() as transaction:
            look_at(transaction, run)
            found: str | None = transaction.value(sa.select(runs.c.progress).where(runs.c.id == run))
        return found

    def load(self) -> Load:
        """Count what is live, by indexes of live runs and open work alone."""
        live = sa.select(runs.c.status, sa.func.count()).where(runs.c.ended_at.is_(None))
        work = sa.select(obligations.c.kind, sa.func.count()).where(obligations.c.closed_at.is_(None))
        oldest = sa.select(sa.func.min(runs.c.created_at)).where(
            runs.c.status == sa.literal_column("'queued'")
        )
        with self._database.reading() as transaction:
            counted = dict(map(tuple, transaction.rows(live.group_by(runs.c.status))))
            kinds = dict(map(tuple, transaction.rows(work.group_by(obligations.c.kind))))
            return Load(
                runs={status.value: counted.get(status.value, 0) for status in LIVE},
                work=dict(sorted(kinds.items())),
                oldest_queued=moment(transaction.value(oldest)),
            )


def _page(wanted: sa.Select[Any], table: sa.Table, after: Place | None, limit: int) -> sa.Select[Any]:
    """Go by the primary key, so that a page costs what it returns."""
    columns = table.c
    if after is not None:
        place = sa.tuple_(columns.generation, columns.number)
        wanted = wanted.where(place > sa.tuple_(*map(sa.literal, after)))
    return wanted.order_by(columns.generation, columns.number).limit(limit)


def _asked(kind: QuestionKind, rows: Sequence[sa.Row[Any]]) -> Iterator[Asked]:
    for row in rows:
        yield Asked(
            kind=kind,
            generation=row.generation,
            number=row.number,
            subject=row.subject,
            status=row.status,
            choices=tuple(json.loads(row.choices or "[]")) if kind == "decision" else ("approve", "reject"),
            answer=row.choice if kind == "decision" else None,
            asked_at=to_datetime(row.asked_at),
            ended_at=moment(row.ended_at),
        )
