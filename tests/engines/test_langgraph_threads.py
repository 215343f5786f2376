"""Whole threads of a real store, where the policy asks for them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from afterrun import Policy
from afterrun.stores.sql.backups import BackupOrder

from .langgraph_fixtures import Untouched, _checkpoint_database, kind, made, untouched
from .langgraph_stores import DONE, EARLY, ODD, PENDING, Store, content, counts, run_langgraph, threads
from .test_langgraph_cuts import without_names
from .test_langgraph_generations import opened, prune

__all__ = ["_checkpoint_database", "kind", "made", "untouched"]

pytestmark = pytest.mark.engine

OLD = Policy(keep_for=timedelta(days=30))


@pytest.mark.parametrize("offline", [True, False])
def test_threads_that_ended_go_whole_and_no_other(made: Store, *, offline: bool) -> None:
    """What waits, failed, was killed, is scheduled or is being written to stays, row by row."""
    stays = threads(made) - DONE - {ODD}
    assert PENDING | {EARLY} == stays
    kept, before = content(made, stays), counts(made)
    with opened(made) as retention:
        plan = retention.plan(OLD)
    report = prune(made, OLD, offline=offline)
    after = counts(made)
    assert {name: before[name] - after[name] for name in before} == dict(report.rows) == dict(plan.rows)
    assert report.units.removed == plan.units.expired == len(DONE) + 1
    assert threads(made) == stays
    assert content(made, stays) == kept
    assert prune(made, OLD).units.removed == 0


def test_what_stayed_goes_on_as_before(made: Store, untouched: Untouched) -> None:
    """Every thread that waited resumes as if nothing had been removed, and none that went is missed."""
    prune(made, OLD)
    told = run_langgraph("proceed", made)
    waiting = {name for name in told if name.split()[0] in PENDING}
    assert len(waiting) == 11
    for name in waiting:
        assert told[name] == untouched.proceeded[name]


def test_a_turn_of_today_keeps_its_thread(made: Store) -> None:
    """A thread's age is that of its newest checkpoint."""
    run_langgraph("turn", made, "chat-0")
    prune(made, OLD)
    assert "chat-0" in threads(made)
    assert "chat-1" not in threads(made)


def test_every_thread_is_counted_once(made: Store) -> None:
    """The units of a plan, all together, are the threads; each that stays says why."""
    with opened(made) as retention:
        plan = retention.plan(OLD)
        young = retention.plan(Policy(keep_for=timedelta(days=500)))
    assert plan.units.members == len(threads(made)) == young.units.members
    assert plan.units.protected == {"resumable": 10, "queued-work": 1}
    assert plan.units.blocked == {"unknown-end-time": 1}
    assert young.units.recent == plan.units.expired


@pytest.mark.parametrize(
    ("thread", "word"),
    [
        ("waiting-0", "answer"),
        ("fanning-0", "failed"),
        ("paused-0", "branch:to:second"),
        ("joining-0", "join:left+right:meet"),
        ("sent-0", "__pregel_tasks"),
        ("chat-scheduled", "scheduled"),
    ],
)
def test_explain_says_what_a_thread_waits_for(made: Store, thread: str, word: str) -> None:
    """The reason names what was seen."""
    with opened(made) as retention:
        told = retention.explain(thread, OLD)
    assert [reason.name for reason in told.reasons] == ["resumable"]
    assert word in told.reasons[0].detail


def test_the_newest_threads_are_kept_by_number(made: Store) -> None:
    """All threads are one group: the newest that ended stay."""
    report = prune(made, Policy(keep_last=5))
    assert report.units.removed == len(DONE) + 1 - 5


def test_both_kinds_go_in_one_pass(made: Store) -> None:
    """Threads go whole, and of those that stay their superseded checkpoints; each row counts once."""
    policy = Policy(keep_for=timedelta(days=30), generations=Policy(keep_for=timedelta(days=30)))
    before = counts(made)
    with opened(made) as retention:
        plan = retention.plan(policy)
    report = prune(made, policy)
    after = counts(made)
    assert {name: before[name] - after[name] for name in before} == dict(report.rows) == dict(plan.rows)
    assert report.units.removed == len(DONE) + 1
    assert report.others["generation"].removed > 0
    assert without_names(run_langgraph("read", made)).keys() == threads(made)


def test_inspect_counts_threads(made: Store) -> None:
    """An inspection tells of threads by state and age."""
    with opened(made) as retention:
        found = retention.inspect()
    assert found.runs == {"live": len(PENDING), "finished": len(DONE) + 2, "unknown": 0}
    assert found.stuck.count == 10


def test_threads_come_back_from_a_backup(made: Store) -> None:
    """What a prune with a backup removed is put back row by row, one thread or all of them."""
    before = content(made, threads(made))
    file = made.state.parent / "removed.backup"
    with opened(made) as retention:
        report = retention.prune(OLD, backup=BackupOrder(path=file))
        assert report.units.removed == len(DONE) + 1
        retention.restore(file, "nested-0")
        assert content(made, {"nested-0"}) == {
            table: [row for row in rows if row.startswith("('nested-0'")] for table, rows in before.items()
        }
        retention.restore(file)
    assert content(made, threads(made)) == before
