"""Compare columns with keys that come as one JSON array, so that any number of them is one parameter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import sqlalchemy as sa

from afterrun.stores.sql.dialect import Column


def among(column: Column, given: sa.BindParameter[Any]) -> Column:
    """Return the condition that a column is one of the keys given."""
    each = sa.func.json_each(given).table_valued("value")
    return column.in_(sa.select(each.c.value))


def rows_among(
    columns: Sequence[Column], given: sa.BindParameter[Any], *, is_text: Callable[[Column], bool]
) -> Column:
    """Return the condition that columns, together, are one of the keys given as an array of arrays.

    A value for a column that makes text of everything is cast to text. That changes no comparison, and
    without it SQLite searches an index by its first column alone, so that each batch reads a whole run.
    """
    each = sa.func.json_each(given).table_valued("value")
    parts = [
        sa.func.json_extract(each.c.value, sa.literal_column(f"'$[{place}]'"))
        for place in range(len(columns))
    ]
    cast = [
        sa.cast(part, sa.Text()) if is_text(column) else part
        for column, part in zip(columns, parts, strict=True)
    ]
    return sa.tuple_(*columns).in_(sa.select(*cast))
