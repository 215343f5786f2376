"""A second database file beside the store, on the store's own connection: a backup.

It is input: it is read with `trusted_schema` off, nothing in it but plain tables is used, and their columns
are compared with those of the store before any of them is named in a statement.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import sqlalchemy as sa

from afterrun.core.errors import BackupFailed, Refused, StoreFailure, UnitFailure
from afterrun.core.facts import Key, Unit
from afterrun.core.tree import chunks
from afterrun.profiles.model import Via
from afterrun.stores.sql.binding import Binding
from afterrun.stores.sql.blob_backup import blob_parts, missing_from
from afterrun.stores.sql.parts import Part, parts, plain_table
from afterrun.stores.sql.removal import CHUNK, sorted_keys
from afterrun.stores.sql.sqlite import SQLite
from afterrun.stores.sql.store import SqlStore

BACKUP: Final = "afterrun_backup"
"""Name under which the file is attached."""

Reader = Callable[[object], Iterator[object]]
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


def digest(row: object) -> bytes:
    """Return the SHA-256 of a row as it is stored: 1, 1.0, '1' and NULL differ."""
    return hashlib.sha256(repr(row).encode()).digest()


def staying(binding: Binding) -> Sequence[Via]:
    """Return the links that rows go by while their own rows stay, each once."""
    gone = {binding.tree.table, *(owned.table for owned in binding.owned)}
    found = {
        (via.table, via.key, via.owner): via
        for owned in binding.owned
        if (via := owned.via) is not None and via.table not in gone
    }
    return list(found.values())


def links(binding: Binding, *, schema: str | None = None) -> Sequence[Part]:
    """Return the rows of `staying` links.

    A backup has a copy of them, so that what went is found in it by its run; they are not put back.
    """
    found: dict[str, Part] = {}
    for via in staying(binding):
        table = plain_table(binding, via.table, schema=schema)
        held = binding.holds(table, via.table, via.owner)
        if via.table in found:
            held = sa.or_(found[via.table].where, held)
        found[via.table] = Part(via.table, table, held)
    return list(found.values())


def _leads(binding: Binding, via: Via, schema: str | None) -> sa.Select[tuple[object, ...]]:
    """Return the statement that reads what the links of some runs lead to."""
    table = plain_table(binding, via.table, schema=schema)
    held = binding.holds(table, via.table, via.owner)
    return sa.select(table.c[via.key], table.c[via.owner]).select_from(table).where(held)


class Attached:
    """The tables of a store and those of the same name in the attached file."""

    def __init__(self, store: SqlStore) -> None:
        """Prepare; nothing is attached yet."""
        self.dialect = sqlite_of(store)
        self.binding: Binding = store.binding
        self.live: Sequence[Part] = parts(self.binding)
        self.kept: Sequence[Part] = parts(self.binding, schema=BACKUP)
        self.live_links: Sequence[Part] = links(self.binding)
        self.kept_links: Sequence[Part] = links(self.binding, schema=BACKUP)
        self.live_blobs: Sequence[Part] = blob_parts(self.binding, store.blobs)
        self.kept_blobs: Sequence[Part] = blob_parts(self.binding, store.blobs, schema=BACKUP)
        self.blob_keys = {part.table: part.key for part in store.profile.blobs}
        self.columns = {
            part.name: plain_columns(self.dialect.driver, "main", part.name)
            for part in (*self.live, *self.live_links, *self.live_blobs)
        }
        self._recalled: tuple[Sequence[Key], Sequence[bytes]] = ((), ())
        self._live_readers = [self.dialect.reader(self.select(part)) for part in self.live]
        self._kept_readers = [self.dialect.reader(self.select(part)) for part in self.kept]
        self._link_readers = [self.dialect.reader(self.select(part)) for part in self.live_links]
        self._leading: list[tuple[str, Reader, Reader]] = []
        for via in staying(self.binding):
            live, kept = (self.dialect.reader(_leads(self.binding, via, schema)) for schema in (None, BACKUP))
            self._leading.append((via.table, live, kept))

    def select(self, part: Part) -> sa.Select[tuple[object, ...]]:
        """Return the statement that reads the stored columns of a part's rows for some keys."""
        return self._select_all(part).where(part.where)

    def _select_all(self, part: Part) -> sa.Select[tuple[object, ...]]:
        return sa.select(*(part.table.c[name] for name in self.columns[part.name])).select_from(part.table)

    def rows(self, place: int, keys: Sequence[Key]) -> Iterator[object]:
        """Yield the rows of a live part for some keys; links that stay come after those that go."""
        return self._read([*self._live_readers, *self._link_readers][place], keys)

    def _read(self, reader: Reader, keys: Sequence[Key]) -> Iterator[object]:
        for chunk in chunks(keys, CHUNK):
            yield from reader(self.binding.bind_keys(chunk))

    def recall(self, units: Sequence[Unit]) -> None:
        """Read what the attached file holds of these units, for a comparison that is to come.

        Nobody writes to that file meanwhile, so this is as good as reading it then.
        """
        keys = sorted_keys(units)
        self._recalled = (keys, [self._content(reader, keys) for reader in self._kept_readers])

    def differing(self, units: Sequence[Unit]) -> Collection[Key]:
        """Return the keys of those units whose rows here and there are not exactly the same."""
        if not units or self._equal(sorted_keys(units)):
            return ()
        if len(units) == 1:
            return (units[0].key,)
        half = len(units) // 2
        return (*self.differing(units[:half]), *self.differing(units[half:]))

    def copying_blobs(self, *, back: bool) -> Iterator[tuple[Part, sa.Select[Any], sa.Insert]]:
        """Yield what reads and what copies the blobs that some runs refer to, unless they are there already.

        They go into the attached file, or ``back`` into the store; those that are there stay as they are.
        """
        schemas = None, BACKUP
        sides = (self.kept_blobs, self.live_blobs) if back else (self.live_blobs, self.kept_blobs)
        for source, target in zip(*sides, strict=True):
            key = self.blob_keys[source.name]
            part = missing_from(source, self.binding, key=key, schema=schemas[not back])
            select = self.select(part)
            names = list(self.columns[part.name])
            yield part, select, sa.insert(target.table).from_select(names, select)

    def saved(self, table: str, keys: Sequence[Key]) -> Collection[Key]:
        """Return those of these blobs that the attached file holds."""
        kept = next(part.table for part in self.kept_blobs if part.name == table)
        key = kept.c[self.blob_keys[table]]
        statement = sa.select(key).where(self.dialect.keys_in(key))
        return {row[0] for row in self.dialect.execute(statement, {"keys": self.dialect.bind_keys(keys)})}

    def confirm(self, rows: Mapping[str, int]) -> None:
        """Do nothing: the write lock was held since they were compared."""

    def _equal(self, keys: Sequence[Key]) -> bool:
        """Say whether here and there are the same rows of these runs, each as often, table by table."""
        recalled, contents = self._recalled
        if keys != recalled:  # some were left out since, so that what was read is of too many
            contents = [self._content(reader, keys) for reader in self._kept_readers]
        return all(
            self._content(live, keys) == kept for live, kept in zip(self._live_readers, contents, strict=True)
        )

    def _content(self, reader: Reader, keys: Sequence[Key]) -> bytes:
        """Return one digest of all rows of some keys, in whatever order they come."""
        return hashlib.sha256(b"".join(sorted(map(digest, self._read(reader, keys))))).digest()

    def lost_links(self, keys: Sequence[Key]) -> str:
        """Return the name of a table of links that stay where one is not what it was, or nothing."""
        for name, live, kept in self._leading:
            if not set(self._read(kept, keys)) <= set(self._read(live, keys)):
                return name
        return ""

    def check_columns(self) -> None:
        """Make sure that the attached tables are plain ones with the store's columns. Raises `Refused`."""
        plain = set(_plain_tables(self.dialect.driver, BACKUP))
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
        for part in (*self.kept, *self.kept_links, *self.kept_blobs):
            tally = Tally()
            for row in self.dialect.reader(self._select_all(part))(None):
                tally.add(row)
            found[part.name] = (tally.rows, tally.checksum)
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
