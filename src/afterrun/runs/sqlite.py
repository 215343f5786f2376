"""The run store in a SQLite file. Nothing here knows of other databases."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.dialects.sqlite import insert
from sqlalchemy.engine import URL

from afterrun.core.errors import StoreFailure, StoreUnreadable
from afterrun.core.times import Instant
from afterrun.runs.columns import unique_rows

BUSY_SECONDS: Final = 30.0
"""How long a transaction waits for the write lock. A live sweep gives it back after each batch."""

OLDEST: Final = (3, 37)
"""The first version of SQLite with strict tables."""

SETTINGS: Final = ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON", "trusted_schema = OFF")
"""What each connection begins with: a commit that was answered survives a power failure."""

NANOSECONDS: Final = 1_000
"""Nanoseconds of a microsecond."""

SEQUENCE: Final = sa.table("sqlite_sequence", sa.column("name"), sa.column("seq"))
"""SQLite's own table of the greatest number that was ever given, for tables with AUTOINCREMENT."""

BUSY: Final = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
KINDS: Final = {
    sqlite3.SQLITE_FULL: "disk-full",
    sqlite3.SQLITE_READONLY: "read-only",
    sqlite3.SQLITE_CORRUPT: "corrupt",
    sqlite3.SQLITE_NOTADB: "corrupt",
    sqlite3.SQLITE_CANTOPEN: "io",
    sqlite3.SQLITE_IOERR: "io",
    sqlite3.SQLITE_CONSTRAINT: "constraint",
}
PRIMARY: Final = 0xFF
"""Bits of an error code that tell its kind."""


class SQLite:
    """One file, by its path. Writers wait for each other; readers see the last commit."""

    schema: str | None = None
    no_bytes = "x''"
    locks_rows = False
    inserts_together = False
    clock: sa.ColumnElement[Any] = sa.null()

    def __init__(self, path: Path) -> None:
        """Take a path. Raises `StoreUnreadable` where SQLite is too old for strict tables."""
        if sqlite3.sqlite_version_info < OLDEST:
            raise StoreUnreadable(
                f"SQLite {sqlite3.sqlite_version} has no strict tables: the run store needs 3.37 or later"
            )
        self._path = path

    def engine(self) -> sa.Engine:
        """Return the engine; transactions begin where `begin` says, and not before."""
        engine = sa.create_engine(
            URL.create("sqlite", database=str(self._path)),
            hide_parameters=True,
            connect_args={"timeout": BUSY_SECONDS, "isolation_level": None},
        )
        sa.event.listen(engine, "connect", _prepare)
        return engine

    def reader(self, engine: sa.Engine, *, one: bool) -> sa.Engine:  # noqa: ARG002 - one interface
        """Return the same engine: a transaction is one snapshot here, and so is a statement without one."""
        return engine

    def begin(self, connection: sa.Connection, *, writing: bool) -> None:
        """Take the write lock at once, so that what was read cannot change before the commit."""
        driver: sqlite3.Connection = connection.connection.driver_connection  # type: ignore[assignment]
        driver.execute("BEGIN IMMEDIATE" if writing else "BEGIN")

    def now(self, connection: sa.Connection) -> Instant:  # noqa: ARG002 - a file has the machine's clock
        """Return the machine's time."""
        return time.time_ns() // NANOSECONDS

    def locked(self, statement: sa.Select[Any]) -> sa.Select[Any]:
        """Return the statement: the write lock holds every row."""
        return statement

    def among(self, column: sa.ColumnElement[Any], name: str) -> sa.ColumnElement[bool]:
        """Compare with the elements of an array of JSON."""
        listed = sa.func.json_each(sa.bindparam(name, type_=sa.Text())).table_valued("value")
        return column.in_(sa.select(listed.c.value))

    def listed(self, texts: Sequence[str]) -> object:
        """Return an array of JSON."""
        return json.dumps(list(texts))

    def insert_new(self, table: sa.Table, conflict: Sequence[str]) -> sa.Insert:
        """Return an insert that passes by rows that are there."""
        where = unique_rows(table, conflict)
        return insert(table).on_conflict_do_nothing(index_elements=conflict, index_where=where)

    def upsert(self, table: sa.Table, conflict: Sequence[str], update: Sequence[str]) -> sa.Insert:
        """Return an insert that updates the row that is there."""
        made = insert(table)
        return made.on_conflict_do_update(
            index_elements=conflict, set_={name: made.excluded[name] for name in update}
        )

    def reserve(self, table: sa.Table) -> sa.Select[Any]:
        """Look for a blob, and at the number that the next one gets: the write lock keeps others from it."""
        return sa.select(*self.look(table), self.clock)

    def look(self, table: sa.Table) -> tuple[sa.ColumnElement[Any], ...]:
        """Look for a blob, as `reserve` does: that takes no time here, and to write one in vain does."""
        there = table.c.address == sa.bindparam("address")
        number, key_id = (
            sa.select(table.c[name]).where(there).scalar_subquery() for name in ("id", "key_id")
        )
        last = sa.select(sa.func.max(SEQUENCE.c.seq)).where(
            SEQUENCE.c.name == sa.literal_column(f"'{table.name}'")
        )
        new = sa.func.coalesce(last.scalar_subquery(), sa.literal_column("0")) + sa.literal_column("1")
        return number.label("number"), key_id.label("key_id"), new.label("new")

    def together(self, connection: sa.Connection) -> AbstractContextManager[object]:  # noqa: ARG002 - one interface
        """Do nothing: there is no way to a server."""
        return nullcontext()

    def hold_table(self, connection: sa.Connection, table: sa.Table) -> None:
        """Do nothing: the write lock is held already."""

    def is_there(self) -> bool:
        """Say whether the file exists: to connect would make it."""
        return self._path.exists()

    def make_schema(self, connection: sa.Connection) -> None:
        """Do nothing: a file is a schema."""

    def hold_upgrades(self, connection: sa.Connection, key: int) -> None:
        """Do nothing: the write lock is held already."""

    def failure(self, error: sa.exc.DBAPIError) -> StoreFailure:
        """Say what an error means."""
        code = getattr(error.orig, "sqlite_errorcode", 0) & PRIMARY
        if code in BUSY:
            return StoreFailure("busy", "the run store was locked by another writer for too long; try again")
        kind = KINDS.get(code, "error")
        name = getattr(error.orig, "sqlite_errorname", type(error.orig).__name__)
        return StoreFailure(kind, f"the database refused a change of the run store ({name})")


def _prepare(connection: sqlite3.Connection, record: object) -> None:  # noqa: ARG001 - SQLAlchemy hands it over
    for setting in SETTINGS:
        connection.execute(f"PRAGMA {setting}")
