"""A second database file beside the store, on the store's own connection: a backup.

It is input: it is read with `trusted_schema` off, nothing in it but plain tables is used, and their columns
are compared with those of the store before any of them is named in a statement.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

import sqlalchemy as sa

from afterrun.core.errors import BackupFailed, Refused, StoreFailure, UnitFailure
from afterrun.stores.sql.backed_kinds import kinds_of
from afterrun.stores.sql.backed_rows import BackedRows
from afterrun.stores.sql.parts import plain_table
from afterrun.stores.sql.row_lists import RowLists
from afterrun.stores.sql.sqlite.attached_units import BACKUP, AttachedUnits, digest
from afterrun.stores.sql.sqlite.dialect import SQLite
from afterrun.stores.sql.store import SqlStore

Sums = Mapping[str, tuple[int, str]]
"""Rows and checksum by table."""


class Tally:
    """Counts rows and sums their digests, in any order: equal content has equal sums."""

    def __init__(self) -> None:
        """Start empty."""
        self.rows = 0
        self._sum = 0

    def add(self, row: object) -> None:
        """Take in a row."""
        self.rows += 1
        self._sum += int.from_bytes(digest(row), "big")

    @property
    def checksum(self) -> str:
        """Return the sum of all digests, modulo their width."""
        return f"{self._sum % (1 << 256):064x}"


class Attached:
    """The tables of a store and those of the same name in the attached file, for all kinds of units.

    ``rows`` are the row tables whose rows are units, too; their lists are in ``lists``, a schema's name.
    """

    def __init__(self, store: SqlStore, rows: Collection[str] = (), *, lists: str = BACKUP) -> None:
        """Prepare; nothing is attached yet."""
        self.dialect = sqlite_of(store)
        self._binding = store.binding
        kinds = kinds_of(store, rows)
        backed_rows = {kind: backed for kind, backed in kinds.items() if isinstance(backed, BackedRows)}
        self.lists = RowLists(self.dialect.driver, backed_rows, schema=lists)
        every = [(*backed.parts(), *backed.blobs()) for backed in kinds.values()]
        self.counted: Sequence[str] = list(dict.fromkeys(part.name for parts in every for part in parts))
        links = [part.name for backed in kinds.values() for part in backed.links()]
        self.columns = {
            name: plain_columns(self.dialect.driver, "main", name)
            for name in dict.fromkeys([*self.counted, *links])
        }
        self.kinds = {
            name: AttachedUnits(self.dialect, store.binding, backed, self.columns, self.lists.beside)
            for name, backed in kinds.items()
        }
        self.trees = self.kinds["tree"]

    def table(self, name: str, *, kept: bool) -> sa.TableClause:
        """Return a table of the store, or of the attached file."""
        return plain_table(self._binding, name, schema=BACKUP if kept else None)

    def check_columns(self) -> None:
        """Make sure that the attached tables are plain ones with the store's columns. Raises `Refused`."""
        plain = set(_plain_tables(self.dialect.driver, BACKUP))
        missing = [
            one.name for one in self.lists.kinds.values() if one.schema == BACKUP and one.name not in plain
        ]
        if missing:
            raise Refused("no-backup", f"the backup has no table {missing[0]}, which lists rows of it")
        for name, columns in self.columns.items():
            if name not in plain:
                raise Refused("schema", f"the backup has no table {name}, which this store has")
            found = plain_columns(self.dialect.driver, BACKUP, name)
            if set(found) != set(columns):
                raise Refused(
                    "schema",
                    f"the table {name} has other columns in the backup than in this store: the engine was "
                    "upgraded in between. Open the backup with sqlite3 to read it",
                )

    def sums(self) -> Sums:
        """Read every row of the attached parts; return their number and checksum by table."""
        found = {}
        for name, columns in self.columns.items():
            table, tally = self.table(name, kept=True), Tally()
            read = sa.select(*(table.c[column] for column in columns)).select_from(table)
            for row in self.dialect.reader(read)(None):
                tally.add(row)
            found[name] = (tally.rows, tally.checksum)
        return found

    def listed(self) -> Sums:
        """Read every key of the attached lists; return their number and checksum by row table."""
        found = {}
        for one in self.lists.kinds.values():
            tally = Tally()
            for row in one.all():
                tally.add(row)
            found[one.backed.name] = (tally.rows, tally.checksum)
        return found

    def integrity(self) -> None:
        """Run SQLite's own check of the attached file. Raises `BackupFailed`."""
        for (line,) in self.dialect.driver.execute(f"PRAGMA {BACKUP}.integrity_check(1)"):
            if line != "ok":
                raise BackupFailed("corrupt", f"the backup is damaged: {str(line)[:200]}")


def sqlite_of(store: SqlStore) -> SQLite:
    """Return a store's dialect. Raises `Refused` for a database that has no such backups."""
    if not isinstance(store.dialect, SQLite):
        raise Refused("backup-kind", f"backups of {store.dialect.name} stores are not supported yet")
    return store.dialect


@contextmanager
def attached(dialect: SQLite, path: Path, *, writable: bool = False) -> Iterator[None]:
    """Attach a file that exists. Raises `Refused` if it is none of SQLite's, and `BackupFailed`."""
    driver = dialect.driver
    with backup_errors(), _only_databases(path):
        driver.execute(
            f"ATTACH ? AS {BACKUP}", (f"file:{quote(os.fsencode(path))}?mode={'rw' if writable else 'ro'}",)
        )
    try:
        yield
    finally:
        with suppress(sqlite3.Error):
            if driver.in_transaction:
                driver.execute("ROLLBACK")
            driver.execute(f"DETACH {BACKUP}")


@contextmanager
def _only_databases(path: Path) -> Iterator[None]:
    """Say of a file that SQLite cannot read what it should have been."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        if getattr(error, "sqlite_errorname", "") != "SQLITE_NOTADB":
            raise
        raise Refused(
            "no-backup",
            f"{path} is no SQLite file, or its beginning is damaged. A `removed` backup of a SQLite store is "
            "one; that of a PostgreSQL store goes back into PostgreSQL. The store is unchanged",
        ) from None


@contextmanager
def backup_errors() -> Iterator[None]:
    """Turn what fails while a backup is made or read into `BackupFailed`."""
    try:
        yield
    except (StoreFailure, UnitFailure) as error:
        raise BackupFailed(error.kind, f"the backup failed: {error}; the store is unchanged") from None
    except sqlite3.Error as error:
        name = getattr(error, "sqlite_errorname", "") or type(error).__name__
        kind = "disk-full" if name == "SQLITE_FULL" else "io"
        raise BackupFailed(kind, f"the backup failed: {name}; the store is unchanged") from None


def plain_columns(driver: sqlite3.Connection, schema: str, table: str) -> tuple[str, ...]:
    """Return the columns of a table that are stored rather than computed."""
    found = driver.execute(
        "SELECT name FROM pragma_table_xinfo(?, ?) WHERE hidden = 0 ORDER BY cid", (table, schema)
    )
    return tuple(name for (name,) in found)


def _plain_tables(driver: sqlite3.Connection, schema: str) -> Iterator[str]:
    listed = driver.execute(
        "SELECT name FROM pragma_table_list WHERE schema = ? AND type = 'table'", (schema,)
    )
    yield from (name for (name,) in listed)
