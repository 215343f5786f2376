"""The store that removals are killed on: real, with three expired trees, and a judge of what is left."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Final, Literal

from afterrun import Policy, Retention
from afterrun.core.row_rules import RowRules
from dumps import Dump, Row, canonical, dump_sqlite
from engines.stores import age_runs, make_store

Journal = Literal["delete", "wal"]

MONTH: Final = Policy(keep_for=timedelta(days=30))
OLD_DAYS: Final = 40.0

TREES: Final = (
    frozenset({"tree-parent", "tree-child-1", "tree-child-2", "tree-grandchild"}),
    frozenset({"mailbox-1"}),
    frozenset({"simple-1"}),
)
"""Three whole trees: one with children, one with an unread message, one single."""

EXPIRED: Final = frozenset().union(*TREES)
OWNER: Final = ("workflow_uuid", "destination_uuid", "workflow_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One removal for the process that is to be killed."""

    store: str
    state: str
    command: str = "prune"
    offline: bool = True
    approve: str | None = None
    backup: str = ""
    profile: str | None = None
    rows: tuple[str, ...] = ()

    @property
    def policy(self) -> Policy:
        """Return what it removes: runs of a month, and rows of a week of the named row tables."""
        week = RowRules(keep_for=timedelta(days=7))
        return replace(MONTH, tables=dict.fromkeys(self.rows, week))


def make_aged(version: str, path: Path, journal: Journal) -> Dump:
    """Make a store in which only `TREES` are expired; return all its rows."""
    make_store(version, path)
    assert age_runs(path, OLD_DAYS, sorted(EXPIRED)) == len(EXPIRED)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute(f"PRAGMA journal_mode = {journal}").fetchone() == (journal,)
    return dump_sqlite(path)


def owned(dump: Dump, runs: frozenset[str]) -> Dump:
    """Return the rows that belong to these runs."""
    return {table: [row for row in rows if _owner(row) in runs] for table, rows in dump.items()}


def kept(dump: Dump) -> dict[str, list[str]]:
    """Return, comparable, all rows of runs that must stay, and of tables that belong to no run."""
    return canonical(
        {table: [row for row in rows if _owner(row) not in EXPIRED] for table, rows in dump.items()}
    )


def standing(dump: Dump, before: Dump) -> list[bool]:
    """Say for each of `TREES` whether it is there; fail if one is there in part."""
    found = []
    for tree in TREES:
        rows = canonical(owned(dump, tree))
        there = any(rows.values())
        assert not there or rows == canonical(owned(before, tree)), f"{sorted(tree)} is half removed"
        found.append(there)
    return found


def sound(path: Path, state: Path) -> bool:
    """Say whether SQLite's own check and ours find no fault."""
    with closing(sqlite3.connect(path)) as connection:
        whole = connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    with Retention(str(path), state=state, writable=False) as retention:
        return whole and not list(retention.verify())


def _owner(row: Row) -> object:
    return next((row[column] for column in OWNER if row.get(column) is not None), None)
