"""One face for every store that the conformance suite runs on: fill it, change it, look at it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from afterrun import Retention
from afterrun.core.store import Store
from dumps import Dump, Row, Value, dump_sqlite, insert_row, open_unchecked
from fakes import NOW, stand_still
from memory import OWNED, RUNS, STEPS, MemoryStore
from pg_dumps import as_stored, column_types, dump_postgres, insert_rows
from pg_server import SUPERUSER, Database, Server
from random_stores import SCHEMAS, create_store

NOW_MS = NOW // 1000
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
OLD_MS = NOW_MS - 100 * DAY_MS
EVENTS = "workflow_events"
SCHEMA = "dbos"
"""Where the engine's tables are on PostgreSQL."""


def run(key: Value, parent: Value = None, **columns: Value) -> Row:
    """Make a finished run that ended 100 days ago, but for the given columns."""
    row: Row = {"workflow_uuid": key, "parent_workflow_id": parent, "status": "SUCCESS", "name": "import"}
    row |= {"application_name": None, "completed_at": OLD_MS, "updated_at": OLD_MS, "created_at": OLD_MS}
    return row | columns


def live(key: Value, parent: Value = None, **columns: Value) -> Row:
    """Make a run that is not over."""
    return run(key, parent, **{"status": "PENDING", "completed_at": None} | columns)


def step(owner: Value, number: int = 0, child: Value = None) -> Row:
    """Make a step of a run, which may name another run."""
    row: Row = {"workflow_uuid": owner, "function_id": number, "function_name": "step"}
    return row | {"child_workflow_id": child, "output": "done"}


def event(owner: Value, key: str = "event") -> Row:
    """Make an event of a run."""
    return {"workflow_uuid": owner, "key": key, "value": "v"}


class Site(Protocol):
    """A store with a back door, as the engine has it."""

    any_text: bool
    """Whether text may hold NUL, and bytes that are no UTF-8."""

    @property
    def store(self) -> Store:
        """The open store."""

    def add(self, table: str, *rows: Row) -> None:
        """Insert rows."""

    def change(self, key: Value, **columns: Value) -> None:
        """Change columns of a run."""

    def drop(self, key: Value) -> None:
        """Remove a run with all that is its own, as the engine's own delete does."""

    def dump(self) -> Dump:
        """Return all rows."""


class MemorySite:
    """Rows in memory."""

    any_text = True

    def __init__(self) -> None:
        """Make an empty store that has the tables a test fills."""
        self.store = MemoryStore({table: [] for table in OWNED}, now=NOW)

    def add(self, table: str, *rows: Row) -> None:
        """Insert rows."""
        for row in rows:
            self.store.insert(table, row)

    def change(self, key: Value, **columns: Value) -> None:
        """Change columns of a run."""
        self.store.update(key, **columns)

    def drop(self, key: Value) -> None:
        """Remove a run."""
        for table in OWNED:
            self.store.delete(table, key)

    def dump(self) -> Dump:
        """Return all rows."""
        return self.store.dump()


class SqliteSite:
    """Rows in a SQLite file with the real engine's schema, open through the product."""

    any_text = True

    def __init__(self, path: Path, *, version: int = 125) -> None:
        """Make an empty store, unless one is there, and open it."""
        self.path = path
        if not path.exists():
            create_store(path, version, nullable_updated_at=True)
        self.open()

    def open(self) -> None:
        """Open the file through the product; its clock stands still."""
        self.retention = Retention(str(self.path), state=self.path.with_suffix(".state"))
        stand_still(self.retention, NOW)

    @property
    def store(self) -> Store:
        """The open store."""
        return self.retention.store

    def add(self, table: str, *rows: Row) -> None:
        """Insert rows."""
        with open_unchecked(self.path) as connection:
            for row in rows:
                insert_row(connection, table, row)

    def change(self, key: Value, **columns: Value) -> None:
        """Change columns of a run."""
        words = ", ".join(f"{column} = ?" for column in columns)
        with open_unchecked(self.path) as connection:
            connection.execute(
                f"UPDATE workflow_status SET {words} WHERE workflow_uuid = ?", [*columns.values(), key]
            )

    def drop(self, key: Value) -> None:
        """Remove a run."""
        with open_unchecked(self.path) as connection:
            for table in self.dump().keys() & OWNED.keys():
                connection.execute(f"DELETE FROM {table} WHERE {OWNED[table]} = ?", [key])

    def dump(self) -> Dump:
        """Return all rows."""
        return dump_sqlite(self.path)


