"""Backups of SQLite stores: files that are SQLite databases themselves."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from afterrun.core.batch import Pace
from afterrun.core.sweep import Clock
from afterrun.stores.sql.backups import BackupKind, BackupOrder, Maker, Restorer
from afterrun.stores.sql.sqlite.attached import sqlite_of
from afterrun.stores.sql.sqlite.backup import BackupMaker
from afterrun.stores.sql.sqlite.restore import Restore
from afterrun.stores.sql.sqlite.whole_backup import blocking_notice
from afterrun.stores.sql.store import SqlStore


class SqliteBackups:
    """What can be done about backups of one SQLite store."""

    def __init__(self, store: SqlStore) -> None:
        """Take a store."""
        self._store = store

    def notices(self, kind: BackupKind, *, rows: Collection[str] = ()) -> Sequence[str]:  # noqa: ARG002 - the file has all
        """Say what a backup of this kind means for the engine while it is made."""
        return [blocking_notice(sqlite_of(self._store))] if kind == "whole" else []

    def maker(self, order: BackupOrder, *, pace: Pace, clock: Clock, rows: Collection[str] = ()) -> Maker:
        """Prepare a backup; nothing is written yet."""
        return BackupMaker(self._store, order, pace=pace, clock=clock, rows=rows)

    def restorer(self, *, clock: Clock, rest: float, rows: Collection[str] = ()) -> Restorer:
        """Prepare a restore."""
        return Restore(self._store, clock=clock, rest=rest, rows=rows)
