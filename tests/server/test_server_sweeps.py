from __future__ import annotations

import os
import time
from datetime import timedelta
from pathlib import Path

import pytest

from afterrun import Budget, Policy, Retention, SweepOptions
from afterrun.core.times import DAY, micros
from afterrun.runs import RunNotFound, RunStatus, RunStore
from afterrun.runs.calls import Call
from afterrun.runs.words import StepKind
from afterrun.schedule import Reason, Timing
from server.server_kit import Hosted, ended, eventually, lines, output, start

KEPT = Policy(keep_for=timedelta(days=1))
OLD = 25
"""Expired runs of a store whose sweep takes a while, one unit after another."""

ORDINARY = 1_000 if os.environ.get("AFTERRUN_SOAK") == "1" else 5
"""Trees of three runs, all of which end as usual."""

SLOWLY = SweepOptions(batch_units=1)


@pytest.fixture
def old(location: str, store: RunStore) -> list[str]:
    """Give runs that ended two days ago, the last of which somebody has pinned."""
    now = store.get(start(store, "nobody's")).created_at.timestamp()
    moment = int(now * 1_000_000) - 2 * DAY
    with RunStore.open(location, clock=lambda: moment) as past:
        runs = []
        for number in range(OLD):
            run = past.create("import", content=str(number).encode()).run.id
            past.start(run)
            past.finish(run, output=b"out", deliver_to="somebody" if number == OLD - 1 else None)
            runs.append(run)
    return runs


def _gone(store: RunStore, run: str) -> bool:
    try:
        store.get(run)
    except RunNotFound:
        return True
    return False


def test_a_server_sweeps_when_it_has_started(
    location: str, store: RunStore, old: list[str], tmp_path: Path
) -> None:
    """What has expired goes by itself, once; what is protected stays; an interval passes until the next."""
    with Hosted(location, tmp_path, policy=KEPT) as server:
        eventually(lambda: server.sweeps.last == "completed")
        assert [run for run in old if not _gone(store, run)] == old[-1:]
        server.engine._upkeep.request(Reason.MAINTENANCE)
        assert (server.sweeps.state, server.sweeps.sweeps) == ("waiting", 1)


def test_the_first_sweep_of_a_store_that_holds_runs_asks(
    location: str, store: RunStore, old: list[str], tmp_path: Path
) -> None:
    """Nothing goes before somebody has approved it, though a server holds the store."""
    with Hosted(location, tmp_path, policy=KEPT, approve=False) as server:
        eventually(lambda: server.sweeps.last == "guard")
        assert not [run for run in old if _gone(store, run)]
        asked = server.engine.sweep(KEPT, budget=Budget(), approve=None)
        assert (asked.ended, asked.removed) == ("guard", 0)
        done = server.engine.sweep(KEPT, budget=Budget(), approve=asked.fingerprint)
        assert (done.ended, done.units.removed) == ("completed", OLD - 1)


