"""Protected trees are set aside by sweeps, and whatever may let them go brings them back at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from afterrun import Policy, Report, SweepOptions
from afterrun.core.facts import Key
from afterrun.core.times import DAY, Instant
from afterrun.runs import RunStatus, RunStore
from afterrun.runs.contents import store as store_content
from afterrun.runs.schema import blobs, obligations, runs
from afterrun.runs.words import Work
from fakes import NOW
from runs.runs_kit import LONG_AGO, MONTH, Home, child_of, ended_run, owe, running

OFFLINE = SweepOptions(offline=True)


def _sweep(home: Home, *, now: Instant = NOW, policy: Policy = MONTH) -> Report:
    with home.retention(now=now) as retention:
        report = retention.sweep(policy, options=OFFLINE, always=True)
    assert report.ended == "completed", report.message
    return report


def _root(home: Home) -> Mapping[str, Any]:
    [root] = [row for row in home.rows(runs) if row["id"] == row["root_id"]]
    return root


def _looks(home: Home) -> tuple[Instant | None, Instant | None]:
    """Return what a sweep goes by: when the one root ended, and when its tree is looked at again."""
    root = _root(home)
    return root["due_at"], root["look_at"]


def _pinned(home: Home, store: RunStore, *, days: int | None = None) -> tuple[str, Any]:
    """Make an ended run whose content is pinned from yesterday on; return both."""
    run = ended_run(store)
    home.clock.now = NOW - DAY
    address = home.rows(blobs)[0]["address"]
    keep_for = None if days is None else timedelta(days=days)
    return run, store.pins.add(run, address, holder="me", keep_for=keep_for)


def _by_result(home: Home, store: RunStore) -> Callable[[], object]:
    run = running(store)
    store.finish(run, output=b"out", deliver_to="boss")
    return lambda: store.results.acknowledge(store.results.due("boss")[0])


def _by_pin(home: Home, store: RunStore) -> Callable[[], object]:
    _, pin = _pinned(home, store)
    return lambda: store.pins.release(pin)


def _by_child(home: Home, store: RunStore) -> Callable[[], object]:
    """Have an ended root with a child that runs, without any open work."""
    root = running(store)
    step, child = child_of(store, root)
    store.start(child)
    store.steps.complete(step)
    store.finish(root)

    def end() -> None:
        home.clock.now = LONG_AGO + DAY
        store.finish(child)

    return end


def _by_cancelled_child(home: Home, store: RunStore) -> Callable[[], object]:
    root = running(store)
    step, child = child_of(store, root)
    store.steps.complete(step)
    store.finish(root)

    def end() -> None:
        home.clock.now = LONG_AGO + DAY
        store.cancel_tree(child, reason="over")

    return end


HELD = {"result": _by_result, "pin": _by_pin, "child": _by_child, "cancelled child": _by_cancelled_child}


@pytest.mark.parametrize("held", HELD)
def test_a_protected_tree_costs_sweeps_nothing_until_what_holds_it_ends(
    home: Home, store: RunStore, held: str
) -> None:
    """It is met once; later sweeps pass it by, and the first one after the end removes it."""
    let_go = HELD[held](home, store)
    first = _sweep(home)
    assert (first.units.scanned, first.units.protected.total() > 0) == (1, True)
    assert _looks(home) == (None, NOW + 64 * DAY)
    assert _sweep(home, now=NOW + DAY).units.scanned == 0
    let_go()
    assert _looks(home) == (_root(home)["ended_at"], None)
    assert _sweep(home, now=NOW + DAY).units.removed == 1


def test_a_plan_counts_what_sweeps_pass_by(home: Home, store: RunStore) -> None:
    """Plans, explanations and prunes know nothing of what is set aside."""
    run, _ = _pinned(home, store)
    _sweep(home)
    assert _looks(home)[0] is None
    with home.retention() as retention:
        report = retention.plan(MONTH)
        assert dict(report.units.protected) == {"pinned-content": 1}
        assert retention.prune(MONTH, options=OFFLINE).units.protected == report.units.protected
    assert home.verdict(run) == ["protected", "pinned-content"]


@pytest.mark.parametrize("policy", [MONTH, Policy(keep_for=timedelta(days=90))])
def test_a_pin_for_a_time_brings_its_tree_back_when_it_is_over(
    home: Home, store: RunStore, policy: Policy
) -> None:
    """Nobody tells the store; the time stands beside the tree, and serves any policy."""
    _pinned(home, store, days=5)
    _sweep(home)
    due, again = _looks(home)
    assert due is None
    assert again is not None
    assert NOW + 3 * DAY < again < NOW + 5 * DAY
    assert _sweep(home, now=NOW + 3 * DAY, policy=policy).units.scanned == 0
    assert _sweep(home, now=NOW + 5 * DAY, policy=policy).units.removed == 1


def test_a_shorter_policy_finds_what_a_longer_one_did_not_touch(home: Home, store: RunStore) -> None:
    """Times to look again depend on no policy."""
    _, pin = _pinned(home, store)
    _sweep(home)
    store.pins.release(pin)
    assert _sweep(home, policy=Policy(keep_for=timedelta(days=200))).units.scanned == 0
    assert _sweep(home, policy=Policy(keep_for=timedelta(days=1))).units.removed == 1


def test_it_is_looked_at_again_when_nobody_told_that_it_may_go(home: Home, store: RunStore) -> None:
    """Work that was closed from behind holds a tree for some weeks, and not for ever."""
    run = ended_run(store)
    owe(home, run, Work.RESULT)
    _sweep(home)
    with home.behind() as transaction:
        transaction.change(sa.update(obligations).values(closed_at=LONG_AGO))
    assert _sweep(home, now=NOW + 63 * DAY).units.removed == 0
    assert _sweep(home, now=NOW + 64 * DAY + 1).units.removed == 1


def test_what_is_released_between_the_look_and_the_lock_is_not_set_aside(
    home: Home, store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tree is looked at again once its root is locked: else its release would have been in vain."""
    _, pin = _pinned(home, store)
    with home.retention() as retention:
        aside = retention.store.aside
        assert aside is not None
        put = aside.put

        def late(until: Mapping[Key, Instant], *, seconds: float) -> float:
            store.pins.release(pin)
            return put(until, seconds=seconds)

        monkeypatch.setattr(aside, "put", late)
        retention.sweep(MONTH, options=OFFLINE, always=True)
    assert _looks(home) == (_root(home)["ended_at"], None)
    assert _sweep(home).units.removed == 1


