from __future__ import annotations

import tracemalloc
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from afterrun.core.errors import UsageError
from afterrun.core.times import SECOND
from afterrun.runs import (
    Attempt,
    LeaseHeld,
    RunStatus,
    RunStore,
    StaleEpoch,
    StepStatus,
    WorkBlocked,
    WrongState,
)
from afterrun.runs.ids import new_id
from afterrun.runs.schema import leases, obligations, runs
from afterrun.runs.words import MAX_DEPTH, Work
from runs.runs_kit import LONG_AGO, Home, child_of, ended_run, fan_out, running, statuses

ENOUGH = 32 * 2**20
"""Bytes that Python may need to cancel a tree of any size."""


def _chain(store: RunStore, links: int) -> str:
    """Make a chain of running runs below a root; return the deepest."""
    run = running(store)
    for _ in range(links):
        run = running(store, parent=store.steps.start(run, "delegate"))
    return run


def _relink(home: Home, run: str, **links: str | None) -> None:
    """Change the links of a run from behind, and its root with them."""
    with home.behind() as transaction:
        transaction.change(sa.update(runs).where(runs.c.id == run).values(links))


def test_a_tree_has_children_of_every_attempt_through_ended_runs(store: RunStore) -> None:
    """The root comes first, then level by level; each run says which attempt it came from."""
    root = running(store)
    step, first = child_of(store, root)
    store.start(first)
    below = running(store, parent=store.steps.start(first, "delegate"))
    again = store.steps.fail(step, reason="slow", retry_in=timedelta(0))
    assert again is not None
    store.steps.retry(again)
    second = store.create("second", parent=again).run
    store.finish(first, RunStatus.FAILED)
    restart = store.create("restart", restart_of=below).run.id
    more = store.create("more", continuation_of=restart).run.id
    tree = store.tree(root)
    assert tree is not None
    assert [run.id for run in tree.runs] == [root, first, second.id, below, restart, more]
    assert (tree.runs[1].parent, tree.runs[2].parent) == (step, Attempt(root, 1, 1, 2))
    assert {run.root for run in tree.runs} == {root}
    part = store.tree(below)
    assert part is not None
    assert [run.id for run in part.runs] == [below, restart, more]
    assert store.tree("nobody") is None


def test_a_tree_is_open_while_any_of_it_is(store: RunStore) -> None:
    """An ended root tells nothing of what it started."""
    root = running(store)
    step, child = child_of(store, root)
    store.steps.complete(step)
    store.finish(root)
    tree = store.tree(root)
    assert tree is not None
    assert (tree.open, tree.work) == (True, (Work.QUEUED,))
    store.start(child)
    store.finish(child)
    tree = store.tree(root)
    assert tree is not None
    assert (tree.open, tree.work) == (False, ())


def test_nothing_begins_under_a_cancelled_run(store: RunStore) -> None:
    """Each call that creates work is refused, below the cancelled run as well."""
    root = running(store)
    step, child = child_of(store, root)
    store.start(child)
    grandchild = running(store, parent=store.steps.start(child, "delegate"))
    store.cancel_tree(child, reason="enough")
    assert store.lineage_block(root) is None
    for run, reason in ((child, "cancelled"), (grandchild, "cancelled")):
        block = store.lineage_block(run)
        assert block is not None
        assert block.reason == reason
    for call in (
        lambda: store.create("again", restart_of=child),
        lambda: store.create("more", continuation_of=grandchild),
        lambda: store.steps.start(grandchild, "late"),
        lambda: store.approvals.ask(grandchild, "late?"),
        lambda: store.tasks.add(grandchild, "late"),
    ):
        with pytest.raises(WorkBlocked, match="the run was cancelled"):
            call()
    assert store.step_block(step) is None


def test_a_cancelled_ancestor_blocks_what_was_not_cancelled_with_it(home: Home, store: RunStore) -> None:
    """However a live run came to be under a cancelled one, nothing more begins there."""
    root = running(store)
    _, child = child_of(store, root)
    with home.behind() as transaction:
        values = {"status": "cancelled", "ended_at": LONG_AGO}
        transaction.change(sa.update(runs).where(runs.c.id == root).values(values))
    with pytest.raises(WorkBlocked, match="a run above it was cancelled"):
        store.start(child)
    assert home.prune().units.removed == 0


def test_a_completed_or_failed_ancestor_blocks_nothing(store: RunStore) -> None:
    """A child goes on when its parent has ended, and may start children of its own."""
    root = running(store)
    step, child = child_of(store, root)
    store.start(child)
    store.steps.complete(step)
    store.finish(root)
    assert store.lineage_block(child) is None
    store.create("grandchild", parent=store.steps.start(child, "delegate"))


def test_a_chain_is_as_long_as_retention_can_follow_and_no_longer(home: Home, store: RunStore) -> None:
    """The deepest run that may be created still goes with its tree; one below it is refused."""
    deepest = _chain(store, MAX_DEPTH)
    with pytest.raises(WorkBlocked, match="longer than 32 links"):
        child_of(store, deepest)
    store.cancel_tree(store.get(deepest).root, reason="done")
    assert home.verdict(deepest) == ["expired"]
    home.prune()
    assert home.rows(runs) == []


