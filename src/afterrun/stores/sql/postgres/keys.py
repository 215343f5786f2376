"""Compare a column of any type with keys that come as one array of text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB, array

from afterrun.stores.sql.dialect import Column
from afterrun.stores.sql.postgres.column_types import INTEGERS, NUMBERS, PADDED, TEXTS, Stored, type_of

WHOLE: Final = "^-?[0-9]{1,19}$"
NUMBER: Final = "^-?[0-9]{1,250}([.][0-9]{1,250})?$"
UUID: Final = "^[0-9A-Fa-f]{8}-?([0-9A-Fa-f]{4}-?){3}[0-9A-Fa-f]{12}$"
LEAST, GREATEST = -(2**63), 2**63 - 1

PLAIN: Final[Mapping[str, str]] = {
    UUID: "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
    WHOLE: "-?[0-9]{1,18}",
}
"""How the server itself writes the keys that fit a pattern, and that any cast of them knows."""


def among(column: Column, given: sa.BindParameter[Any]) -> Column:
    """Return the condition that a column is one of the keys given. What its type does not know is no key.

    The cast stands in a sub-select of its own, which runs once and leaves the column's index in use.
    """
    return _among(column, given)


def same(column: Column, key: Column) -> Column:
    """Return the condition that a column holds a key, which is cast only if it is of another type."""
    if _family(column) == _family(key):
        return key == column
    return _among(column, array([sa.cast(key, sa.Text())]), of_a_row=True)


def _family(column: Column) -> str:
    """Name the types that the server compares with one another as they are."""
    spelling = type_of(column)
    return (
        "number" if spelling in NUMBERS or spelling in INTEGERS else "text" if spelling in TEXTS else spelling
    )


def _among(column: Column, given: Column, *, of_a_row: bool = False) -> Column:
    """Return the condition; ``of_a_row``: the keys are columns, which no sub-select in FROM may have."""
    each = _one_by_one_as_array if of_a_row else _each
    keys: Column = sa.cast(given, sa.ARRAY(sa.Text()))
    spelling = type_of(column)
    if spelling in TEXTS or not spelling:
        return column == sa.func.any(keys)
    if spelling == PADDED:
        return column == sa.func.any(sa.cast(given, sa.ARRAY(Stored("bpchar"))))
    if spelling == "uuid":
        return column == sa.func.any(each(keys, UUID, Stored("uuid")))
    if spelling in INTEGERS:
        return column == sa.func.any(each(keys, WHOLE, sa.BigInteger()))
    if spelling in NUMBERS:
        return column == sa.func.any(each(keys, NUMBER, Stored("numeric")))
    return sa.cast(column, sa.Text()) == sa.func.any(keys)


def rows_among(columns: Sequence[Column], given: sa.BindParameter[Any]) -> Column:
    """Return the condition that columns, together, are one of the keys given as a JSON array of arrays."""
    each = (
        sa.func.jsonb_array_elements(sa.cast(given, JSONB()))
        .table_valued(sa.column("each", JSONB()), name="given")
        .render_derived()
    )
    parts = [
        sa.cast(each.c.each.op("->>")(sa.literal_column(str(place))), column.type)
        for place, column in enumerate(columns)
    ]
    return sa.tuple_(*columns).in_(sa.select(*parts).select_from(each))


def _each(keys: Column, pattern: str, kind: sa.types.TypeEngine[Any]) -> Column:
    """Return the keys that fit a pattern as an array of another type, NULL in the place of the others.

    Where all are as the server writes them, the array is looked at and cast as a whole, in a fifth of the
    time. That stands behind an OFFSET: a planner would cast a constant before anything has looked at it.
    """
    if pattern not in PLAIN:
        return _one_by_one_as_array(keys, pattern, kind)
    given = sa.select(keys.label("keys")).offset(sa.literal_column("0")).subquery("given")
    plain: Column = sa.literal_column(f"'^{{({PLAIN[pattern]}[,}}])+$'")
    fitting = sa.case(
        (sa.cast(given.c["keys"], sa.Text()).op("~")(plain), sa.cast(given.c["keys"], sa.ARRAY(kind))),
        else_=sa.func.array(_one_by_one(given.c["keys"], pattern, kind)),
    )
    # a cast to what it is already, since ANY of a sub-select without one means its rows
    return sa.cast(sa.select(fitting).scalar_subquery(), sa.ARRAY(kind))


def _one_by_one_as_array(keys: Column, pattern: str, kind: sa.types.TypeEngine[Any]) -> Column:
    return sa.func.array(_one_by_one(keys, pattern, kind))


def _one_by_one(keys: Column, pattern: str, kind: sa.types.TypeEngine[Any]) -> Column:
    each: Column
    given = sa.func.unnest(keys).table_valued(sa.column("each", sa.Text()), name="given").render_derived()
    each = given.c.each
    known: Column = sa.cast(each, kind)
    if isinstance(kind, sa.BigInteger):  # in CASE, since only there nothing is cast before it is looked at
        number = sa.cast(each, Stored("numeric"))
        known = sa.case(
            (number.between(sa.literal_column(str(LEAST)), sa.literal_column(str(GREATEST))), known)
        )
    fitting = sa.case((each.op("~")(sa.literal_column(f"'{pattern}'")), known))
    return sa.select(fitting).select_from(given).scalar_subquery()
