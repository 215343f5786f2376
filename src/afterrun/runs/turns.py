"""Turns: somebody says something to a run and waits for its answer. Open until the answer is delivered."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import sqlalchemy as sa

from afterrun.core.times import to_datetime
from afterrun.runs import contents
from afterrun.runs.access import expect, hold, hold_as_owner
from afterrun.runs.contents import Display
from afterrun.runs.database import Database, Transaction
from afterrun.runs.errors import WrongState
from afterrun.runs.labels import label
from afterrun.runs.lifecycle import wake
from afterrun.runs.lineage import lineage_block, refuse
from afterrun.runs.numbers import next_number
from afterrun.runs.obligations import close_work, open_work
from afterrun.runs.parts import Place, at, exact, page_of, row_of, shown
from afterrun.runs.side_tables import turns
from afterrun.runs.views import moment
from afterrun.runs.words import LIVE, PAGE, RunStatus, Work

ORDER: Final = (turns.c.generation, turns.c.number)


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A turn as it stands. ``role`` says who took it, ``ended_at`` when it was closed."""

    run: str
    generation: int
    number: int
    role: str
    opened_at: datetime
    answered_at: datetime | None
    delivered_at: datetime | None
    ended_at: datetime | None


class Turns:
    """Opens turns and delivers their answers. Raises as `Steps` does."""

    def __init__(self, database: Database) -> None:
        """Work on a store."""
        self._database = database

    def open(self, run: str, role: str, *, content: bytes | None = None) -> Turn:
        """Take a turn with a live run, which is queued if it waits."""
        with self._database.writing() as transaction:
            found = hold(transaction, run)
            expect(found, LIVE, "be spoken to")
            refuse(lineage_block(transaction, run))
            number = next_number(transaction, turns, run_id=run, generation=found.generation)
            transaction.insert(
                turns,
                run_id=run,
                generation=found.generation,
                number=number,
                role=label("role of a turn", role),
                content_id=contents.store(transaction, content),
                opened_at=transaction.now,
            )
            subject = str(number)
            open_work(transaction, found, Work.TURN, generation=found.generation, subject=subject)
            wake(transaction, found)
            return _turn(_row(transaction, (run, found.generation, number)))

    def answer(self, turn: Turn, content: bytes | None, *, epoch: int | None = None) -> Turn:
        """Answer a turn of a running run: from then on the answer is due, also after the run has ended."""
        with self._database.writing() as transaction:
            run = hold_as_owner(transaction, turn.run, epoch)
            refuse(lineage_block(transaction, turn.run))
            expect(run, [RunStatus.RUNNING], "answer a turn")
            row = _row(transaction, _place(turn))
            if row.answered_at is not None or row.ended_at is not None:
                status = "closed" if row.ended_at is not None else "answered"
                raise WrongState(f"the turn is {status} already", status=status)
            answer = contents.store(transaction, content)
            return _changed(transaction, turn, answer_id=answer, answered_at=transaction.now)

    def due(self, *, limit: int = PAGE) -> list[Turn]:
        """Return the turns whose answers are not delivered, those first that were answered first."""
        answered = sa.and_(turns.c.answered_at.is_not(None), turns.c.ended_at.is_(None))
        wanted = sa.select(turns).where(answered).order_by(turns.c.answered_at, turns.c.run_id, *ORDER)
        with self._database.reading() as transaction:
            return [_turn(row) for row in transaction.rows(wanted.limit(limit))]

    def deliver(self, turn: Turn) -> bytes | None:
        """Return the answer, and note that it was handed out; it is handed out again until `close`."""
        with self._database.writing() as transaction:
            hold(transaction, turn.run)
            row = _row(transaction, _place(turn))
            if row.answered_at is None:
                raise WrongState("the turn has no answer to deliver", status="open")
            if row.delivered_at is None:
                _changed(transaction, turn, delivered_at=transaction.now)
            return exact(transaction, turns.c.answer_id, _place(turn), "answer of turn")

    def close(self, turn: Turn) -> None:
        """Note that whoever took the turn has the answer, or wants none any more."""
        with self._database.writing() as transaction:
            run = hold(transaction, turn.run)
            if _row(transaction, _place(turn)).ended_at is None:
                _changed(transaction, turn, ended_at=transaction.now)
            subject = str(turn.number)
            close_work(transaction, run, Work.TURN, generation=turn.generation, subject=subject)

    def of(self, run: str, *, after: tuple[int, int] | None = None, limit: int = PAGE) -> list[Turn]:
        """Return turns of a run by generation and number, those ``after`` one such place, as a page."""
        with self._database.reading() as transaction:
            return [_turn(row) for row in page_of(transaction, turns, run, after=after, limit=limit)]

    def content_of(self, turn: Turn) -> bytes | None:
        """Return exactly what was said in a turn. Raises `NotFound` and `PayloadUnreadable`."""
        with self._database.reading() as transaction:
            _row(transaction, _place(turn))
            return exact(transaction, turns.c.content_id, _place(turn), "turn")

    def display_of(self, turn: Turn) -> Display | None:
        """Return what may be shown of that; it needs no key."""
        with self._database.reading() as transaction:
            return shown(transaction, turns.c.content_id, _place(turn), "turn")

    def answer_display_of(self, turn: Turn) -> Display | None:
        """Return what may be shown of the answer; that delivers nothing."""
        with self._database.reading() as transaction:
            return shown(transaction, turns.c.answer_id, _place(turn), "answer of turn")


def _place(turn: Turn) -> Place:
    return turn.run, turn.generation, turn.number


def _row(transaction: Transaction, place: Place) -> sa.Row[Any]:
    return row_of(transaction, turns, place, "turn")


def _changed(transaction: Transaction, turn: Turn, **values: object) -> Turn:
    transaction.change(sa.update(turns).where(at(turns, _place(turn))).values(values))
    return _turn(_row(transaction, _place(turn)))


def _turn(row: sa.Row[Any]) -> Turn:
    return Turn(
        run=row.run_id,
        generation=row.generation,
        number=row.number,
        role=row.role,
        opened_at=to_datetime(row.opened_at),
        answered_at=moment(row.answered_at),
        delivered_at=moment(row.delivered_at),
        ended_at=moment(row.ended_at),
    )
