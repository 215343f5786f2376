"""Traps found on real engines, each with a store that the engine made and an engine that uses it again."""

from __future__ import annotations

import time

import pytest

from afterrun.core.judge import Verdict

from .retained import (
    KINDS,
    LIVE_TREES,
    MONTH,
    OLD_DAYS,
    WATCHED,
    EngineStore,
    Kind,
    change,
    owners,
    prune,
    query,
    retention,
    run_ids,
)
from .stores import ENGINES, run_engine

pytestmark = [
    pytest.mark.engine,
    pytest.mark.parametrize("version", ENGINES),
    pytest.mark.parametrize("kind", KINDS),
]

MINUTE_MS = 60_000


@pytest.fixture
def store(version: str, store: EngineStore) -> EngineStore:
    """Make a store with every situation, all finished runs older than the policy."""
    store.make(version)
    store.age(OLD_DAYS)
    return store


def reasons(store: EngineStore, run: str) -> dict[str, str]:
    """Return the reasons and their details that `explain` gives for the unit of a run."""
    with retention(store) as opened:
        return {reason.name: reason.detail for reason in opened.explain(run, MONTH).reasons}


@pytest.mark.parametrize("run", ["waiting-parent-child", "waiting-parent-grandchild"])
def test_finished_descendant_of_a_live_parent_stays(version: str, store: EngineStore, run: str) -> None:
    """A live parent would poll the missing row for ever, so a finished child stays with it (promise 1)."""
    assert query(store, "SELECT status FROM workflow_status WHERE workflow_uuid = ?", run) == [("SUCCESS",)]
    with retention(store) as opened:
        explained = opened.explain(run, MONTH)
    assert (explained.unit, explained.verdict) == ("waiting-parent", Verdict.PROTECTED)
    assert "live-member" in {reason.name for reason in explained.reasons}
    assert len(explained.members) == 3
    prune(store)
    assert run in run_ids(store)
    answer = run_engine(version, "recover", store.place)
    assert answer["results"]["waiting-parent"] == "a message: worked on [worked on []]"


def test_run_whose_result_is_awaited_elsewhere_stays(version: str, store: EngineStore) -> None:
    """A run that a live run of another tree holds stays with all of its tree until that run ends."""
    assert reasons(store, "watched-child") == {
        "cross-tree-reference": "a row of operation_outputs refers to it"
    }
    prune(store)
    assert run_ids(store) >= WATCHED
    assert run_engine(version, "recover", store.place)["statuses"]["watcher"] == "SUCCESS"
    assert reasons(store, "watched") == {}
    prune(store)
    assert not run_ids(store) & WATCHED


def test_ended_parent_stays_with_its_live_child(version: str, store: EngineStore) -> None:
    """A tree goes whole or not at all: a finished parent stays while its child works (promise 1)."""
    assert set(reasons(store, "ended-parent")) == {"live-member"}
    prune(store)
    parent = "SELECT parent_workflow_id FROM workflow_status WHERE workflow_uuid = 'ended-parent-child'"
    assert query(store, parent) == [("ended-parent",)]
    assert "ended-parent" in run_ids(store)
    assert run_engine(version, "recover", store.place)["statuses"]["ended-parent-child"] == "SUCCESS"


def test_removed_id_runs_its_body_again(version: str, store: EngineStore) -> None:
    """Nothing of a removed run is left to answer for a new one under the same id."""
    assert run_engine(version, "rerun", store.place, "simple-1")["executed"] is False
    prune(store)
    again = run_engine(version, "rerun", store.place, "simple-1")
    assert again["executed"] is True
    assert again["result"] == f"worked on {again['input']}"


def test_no_table_keeps_a_row_of_a_removed_run(version: str, store: EngineStore) -> None:
    """Rows that no foreign key ties to the run's own row go with it, in every table (promise 4)."""
    before = owners(store)
    prune(store)
    assert owners(store) <= LIVE_TREES | WATCHED
    assert {"simple-1", "tree-grandchild", "mailbox-1"} <= before


def test_run_resumed_after_it_was_judged_is_skipped(version: str, store: EngineStore) -> None:
    """A cancelled run that is resumed before its batch stays, and it alone, and runs on (promise 2)."""
    resumed: list[str] = []

    def resume(_event: object) -> None:
        if not resumed:
            resumed.append(run_engine(version, "resume", store.place, "cancelled-2", "--no-run")["status"])

    report = prune(store, observer=resume)
    assert resumed == ["ENQUEUED"]
    assert report.units.skipped == {"recheck: live-member": 1}
    assert report.units.removed == report.units.expired - 1
    assert run_ids(store) == LIVE_TREES | WATCHED | {"cancelled-2"}
    assert run_engine(version, "resume", store.place, "cancelled-2")["status"] == "SUCCESS"


def test_run_that_ended_again_after_it_was_judged_is_skipped(version: str, store: EngineStore) -> None:
    """A run that was resumed and finished before its batch is as young as its new end (promise 2)."""
    resumed: list[str] = []

    def resume(_event: object) -> None:
        if not resumed:
            resumed.append(run_engine(version, "resume", store.place, "cancelled-2")["status"])

    report = prune(store, observer=resume)
    assert resumed == ["SUCCESS"]
    assert report.units.skipped == {"recheck: grace": 1}
    assert "cancelled-2" in run_ids(store)


