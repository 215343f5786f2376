"""Conditions that name checkpoints by their keys: a thread of any length costs each of its rows once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import sqlalchemy as sa

from afterrun.core.facts import Key
from afterrun.stores.sql.dialect import Column, Dialect
from afterrun.stores.sql.langgraph.saver import KEY


def at_keys(dialect: Dialect, table: sa.FromClause) -> Column:
    """Return the condition that a row of a table is of one of the given checkpoints.

    The engine's tables on PostgreSQL have an index of threads alone beside the key, and a planner takes it
    for as good: for each checkpoint it would read its whole thread. So there the rows of the threads are read
    once, and each is looked up among the keys; IS TRUE keeps that from becoming a join.
    """
    among = dialect.rows_in([table.c[name] for name in KEY])
    if not dialect.locks_rows:
        return among
    return sa.and_(dialect.keys_in(table.c.thread_id, "threads"), among.is_(sa.true()))


def given_keys(dialect: Dialect, keys: Sequence[Key]) -> dict[str, object]:
    """Return the parameters of `at_keys`."""
    return {"keys": dialect.bind_rows(keys), "threads": dialect.bind_keys(threads_of(keys))}


def threads_of(keys: Iterable[Key]) -> list[Key]:
    """Return the threads that these checkpoints are of, in order."""
    return sorted({key[0] for key in keys if isinstance(key, tuple)}, key=str)
