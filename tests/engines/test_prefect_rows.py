"""Rows of a real Prefect's store that belong to no run, or grow faster than runs end: logs, events, tasks."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import pytest

from afterrun import BackupOrder, Policy, SweepOptions
from afterrun.core.row_rules import RowRules

from .prefect_fixtures import _prefect_database, made, prefect_postgres
from .prefect_stores import Store, age, age_loose, counts, names, prune, retention, run_prefect

__all__ = ["_prefect_database", "made", "prefect_postgres"]

pytestmark = [pytest.mark.engine, pytest.mark.timeout(300)]  # a server starts, on a busy machine

OLD_DAYS = 40.0
FORTNIGHT = RowRules(keep_for=timedelta(days=14))


@pytest.fixture
def store(made: Store) -> Store:
    """Give a store in which everything is of 40 days ago, but for what is scheduled."""
    age(made, OLD_DAYS)
    age_loose(made, OLD_DAYS)
    return made


def pruned(store: Store, **tables: RowRules) -> Mapping[str, int]:
    """Let rows go and return how many went from each table, as planned, as told, and as counted."""
    policy = Policy(tables=tables)
    before, runs = counts(store), names(store)
    with retention(store) as opened:
        planned = opened.plan(policy)
    report = prune(store, policy)
    after = counts(store)
    gone = {table: rows - after[table] for table, rows in before.items() if rows != after[table]}
    assert {table: rows for table, rows in report.rows.items() if rows} == gone
    assert {table: rows for table, rows in planned.rows.items() if rows} == gone
    assert [table.outcome for table in report.tables.values()] == ["drained"] * len(tables)
    assert names(store) == runs
    return gone


def test_logs_go_by_their_own_age(store: Store) -> None:
    """Also those of runs that stay, and those of tasks outside of flows."""
    before = counts(store)["log"]
    assert pruned(store, logs=FORTNIGHT) == {"log": before}


def test_the_newest_rows_stay_on_request(store: Store) -> None:
    """Of events, the newest of each kind."""
    kinds = len(store.rows("SELECT DISTINCT event FROM events"))
    pruned(store, events=RowRules(keep_latest=1))
    assert store.rows("SELECT count(*), count(DISTINCT event) FROM events") == [(kinds, kinds)]


def test_events_go_with_their_resources(store: Store) -> None:
    """A resource of an event that stays does, too."""
    newest = "(SELECT id FROM events ORDER BY id DESC LIMIT 1)"
    times = ", ".join(
        f"{name} = {store.earlier(name, -OLD_DAYS)}" for name in ("occurred", "received", "recorded")
    )
    store.change(f"UPDATE events SET {times} WHERE id = {newest}")
    stays = store.rows(f"SELECT count(*) FROM event_resources WHERE event_id = {newest}")[0][0]
    before = counts(store)
    assert pruned(store, events=FORTNIGHT) == {
        "events": before["events"] - 1,
        "event_resources": before["event_resources"] - stays,
    }


def test_an_event_that_an_automation_waits_with_stays(store: Store) -> None:
    """The engine keeps its id, and would not find it."""
    [[event]] = store.rows("SELECT id FROM events ORDER BY id LIMIT 1")
    columns = "scope, leader_event_id, follower_event_id, received, follower"
    follower = f"SELECT '', id, id, occurred, '{{}}' FROM events WHERE id = '{event}'"
    store.change(f"INSERT INTO automation_event_follower ({columns}) {follower}")
    pruned(store, events=FORTNIGHT)
    assert [str(row[0]) for row in store.rows("SELECT id FROM events")] == [str(event)]


def test_tasks_outside_of_flows_go_when_they_ended(store: Store) -> None:
    """With their states; one that waits for a worker stays, and so does every task of a flow."""
    before = counts(store)["task_run"]
    gone = pruned(store, tasks=FORTNIGHT)
    assert (gone["task_run"], gone["task_run_state"]) == (1, 3)
    assert counts(store)["task_run"] == before - 1
    left = store.rows("SELECT CAST(state_type AS text) FROM task_run WHERE flow_run_id IS NULL")
    assert left == [("SCHEDULED",)]


def test_a_task_that_started_a_subflow_stays_with_it(store: Store) -> None:
    """The subflow leads to it, and would lose that link."""
    loose = "(SELECT id FROM task_run WHERE flow_run_id IS NULL AND state_type = 'COMPLETED')"
    store.change(f"UPDATE flow_run SET parent_task_run_id = {loose} WHERE name = 'single-0'")
    assert pruned(store, tasks=FORTNIGHT) == {}


def test_rows_and_runs_come_back_from_one_backup(store: Store, tmp_path: Path) -> None:
    """Logs, events and tasks are in the file of the runs whose logs they are, each once; all come back."""
    policy = Policy(keep_for=timedelta(days=30), tables=dict.fromkeys(("logs", "events", "tasks"), FORTNIGHT))
    folder = tmp_path / "backups"
    folder.mkdir(mode=0o700)
    tables = ("log", "events", "event_resources", "task_run", "task_run_state", "flow_run", "flow_run_state")

    def rows() -> dict[str, list[str]]:
        return {name: sorted(map(repr, store.rows(f"SELECT * FROM {name}"))) for name in tables}

    before = rows()
    order = BackupOrder(path=folder / "went.backup")
    with retention(store) as opened:
        planned = opened.plan(policy)
        report = opened.prune(policy, options=SweepOptions(offline=True), backup=order)
        assert (report.ended, list(opened.verify())) == ("completed", [])
        assert dict(+report.rows) == dict(+planned.rows)
        assert not any(units.skipped for units in report.kinds.values())
        assert report.backup is not None
        assert report.backup["units"] == report.removed > len(report.kinds)
        restored = opened.restore(order.path, rest=0.0)
        assert (restored.refused, list(opened.verify())) == ({}, [])
    assert rows() == before


def begun(store: Store) -> list[object]:
    """Return what the server says of runs that have begun, but for what it changes by itself.

    It calls scheduled ones late, makes more of them, and fails suspended ones for which nobody came in time.
    """
    runs = run_prefect("read", store)["runs"]
    return [run for run in runs if run["state"] != "SCHEDULED" and "PAUSED" not in run["states"]]


def test_the_server_goes_on_without_old_rows(store: Store) -> None:
    """It shows every run, and takes new events and logs."""
    shown = begun(store)
    pruned(store, logs=FORTNIGHT, events=FORTNIGHT, tasks=FORTNIGHT)
    assert begun(store) == shown
    assert run_prefect("proceed", store)["family"] == 24
    assert counts(store)["log"] > 0


@pytest.mark.parametrize("keep", [timedelta(days=90), timedelta(days=7)])
def test_a_run_that_holds_a_key_stays_on_request(store: Store, keep: timedelta) -> None:
    """So that a launch which is tried again makes no second run."""
    prune(store, Policy(keep_for=timedelta(days=30), keep_keys=keep))
    assert ("keyed" in names(store)) == (keep > timedelta(days=OLD_DAYS))
    assert "single-0" not in names(store)