class PostgresSite:
    """Rows in a PostgreSQL schema as the real engine makes it, open through the product."""

    any_text = False

    def __init__(self, server: Server, *, state: Path, version: int = 125) -> None:
        """Make an empty store in a database of its own and open it; ``state`` is for afterrun's memory."""
        self.database = server.create_database(template=empty_store(server, version))
        self._state = state
        self._profile: str | None = None
        self._back = self.database.connect(SUPERUSER)
        self._back.execute("SET session_replication_role = replica")  # unchecked by foreign keys
        self._back.execute("SET lock_timeout = '10s'")  # a test that locks itself out fails
        self.types = column_types(self._back, SCHEMA)
        try:
            self.open()
        except BaseException:
            self._remove()
            raise

    def open(self) -> None:
        """Open the schema through the product, as the role that owns it; its clock stands still."""
        self.retention = Retention(self.database.url(), profile=self._profile, state=self._state)
        stand_still(self.retention, NOW)

    def renew(self, *, state: Path, profile: Path | None = None) -> None:
        """Empty the store and open it again, with another memory: quicker than a database of its own."""
        self.retention.close()
        self.refill([])
        self._state = state
        self._profile = None if profile is None else str(profile)
        self.open()

    def close(self) -> None:
        """Close the store and remove its database."""
        self.retention.close()
        self._remove()

    def _remove(self) -> None:
        self._back.close()
        self.database.server.drop_database(self.database.name)

    @property
    def store(self) -> Store:
        """The open store."""
        return self.retention.store

    def add(self, table: str, *rows: Row) -> None:
        """Insert rows."""
        insert_rows(self._back, SCHEMA, ((table, row) for row in rows))

    def refill(self, rows: Iterable[tuple[str, Row]]) -> Dump:
        """Replace all rows by others, each with the name of its table; values are made to fit."""
        with self._back.transaction():
            for table in self.types.keys() & OWNED.keys():
                self._back.execute(f"DELETE FROM {SCHEMA}.{table}".encode())
            insert_rows(self._back, SCHEMA, as_stored(rows, self.types))
        return self.dump()

    def change(self, key: Value, **columns: Value) -> None:
        """Change columns of a run."""
        words = ", ".join(f"{column} = %s" for column in columns)
        statement = f"UPDATE {SCHEMA}.{RUNS} SET {words} WHERE workflow_uuid = %s"
        self._back.execute(statement.encode(), [*columns.values(), key])

    def drop(self, key: Value) -> None:
        """Remove a run."""
        for table in self.types.keys() & OWNED.keys():
            self._back.execute(f"DELETE FROM {SCHEMA}.{table} WHERE {OWNED[table]} = %s".encode(), [key])

    def dump(self) -> Dump:
        """Return all rows."""
        return dump_postgres(self._back, SCHEMA, self.types)


def empty_store(server: Server, version: int) -> str:
    """Return the name of a database with an empty store that nobody may change.

    A run may have no time at all, which the engine itself refuses.
    """

    def fill(database: Database) -> None:
        database.run((SCHEMAS / f"dbos-{version}.postgresql.sql").read_text(encoding="utf-8"))
        database.run(f"ALTER TABLE {SCHEMA}.{RUNS} ALTER updated_at DROP NOT NULL")

    return server.template(f"dbos {version}", fill)


def fill(site: Site, runs: Iterable[Row], steps: Iterable[Row] = ()) -> None:
    """Add runs, each with one step and one event, and further steps."""
    rows = list(runs)
    site.add(RUNS, *rows)
    site.add(STEPS, *(step(row["workflow_uuid"], 1) for row in rows), *steps)
    site.add(EVENTS, *(event(row["workflow_uuid"]) for row in rows))


def keys(site: Site) -> set[Value]:
    """Return the ids of all runs."""
    return {row["workflow_uuid"] for row in site.dump()[RUNS]}


def counts(site: Site) -> Counter[str]:
    """Count rows by table."""
    return Counter({table: len(rows) for table, rows in site.dump().items()})
