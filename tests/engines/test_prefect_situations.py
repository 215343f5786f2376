"""What lies around flow runs in a real Prefect's store: artifacts, missing ends, other tasks, backups."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from afterrun import Policy, SweepOptions
from afterrun.stores.sql.backups import BackupOrder
from cli.kit import run_cli

from .prefect_fixtures import _prefect_database, made, prefect_postgres
from .prefect_stores import (
    ALIVE,
    ENDED,
    SqliteStore,
    Store,
    age,
    age_loose,
    content,
    counts,
    names,
    prune,
    retention,
    template,
)
from .test_prefect_trees import MONTH, OLD_DAYS, plan

__all__ = ["_prefect_database", "made", "prefect_postgres"]

pytestmark = [pytest.mark.engine, pytest.mark.timeout(300)]  # a server starts, on a busy machine

REPORT = "shared-report"
UNSUCCESSFUL = frozenset({"failed", "cancelled", "crashed"})
"""Each ended later than the newest success of its group, so that one stays, too, where a success is kept."""


def key(store: Store, name: str) -> str:
    """Return the id of a run."""
    return str(store.rows(f"SELECT id FROM flow_run WHERE name = '{name}'")[0][0])


def latest(store: Store) -> dict[str, tuple[str, str]]:
    """Return what each collection says: its text, and the run whose artifact is the newest."""
    rows = store.rows(
        "SELECT c.key, CAST(c.data AS text), f.name FROM artifact_collection c "
        "JOIN artifact a ON a.id = c.latest_id LEFT JOIN flow_run f ON f.id = c.flow_run_id"
    )
    return {topic: (json.loads(text) if text[:1] == '"' else text, name) for topic, text, name in rows}


def reasons(store: Store, name: str) -> Sequence[str]:
    """Return the names of all reasons of a run's tree."""
    with retention(store) as opened:
        return sorted(reason.name for reason in opened.explain(key(store, name), MONTH).reasons)


def test_a_collection_says_what_the_newest_artifact_left_says(made: Store) -> None:
    """Where the newest goes before an older one, the engine's page on the key shows the older one."""
    age(made, OLD_DAYS, but=["reporting-0"])
    assert latest(made)[REPORT] == ("text 1", "reporting-1")
    prune(made, MONTH)
    assert latest(made) == {REPORT: ("text 0", "reporting-0")}


def test_a_collection_stays_as_it_is_while_its_newest_does(made: Store) -> None:
    """Older artifacts of the key go, and the row of the collection does not change."""
    age(made, OLD_DAYS, but=["reporting-1"])
    before = made.rows(f"SELECT * FROM artifact_collection WHERE key = '{REPORT}'")
    prune(made, MONTH)
    assert made.rows(f"SELECT * FROM artifact_collection WHERE key = '{REPORT}'") == before
    assert "reporting-0" not in names(made)


@pytest.mark.parametrize("status", ["COMPLETED", "FAILED", "CANCELLED", "CRASHED"])
def test_an_ended_run_without_an_end_is_reported(made: Store, status: str) -> None:
    """The engine's vacuum passes it by for ever; here it is counted, named, and kept."""
    age(made, OLD_DAYS)
    made.change(f"UPDATE flow_run SET end_time = NULL, state_type = '{status}' WHERE name = 'single-1'")
    assert plan(made).units.blocked == {"unknown-end-time": 1}
    with retention(made) as opened:
        assert list(opened.store.examples("unknown-end-time", opened.store.now(), limit=5)) == [
            key(made, "single-1")
        ]
    prune(made, MONTH)
    assert "single-1" in names(made)
    assert "single-0" not in names(made)


@pytest.mark.parametrize("member", ["family-leaf", "family-middle"])
def test_a_subflow_without_an_end_keeps_its_tree(made: Store, member: str) -> None:
    """What is not known of one member is not known of the tree."""
    age(made, OLD_DAYS)
    made.change(f"UPDATE flow_run SET end_time = NULL WHERE name = '{member}'")
    assert reasons(made, "family") == ["unknown-end-time"]
    prune(made, MONTH)
    assert {name for name in names(made) if name.startswith("family")} == {
        *("family", "family-child", "family-middle", "family-leaf")
    }


def test_a_subflow_that_ended_later_speaks_for_its_tree(made: Store) -> None:
    """The engine takes the root by its own end; here the latest end of the tree counts."""
    age(made, OLD_DAYS, but=["family-leaf"])
    assert "keep-for" in reasons(made, "family")
    prune(made, MONTH)
    assert {"family", "family-child", "family-middle", "family-leaf"} <= names(made)


