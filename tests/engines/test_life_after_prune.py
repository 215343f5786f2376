"""The whole circle: an engine makes a store, it is aged and pruned, and the engine goes on with it."""

from __future__ import annotations

from itertools import product

import pytest

from .retained import (
    KINDS,
    LIVE_TREES,
    MONTH,
    OLD_DAYS,
    WATCHED,
    EngineStore,
    counts,
    lost,
    owners,
    prune,
    query,
    retention,
    run_ids,
)
from .stores import ALL_ENGINES, ENGINES, run_engine

pytestmark = pytest.mark.engine

SCHEMAS = {"3.4.0": "125", "3.2.0": "123", "2.31.1": "108"}


both_kinds = pytest.mark.parametrize("kind", KINDS)


@pytest.mark.parametrize(
    ("version", "kind", "offline"),
    [
        *product(ENGINES, KINDS, [False, True]),
        *product(["3.2.0"], KINDS, [False]),
        ("3.4.0", "other schema", False),
    ],
)
def test_engine_goes_on_after_a_prune(version: str, store: EngineStore, offline: bool) -> None:
    """Only expired trees go, and the engine recovers all that waits and runs new work (promises 1 and 5)."""
    store.make(version)
    store.age(OLD_DAYS)
    ids, rows = run_ids(store), counts(store)
    report = prune(store, offline=offline)
    assert report.ended == "completed"
    assert run_ids(store) == LIVE_TREES | WATCHED
    assert report.units.removed > 0
    assert lost(rows, counts(store)) == {table: count for table, count in report.rows.items() if count}
    assert not owners(store) & (ids - LIVE_TREES - WATCHED)
    answer = run_engine(version, "recover", store.place)
    assert answer["stuck"] == []
    assert set(answer["statuses"].values()) == {"SUCCESS"}
    assert answer["results"]["waiting-parent"] == "a message: worked on [worked on []]"
    assert answer["results"]["watcher"] == "a message: worked on [worked on []]"
    assert answer["new"] == "SUCCESS"
    assert answer["queue"]["delayed-1"] == "DELAYED"
    worked = run_engine(version, "work", store.place, "0.3")
    assert worked["finished"] > 0
    assert worked["errors"] == worked["lost"] == []


@both_kinds
@pytest.mark.parametrize("version", ALL_ENGINES)
def test_plan_says_what_goes(version: str, store: EngineStore) -> None:
    """A plan deletes nothing and counts what the apply then removes, table by table (promise 7)."""
    store.make(version)
    store.age(OLD_DAYS, but=["simple-5", "tree-grandchild"])
    rows = counts(store)
    with retention(store) as opened:
        plan = opened.plan(MONTH)
        assert counts(store) == rows
        report = opened.prune(MONTH)
    assert (plan.profile, plan.schema.version, plan.schema.read) == ("dbos", SCHEMAS[version], True)
    assert plan.units.removed == 0
    assert plan.units.expired == report.units.removed > 0
    assert plan.rows == report.rows
    assert sum(plan.rows.values()) == sum(rows.values()) - sum(counts(store).values())
    assert {"simple-5", "tree-parent", "tree-child-1", "tree-grandchild"} <= run_ids(store)


@both_kinds
@pytest.mark.parametrize("version", ALL_ENGINES)
def test_plan_accounts_for_every_run(version: str, store: EngineStore) -> None:
    """Members of all units and rows without a root are the run table; every live tree is protected."""
    store.make(version)
    store.age(OLD_DAYS)
    with retention(store) as opened:
        units = opened.plan(MONTH).units
    runs = query(store, "SELECT count(*) FROM workflow_status")[0][0]
    roots = query(store, "SELECT count(*) FROM workflow_status WHERE parent_workflow_id IS NULL")[0][0]
    assert (units.members, units.unrooted) == (runs, 0)
    assert units.protected == {"live-member": 8, "cross-tree-reference": 1}
    assert units.expired + units.recent + sum(units.protected.values()) == roots


@both_kinds
@pytest.mark.parametrize("version", ALL_ENGINES)
def test_second_prune_removes_nothing(version: str, store: EngineStore) -> None:
    """With nothing new in the store, a repeated prune changes nothing."""
    store.make(version)
    store.age(OLD_DAYS)
    prune(store)
    rows = counts(store)
    again = prune(store)
    assert (again.ended, again.units.removed, sum(again.rows.values())) == ("completed", 0, 0)
    assert counts(store) == rows


@both_kinds
@pytest.mark.parametrize("version", ALL_ENGINES)
def test_what_finished_after_recovery_goes_in_its_turn(version: str, store: EngineStore) -> None:
    """A protection ends with the work it protects: once all is finished and old, all but DELAYED goes."""
    store.make(version)
    store.age(OLD_DAYS)
    prune(store)
    run_engine(version, "recover", store.place)
    store.age(OLD_DAYS)
    report = prune(store)
    assert run_ids(store) == {"delayed-1"}
    assert report.units.protected == {}
    assert owners(store) == {"delayed-1"}
