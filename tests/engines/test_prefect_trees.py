"""Flow runs of a real Prefect as trees: a server makes the store, which is pruned, and goes on with it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from afterrun import Policy, Report
from afterrun.core.judge import Verdict

from .prefect_fixtures import _prefect_database, made, prefect_postgres
from .prefect_stores import (
    ALIVE,
    ENDED,
    OWNERS,
    TREES,
    Store,
    age,
    content,
    counts,
    names,
    prune,
    retention,
    run_prefect,
)

__all__ = ["_prefect_database", "made", "prefect_postgres"]

pytestmark = [pytest.mark.engine, pytest.mark.timeout(300)]  # a server starts, on a busy machine

MONTH = Policy(keep_for=timedelta(days=30))
OLD_DAYS = 40.0
PROTECTED = Verdict.PROTECTED
READ = {"sqlite": "27d8f4e1a6c9", "postgresql": "91e2b8f3d6a4"}


@pytest.fixture
def store(made: Store) -> Store:
    """Give a store whose runs are of 40 days ago, but for those that are scheduled."""
    age(made, OLD_DAYS)
    return made


def plan(store: Store, policy: Policy = MONTH) -> Report:
    """Plan a policy."""
    with retention(store) as opened:
        return opened.plan(policy)


def lost(before: dict[str, int], after: dict[str, int]) -> dict[str, int]:
    """Return how many rows each table lost, those without a loss left out."""
    return {table: rows - after[table] for table, rows in before.items() if rows != after[table]}


def scheduled(store: Store) -> int:
    """Count the runs that the scheduler made ahead of time."""
    return sum(row[0] != "" for row in store.rows("SELECT id FROM flow_run WHERE auto_scheduled = true"))


@pytest.mark.parametrize("offline", [True, False])
def test_whole_trees_go_and_nothing_else(store: Store, *, offline: bool) -> None:
    """What goes is what the plan said, table by table, and every row of what stays is as it was."""
    assert names(store) == ALIVE | ENDED
    before, kept, ahead = counts(store), content(store, ALIVE), scheduled(store)
    planned = plan(store)
    report = prune(store, MONTH, offline=offline)
    assert report.units.removed == planned.units.expired == len(TREES)
    assert dict(report.rows) == dict(planned.rows)
    gone = {table: rows for table, rows in report.rows.items() if rows}
    assert gone == lost(before, counts(store))
    assert {*gone} == {*OWNERS}
    assert names(store) == ALIVE
    assert content(store, ALIVE) == kept
    assert scheduled(store) == ahead > 0
    assert prune(store, MONTH).units.removed == 0


def test_a_plan_says_what_stays_and_why(store: Store) -> None:
    """The version was read from the engine, and every run is accounted for."""
    report = plan(store)
    assert (report.profile, report.schema.version, report.schema.read) == ("prefect", READ[store.kind], True)
    assert report.schema.problems == ()
    assert not any("does not know" in notice for notice in report.schema.notices)
    members = store.rows("SELECT count(*) FROM flow_run")[0][0]
    assert (report.units.members, report.units.unrooted) == (members, 0)
    assert report.units.blocked == {}
    roots = ALIVE - {"waiting-child", "working-child", "dispatching-child"}
    roots -= {"abandoning-child", "abandoning-child-child", "abandoning-leaf"}
    assert report.units.protected == {"live-member": len(roots) + scheduled(store)}
    assert report.keys_forgotten == 1


@pytest.mark.parametrize("run", ["abandoning", "abandoning-child", "abandoning-leaf", "dispatching"])
def test_a_running_subflow_keeps_all_that_is_above_and_beside_it(store: Store, run: str) -> None:
    """A root that ended stays with its whole tree while anything below it is scheduled or running."""
    key = str(store.rows(f"SELECT id FROM flow_run WHERE name = '{run}'")[0][0])
    with retention(store) as opened:
        explained = opened.explain(key, MONTH)
    assert (explained.verdict, {reason.name for reason in explained.reasons}) == (PROTECTED, {"live-member"})


def is_steady(run: Mapping[str, Any]) -> bool:
    """Say whether a run stays, and is one that the server does not call late or fail while nobody comes."""
    return run["name"] in ALIVE and run["state"] != "SCHEDULED" and "PAUSED" not in run["states"]


def test_the_server_goes_on_after_a_prune(store: Store) -> None:
    """It starts, shows every run that stayed as before, runs flows and subflows, and takes a used key."""
    shown = {run["name"]: run for run in run_prefect("read", store)["runs"] if is_steady(run)}
    assert len(shown) > len(ALIVE) / 2
    prune(store, MONTH)
    left = run_prefect("read", store)["runs"]
    assert {run["name"]: run for run in left if is_steady(run)} == shown
    assert not ENDED & {run["name"] for run in left}
    told = run_prefect("proceed", store)
    assert told == {
        "leaf": 6,
        "family": 24,
        "keyed": "new",
        "dispatched": 6,
        "deployments": ["later", "often"],
        "latest": "text after",
    }
    states = Counter(row[0] for row in store.rows("SELECT state_type FROM flow_run WHERE name LIKE 'after%'"))
    assert dict(states) == {"COMPLETED": 6}
    with retention(store) as opened:
        assert list(opened.verify()) == []