def test_a_subflow_whose_root_the_engine_took_is_a_root(made: Store) -> None:
    """The engine's own removal of a parent sets the child's link to NULL: the child goes in its own time."""
    age(made, OLD_DAYS)
    made.change(
        "UPDATE flow_run SET parent_task_run_id = NULL WHERE name = 'family-middle'",
    )
    assert reasons(made, "family-leaf") == []
    prune(made, MONTH)
    assert names(made) == ALIVE


def test_a_link_from_a_live_run_keeps_what_it_leads_to(made: Store) -> None:
    """A result that a running flow's state refers to would be set to NULL if its run went."""
    age(made, OLD_DAYS)
    made.change(
        "UPDATE flow_run_state SET result_artifact_id = (SELECT a.id FROM artifact a JOIN flow_run f "
        "ON f.id = a.flow_run_id WHERE f.name = 'single-0') WHERE flow_run_id = "
        "(SELECT id FROM flow_run WHERE name = 'hanging') AND type = 'RUNNING'"
    )
    kept = content(made, ["hanging", "single-0"])
    assert reasons(made, "single-0") == ["linked-row:flow_run_state"]
    prune(made, MONTH)
    assert names(made) == ALIVE | {"single-0"}
    assert content(made, ["hanging", "single-0"]) == kept


def test_tasks_outside_of_flows_and_their_logs_are_left_alone(made: Store) -> None:
    """They belong to no run; neither do events."""
    age(made, OLD_DAYS)
    age_loose(made, OLD_DAYS)
    tables = ("events", "event_resources")
    before = counts(made)
    prune(made, MONTH)
    assert {table: counts(made)[table] for table in tables} == {table: before[table] for table in tables}
    assert len(made.rows("SELECT id FROM task_run WHERE flow_run_id IS NULL")) == 2


@pytest.mark.parametrize("by", ["flow.name", "flow_id"])
def test_the_newest_run_of_each_flow_stays_on_request(made: Store, by: str) -> None:
    """Flows are grouped by their name, which stands in another table."""
    age(made, OLD_DAYS)
    prune(made, Policy(keep_for=timedelta(days=30), keep_last=1, group_by=(by,)))
    family = {"family", "family-child", "family-middle", "family-leaf"}
    assert names(made) - ALIVE == family | {"keyed", "bulk", "reporting-alone", *UNSUCCESSFUL}


def test_the_newest_run_of_each_deployment_stays_on_request(made: Store) -> None:
    """Of those without a deployment, which are one group, it is one that stays anyhow."""
    age(made, OLD_DAYS)
    prune(made, Policy(keep_for=timedelta(days=30), keep_last=1, group_by=("deployment.name",)))
    assert names(made) - ALIVE == {"keyed"}


def test_a_plan_names_what_a_reader_should_know(made: Store) -> None:
    """The engine's own retention is said, and what stays outside of the database."""
    notices = "\n".join(plan(made).schema.notices)
    assert "PREFECT_SERVER_SERVICES_DB_VACUUM_ENABLED" in notices
    assert "storage" in notices


def test_what_a_backup_holds_can_be_brought_back(made: Store, tmp_path: Path) -> None:
    """A tree that went comes back with every row, and its links with it."""
    age(made, OLD_DAYS, but=[name for name in ENDED if not name.startswith("family")])
    before, root = content(made, ENDED), key(made, "family")
    file = tmp_path / "removed.backup"
    with retention(made) as opened:
        report = opened.prune(MONTH, options=SweepOptions(offline=True), backup=BackupOrder(path=file))
        assert (report.ended, report.units.removed) == ("completed", 1)
        assert "family" not in names(made)
        opened.restore(file, root)
        assert list(opened.verify()) == []
    assert content(made, ENDED) == before


def test_scan_finds_the_store_where_the_engine_keeps_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless it is told otherwise, the engine keeps it in the home of its user."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AFTERRUN_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.delenv("AFTERRUN_SCAN_PATH", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".prefect").mkdir()
    store = SqliteStore(tmp_path / ".prefect" / "prefect.db")
    store.fill()
    answer = run_cli("scan", "--json")
    assert [(found["path"], found["profile"]) for found in answer.json["stores"]] == [
        (str(store.path), "prefect")
    ]
    assert answer.json["stores"][0]["schema"] == {"version": "27d8f4e1a6c9", "read": True}
    assert template().name not in answer.out
