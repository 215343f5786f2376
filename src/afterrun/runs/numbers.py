"""Numbers of rows within a run or a generation: the next one, while its tree is held."""

from __future__ import annotations

import sqlalchemy as sa

from afterrun.runs.database import Transaction


def next_number(transaction: Transaction, table: sa.Table, **within: object) -> int:
    """Return one more than the greatest ``number`` among the rows with these values, else 1."""
    greatest = sa.select(sa.func.max(table.c.number))
    for column, value in within.items():
        greatest = greatest.where(table.c[column] == value)
    return int(transaction.value(greatest) or 0) + 1
