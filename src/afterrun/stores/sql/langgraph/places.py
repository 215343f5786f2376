"""Conditions that name checkpoints by their keys: a thread of any length costs each of its rows once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import sqlalchemy as sa

from afterrun.core.errors import UnitFailure
from afterrun.core.facts import Key, readable
from afterrun.profiles.langgraph import uuid6_instant
from afterrun.profiles.langgraph.keep import UUID
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


def at_members(dialect: Dialect, table: sa.FromClause) -> Column:
    """Return the condition that a row of a table is of one of the given members of units that go.

    Where rows of their threads are read, these are only those between the first and the last of them.
    """
    among = at_keys(dialect, table)
    if not dialect.locks_rows:
        return among
    least, greatest = (sa.bindparam(name, type_=sa.types.NullType()) for name in ("least", "greatest"))
    name = table.c.checkpoint_id
    spaces = dialect.keys_in(table.c.checkpoint_ns, "spaces")
    return sa.and_(spaces, name >= least, name <= greatest, among)


def given_members(dialect: Dialect, keys: Sequence[Key]) -> dict[str, object]:
    """Return the parameters of `at_members`. Raises `UnitFailure` for one whose id is no UUID.

    Of those every database has the same order, whatever its collation; a thread with others stays as it is.
    """
    given = given_keys(dialect, keys)
    if not dialect.locks_rows or not keys:
        return {**given, "spaces": dialect.bind_keys(()), "least": "", "greatest": ""}
    _, spaces, names = (set(column) for column in zip(*keys, strict=True))
    odd = [name for name in names if uuid6_instant(name) is None]
    if not all(isinstance(name, str) and UUID.fullmatch(name) for name in odd):
        raise UnitFailure("unreadable-key", "an id of a thread that would change is no UUID")
    return {**given, "spaces": dialect.bind_keys(sorted(spaces)), "least": min(names), "greatest": max(names)}


def spelled(text: str) -> list[Key]:
    """Return the keys that an id, as a person types it, may stand for: thread, namespace, own, by slashes."""
    rest, slash, name = text.rpartition("/")
    places = [at for at, char in enumerate(rest) if char == "/"] if slash else []
    keys: list[Key] = [(rest[:at], rest[at + 1 :], name) for at in places]
    return [key for key in keys if readable(key)]


def threads_of(keys: Iterable[Key]) -> list[Key]:
    """Return the threads that these checkpoints are of, in order."""
    return sorted({key[0] for key in keys if isinstance(key, tuple)}, key=str)
