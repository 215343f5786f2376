"""Stores whose file is large: with many old runs, or with the free pages that those left behind."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Literal

from cli.kit import SCHEMA
from dumps import Dump, dump_sqlite

OLD: int = 10_000
YOUNG: int = 1_500
PAYLOAD: int = 8_000
DAY_MS = 86_400_000

Vacuum = Literal["none", "incremental"]
Journal = Literal["delete", "wal"]


def make_bloated(
    path: Path, *, old: int = OLD, vacuum: Vacuum = "none", journal: Journal = "delete", emptied: bool = True
) -> Path:
    """Make a store of old and young runs, 8 kB each; ``emptied``: the old ones are gone, their pages not."""
    now = time.time_ns() // 1_000_000
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute(f"PRAGMA auto_vacuum = {vacuum}")
        database.execute("PRAGMA synchronous = OFF")
        database.executescript(SCHEMA.read_text(encoding="utf-8"))
        database.execute("BEGIN")
        for name, count, ended in (("old", old, now - 60 * DAY_MS), ("young", YOUNG, now - DAY_MS)):
            database.execute(
                "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) "
                "INSERT INTO workflow_status (workflow_uuid, status, name, created_at, updated_at,"
                " completed_at, inputs) SELECT ? || '-' || i, 'SUCCESS', 'flow', ? - i, ? - i, ? - i,"
                " printf('%.*c', ?, 'x') FROM n",
                (count, name, ended, ended, ended, PAYLOAD),
            )
        database.execute("COMMIT")
        database.execute(f"PRAGMA journal_mode = {journal}")
        if emptied:
            database.execute("DELETE FROM workflow_status WHERE workflow_uuid LIKE 'old-%'")
    return path


def contents(path: Path) -> Dump:
    """Return every row of every table."""
    return dump_sqlite(path)


def is_sound(path: Path) -> bool:
    """Say whether SQLite finds no fault."""
    with closing(sqlite3.connect(path)) as database:
        return database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def pages(path: Path) -> tuple[int, int]:
    """Return the pages of a file, and how many of them are free."""
    with closing(sqlite3.connect(path)) as database:
        total, free = (
            database.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count")
        )
    return int(total), int(free)


def beside(path: Path) -> set[str]:
    """Return what lies in the folder of a store, but for the sweep lock and afterrun's state."""
    return {
        file.name
        for file in path.parent.iterdir()
        if not file.name.endswith("-lock") and file.name != "state"
    }
