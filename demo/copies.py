"""Copies of one finished run within its store, so that a small demo has a large past."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from ageing import KEYS, TIME_COLUMN


def copy_run(path: Path, run_id: str, copies: int, *, spread_ms: int) -> None:
    """Add copies of a run with all its rows, each `spread_ms` older than the one before.

    A copy's id is the run's with a number.
    """
    with closing(sqlite3.connect(path, timeout=30.0)) as connection, connection:
        connection.execute("CREATE TEMP TABLE copy (id TEXT, shift INTEGER)")
        rows = ((f"{run_id}-copy-{n}", n * spread_ms) for n in range(1, copies + 1))
        connection.executemany("INSERT INTO copy VALUES (?, ?)", rows)
        tables = connection.execute("SELECT name FROM main.sqlite_master WHERE type = 'table'").fetchall()
        for (table,) in tables:
            columns = [row[1] for row in connection.execute(f'PRAGMA table_info("{table}")')]
            key = next((column for column in columns if column in KEYS), None)
            if key is not None:
                connection.execute(_copy(table, columns, key), (run_id,))


def _copy(table: str, columns: list[str], key: str) -> str:
    fixed = {key: "c.id", "message_uuid": "hex(randomblob(16))"}
    chosen = [
        fixed.get(column, f't."{column}" - c.shift' if TIME_COLUMN.search(column) else f't."{column}"')
        for column in columns
    ]
    return (
        f'INSERT INTO "{table}" SELECT {", ".join(chosen)} '
        f'FROM temp.copy AS c CROSS JOIN "{table}" AS t WHERE t."{key}" = ? ORDER BY c.rowid'
    )
