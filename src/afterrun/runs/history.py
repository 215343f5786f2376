"""What a workflow's current generation has recorded, in pages: the material of a replay."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import sqlalchemy as sa

from afterrun.runs import contents
from afterrun.runs.access import look_at
from afterrun.runs.database import Database, Dialect, Transaction
from afterrun.runs.errors import NotFound
from afterrun.runs.schema import attempts, blobs, generations, runs, steps
from afterrun.runs.views import moment
from afterrun.runs.words import AttemptStatus, StepKind, StepStatus

RUN: Final[sa.BindParameter[str]] = sa.bindparam("run", type_=sa.Text())
FIRST: Final = 1
"""The number of the first generation."""

PAGE: Final = 200
"""Entries of a page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A call as it is recorded. Its content stays where it is: ``size`` is ``None`` where there is none.

    ``attempt`` is the last try that was begun; ``queued`` says that another one waits, until ``due_at``.
    """

    number: int
    kind: StepKind
    name: str
    status: StepStatus
    attempt: int
    queued: bool
    due_at: datetime | None
    reason: str | None
    address: str | None
    size: int | None


class History:
    """Reads what was recorded."""

    def __init__(self, database: Database) -> None:
        """Work on a store."""
        self._database = database

    def page(self, run: str, *, after: int = 0, limit: int = PAGE) -> list[Entry]:
        """Return the calls of the current generation that follow a number. Raises `RunNotFound`."""
        with self._database.reading() as transaction:
            found = look_at(transaction, run)
            mine = steps.c.run_id == run, steps.c.generation == found.generation, steps.c.number > after
            return entries(transaction, sa.and_(*mine), limit=limit)

    def content(self, run: str, number: int, *, generation: int) -> bytes | None:
        """Return what a call ended with. Raises `NotFound`."""
        with self._database.reading() as transaction:
            mine = steps.c.run_id == run, steps.c.generation == generation, steps.c.number == number
            attempt = transaction.value(sa.select(steps.c.attempt).where(*mine))
            if attempt is None:
                raise NotFound("the run has no such step")
            place = (
                attempts.c.run_id == run,
                attempts.c.generation == generation,
                attempts.c.step == number,
                attempts.c.number == attempt,
            )
            return contents.load(transaction, sa.select(attempts.c.output_id).where(*place).scalar_subquery())

    def input(self, run: str, *, generation: int) -> bytes | None:
        """Return what a generation began with."""
        with self._database.looking() as transaction:
            make = of_input if generation == FIRST else of_generation
            rows = transaction.direct(make, {"run": run, "of_generation": generation})
            return contents.opened(transaction, rows)


def of_input(_: Dialect) -> sa.Select[Any]:
    """Return the statement for what ``:run`` began with, as `contents.opened` takes it."""
    return contents.exact(sa.select(runs.c.input_id).where(runs.c.id == RUN).scalar_subquery())


def of_output(_: Dialect) -> sa.Select[Any]:
    """Return the statement for what it ended with."""
    return contents.exact(sa.select(runs.c.output_id).where(runs.c.id == RUN).scalar_subquery())


def of_generation(_: Dialect) -> sa.Select[Any]:
    """Return the statement for what its ``:of_generation`` began with."""
    number = sa.bindparam("of_generation", type_=sa.BigInteger())
    mine = generations.c.run_id == RUN, generations.c.number == number
    return contents.exact(sa.select(generations.c.input_id).where(*mine).scalar_subquery())


def entries(transaction: Transaction, which: sa.ColumnElement[bool], *, limit: int) -> list[Entry]:
    """Return the entries of these steps, in their order."""
    return [_entry(row) for row in transaction.rows(WANTED.where(which).limit(limit))]


def _wanted() -> sa.Select[Any]:
    queued = attempts.alias("queued")
    current = sa.and_(
        attempts.c.run_id == steps.c.run_id,
        attempts.c.generation == steps.c.generation,
        attempts.c.step == steps.c.number,
        attempts.c.number == steps.c.attempt,
    )
    next_one = sa.and_(
        queued.c.run_id == steps.c.run_id,
        queued.c.generation == steps.c.generation,
        queued.c.step == steps.c.number,
        queued.c.number == steps.c.attempt + 1,
        queued.c.status == AttemptStatus.QUEUED,
    )
    joined = steps.join(attempts, current).outerjoin(queued, next_one)
    joined = joined.outerjoin(blobs, blobs.c.id == attempts.c.output_id)
    return (
        sa.select(
            steps.c.number,
            steps.c.kind,
            steps.c.name,
            steps.c.status,
            steps.c.attempt,
            queued.c.number.label("next"),
            sa.func.coalesce(queued.c.due_at, attempts.c.due_at).label("due_at"),
            attempts.c.reason,
            blobs.c.address,
            blobs.c.size,
        )
        .select_from(joined)
        .order_by(steps.c.number)
    )


WANTED: Final = _wanted()


def _entry(row: sa.Row[Any]) -> Entry:
    return Entry(
        number=row.number,
        kind=StepKind(row.kind),
        name=row.name,
        status=StepStatus(row.status),
        attempt=row.attempt,
        queued=row.next is not None,
        due_at=moment(row.due_at),
        reason=row.reason,
        address=row.address,
        size=row.size,
    )