def test_run_forked_after_it_was_judged_is_skipped(version: str, store: EngineStore) -> None:
    """A fork replays its base's children: forked before its batch, the base's tree stays (promise 2)."""
    forked: list[str] = []

    def fork(_event: object) -> None:
        if not forked:
            forked.append(
                run_engine(version, "fork", store.place, "tree-parent", "--step", "3", "--no-run")["id"]
            )

    report = prune(store, observer=fork)
    assert report.units.skipped == {"recheck: cross-tree-reference": 1}
    assert report.units.removed == report.units.expired - 1
    tree = {"tree-parent", "tree-child-1", "tree-child-2", "tree-grandchild"}
    assert run_ids(store) == LIVE_TREES | WATCHED | tree | set(forked)
    assert run_engine(version, "resume", store.place, forked[0])["status"] == "SUCCESS"


def test_queued_fork_finishes_whatever_becomes_of_its_base(version: str, store: EngineStore) -> None:
    """A fork that waits in the queue during a sweep runs to its end afterwards (promise 5)."""
    forked = run_engine(version, "fork", store.place, "fork-base", "--step", "3", "--no-run")
    assert forked["status"] == "ENQUEUED"
    prune(store)
    assert forked["id"] in run_ids(store)
    assert run_engine(version, "resume", store.place, forked["id"])["status"] == "SUCCESS"


def test_owner_mark_protects_no_finished_run(version: str, store: EngineStore) -> None:
    """What looks like a lease stays behind on finished runs of 2.31, and they go all the same."""
    marked = {
        row[0]
        for row in query(
            store,
            "SELECT workflow_uuid FROM workflow_status"
            " WHERE owner_xid IS NOT NULL AND completed_at IS NOT NULL",
        )
    }
    assert bool(marked) == (version == "2.31.1")
    prune(store)
    assert not run_ids(store) & (marked - LIVE_TREES - WATCHED)


def test_age_counts_from_the_end(version: str, store: EngineStore) -> None:
    """A run made long ago that ended a minute ago is as young as its end; one that ended long ago goes."""
    now = time.time_ns() // 1_000_000
    ended = "UPDATE workflow_status SET completed_at = ? WHERE workflow_uuid = ?"
    change(store, ended, now - 90 * MINUTE_MS, "simple-1")
    change(store, ended, now - MINUTE_MS, "simple-2")
    change(store, "UPDATE workflow_status SET created_at = ? WHERE workflow_uuid = 'simple-3'", now)
    assert set(reasons(store, "simple-1")) == {"keep-for"}
    assert set(reasons(store, "simple-2")) == {"keep-for", "grace"}
    prune(store)
    assert {"simple-1", "simple-2"} <= run_ids(store)
    assert "simple-3" not in run_ids(store)


def test_row_without_completion_time_counts_from_its_last_update(version: str, store: EngineStore) -> None:
    """Rows from before the column existed have none; their last update stands for the end."""
    now = time.time_ns() // 1_000_000
    change(store, "UPDATE workflow_status SET completed_at = NULL WHERE workflow_uuid LIKE 'simple-%'")
    change(store, "UPDATE workflow_status SET updated_at = ? WHERE workflow_uuid = 'simple-2'", now)
    prune(store)
    assert {run for run in run_ids(store) if run.startswith("simple-")} == {"simple-2"}


def test_unread_message_goes_with_its_finished_run(version: str, store: EngineStore) -> None:
    """Nobody will ever read a message to a finished run, so it protects nothing and goes too."""
    unread = "SELECT destination_uuid FROM notifications WHERE NOT consumed"
    assert query(store, unread) == [("mailbox-1",)]
    prune(store)
    assert query(store, "SELECT count(*) FROM notifications") == [(0,)]
    assert "mailbox-1" not in run_ids(store)


def test_queued_and_delayed_runs_stay(version: str, store: EngineStore) -> None:
    """However old, what waits in a queue or for its time stays; a finished queue run goes."""
    waiting = {"queue-blocker": "PENDING", "queue-waiting-1": "ENQUEUED", "delayed-1": "DELAYED"}
    store.age(300.0, [*waiting, "queue-waiting-2"])
    for run in waiting:
        assert set(reasons(store, run)) == {"live-member"}
    prune(store)
    ids = run_ids(store)
    assert waiting.keys() <= ids
    assert not {"queued-1", "queued-2", "queued-3"} & ids
    known = run_engine(version, "status", store.place, *waiting)
    assert known["statuses"] == waiting
    assert run_engine(version, "recover", store.place)["queue"]["queue-waiting-2"] == "SUCCESS"


def test_child_whose_parent_the_engine_deleted_is_a_root(version: str, store: EngineStore) -> None:
    """The engine's own delete takes a parent and leaves its children: each is then judged alone."""
    ids = store.folder / "ids"
    ids.write_text("tree-parent\nforgiving-parent\n", encoding="utf-8")
    assert run_engine(version, "delete", store.place, ids)["deleted"] == 2
    store.age(-OLD_DAYS, ["tree-child-2"])
    prune(store)
    ids_left = run_ids(store)
    assert "tree-child-2" in ids_left
    assert not {"tree-child-1", "tree-grandchild", "forgiving-parent-child"} & ids_left


def test_orphans_of_a_careless_delete_are_reported(version: str, kind: Kind, store: EngineStore) -> None:
    """Deleted with foreign keys off, as the sqlite3 shell does, a run leaves rows; `verify` counts them."""
    change(store, "DELETE FROM workflow_status WHERE workflow_uuid = 'simple-1'")
    with retention(store) as opened:
        faults = list(opened.verify())
    left = {
        table: query(store, f"SELECT count(*) FROM {table} WHERE workflow_uuid = 'simple-1'")[0][0]
        for table in ("operation_outputs", "workflow_events", "streams")
    }
    for table, orphans in left.items():
        assert orphans > 0
        assert f"orphans: {orphans} rows of {table} belong to no run" in faults
    if kind == "sqlite":  # the server takes its own word for keys that it checks
        assert any(line.startswith("foreign keys: ") and "workflow_events" in line for line in faults)
    assert not any("simple-1" in line for line in faults)
