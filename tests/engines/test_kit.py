"""The kit itself: real engines make, recover and delete stores as other tests rely on."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from .clones import Shape
from .stores import ENGINES, age_runs, clone_store, make_store, run_engine, template

pytestmark = [pytest.mark.engine, pytest.mark.parametrize("version", ENGINES)]

LIVE = {
    "waiting-parent": "PENDING",
    "ended-parent-child": "PENDING",
    "watcher": "PENDING",
    "crashed": "PENDING",
    "queue-blocker": "PENDING",
    "queue-waiting-1": "ENQUEUED",
    "queue-waiting-2": "ENQUEUED",
    "delayed-1": "DELAYED",
}
FAILED = {
    "failed-1": "ERROR",
    "failed-2": "ERROR",
    "forgiving-parent-child": "ERROR",
    "cancelled-1": "CANCELLED",
    "cancelled-2": "CANCELLED",
}
CHILD_TABLES = ("operation_outputs", "workflow_events", "workflow_events_history", "streams")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Name the store a test works on."""
    return tmp_path / "store.sqlite"


def query(path: Path, statement: str, *values: object) -> list[tuple[Any, ...]]:
    """Read all rows of a statement."""
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(statement, values).fetchall()


def remove(path: Path, run_id: str) -> None:
    """Delete a run's row and everything that cascades from it, behind the engine's back."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("DELETE FROM workflow_status WHERE workflow_uuid = ?", (run_id,))


def counts(path: Path) -> dict[str, int]:
    """Count the rows of every table that has a run's id."""
    tables = query(
        path,
        """SELECT DISTINCT m.name FROM sqlite_master AS m, pragma_table_info(m.name) AS c
           WHERE m.type = 'table' AND c.name IN ('workflow_uuid', 'destination_uuid')""",
    )
    return {table: query(path, f'SELECT count(*) FROM "{table}"')[0][0] for (table,) in tables}


def test_store_holds_every_situation(version: str, store: Path) -> None:
    """Every named run is in the store with the status its situation asks for, and no other."""
    made = make_store(version, store)
    ids = [run_id for situation in made["ids"].values() for run_id in situation]
    expected = dict.fromkeys(ids, "SUCCESS") | FAILED | LIVE
    assert dict(query(store, "SELECT workflow_uuid, status FROM workflow_status")) == expected
    assert made["statuses"] == expected
    assert made["dbos"] == version
    assert query(store, "PRAGMA foreign_key_check") == []


def test_store_holds_links_and_messages(version: str, store: Path) -> None:
    """Parents, the cross-tree reference, the fork and the unread message are recorded."""
    make_store(version, store)
    parents = "SELECT workflow_uuid, parent_workflow_id AS p FROM workflow_status WHERE p NOT NULL"
    assert dict(query(store, parents)) == {
        "tree-child-1": "tree-parent",
        "tree-child-2": "tree-parent",
        "tree-grandchild": "tree-child-1",
        "forgiving-parent-child": "forgiving-parent",
        "watched-child": "watched",
        "waiting-parent-child": "waiting-parent",
        "waiting-parent-grandchild": "waiting-parent-child",
        "ended-parent-child": "ended-parent",
    }
    read = "SELECT child_workflow_id AS c FROM operation_outputs WHERE workflow_uuid = ? AND c NOT NULL"
    assert query(store, read, "watcher") == [("watched",)]
    forks = "SELECT workflow_uuid, forked_from FROM workflow_status WHERE forked_from NOT NULL"
    assert query(store, forks) == [("fork-copy", "fork-base")]
    messages = "SELECT destination_uuid, consumed FROM notifications"
    assert dict(query(store, messages)) == {"receiver-1": 1, "mailbox-1": 0}


def test_recover_finishes_what_waits(version: str, store: Path) -> None:
    """On an untouched store every parked run ends, the parent with its child's result."""
    make_store(version, store)
    answer = run_engine(version, "recover", store)
    assert set(answer["statuses"]) == set(LIVE) - {"delayed-1"}
    assert set(answer["statuses"].values()) == {"SUCCESS"}
    assert answer["results"]["waiting-parent"] == "a message: worked on [worked on []]"
    assert answer["stuck"] == []
    assert answer["new"] == "SUCCESS"
    assert answer["queue"]["delayed-1"] == "DELAYED"


@pytest.mark.parametrize(
    ("removed", "stuck"),
    [("waiting-parent-child", "waiting-parent"), ("watched", "watcher")],
)
def test_recover_tells_a_stuck_run(version: str, store: Path, removed: str, stuck: str) -> None:
    """A run whose awaited run is gone stays pending, and recover says so."""
    make_store(version, store)
    remove(store, removed)
    answer = run_engine(version, "recover", store, "--wait", "4")
    assert answer["stuck"] == [stuck]
    assert answer["statuses"][stuck] == "PENDING"


def test_rerun_tells_whether_the_body_ran(version: str, store: Path) -> None:
    """A known id answers from the store; after its deletion the body runs again."""
    make_store(version, store)
    assert run_engine(version, "rerun", store, "simple-1")["executed"] is False
    ids = store.with_name("ids")
    ids.write_text("simple-1\n", encoding="utf-8")
    assert run_engine(version, "delete", store, ids)["deleted"] == 1
    assert run_engine(version, "rerun", store, "simple-1")["executed"] is True


def test_changes_without_running(version: str, store: Path) -> None:
    """Resume and fork leave a queued run, cancel a cancelled one."""
    make_store(version, store)
    assert run_engine(version, "resume", store, "cancelled-2", "--no-run")["status"] == "ENQUEUED"
    assert run_engine(version, "fork", store, "fork-base", "--no-run")["status"] == "ENQUEUED"
    assert run_engine(version, "cancel", store, "delayed-1")["status"] == "CANCELLED"


