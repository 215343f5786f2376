"""A scheduler over a real store, in this process: what each ending of a sweep comes to in its host."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from afterrun import Budget, Policy, Retention, StoreLocked, SweepOptions
from afterrun.core.events import BatchDone, Event, PageRead
from afterrun.core.times import SECOND
from afterrun.hosting import HostedStore, Opening, scheduled
from afterrun.schedule import IdleGate, Outcome, Reason, Request, Scheduler, Timing
from afterrun.state import StateDirectory, SweepLock
from cli.kit import change, count, make_store
from fakes import NOW
from schedule.schedule_kit import DAY, FakeTime

MONTH = Policy(keep_for=timedelta(days=30))
PATIENCE = 30.0
RUNS = 60
EXPIRED = RUNS - 29
SETTLED = 2.0
"""Seconds within which a host that is told to end has settled its sweep."""


class HostedTest:
    """A store with its scheduler, and what its host was told."""

    def __init__(self, folder: Path) -> None:
        self.store = folder / "app.sqlite"
        self.state = folder / "state"
        self.gate = IdleGate()
        self.told: list[Outcome] = []
        self.options = SweepOptions()
        self.opening = Opening(state=self.state, always=True)
        self.timing = Timing()

    def make(self) -> Scheduler:
        """Prepare the scheduler."""
        return scheduled(
            str(self.store),
            MONTH,
            gate=self.gate,
            timing=self.timing,
            options=self.options,
            opening=self.opening,
            observer=self.told.append,
        )

    def sweep_once(self) -> Outcome:
        """Start the host, wait for its first sweep, and shut it down."""
        with self.make() as scheduler:
            ended = scheduler.wait(lambda standing: bool(standing.last), PATIENCE)
        assert ended.last == self.told[-1].ended
        return self.told[-1]

    def left(self) -> int:
        """Return how many expired runs are left."""
        return count(self.store) - 1 - (RUNS - EXPIRED)

    def endings(self) -> list[str]:
        """Return how the sweeps on record ended."""
        with closing(Retention(str(self.store), state=self.state, writable=False)) as retention:
            return [record.ended for record in retention.history()]


@pytest.fixture
def hosted(tmp_path: Path) -> HostedTest:
    """Give a host with a store in which some runs are expired."""
    hosted = HostedTest(tmp_path)
    make_store(hosted.store, RUNS)
    return hosted


@contextmanager
def write_locked(store: Path) -> Iterator[None]:
    """Hold the database's write lock, as an engine does that is in the middle of a transaction."""
    with closing(sqlite3.connect(store, isolation_level=None, check_same_thread=False)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.execute("ROLLBACK")


def test_a_completed_sweep_is_remembered(hosted: HostedTest) -> None:
    """Its report comes with the outcome, and another host finds when it was."""
    outcome = hosted.sweep_once()
    assert (outcome.ended, outcome.removed, outcome.backlog) == ("completed", EXPIRED, 0)
    assert outcome.report is not None
    assert outcome.report.units.removed == EXPIRED
    assert hosted.left() == 0
    memory = HostedStore(str(hosted.store), MONTH, hosted.options, hosted.opening)
    completed = memory.last_completed()
    assert completed is not None
    assert 0 <= time.time_ns() // 1_000 - completed < 60 * SECOND
    with hosted.make() as scheduler:
        standing = scheduler.wait(lambda standing: standing.state == "waiting", PATIENCE)
    assert (standing.sweeps, standing.completed_at) == (0, completed)


def test_a_manual_apply_is_no_completed_sweep(hosted: HostedTest) -> None:
    """A prune may have had another policy, or a list of runs: the daily sweep is due all the same."""
    with Retention(str(hosted.store), state=hosted.state) as retention:
        assert retention.prune(MONTH).ended == "completed"
    assert hosted.sweep_once().ended == "completed"


def test_a_completed_sweep_outlives_its_record(hosted: HostedTest) -> None:
    """Records are bounded, and a busy store may fill them within a day."""
    hosted.sweep_once()
    state = StateDirectory(hosted.state).load(f"sqlite:{hosted.store.resolve()}")
    completed = state.last_completed
    for number in range(300):
        state.begin("prune", now=NOW + number, fingerprint="f")
    assert all(record.command == "prune" for record in state.records)
    assert StateDirectory(hosted.state).load(f"sqlite:{hosted.store.resolve()}").last_completed == completed


def test_the_first_sweep_asks_and_is_approved(hosted: HostedTest) -> None:
    """Nothing goes; the message names the fingerprint, and who gives it to the next start is obeyed."""
    hosted.opening = replace(hosted.opening, always=False)
    outcome = hosted.sweep_once()
    assert (outcome.ended, outcome.removed, hosted.left()) == ("guard", 0, EXPIRED)
    assert outcome.report is not None
    assert outcome.report.fingerprint in outcome.message
    hosted.opening = replace(hosted.opening, approve=outcome.report.fingerprint)
    assert hosted.sweep_once().ended == "completed"
    assert hosted.left() == 0


def test_a_store_that_is_not_there_yet_is_tried_again(hosted: HostedTest) -> None:
    """The host may start before its engine has made the store."""
    made = hosted.store.with_name("later")
    hosted.store.rename(made)
    hosted.timing = Timing(retry=timedelta(milliseconds=50))
    with hosted.make() as scheduler:
        failed = scheduler.wait(lambda standing: standing.last == "failed", PATIENCE)
        assert failed.kind == "StoreUnreadable"
        made.rename(hosted.store)
        scheduler.wait(lambda standing: standing.last == "completed", PATIENCE)
    assert hosted.left() == 0
    assert "there is no file" in hosted.told[0].message


def test_a_store_that_another_sweep_holds_is_locked(hosted: HostedTest) -> None:
    """Nothing is done, and the host is told so."""
    with SweepLock(hosted.store.resolve()):
        outcome = hosted.sweep_once()
    assert (outcome.ended, outcome.removed) == ("locked", 0)
    assert hosted.left() == EXPIRED


def test_a_sweep_that_another_process_has_just_completed_is_not_done_again(hosted: HostedTest) -> None:
    """Nor one that it completed between our look at the record and the sweep lock."""
    store = HostedStore(str(hosted.store), MONTH, hosted.options, hosted.opening)
    request = Request(
        reasons=(Reason.INTERVAL,),
        one_at_a_time=False,
        gate=lambda: True,
        halt=lambda: False,
        pause=lambda _seconds: None,
    )
    assert store.run(request).ended == "completed"
    with pytest.raises(StoreLocked, match="just been completed"):
        store.run(request)
    completed = store.last_completed()
    assert completed is not None
    assert store.run(replace(request, since=completed)).ended == "completed"
    assert hosted.endings() == ["completed", "completed"]


def test_a_store_that_may_not_be_written_to_is_refused(hosted: HostedTest) -> None:
    """Its word is that of the refusal, so that a person can tell what to do."""
    change(hosted.store, "UPDATE workflow_status SET status = 'NEWFANGLED' WHERE workflow_uuid = 'run-3'")
    outcome = hosted.sweep_once()
    assert (outcome.ended, outcome.kind) == ("refused", "unknown-status")


@pytest.mark.parametrize("damage", ["damaged", "in the way"])
def test_a_memory_that_is_broken_fails_no_host(hosted: HostedTest, damage: str) -> None:
    """A file that makes no sense, or a folder that cannot be made: one diagnostic, and nothing goes."""
    if damage == "damaged":
        hosted.state.mkdir()
        StateDirectory(hosted.state).file_of(f"sqlite:{hosted.store.resolve()}").write_text("{")
    else:
        hosted.state.write_text("no folder")
    outcome = hosted.sweep_once()
    assert (outcome.ended, outcome.kind) == ("failed", "StateError")
    assert hosted.left() == EXPIRED


def test_a_budget_is_gone_on_with(hosted: HostedTest) -> None:
    """A sweep that ran out of it is no completed one: the next goes on until the store is swept."""
    hosted.options = SweepOptions(budget=Budget(units=10))
    hosted.timing = Timing(retry=timedelta(milliseconds=50))
    with hosted.make() as scheduler:
        scheduler.wait(lambda standing: standing.last == "completed", PATIENCE)
    assert [outcome.removed for outcome in hosted.told] == [10, 10, 10, EXPIRED - 30]


def test_the_gate_of_the_options_is_asked_as_well(hosted: HostedTest) -> None:
    """A host may have one more word in it."""
    hosted.options = SweepOptions(gate=lambda: False)
    outcome = hosted.sweep_once()
    assert (outcome.ended, outcome.removed) == ("interrupted", 0)


def test_words_that_make_no_sense_are_told_at_the_first_sweep(hosted: HostedTest) -> None:
    """They fail no host, and the host can see them."""
    hosted.opening = replace(hosted.opening, profile="dbo")
    outcome = hosted.sweep_once()
    assert outcome.ended == "failed"
    assert "did you mean" in outcome.message


def test_one_at_a_time_is_one_unit_a_batch(hosted: HostedTest) -> None:
    """Whatever the options say."""
    batches: list[int] = []

    def note(event: Event) -> None:
        if isinstance(event, BatchDone):
            batches.append(event.units)

    store = HostedStore(str(hosted.store), MONTH, SweepOptions(observer=note, batch_units=20), hosted.opening)
    request = Request(
        reasons=(Reason.INTERVAL,),
        one_at_a_time=True,
        gate=lambda: len(batches) < 5,
        halt=lambda: False,
        pause=lambda _seconds: None,
    )
    assert store.run(request).removed == 5
    assert batches == [1] * 5


def test_since_when_a_first_sweep_is_due_is_noted_once(hosted: HostedTest) -> None:
    """By the process that finds it so; a sweep that holds the store keeps it from being noted just now."""
    store = HostedStore(str(hosted.store), MONTH, hosted.options, hosted.opening)
    assert (store.last_completed(), store.due_since()) == (None, None)
    with SweepLock(hosted.store.resolve()), pytest.raises(StoreLocked):
        store.keep_due_since(5)
    store.keep_due_since(NOW)
    store.keep_due_since(NOW + 7)
    assert HostedStore(str(hosted.store), MONTH, hosted.options, hosted.opening).due_since() == NOW


def test_reading_the_memory_leaves_the_store_alone(hosted: HostedTest) -> None:
    """A busy host is asked about its memory without a write, a lock or an open file that stays."""
    hosted.options = SweepOptions(gate=lambda: False)
    time_of_day = FakeTime(time.time_ns() // 1_000)
    store = HostedStore(str(hosted.store), MONTH, hosted.options, hosted.opening)
    scheduler = Scheduler(
        store.run, gate=hosted.gate, memory=store, clock=time_of_day, observer=hosted.told.append
    )
    with hosted.gate.busy("run"):
        scheduler.request(Reason.START_UP)
        assert scheduler._turn() == 300.0
        before = hosted.store.stat()
        time_of_day.seconds += DAY
        assert scheduler._turn() == 300.0
        assert hosted.store.stat().st_mtime_ns == before.st_mtime_ns
        with write_locked(hosted.store):
            assert scheduler._turn() == 300.0


# ---------------------------------------------------------------------- shutdown, wherever a sweep stands


def test_shutdown_ends_the_pause_after_a_batch(hosted: HostedTest) -> None:
    """However long that one would be."""
    batch = threading.Event()

    def note(event: Event) -> None:
        if isinstance(event, BatchDone):
            batch.set()

    hosted.options = SweepOptions(batch_units=1, rest=1e6, observer=note)
    with hosted.make() as scheduler:
        assert batch.wait(PATIENCE)
        began = time.monotonic()
        assert scheduler.close(PATIENCE)
        assert time.monotonic() - began < SETTLED
    assert (hosted.told[0].ended, hosted.told[0].removed, hosted.left()) == ("interrupted", 1, EXPIRED - 1)


def test_shutdown_ends_a_wait_for_the_database(hosted: HostedTest) -> None:
    """An engine that holds its lock holds up no host that ends, and nothing counts as failed."""
    page = threading.Event()

    def note(event: Event) -> None:
        if isinstance(event, PageRead):
            page.set()

    hosted.options = SweepOptions(observer=note)
    with write_locked(hosted.store), hosted.make() as scheduler:
        assert page.wait(PATIENCE)
        began = time.monotonic()
        assert scheduler.close(PATIENCE)
        assert time.monotonic() - began < SETTLED
    assert (hosted.told[0].ended, hosted.left()) == ("interrupted", EXPIRED)
    assert hosted.endings() == ["interrupted"]


class HaltedAfter:
    """Says that the host ends, from a certain question on."""

    def __init__(self, questions: int) -> None:
        self.left = questions

    def __call__(self) -> bool:
        self.left -= 1
        return self.left < 0

    def gate(self) -> bool:
        """Let a sweep go on until then."""
        return self.left >= 0


def outcomes_of(hosted: HostedTest, run: Callable[[Retention, SweepOptions], str]) -> list[str]:
    """Let the host end at each question of a sweep in turn, until it asks no more."""
    seen = []
    for questions in range(2_000):
        halt = HaltedAfter(questions)
        with Retention(str(hosted.store), state=hosted.state) as retention:
            seen.append(run(retention, SweepOptions(halt=halt, gate=halt.gate)))
            assert list(retention.verify()) == []
        if halt.left >= 0:
            return seen
    raise AssertionError("it asks for ever")


@pytest.mark.parametrize("always", [False, True])
def test_shutdown_at_any_question_ends_the_sweep_interrupted(hosted: HostedTest, always: bool) -> None:
    """While it plans for the guard as well as in a batch: nothing fails, and nothing is half removed."""

    def sweep(retention: Retention, options: SweepOptions) -> str:
        rows = count(hosted.store)
        report = retention.sweep(MONTH, options=options, always=always)
        assert rows - count(hosted.store) == report.units.removed
        return report.ended

    seen = outcomes_of(hosted, sweep)
    last = "completed" if always else "guard"
    assert set(seen) == {"interrupted", last}
    assert seen[-1] == last
    assert len(seen) > 10
    assert hosted.endings()[-len(seen[-190:]) :] == seen[-190:]


def test_a_batch_that_is_given_up_is_rolled_back(hosted: HostedTest) -> None:
    """A unit so large that its removal takes long is not waited for."""
    rows = [("run-59", number) for number in range(2, 60_000)]
    with closing(sqlite3.connect(hosted.store)) as connection, connection:
        connection.executemany(
            "INSERT INTO operation_outputs (workflow_uuid, function_id, output) VALUES (?, ?, 'x')", rows
        )
    before = count(hosted.store, "operation_outputs")
    with Retention(str(hosted.store), state=hosted.state) as retention:
        deleting = threading.Event()
        change = retention.store.dialect.change

        def watched(statement: sa.Executable, parameters: Mapping[str, object]) -> int:
            deleting.set()
            return change(statement, parameters)

        retention.store.dialect.change = watched  # type: ignore[method-assign]
        report = retention.sweep(MONTH, options=SweepOptions(halt=deleting.is_set), always=True)
    assert (report.ended, report.units.removed, report.batches) == ("interrupted", 0, 0)
    assert count(hosted.store, "operation_outputs") == before
