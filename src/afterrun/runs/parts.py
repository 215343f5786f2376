"""Parts of a generation: rows that run, generation and number find, and pages of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from afterrun.runs import contents
from afterrun.runs.access import look_at
from afterrun.runs.contents import Display
from afterrun.runs.database import Transaction
from afterrun.runs.errors import NotFound

Place = tuple[str, int, int]
"""Run, generation and number of a part."""


def at(table: sa.Table, place: Place) -> sa.ColumnElement[bool]:
    """Return what finds one part."""
    run, generation, number = place
    columns = table.c
    return sa.and_(columns.run_id == run, columns.generation == generation, columns.number == number)


def row_of(transaction: Transaction, table: sa.Table, place: Place, what: str) -> sa.Row[Any]:
    """Return the row of a part. Raises `NotFound`."""
    found = transaction.one(sa.select(table).where(at(table, place)))
    if found is None:
        raise NotFound(f"the run has no such {what}")
    return found


def exact(transaction: Transaction, column: sa.Column[int], place: Place, what: str) -> bytes | None:
    """Return the exact content that a column of a part refers to. ``what`` says whose, for the error."""
    return contents.load(transaction, _reference(column, place), run=place[0], target=_target(place, what))


def shown(transaction: Transaction, column: sa.Column[int], place: Place, what: str) -> Display | None:
    """Return what may be shown of that."""
    return contents.show(transaction, _reference(column, place), run=place[0], target=_target(place, what))


def _reference(column: sa.Column[int], place: Place) -> sa.ScalarSelect[int]:
    return sa.select(column).where(at(column.table, place)).scalar_subquery()


def _target(place: Place, what: str) -> str:
    _, generation, number = place
    return f"{what} {number} of generation {generation}"


def page_of(
    transaction: Transaction, table: sa.Table, run: str, *, after: tuple[int, int] | None, limit: int
) -> Sequence[sa.Row[Any]]:
    """Return rows of a run by generation and number, from ``after`` one such place on.

    They come by the primary key, so a page costs what it returns. Raises `RunNotFound`.
    """
    order = table.c.generation, table.c.number
    wanted = sa.select(table).where(table.c.run_id == run).order_by(*order).limit(limit)
    if after is not None:
        wanted = wanted.where(sa.tuple_(*order) > sa.tuple_(*map(sa.literal, after)))
    look_at(transaction, run)
    return transaction.rows(wanted)