def test_resume_runs_to_the_end(version: str, store: Path) -> None:
    """A cancelled run that is resumed goes on and succeeds; nothing else moves."""
    make_store(version, store)
    assert run_engine(version, "resume", store, "cancelled-2")["status"] == "SUCCESS"
    known = run_engine(version, "status", store, "crashed", "no-such-run")
    assert known["statuses"] == {"crashed": "PENDING", "no-such-run": None}
    assert {run_id: known["all"][run_id] for run_id in LIVE} == LIVE


def test_live_engine_and_open(version: str, store: Path) -> None:
    """A live engine finishes runs without errors, and several stores open in one process."""
    make_store(version, store)
    copy = store.with_name("copy.sqlite")
    make_store(version, copy)
    worked = run_engine(version, "work", store, "0.5")
    assert worked["finished"] > 0
    assert worked["errors"] == worked["lost"] == []
    assert run_engine(version, "open", store, copy) == {"ok": True, "pending": 10, "opened": 2}


def test_ageing_moves_finished_runs_only(version: str, store: Path) -> None:
    """All times of finished runs move by whole milliseconds, those of live ones stay."""
    made = make_store(version, store)
    times = "SELECT workflow_uuid, created_at, completed_at FROM workflow_status"
    before = {row[0]: row[1:] for row in query(store, times)}
    moved = age_runs(store, 40.0, but=["simple-1"])
    after = {row[0]: row[1:] for row in query(store, times)}
    changed = {run_id for run_id in before if before[run_id] != after[run_id]}
    assert changed == set(made["statuses"]) - set(LIVE) - {"simple-1"}
    assert moved == len(changed)
    kinds = "SELECT DISTINCT typeof(completed_at_epoch_ms) FROM operation_outputs"
    assert {kind for (kind,) in query(store, kinds)} <= {"integer", "null"}
    assert query(
        store,
        "SELECT count(*) FROM operation_outputs WHERE completed_at_epoch_ms < ?"
        " AND workflow_uuid = 'simple-2'",
        before["simple-2"][0],
    ) == [(5,)]


@pytest.mark.parametrize("shape", ["flat", "tree"])
def test_clone_counts(version: str, store: Path, shape: Shape) -> None:
    """A clone has the rows it claims, all linked, and as many expired runs as asked for."""
    now_ms = 1_800_000_000_000
    clone = clone_store(None, store, runs=1_000, version=version, shape=shape, expired=0.5, now_ms=now_ms)
    assert counts(store) == clone.rows
    assert clone.rows["workflow_status"] == clone.runs == 1_000
    links = 0 if shape == "flat" else 2 * (clone.runs - clone.units)
    assert clone.rows["operation_outputs"] == 5_000 + links
    old = "SELECT count(*) FROM workflow_status WHERE completed_at < ?"
    assert query(store, old, now_ms - 30 * 86_400_000) == [(clone.expired_runs,)] == [(500,)]
    roots = "FROM workflow_status WHERE parent_workflow_id IS NULL"
    assert query(store, f"SELECT count(*), count(DISTINCT completed_at) {roots}") == [
        (clone.units, clone.units)
    ]
    assert query(store, "PRAGMA foreign_key_check") == []
    assert query(store, "PRAGMA integrity_check") == [("ok",)]
    assert query(store, "PRAGMA journal_mode") == [("delete",)]
    assert query(store, "SELECT name FROM sqlite_master WHERE name = 'sqlite_stat1'") == []
    for table in CHILD_TABLES:
        kept = f"SELECT count(DISTINCT workflow_uuid) FROM {table}"
        assert query(store, kept) == [(1_000,)]


def test_clone_of_a_run_with_a_message(version: str, store: Path) -> None:
    """Messages are cloned too, each under an id of its own, in WAL mode if asked for."""
    clone = clone_store(
        None, store, runs=50, version=version, run_id="receiver-1", journal="wal", analyze=True
    )
    assert clone.rows["notifications"] == 50
    assert query(store, "SELECT count(DISTINCT destination_uuid) FROM notifications") == [(50,)]
    assert query(store, "PRAGMA journal_mode") == [("wal",)]
    assert query(store, "SELECT count(*) > 0 FROM sqlite_stat1") == [(1,)]


def test_a_clone_leaves_its_template_alone(version: str, store: Path) -> None:
    """Not one byte of the template changes, whatever the clone's journal mode is."""
    before = template(version).read_bytes()
    clone_store(None, store, runs=3, version=version, journal="wal")
    assert query(store, "PRAGMA journal_mode") == [("wal",)]
    assert template(version).read_bytes() == before


def test_engine_takes_a_clone_for_its_own(version: str, store: Path) -> None:
    """The engine opens a cloned store, runs in it, and deletes all clones without a trace."""
    clone = clone_store(None, store, runs=2_500, version=version, shape="tree")
    ids = store.with_name("ids")
    rows = query(store, "SELECT workflow_uuid FROM workflow_status")
    ids.write_text("\n".join(run_id for (run_id,) in rows), encoding="utf-8")
    again = run_engine(version, "rerun", store, rows[0][0])
    assert (again["executed"], again["result"]) == (False, "worked on simple-1")
    assert run_engine(version, "delete", store, ids)["deleted"] == clone.runs
    assert set(counts(store).values()) == {0}
    assert run_engine(version, "open", store)["ok"]