def test_a_store_that_its_server_made_is_swept_without_asking(tmp_path: Path) -> None:
    """Its first sweep finds nothing, and is on record from then on."""
    location = str(tmp_path / "new.sqlite")
    with Hosted(location, tmp_path, policy=KEPT, approve=False) as server:
        eventually(lambda: server.sweeps.state == "waiting")
        moment = micros(timedelta(days=2))
        with RunStore.open(location, clock=lambda: time.time_ns() // 1_000 - moment) as past:
            run = past.create("import").run.id
            past.start(run)
            past.finish(run)
            done = server.engine.sweep(KEPT, budget=Budget(), approve=None)
            assert (done.ended, done.units.removed) == ("completed", 1)


def test_a_server_sweeps_again_after_an_interval(
    location: str, store: RunStore, old: list[str], tmp_path: Path
) -> None:
    """What expires later goes later, without a start."""
    timing = Timing(interval=timedelta(milliseconds=50))
    with Hosted(location, tmp_path, policy=KEPT, timing=timing) as server:
        eventually(lambda: server.sweeps.last == "completed")
        [result] = store.results.due("somebody")
        store.results.acknowledge(result)
        eventually(lambda: _gone(store, old[-1]))
        assert server.sweeps.sweeps > 1


def test_requests_join_while_runs_are_executed_and_one_sweep_answers_them(
    location: str, store: RunStore, old: list[str], tmp_path: Path
) -> None:
    """The start, a runner's end and a command ask; nothing is swept before the last run has ended."""
    run = start(store, "three_steps", str(tmp_path))
    with Hosted(location, tmp_path, policy=KEPT) as server:
        eventually(lambda: "second" in lines(tmp_path))
        [runner] = server.runners
        runner.kill()
        eventually(lambda: lines(tmp_path).count("second") == 2)
        server.engine.prune(KEPT, budget=Budget(units=1), backup=None)
        standing = server.sweeps
        assert (standing.state, standing.sweeps) == ("due", 0)
        assert set(standing.reasons) == {Reason.START_UP, Reason.RUNNER_EXIT, Reason.MAINTENANCE}
        assert sum(_gone(store, one) for one in old) == 1
        (tmp_path / "open-second").touch()
        assert ended(store, run).status is RunStatus.COMPLETED
        eventually(lambda: server.sweeps.last == "completed")
        assert server.sweeps.sweeps == 1


def test_work_that_comes_interrupts_a_sweep_which_goes_on_later(
    location: str, store: RunStore, old: list[str], tmp_path: Path
) -> None:
    """Between two units; the next idle moment goes on where it stopped."""
    with Hosted(location, tmp_path, policy=KEPT, sweeping=SLOWLY) as server:
        eventually(lambda: _gone(store, old[0]))
        run = start(store, "three_steps", str(tmp_path))
        server.engine.nudge()
        eventually(lambda: server.sweeps.last == "interrupted")
        left = [one for one in old if not _gone(store, one)]
        assert 1 < len(left) < OLD
        (tmp_path / "open-second").touch()
        assert ended(store, run).status is RunStatus.COMPLETED
        eventually(lambda: server.sweeps.last == "completed")
        assert [one for one in old if not _gone(store, one)] == old[-1:]


def test_a_server_that_stops_settles_its_sweep_before_it_lets_go_of_the_store(
    location: str, store: RunStore, old: list[str], tmp_path: Path
) -> None:
    """Nothing is half removed, and another server may have the store at once."""
    with Hosted(location, tmp_path, policy=KEPT, sweeping=SLOWLY) as server:
        eventually(lambda: _gone(store, old[0]))
        assert store.serving.held_until() is not None
        server.stop()
        assert store.serving.held_until() is None
    assert 1 < sum(not _gone(store, one) for one in old) < OLD
    with Retention(location, profile="native", writable=False, state=tmp_path / "state") as retention:
        assert [fault for fault in retention.verify() if not fault.startswith("blobs:")] == []


def test_a_retained_run_resumes_after_sweeps_and_an_expired_one_is_not_found(
    location: str, store: RunStore, old: list[str], tmp_path: Path
) -> None:
    """A run that waits for days is as it was; of one that has gone nobody knows anything."""
    moment = int(store.get(start(store, "nobody's")).created_at.timestamp() * 1_000_000) - 3 * DAY
    with RunStore.open(location, clock=lambda: moment) as past:
        waiting = start(past, "listen", None)
        past.claims.take(owner="past", names=["listen"], keep_for=timedelta(hours=1))
        past.calls.begin(Call(run=waiting, epoch=1, number=1, name="receive", kind=StepKind.RECEIVE))
        past.waits.wait(waiting, epoch=1)
    with Hosted(location, tmp_path, policy=KEPT) as server:
        eventually(lambda: server.sweeps.last == "completed")
        with pytest.raises(RunNotFound):
            store.get(old[0])
        with pytest.raises(RunNotFound):
            store.output_of(old[0])
        assert [entry.name for entry in store.history.page(waiting)] == ["receive"]
        store.messages.send(waiting, b'"at last"')
        assert output(store, waiting) == "at last"


@pytest.mark.slow
@pytest.mark.timeout(1_800)
def test_what_a_server_does_ordinarily_protects_nothing(
    location: str, store: RunStore, tmp_path: Path
) -> None:
    """All bookkeeping of runs that ended is settled: they go once they are old enough."""
    runs = [start(store, "family", [[1], [2, 3]]) for _ in range(ORDINARY)]
    runs += [start(store, "loop", 2), start(store, "nap", 0.01), start(store, "careful")]
    with Hosted(location, tmp_path, runners=2) as server:
        assert all(ended(store, run).status is RunStatus.COMPLETED for run in runs)
        soon = Policy(keep_for=timedelta(microseconds=micros(timedelta(milliseconds=1))), grace=timedelta(0))
        report = server.engine.plan(soon)
    assert (report.units.expired, dict(report.units.protected)) == (len(runs), {})
