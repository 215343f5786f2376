"""Constants of a statement, written out: a planner proves a partial index only from constants it can see.

Only words of the profile and numbers of our own come here, never a value from a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from afterrun.stores.sql.dialect import Column


def literal(value: str | float) -> sa.ColumnClause[Any]:
    """Return a constant as it stands in the statement."""
    if isinstance(value, str):
        quoted = value.replace("'", "''")
        return sa.literal_column(f"'{quoted}'", sa.String())
    return sa.literal_column(repr(value), sa.Integer() if isinstance(value, int) else sa.Float())


def one_of(column: Column, words: Sequence[str | int]) -> Column:
    """Compare with constants, a single one by ``=``: that is how partial indexes spell their conditions."""
    if len(words) == 1:
        return column == literal(words[0])
    return column.in_([literal(word) for word in words])