def test_a_tree_that_somebody_changes_is_left_for_the_next_sweep(home: Home, store: RunStore) -> None:
    """On a server, its root is locked then; the sweep does not wait."""
    if home.name == "sqlite":
        pytest.skip("a file has one writer")
    run, _ = _pinned(home, store)
    with store._database.writing() as transaction:
        transaction.rows(sa.select(runs).where(runs.c.id == run).with_for_update())
        store_content(transaction, b"more")
        _sweep(home)
    assert _looks(home) == (_root(home)["ended_at"], None)


def test_what_ends_again_is_due_again(home: Home, store: RunStore) -> None:
    """A retried root has nothing that a sweep goes by until its next end."""
    run = running(store)
    store.finish(run, RunStatus.FAILED, output=b"out", deliver_to="boss")
    _sweep(home)
    store.retry(run)
    assert _looks(home) == (None, None)
    store.start(run)
    store.finish(run)
    assert _looks(home) == (_root(home)["ended_at"], None)


def test_members_below_a_root_are_no_candidates_of_a_sweep(home: Home, store: RunStore) -> None:
    """However many ended children a live run has, no sweep passes them."""
    root = running(store)
    for _ in range(5):
        step, child = child_of(store, root)
        store.start(child)
        store.finish(child)
        store.steps.complete(step)
    assert _sweep(home).units.scanned == 0
    with home.retention() as retention:
        assert retention.plan(MONTH).units.scanned == 5


def test_what_a_policy_alone_holds_is_not_set_aside(home: Home, store: RunStore) -> None:
    """Another policy may let it go, and nobody would bring it back."""
    run = ended_run(store)
    _sweep(home, policy=Policy(keep_for=timedelta(days=30), pins=frozenset([run])))
    assert _looks(home) == (_root(home)["ended_at"], None)


def test_a_sweep_reads_superseded_generations_alone(home: Home, store: RunStore) -> None:
    """It goes by the ends of those that were left behind; a plan counts the others, too."""
    ended_run(store)
    loop = running(store)
    for _ in range(3):
        store.continue_as_new(loop)
    past = Policy(generations=Policy(keep_for=timedelta(days=30)))
    with home.retention() as retention:
        planned = retention.plan(past)
        assert planned.others["generation"].scanned == 5
        report = retention.sweep(past, options=SweepOptions(rest=0.0), always=True)
    found = report.kinds["generation"]
    assert (found.scanned, found.removed) == (3, 3)
    assert planned.others["generation"].expired == 3