@pytest.mark.parametrize("kind", ["cycle", "missing parent", "too deep"])
def test_a_broken_lineage_is_closed_with_a_sentence(home: Home, store: RunStore, kind: str) -> None:
    """No work begins there, and retention keeps the tree and says why."""
    deepest = _chain(store, MAX_DEPTH if kind == "too deep" else 2)
    root = store.get(deepest).root
    middle = store.get(deepest).above
    if kind == "cycle":
        _relink(home, str(middle), parent_id=deepest)
    elif kind == "missing parent":
        _relink(home, str(middle), parent_id=new_id())
    else:
        other = running(store)
        links = {"parent_id": other, "parent_generation": 1, "parent_step": 1, "parent_attempt": 1}
        _relink(home, root, root_id=other, **links)  # type: ignore[arg-type]
    block = store.lineage_block(deepest)
    assert block is not None
    sentences = {
        "cycle": ("cycle", "the run is its own ancestor"),
        "missing parent": ("missing-parent", "a run above it is missing"),
        "too deep": ("too-deep", "the chain of runs above it would be longer than 32 links"),
    }
    assert (block.reason, block.sentence) == sentences[kind]
    with pytest.raises(WorkBlocked, match=block.sentence):
        store.steps.start(deepest, "late")
    tree = store.tree(root)
    assert tree is not None
    store.cancel_tree(deepest, reason="broken")
    assert statuses(home)[deepest] is RunStatus.CANCELLED


def test_a_missing_run_is_told(store: RunStore) -> None:
    """A run that retention took, or that never was, starts nothing."""
    for run in ("nobody", new_id()):
        block = store.lineage_block(run)
        assert block is not None
        assert block.reason == "missing-run"
        missing = store.step_block(Attempt(run, 1, 1, 1))
        assert missing == block


def test_an_attempt_of_another_time_or_place_creates_nothing(store: RunStore) -> None:
    """One that never was, one that is not the current one, and one of a past generation."""
    run = running(store)
    step = store.steps.start(run, "work")
    reasons = []
    for number, attempt in ((9, 1), (1, 7)):
        with pytest.raises(WorkBlocked) as refused:
            store.create("child", parent=Attempt(run, 1, number, attempt))
        reasons.append(refused.value.block.reason)
    store.steps.complete(step)
    store.continue_as_new(run)
    store.steps.start(run, "work")
    block = store.step_block(step)
    assert block is not None
    assert [*reasons, block.reason] == ["missing-step", "stale-attempt", "superseded-generation"]


def test_a_child_of_an_earlier_attempt_keeps_a_completed_parent(home: Home, store: RunStore) -> None:
    """The attempt that started it is over; the child is live, so the tree stays and the child can go on."""
    root = running(store)
    step, child = child_of(store, root)
    again = store.steps.fail(step, reason="slow", retry_in=timedelta(0))
    assert again is not None
    block = store.step_block(step)
    assert block is not None
    assert (block.reason, block.sentence) == ("step-ended", "the step is failed")
    store.steps.complete(store.steps.retry(again))
    store.finish(root)
    block = store.step_block(step)
    assert block is not None
    assert block.sentence == "the run is completed"
    assert home.verdict(root) == ["protected", "live-member", "queued"]
    store.start(child)
    store.finish(child)
    assert home.verdict(root) == ["expired"]


def test_a_restart_stays_in_the_tree_of_its_run(store: RunStore) -> None:
    """A child that restarts a run of another tree would tie the two together, so it is refused."""
    root, other = running(store), running(store)
    step = store.steps.start(root, "delegate")
    with pytest.raises(UsageError, match="its own tree"):
        store.create("again", parent=step, restart_of=other)
    assert store.create("again", restart_of=other).run.root == other


def test_cancelling_ends_all_that_is_open_and_nothing_else(home: Home, store: RunStore) -> None:
    """Steps, queued retries, tasks, questions, leases, runs; what had ended keeps state, reason and end."""
    root = running(store)
    step, child = child_of(store, root)
    _, failed = child_of(store, root)
    store.start(failed)
    store.finish(failed, RunStatus.FAILED, reason="no luck")
    retried = store.steps.start(root, "flaky")
    store.steps.fail(retried, reason="once", retry_in=timedelta(hours=1))
    first = store.tasks.add(root, "first")
    store.tasks.add(root, "then", needs=[first])
    question = store.approvals.ask(root, "go on?")
    store.wait(root)
    lease = store.leases.acquire(child, owner="w", keep_for=timedelta(hours=1))
    before = store.get(failed)
    assert store.cancel_tree(root, reason="stop: password=hunter2") == 2
    assert store.get(failed) == before
    assert {part.status for part in store.steps.of(root)} == {StepStatus.CANCELLED, StepStatus.FAILED}
    assert all(part.ended_at is not None for part in store.steps.of(root))
    assert set(store.tasks.of(root).values()) == {"cancelled"}
    assert store.approvals.status(question) == "cancelled"
    assert store.get(child).reason == "stop: password=[removed]"
    with pytest.raises(StaleEpoch):
        store.start(child, epoch=lease.epoch)
    assert [row["kind"] for row in home.rows(obligations) if row["closed_at"] is None] == []
    assert store.cancel_tree(root, reason="again") == 0
    assert store.get(child).reason == "stop: password=[removed]"
    assert step.run == root
    home.prune()
    assert set(home.counts()) == set()


