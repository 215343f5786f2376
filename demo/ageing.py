"""Move runs of a DBOS store on SQLite into the past, as if they had been made earlier."""

from __future__ import annotations

import argparse
import json
import re
import sqlite3
import sys
from collections.abc import Collection, Iterable
from contextlib import closing
from pathlib import Path

DAY_MS = 86_400_000
FINISHED = ("SUCCESS", "ERROR", "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED")
KEYS = ("workflow_uuid", "destination_uuid")
"""Columns that name the run a row belongs to."""
TIME_COLUMN = re.compile(r"(_at|_epoch_ms|^retention_timestamp)$")
"""Names of columns that hold epoch milliseconds."""


def age(path: Path, ids: Iterable[str], days: float) -> int:
    """Move every time of these runs `days` into the past, in one transaction.

    Times stay whole epoch milliseconds; absent ones stay absent. Return the number of
    runs found.
    """
    shift = round(days * DAY_MS)
    with closing(sqlite3.connect(path, timeout=30.0)) as connection, connection:
        connection.execute("CREATE TEMP TABLE aged (id TEXT PRIMARY KEY)")
        connection.executemany("INSERT OR IGNORE INTO aged VALUES (?)", ((key,) for key in ids))
        for table in _tables(connection):
            _age_table(connection, table, shift)
        query = "SELECT count(*) FROM workflow_status WHERE workflow_uuid IN (SELECT id FROM aged)"
        return int(connection.execute(query).fetchone()[0])


def finished_runs(path: Path, *, but: Collection[str] = ()) -> list[str]:
    """Return the ids of all finished runs except those named."""
    marks = ", ".join("?" * len(FINISHED))
    query = f"SELECT workflow_uuid FROM workflow_status WHERE status IN ({marks})"
    with closing(sqlite3.connect(path)) as connection:
        return [row[0] for row in connection.execute(query, FINISHED) if row[0] not in but]


def _tables(connection: sqlite3.Connection) -> list[str]:
    rows = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
    return [row[0] for row in rows.fetchall()]


def _age_table(connection: sqlite3.Connection, table: str, shift: int) -> None:
    columns = [row[1] for row in connection.execute(f'PRAGMA table_info("{table}")')]
    keys = [column for column in columns if column in KEYS]
    times = [column for column in columns if TIME_COLUMN.search(column)]
    if not keys or not times:
        return
    changes = ", ".join(f'"{column}" = "{column}" - :shift' for column in times)
    connection.execute(
        f'UPDATE "{table}" SET {changes} WHERE "{keys[0]}" IN (SELECT id FROM aged)',
        {"shift": shift},
    )


def main() -> None:
    """Age the runs named, or all finished runs, and print how many."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("db", type=Path)
    parser.add_argument("days", type=float)
    parser.add_argument("ids", nargs="*", metavar="ID", help="default: all finished runs")
    parser.add_argument("--except", dest="but", nargs="+", default=[], metavar="ID")
    options = parser.parse_args()
    ids = options.ids or finished_runs(options.db, but=options.but)
    sys.stdout.write(json.dumps({"aged": age(options.db, ids, options.days)}) + "\n")


if __name__ == "__main__":
    main()
