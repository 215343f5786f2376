"""A store that a crash left in the middle of a transaction: who only reads leaves it so, and says it."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from afterrun.core.errors import Exit
from cli.kit import Answer, count, make_store, run_cli

CRASH = """
import os, signal, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("PRAGMA cache_size = 1")
connection.execute("BEGIN IMMEDIATE")
connection.execute("UPDATE workflow_status SET output = printf('%.*c', 9000, 'half')")
{more}
os.kill(os.getpid(), signal.SIGKILL)
"""
WORK = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
connection.execute("UPDATE operation_outputs SET output = 'half'")
print("working", flush=True)
sys.stdin.readline()
connection.execute("COMMIT")
"""
READING = {
    "inspect": ("inspect",),
    "plan": ("plan", "--keep-for", "30d"),
    "explain": ("explain", "run-3", "--keep-for", "30d"),
    "verify": ("verify",),
    "reclaim": ("reclaim",),
    "prune, a dry run": ("prune", "--keep-for", "30d"),
}


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Make a store of 120 runs."""
    return make_store(tmp_path / "store" / "store.sqlite", runs=120)


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()


def crash(store: Path, *, more: str = "") -> None:
    """Let a writer die in the middle of a transaction that already reached the disk."""
    program = CRASH.format(more=more)
    done = subprocess.run([sys.executable, "-c", program, str(store)], check=False)
    assert done.returncode == -signal.SIGKILL


def files(store: Path) -> dict[str, bytes]:
    """Return all files of the store's folder but the index of the WAL, which holds nothing."""
    return {path.name: path.read_bytes() for path in store.parent.iterdir() if not path.name.endswith("-shm")}


def read(store: Path, command: tuple[str, ...]) -> Answer:
    """Run a command that only reads."""
    name, *words = command
    return run_cli(name, store, *words, "--json")


@pytest.mark.parametrize("command", READING.values(), ids=READING)
def test_who_only_reads_leaves_a_journal_and_says_what_it_is(store: Path, command: tuple[str, ...]) -> None:
    """Refused with what is there and who mends it; not a byte of either file is changed."""
    crash(store)
    before = files(store)
    assert set(before) == {"store.sqlite", "store.sqlite-journal"}
    answer = read(store, command)
    assert answer.code == Exit.REFUSED
    assert answer.json["error"]["reason"] == "unrecovered"
    for word in ("left by a crash", "store.sqlite-journal", "when it starts", "prune --apply", "sweep"):
        assert word in answer.json["error"]["message"]
    assert files(store) == before


@pytest.mark.parametrize(
    "command",
    [("sweep", "--keep-for", "30d"), ("prune", "--keep-for", "30d", "--apply", "--no-backup", "--yes")],
    ids=["sweep", "prune"],
)
def test_who_may_write_takes_the_transaction_back(store: Path, command: tuple[str, ...]) -> None:
    """Afterwards the journal is gone, nothing of the transaction is left, and reading works again."""
    crash(store)
    assert read(store, command).code in (Exit.DONE, Exit.REFUSED)  # a first sweep asks
    assert "store.sqlite-journal" not in files(store)
    assert count(store, "workflow_status WHERE output LIKE 'half%'") == 0
    assert read(store, ("verify",)).json["ok"] is True


@pytest.mark.parametrize("command", READING.values(), ids=READING)
def test_who_only_reads_leaves_a_wal_and_reads_it(store: Path, command: tuple[str, ...]) -> None:
    """A -wal left by a crash counts, as what was committed into it is committed, and stays where it is."""
    with closing(sqlite3.connect(store)) as connection:
        connection.execute("PRAGMA journal_mode = wal")
    crash(
        store,
        more="connection.execute(\"DELETE FROM workflow_status WHERE workflow_uuid = 'run-7'\")\n"
        'connection.execute("COMMIT")\nconnection.execute("BEGIN IMMEDIATE")\n'
        'connection.execute("DELETE FROM workflow_status")',
    )
    before = files(store)
    assert before["store.sqlite-wal"]
    answer = read(store, command)
    assert answer.code == (Exit.ERROR if command == ("verify",) else Exit.DONE)  # its steps are orphans now
    if command == ("inspect",):
        assert answer.json["runs"]["finished"] == 119
    assert files(store) == before


@pytest.mark.parametrize("command", READING.values(), ids=READING)
def test_a_journal_of_a_working_engine_is_no_crash(store: Path, command: tuple[str, ...]) -> None:
    """While the engine is in the middle of a transaction, its journal is its own, and all can be read."""
    program = [sys.executable, "-c", WORK, str(store)]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as engine:
        assert engine.stdin is not None
        assert engine.stdout is not None
        assert engine.stdout.readline() == "working\n"
        try:
            assert (store.parent / "store.sqlite-journal").stat().st_size > 0
            answer = read(store, command)
        finally:
            engine.stdin.write("\n")
            engine.stdin.flush()
    assert answer.code == Exit.DONE
    assert engine.returncode == 0
