from __future__ import annotations

from datetime import timedelta

import pytest
import sqlalchemy as sa

from afterrun.runs import (
    AttemptStatus,
    RunNotFound,
    RunStatus,
    RunStore,
    StaleEpoch,
    StepStatus,
    WorkBlocked,
    WrongState,
)
from afterrun.runs.database import Make, Transaction
from afterrun.runs.direct import Direct
from afterrun.runs.schema import attempts, obligations, runs, steps
from runs.runs_kit import Home, child_of, running


def test_a_recorded_step_is_as_one_that_was_begun_and_completed(home: Home, store: RunStore) -> None:
    """The same rows, but for the times; nothing is open, and its output is exact."""
    run = running(store)
    store.steps.complete(store.steps.start(run, "think"), output=b"out")
    told = store.steps.record(run, "think", output=b"out")
    first, second = store.steps.of(run)
    assert told == second
    assert (second.status, second.attempt_status) == (StepStatus.COMPLETED, AttemptStatus.COMPLETED)
    assert (first.number, second.number) == (1, 2)
    assert store.steps.output_of(second) == b"out"
    times = {"queued_at", "started_at", "ended_at"}
    for table, number in ((steps, "number"), (attempts, "step")):
        told_rows = [
            {name: row[name] for name in row if name not in times | {number}} for row in home.rows(table)
        ]
        assert told_rows[0] == told_rows[1]
    assert not [row for row in home.rows(obligations) if row["closed_at"] is None]
    store.finish(run)


def test_a_step_without_output_is_recorded_without_content(store: RunStore) -> None:
    """There is none, which is not the same as empty."""
    run = running(store)
    assert store.steps.output_of(store.steps.record(run, "pure")) is None
    assert store.steps.output_of(store.steps.record(run, "pure", output=b"")) == b""


def test_steps_are_numbered_within_their_generation(store: RunStore) -> None:
    """After continue-as-new they begin with one again."""
    run = running(store)
    store.steps.record(run, "a")
    assert store.steps.record(run, "b").number == 2
    store.continue_as_new(run)
    again = store.steps.record(run, "c")
    assert (again.generation, again.number) == (2, 1)


def test_a_step_is_recorded_by_the_owner_only(store: RunStore) -> None:
    """With the epoch of the lease there is, and none while there is none."""
    run = running(store)
    with pytest.raises(StaleEpoch):
        store.steps.record(run, "think", epoch=1)
    lease = store.leases.acquire(run, owner="w", keep_for=timedelta(hours=1))
    for epoch in (None, lease.epoch + 1):
        with pytest.raises(StaleEpoch):
            store.steps.record(run, "think", epoch=epoch)
    assert store.steps.record(run, "think", epoch=lease.epoch).number == 1
    store.leases.release(lease)
    with pytest.raises(StaleEpoch):
        store.steps.record(run, "think", epoch=lease.epoch)


def test_a_step_is_recorded_where_work_may_begin_only(home: Home, store: RunStore) -> None:
    """Not of a run that is missing, does not run, or hangs below a cancelled one; nothing is written then."""
    with pytest.raises(RunNotFound):
        store.steps.record("no such run", "think")
    queued = store.create("agent").run.id
    with pytest.raises(WrongState, match="queued"):
        store.steps.record(queued, "think")
    root = running(store)
    _, child = child_of(store, root)
    store.start(child)
    grandchild = running(store, parent=store.steps.start(child, "delegate"))
    with home.behind() as transaction:
        cancelled = {"status": RunStatus.CANCELLED.value, "ended_at": 1}
        transaction.change(sa.update(runs).where(runs.c.id == child), cancelled)
    before = home.counts()
    with pytest.raises(WorkBlocked) as refused:
        store.steps.record(grandchild, "think", output=b"x")
    assert refused.value.block.reason == "cancelled-ancestor"
    assert home.counts() == before


def test_a_recorded_step_takes_few_statements(
    home: Home, store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What its speed comes from: the lock, one look, and three rows."""
    run = running(store)
    seen: list[str] = []
    written = Transaction._written

    def noted(transaction: Transaction, make: Make) -> Direct:
        seen.append(make.__name__)
        return written(transaction, make)

    monkeypatch.setattr(Transaction, "_written", noted)
    others: list[str] = []
    sa.event.listen(store._database._engine, "before_cursor_execute", lambda *call: others.append(call[2]))
    store.steps.record(run, "think", output=b"out")
    expected = {
        "sqlite": ["_top", "_state", "insert", "_insert_step", "_insert_attempt"],
        "postgresql": ["_top", "_state", "_insert_all"],
    }
    assert seen == expected[home.name]
    assert others == []
