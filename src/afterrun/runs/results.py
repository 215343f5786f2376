"""Results of runs for somebody: posted, delivered, and acknowledged. Until then they keep the tree."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from afterrun.core.times import to_datetime
from afterrun.runs import contents
from afterrun.runs.access import hold
from afterrun.runs.database import Database, Transaction
from afterrun.runs.errors import NotFound
from afterrun.runs.labels import label
from afterrun.runs.numbers import next_number
from afterrun.runs.obligations import close_work, open_work
from afterrun.runs.schema import results
from afterrun.runs.views import Run, moment
from afterrun.runs.words import Work


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A result for a recipient."""

    run: str
    number: int
    recipient: str
    made_at: datetime
    delivered_at: datetime | None
    acknowledged_at: datetime | None


def post(transaction: Transaction, run: Run, *, recipient: str, content: bytes | None) -> int:
    """Post a result of a run whose tree is held; return its number."""
    number = next_number(transaction, results, run_id=run.id)
    transaction.insert(
        results,
        run_id=run.id,
        number=number,
        recipient=label("recipient of a result", recipient),
        content_id=contents.store(transaction, content),
        made_at=transaction.now,
    )
    open_work(transaction, run, Work.RESULT, subject=str(number))
    return number


class Results:
    """Hands out results. A result that was delivered and not acknowledged is handed out again."""

    def __init__(self, database: Database) -> None:
        """Work on a store."""
        self._database = database

    def due(self, recipient: str, *, limit: int = 100) -> list[Result]:
        """Return the oldest results that a recipient has not acknowledged."""
        wanted = sa.select(results).where(
            results.c.recipient == recipient, results.c.acknowledged_at.is_(None)
        )
        with self._database.reading() as transaction:
            rows = transaction.rows(wanted.order_by(results.c.made_at, results.c.run_id).limit(limit))
        return [_result(row) for row in rows]

    def deliver(self, result: Result) -> bytes | None:
        """Return the content of a result, and note that it was handed out. Raises `NotFound`."""
        with self._database.writing() as transaction:
            self._hold(transaction, result)
            first = sa.update(results).where(_is(result), results.c.delivered_at.is_(None))
            transaction.change(first.values(delivered_at=transaction.now))
            reference = sa.select(results.c.content_id).where(_is(result)).scalar_subquery()
            return contents.load(transaction, reference, run=result.run, target=f"result {result.number}")

    def acknowledge(self, result: Result) -> None:
        """Note that the recipient has a result, so that it keeps the tree no more. Raises `NotFound`."""
        with self._database.writing() as transaction:
            run = self._hold(transaction, result)
            known = sa.func.coalesce(results.c.delivered_at, transaction.now)
            first = sa.update(results).where(_is(result), results.c.acknowledged_at.is_(None))
            transaction.change(first.values(delivered_at=known, acknowledged_at=transaction.now))
            close_work(transaction, run, Work.RESULT, subject=str(result.number))

    def _hold(self, transaction: Transaction, result: Result) -> Run:
        run = hold(transaction, result.run)
        if transaction.one(sa.select(results.c.number).where(_is(result))) is None:
            raise NotFound("the run has no such result")
        return run


def _is(result: Result) -> sa.ColumnElement[bool]:
    return sa.and_(results.c.run_id == result.run, results.c.number == result.number)


def _result(row: sa.Row[Any]) -> Result:
    return Result(
        run=row.run_id,
        number=row.number,
        recipient=row.recipient,
        made_at=to_datetime(row.made_at),
        delivered_at=moment(row.delivered_at),
        acknowledged_at=moment(row.acknowledged_at),
    )
