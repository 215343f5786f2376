"""The `whole` backup: a copy of the database, made by SQLite's own online backup."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Final

import sqlalchemy as sa

from afterrun.core.batch import Pace
from afterrun.core.errors import BackupFailed, StoreFailure
from afterrun.core.sweep import Clock
from afterrun.stores.sql.sqlite.attached import Attached, backup_errors
from afterrun.stores.sql.sqlite.dialect import BEGIN_TRIES, SQLite

STEP_PAGES: Final = 2_000
"""Pages of one step: 8 MiB of 4 KiB pages, some milliseconds."""

MAX_RESTARTS: Final = 3
"""How often a commit of the engine may make the copy begin again before it is made in one go."""

BYTES_A_SECOND: Final = 200_000_000
"""A plan's guess how fast a database is copied: a slow disk's speed. What it took is measured."""

READ_BYTES: Final = 1_048_576


def blocking_notice(dialect: SQLite) -> str:
    """Say what a whole backup means for the engine."""
    size = dialect.sizes().total
    if dialect.wal:
        return f"a whole backup copies {size:,} bytes; the engine can work meanwhile"
    return (
        f"a whole backup copies {size:,} bytes; with this store's rollback journal the engine cannot commit "
        f"while a step of it runs, and if the engine commits in every pause, not before the end: "
        f"~{max(size / BYTES_A_SECOND, 0.1):.1f} s (estimated)"
    )


class WholeBackup:
    """Copies one database. ``longest`` and ``blocked`` are seconds in which the engine could not commit."""

    def __init__(self, dialect: SQLite, *, pace: Pace, clock: Clock) -> None:
        """Prepare to copy at a sweep's pace."""
        self._dialect = dialect
        self._pace = pace
        self._clock = clock
        self._restarts = self._refused = 0
        self._left: int | None = None
        self._since = 0.0
        self.longest = 0.0
        self.blocked = 0.0

    def write(self, draft: Path) -> None:
        """Copy the whole database to an empty file. After `BackupFailed` the draft is worth nothing."""
        with backup_errors(), closing(sqlite3.connect(draft, isolation_level=None)) as target:
            target.execute("PRAGMA journal_mode=OFF")
            target.execute("PRAGMA synchronous=OFF")
            stepped = not self._dialect.wal and bool(self._pace.min_rest)
            if not (stepped and self._copy_in_steps(target)):
                self._copy_at_once(target)
            # One file that needs no other beside it, whatever journal the store has.
            target.execute("PRAGMA journal_mode=DELETE")

    def _copy_in_steps(self, target: sqlite3.Connection) -> bool:
        """Copy with pauses in which the engine can commit; say whether it came to an end."""
        self._since = self._clock.monotonic()
        with suppress(_RestartedTooOftenError):
            self._dialect.driver.backup(target, pages=STEP_PAGES, progress=self._rest)
            return True
        return False

    def _rest(self, status: int, left: int, _total: int) -> None:
        """Let the engine work after a step, and notice when its work made the copy begin again."""
        held = self._note_held()
        if status in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            self._refused += 1
            if self._refused >= BEGIN_TRIES:
                raise StoreFailure("busy", "another process kept its lock on the store")
            self._since = self._clock.monotonic()
            return
        self._refused = 0
        if self._left is not None and left >= self._left:
            self._restarts += 1
            if self._restarts > MAX_RESTARTS:
                raise _RestartedTooOftenError
        self._left = left
        if left:
            self._clock.sleep(max(held * self._pace.rest, self._pace.min_rest))
        self._since = self._clock.monotonic()

    def _copy_at_once(self, target: sqlite3.Connection) -> None:
        """Copy from one state of the store, in steps only so that Ctrl-C is heard."""
        self._since = self._clock.monotonic()
        with self._dialect.snapshot():
            self._dialect.driver.backup(target, pages=STEP_PAGES)
        held = self._note_held()
        if self._dialect.wal:
            self.longest = self.blocked = 0.0
        else:
            self.longest = max(self.longest, held)

    def _note_held(self) -> float:
        held = self._clock.monotonic() - self._since
        self.longest = max(self.longest, held)
        self.blocked += held
        return held


class _RestartedTooOftenError(Exception):
    """The engine commits more often than a step takes."""


class Counted:
    """Rows of the store's tables at a moment, to compare a copy with."""

    def __init__(self, tables: Attached) -> None:
        """Count them now."""
        self._tables = tables
        self._version = self._data_version()
        self._rows = _count(tables, kept=False)

    def verify(self) -> Mapping[str, int]:
        """Check the attached copy; return its rows by table. Raises `BackupFailed`.

        Rows are compared where nobody changed the store meanwhile. What goes is compared again, row by row,
        in the transaction that removes it.
        """
        tables = self._tables
        with backup_errors():
            tables.integrity()
            tables.check_columns()
            found = _count(tables, kept=True)
            if self._data_version() == self._version and found != self._rows:
                raise BackupFailed("corrupt", "the backup has another number of rows than the store")
            return found

    def _data_version(self) -> int:
        return int(self._tables.dialect.driver.execute("PRAGMA main.data_version").fetchone()[0])


def _count(tables: Attached, *, kept: bool) -> Mapping[str, int]:
    counts = {}
    for name in tables.counted:
        statement = sa.select(sa.func.count()).select_from(tables.table(name, kept=kept))
        counts[name] = int(tables.dialect.execute(statement)[0][0])
    return counts


def file_checksum(path: Path) -> str:
    """Return the SHA-256 of a file that is not the store's."""
    found = hashlib.sha256()
    with path.open("rb") as file:
        while part := file.read(READ_BYTES):
            found.update(part)
    return found.hexdigest()
