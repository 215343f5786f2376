"""Find what makes and restores backups of an open store: each kind of database has its own way."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from afterrun.stores.sql.backups import Backups
from afterrun.stores.sql.sqlite.backups import SqliteBackups
from afterrun.stores.sql.store import SqlStore


def _postgres(store: SqlStore) -> Backups:
    from afterrun.stores.sql.postgres.backup import PostgresBackups  # noqa: PLC0415 - the driver is an extra

    return PostgresBackups(store)


BACKUPS: Final[Mapping[str, Callable[[SqlStore], Backups]]] = {
    "sqlite": SqliteBackups,
    "postgresql": _postgres,
}
"""By the name of the dialect."""


def backups_of(store: SqlStore) -> Backups:
    """Return what can be done about backups of a store."""
    return BACKUPS[store.dialect.name](store)
