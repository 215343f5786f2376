"""afterrun inside a process that has the same file open itself, as an engine's own process does.

POSIX locks belong to the process: closing any descriptor of a file drops all locks the process has on it.
"""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from afterrun import Retention, SweepOptions
from crash.aged import MONTH, Journal, make_aged
from engines.stores import ENGINES

pytestmark = pytest.mark.engine

OTHER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None)
try:
    connection.execute(sys.argv[2])
except sqlite3.OperationalError as error:
    print(error)
else:
    print("admitted")
"""
"""Another process that asks for a lock and does not wait for it."""

REFUSED = "database is locked\n"
LOCKS: list[tuple[Journal, str, str, str]] = [
    ("delete", "BEGIN IMMEDIATE", "BEGIN IMMEDIATE", ""),
    ("delete", "SELECT count(*) FROM sqlite_master", "BEGIN EXCLUSIVE", ""),
    ("wal", "BEGIN IMMEDIATE", "BEGIN IMMEDIATE", "-shm"),
]
"""Journal mode, what the host does and stays in, what another process asks, the file the lock lies on."""


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Make a real store in which three trees are expired."""
    path = tmp_path / "store.sqlite"
    make_aged(ENGINES[0], path, "delete")
    return path


@contextmanager
def host(store: Path, journal: Journal, held: str) -> Iterator[sqlite3.Connection]:
    """Open the store as an engine in this very process does, in the middle of a transaction."""
    with closing(sqlite3.connect(store, isolation_level=None)) as connection:
        assert connection.execute(f"PRAGMA journal_mode = {journal}").fetchone() == (journal,)
        if not held.startswith("BEGIN"):
            connection.execute("BEGIN")
        connection.execute(held).fetchone()
        yield connection
        connection.execute("COMMIT")


def ask(store: Path, statement: str) -> str:
    """Ask for a lock from another process; return what SQLite answers."""
    command = [sys.executable, "-c", OTHER, str(store), statement]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


@pytest.mark.parametrize("writable", [False, True])
@pytest.mark.parametrize(("journal", "held", "asked", "file"), LOCKS)
def test_locks_of_the_host_outlive_all_reading(
    store: Path, journal: Journal, held: str, asked: str, file: str, writable: bool
) -> None:
    """Plan, explain, verify and a sweep that asks leave the host's transaction protected."""
    with host(store, journal, held):
        assert ask(store, asked) == REFUSED
        with Retention(str(store), state=store.parent / "state", writable=writable) as retention:
            assert retention.plan(MONTH).units.expired == 3
            assert retention.explain("tree-grandchild", MONTH).rows > 0
            assert list(retention.verify()) == []
            if writable:
                assert retention.sweep(MONTH).ended == "guard"
            assert ask(store, asked) == REFUSED
        assert ask(store, asked) == REFUSED
    assert ask(store, asked) == "admitted\n"


@pytest.mark.parametrize(("journal", "held", "asked", "file"), LOCKS)
def test_one_open_and_close_would_lose_them(
    store: Path, journal: Journal, held: str, asked: str, file: str
) -> None:
    """The test above can fail: a single read of the file past SQLite lets the other process in."""
    with host(store, journal, held):
        assert ask(store, asked) == REFUSED
        Path(f"{store}{file}").read_bytes()
        assert ask(store, asked) == "admitted\n"


@pytest.mark.parametrize("journal", ["delete", "wal"])
def test_removal_in_the_process_of_an_idle_host_leaves_it_working(store: Path, journal: Journal) -> None:
    """A host that only has the store open sees the removal, and its next transaction is protected again."""
    with closing(sqlite3.connect(store, isolation_level=None)) as connection:
        connection.execute(f"PRAGMA journal_mode = {journal}")
        before = connection.execute("SELECT count(*) FROM workflow_status").fetchone()[0]
        with Retention(str(store), state=store.parent / "state") as retention:
            report = retention.prune(MONTH, options=SweepOptions(offline=True))
        assert report.units.removed == 3
        after = connection.execute("SELECT count(*) FROM workflow_status").fetchone()[0]
        assert after == before - report.rows["workflow_status"]
        connection.execute("BEGIN IMMEDIATE")
        assert ask(store, "BEGIN IMMEDIATE") == REFUSED
        connection.execute("COMMIT")
