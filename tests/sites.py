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
from random_stores import create_store

NOW_MS = NOW // 1000
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
OLD_MS = NOW_MS - 100 * DAY_MS
EVENTS = "workflow_events"


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