def test_only_the_parent_of_what_is_cancelled_is_woken(store: RunStore) -> None:
    """Runs inside wait for what goes with them; they are ended, and not queued first."""
    root = running(store)
    _, child = child_of(store, root)
    store.start(child)
    child_of(store, child)
    store.wait(child)
    store.wait(root)
    assert store.cancel_tree(child, reason="enough") == 2
    assert store.get(root).status is RunStatus.QUEUED
    assert store.get(child).status is RunStatus.CANCELLED


def test_a_lease_has_one_owner_and_a_passed_epoch_writes_nothing(home: Home, store: RunStore) -> None:
    """A second owner waits for the end of the lease; then the first one's writes are refused, every one."""
    run = running(store)
    lease = store.leases.acquire(run, owner="one", keep_for=timedelta(minutes=1))
    with pytest.raises(LeaseHeld, match="another owner") as held:
        store.leases.acquire(run, owner="two", keep_for=timedelta(minutes=1))
    assert held.value.until > home.clock.now
    with pytest.raises(StaleEpoch, match="a lease holds the run"):
        store.park(run)
    lease = store.leases.renew(lease, keep_for=timedelta(minutes=2))
    step = store.steps.start(run, "work", epoch=lease.epoch)
    home.clock.now += 180 * SECOND
    taken = store.leases.acquire(run, owner="two", keep_for=timedelta(minutes=1))
    assert taken.epoch == lease.epoch + 1
    for late in (
        lambda: store.steps.complete(step, epoch=lease.epoch),
        lambda: store.steps.fail(step, reason="x", epoch=lease.epoch),
        lambda: store.steps.start(run, "more", epoch=lease.epoch),
        lambda: store.create("child", parent=step, epoch=lease.epoch),
        lambda: store.tasks.add(run, "task", epoch=lease.epoch),
        lambda: store.approvals.ask(run, "may I?", epoch=lease.epoch),
        lambda: store.park(run, epoch=lease.epoch),
        lambda: store.finish(run, epoch=lease.epoch),
        lambda: store.continue_as_new(run, epoch=lease.epoch),
        lambda: store.leases.renew(lease, keep_for=timedelta(minutes=1)),
        lambda: store.leases.release(lease),
    ):
        with pytest.raises(StaleEpoch, match="another owner has the run"):
            late()
    store.steps.complete(step, epoch=taken.epoch)
    store.leases.release(taken)
    store.finish(run)
    with pytest.raises(WrongState, match="needs no owner"):
        store.leases.acquire(run, owner="three", keep_for=timedelta(minutes=1))


@pytest.mark.parametrize("rest", ["park", "wait", "finish"])
def test_a_run_that_rests_or_ends_lets_go_of_its_lease(home: Home, store: RunStore, rest: str) -> None:
    """Nothing protects for ever: the lease ends in the same transaction."""
    run = running(store)
    lease = store.leases.acquire(run, owner="one", keep_for=timedelta(days=400))
    getattr(store, rest)(run, epoch=lease.epoch)
    assert [row["released_at"] is None for row in home.rows(leases)] == [False]
    assert Work.LEASE not in store.tree(run).work  # type: ignore[union-attr]


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("many", "below"), [(50_000, 0), (5_000, 2)])
def test_a_tree_of_50000_runs_is_cancelled_in_one_transaction(
    home: Home, store: RunStore, many: int, below: int
) -> None:
    """A statement a kind, no list of ids, and memory that does not grow with the tree or a part of it."""
    root = _chain(store, below)
    step = store.steps.start(root, "fan out")
    fan_out(home, step, store.get(root).root, many)
    beside = running(store)
    seen: list[Any] = []
    sa.event.listen(store._database._engine, "before_cursor_execute", lambda *call: seen.append(call[3]))
    tracemalloc.start()
    try:
        assert store.cancel_tree(root, reason="enough") == many + 1
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < ENOUGH
    assert len(seen) < 40
    assert all(len(parameters) < 20 for parameters in seen)
    told = statuses(home)
    assert told.pop(beside) is RunStatus.RUNNING
    assert list(told.values()).count(RunStatus.RUNNING) == below
    tree = store.tree(root)
    assert tree is not None
    assert (len(tree.runs), tree.open) == (many + 1, False)
    assert {run.status for run in tree.runs} == {RunStatus.CANCELLED}


def test_an_ended_tree_of_a_restart_goes_whole(home: Home, store: RunStore) -> None:
    """A restart that ends later keeps the tree until it is old enough itself."""
    first = ended_run(store)
    again = store.create("again", restart_of=first).run.id
    assert home.verdict(first) == ["protected", "live-member", "queued"]
    store.start(again)
    store.finish(again)
    assert home.prune().units.removed == 1
    assert set(home.counts()) == set()
