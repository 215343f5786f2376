"""Retention on a store that an engine made: what the engine tests share."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

from afterrun import Policy, Report, Retention, SweepOptions
from dumps import dump_sqlite, row_counts

MONTH = Policy(keep_for=timedelta(days=30))
OLD_DAYS = 40.0
"""Age that a test gives to runs which `MONTH` shall let go."""

LIVE_TREES = frozenset(
    {
        *("waiting-parent", "waiting-parent-child", "waiting-parent-grandchild"),
        *("ended-parent", "ended-parent-child"),
        *("watcher", "crashed", "queue-blocker", "queue-waiting-1", "queue-waiting-2", "delayed-1"),
    }
)
"""Trees of the made store in which a member is not finished."""

WATCHED = frozenset({"watched", "watched-child"})
"""A finished tree whose result the live watcher holds."""

KEYS = ("workflow_uuid", "workflow_id", "destination_uuid")
"""Columns that tie a row to the run that owns it."""


def retention(path: Path) -> Retention:
    """Open a store, with afterrun's own state beside it."""
    return Retention(str(path), state=path.parent / "state")


def prune(path: Path, policy: Policy = MONTH, *, offline: bool = True, **options: Any) -> Report:  # noqa: ANN401
    """Remove what a policy lets go and make sure that the store is sound afterwards."""
    with retention(path) as store:
        report = store.prune(policy, options=SweepOptions(offline=offline, **options))
        assert list(store.verify()) == []
    return report


def run_ids(path: Path) -> set[str]:
    """Return the ids of all runs in a store."""
    return {row[0] for row in query(path, "SELECT workflow_uuid FROM workflow_status")}


def owners(path: Path) -> set[str]:
    """Return every id that any row of any table belongs to."""
    rows = (row for table in dump_sqlite(path).values() for row in table)
    return {str(row[key]) for row in rows for key in KEYS if row.get(key) is not None}


def counts(path: Path) -> dict[str, int]:
    """Count the rows of every table."""
    return row_counts(dump_sqlite(path))


def lost(before: dict[str, int], after: dict[str, int]) -> dict[str, int]:
    """Return how many rows each table lost, those without a loss left out."""
    return {table: rows - after[table] for table, rows in before.items() if rows != after[table]}


def query(path: Path, statement: str, *values: object) -> list[tuple[Any, ...]]:
    """Read all rows of a statement."""
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(statement, values).fetchall()


def change(path: Path, statement: str, *values: object) -> int:
    """Change a store behind everyone's back, unchecked by foreign keys; return the rows changed."""
    with closing(sqlite3.connect(path)) as connection, connection:
        return connection.execute(statement, values).rowcount
