"""Follow-ups: something is to be looked at again, by a person or another program. Open until it is done."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import sqlalchemy as sa

from afterrun.core.errors import UsageError
from afterrun.core.times import micros, to_datetime
from afterrun.runs.access import expect, hold, hold_as_owner
from afterrun.runs.database import Database, Transaction
from afterrun.runs.labels import spoken
from afterrun.runs.lineage import lineage_block, refuse
from afterrun.runs.numbers import next_number
from afterrun.runs.obligations import close_work, open_work
from afterrun.runs.parts import Place, at, page_of, row_of
from afterrun.runs.side_tables import follow_ups
from afterrun.runs.views import moment
from afterrun.runs.words import LIVE, PAGE, Work

ORDER: Final = (follow_ups.c.generation, follow_ups.c.number)


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowUp:
    """A follow-up as it stands; ``subject`` says what about, ``due_at`` from when on it is due."""

    run: str
    generation: int
    number: int
    subject: str
    opened_at: datetime
    due_at: datetime
    ended_at: datetime | None


class FollowUps:
    """Keeps what is to be looked at again. Raises as `Steps` does."""

    def __init__(self, database: Database) -> None:
        """Work on a store."""
        self._database = database

    def add(
        self, run: str, subject: str, *, due_in: timedelta = timedelta(0), epoch: int | None = None
    ) -> FollowUp:
        """Say that something of a live run is to be looked at, after so long. It outlives the run's end."""
        if due_in < timedelta(0):
            raise UsageError("a follow-up is due now or later: give a duration of zero or more")
        with self._database.writing() as transaction:
            found = hold_as_owner(transaction, run, epoch)
            refuse(lineage_block(transaction, run))
            expect(found, LIVE, "be followed up")
            number = next_number(transaction, follow_ups, run_id=run, generation=found.generation)
            transaction.insert(
                follow_ups,
                run_id=run,
                generation=found.generation,
                number=number,
                subject=spoken("subject of a follow-up", subject),
                opened_at=transaction.now,
                due_at=transaction.now + micros(due_in),
            )
            generation = found.generation
            open_work(transaction, found, Work.FOLLOW_UP, generation=generation, subject=str(number))
            return _follow_up(_row(transaction, (run, generation, number)))

    def due(self, *, limit: int = PAGE) -> list[FollowUp]:
        """Return the follow-ups that are due and not done, those first that have been due longest."""
        with self._database.reading() as transaction:
            late = sa.and_(follow_ups.c.ended_at.is_(None), follow_ups.c.due_at <= transaction.now)
            wanted = sa.select(follow_ups).where(late).order_by(follow_ups.c.due_at, follow_ups.c.run_id)
            return [_follow_up(row) for row in transaction.rows(wanted.order_by(*ORDER).limit(limit))]

    def done(self, follow_up: FollowUp) -> None:
        """Note that a follow-up was done, or is not needed any more. Raises `NotFound`."""
        place = follow_up.run, follow_up.generation, follow_up.number
        with self._database.writing() as transaction:
            run = hold(transaction, follow_up.run)
            if _row(transaction, place).ended_at is None:
                ended = sa.update(follow_ups).where(at(follow_ups, place)).values(ended_at=transaction.now)
                transaction.change(ended)
            _, generation, number = place
            close_work(transaction, run, Work.FOLLOW_UP, generation=generation, subject=str(number))

    def of(self, run: str, *, after: tuple[int, int] | None = None, limit: int = PAGE) -> list[FollowUp]:
        """Return follow-ups of a run by generation and number, those ``after`` one such place, as a page."""
        with self._database.reading() as transaction:
            rows = page_of(transaction, follow_ups, run, after=after, limit=limit)
        return [_follow_up(row) for row in rows]


def _row(transaction: Transaction, place: Place) -> sa.Row[Any]:
    return row_of(transaction, follow_ups, place, "follow-up")


def _follow_up(row: sa.Row[Any]) -> FollowUp:
    return FollowUp(
        run=row.run_id,
        generation=row.generation,
        number=row.number,
        subject=row.subject,
        opened_at=to_datetime(row.opened_at),
        due_at=to_datetime(row.due_at),
        ended_at=moment(row.ended_at),
    )
