"""When a sweep starts: each rule alone, on a clock that stands until it is moved."""

from __future__ import annotations

import logging
from datetime import timedelta

import pytest

from afterrun import Refused, StoreLocked, StoreUnreadable, UsageError
from afterrun.core.errors import MESSAGE_LIMIT, StoreFailure
from afterrun.core.times import SECOND
from afterrun.schedule import Outcome, Reason, Request, Scheduler, Timing, Why, log_outcome
from afterrun.schedule.agenda import BREATH, LONGEST_WAIT
from schedule.schedule_kit import (
    COMPLETED,
    DAY,
    HOUR,
    INTERRUPTED,
    MINUTE,
    SLOW,
    Bench,
    FakeMemory,
    FakeTime,
    restarted,
)

OFF = Timing(interval=timedelta(0))
EVENTS = [reason for reason in Reason if reason not in (Reason.INTERVAL, Reason.MANUAL)]


@pytest.fixture
def bench() -> Bench:
    """Give a host that has just been started."""
    return Bench()


@pytest.fixture
def swept(bench: Bench) -> Bench:
    """Give a host whose store was swept at its start, at zero seconds."""
    bench.settle()
    assert [request.reasons for request in bench.requests] == [(Reason.START_UP,)]
    return bench


def ended(word: str) -> Outcome:
    """Make an outcome by its word."""
    return Outcome(ended=word, kind="kind", message="why")  # type: ignore[arg-type]


# ---------------------------------------------------------------------- requests


def test_a_host_that_starts_asks_for_a_sweep(bench: Bench) -> None:
    """After start-up recovery, the first sweep starts at once if the host is idle."""
    assert bench.standing.reasons == (Reason.START_UP,)
    bench.settle()
    assert bench.outcomes == [COMPLETED]
    assert bench.standing.completed_at == bench.time.wall()


@pytest.mark.parametrize("reason", EVENTS)
def test_events_ask_for_a_sweep(swept: Bench, reason: Reason) -> None:
    """Start-up, a runner's exit and a maintenance command are answered by the next sweep, whenever it is."""
    swept.scheduler.request(reason)
    swept.pass_time(DAY - 1)
    assert len(swept.requests) == 1
    swept.pass_time(1)
    assert swept.requests[1].reasons == (reason,)
    assert swept.standing.reasons == ()


def test_one_interval_after_a_completed_sweep_the_next_is_asked_for(swept: Bench) -> None:
    """Nothing else need happen in the host."""
    swept.pass_time(3 * DAY)
    assert swept.starts == [0.0, DAY, 2 * DAY, 3 * DAY]
    assert [request.reasons for request in swept.requests[1:]] == [(Reason.INTERVAL,)] * 3


def test_requests_join_the_one_that_is_scheduled(bench: Bench) -> None:
    """Any number of them is one sweep, which knows all their reasons."""
    with bench.working():
        bench.settle()
        for _ in range(50):
            bench.scheduler.request(Reason.RUNNER_EXIT)
        bench.scheduler.request(Reason.MAINTENANCE)
        bench.pass_time(HOUR)
    bench.pass_time(HOUR)
    (request,) = bench.requests
    assert request.reasons == (Reason.START_UP, Reason.RUNNER_EXIT, Reason.MAINTENANCE)


def test_requests_join_the_one_that_runs(bench: Bench) -> None:
    """What is asked for during a sweep is answered when that one is completed."""

    def asked_again(_request: Request) -> Outcome:
        standing = bench.scheduler.request(Reason.RUNNER_EXIT)
        assert (standing.state, standing.why) == ("running", Why.RUNNING)
        assert bench.scheduler._turn() is None, "a second sweep of the store"
        return COMPLETED

    bench.script = [asked_again]
    bench.pass_time(HOUR)
    assert len(bench.requests) == 1
    assert bench.standing.reasons == ()


def test_a_request_that_joined_an_interrupted_sweep_is_not_lost(bench: Bench) -> None:
    """It is answered by the next one."""

    def asked_again(_request: Request) -> Outcome:
        bench.scheduler.request(Reason.RUNNER_EXIT)
        return INTERRUPTED

    bench.script = [asked_again]
    bench.pass_time(MINUTE)
    assert bench.requests[1].reasons == (Reason.START_UP, Reason.RUNNER_EXIT)


# ---------------------------------------------------------------------- idle


def test_no_sweep_starts_while_the_host_is_busy(bench: Bench) -> None:
    """However long that takes, and whatever is asked meanwhile (short of being overdue)."""
    with bench.gate.busy("channels in flight"):
        for reason in Reason:
            bench.scheduler.request(reason)
            bench.pass_time(HOUR)
        assert bench.requests == []
        assert (bench.standing.state, bench.standing.why) == ("due", Why.BUSY)


def test_a_sweep_starts_when_the_last_activity_ends(bench: Bench) -> None:
    """Not with the first of several that ends."""
    with bench.gate.busy("run"):
        with bench.gate.busy("run"), bench.gate.busy("resumes"):
            bench.settle()
        bench.settle()
        assert bench.requests == []
    bench.settle()
    assert bench.starts == [0.0]


def test_not_idle_is_asked_again_after_five_minutes(bench: Bench) -> None:
    """What the host cannot register, such as work in other processes, ends without an event."""
    bench.idle = False
    assert bench.settle() == 5 * MINUTE
    assert (bench.standing.state, bench.standing.why) == ("due", Why.BUSY)
    bench.time.seconds += 5 * MINUTE
    assert bench.settle() == 5 * MINUTE
    bench.idle = True
    bench.pass_time(0)
    assert bench.starts == [5 * MINUTE]


@pytest.mark.parametrize("event", ["request", "end of work"])
def test_not_idle_is_asked_again_at_the_next_event(bench: Bench, event: str) -> None:
    """Whatever comes first: the time, a request, or the end of an activity."""
    bench.idle = False
    bench.pass_time(MINUTE)
    bench.idle = True
    if event == "request":
        bench.scheduler.request(Reason.RUNNER_EXIT)
    else:
        with bench.working():
            pass
    assert bench.scheduler._stirred
    bench.settle()
    assert bench.starts == [MINUTE]


def test_a_probe_that_fails_means_busy(bench: Bench) -> None:
    """What cannot be told is not idle, and it is no fault of the store."""

    def broken() -> bool:
        raise OSError("the runner's socket is gone")

    bench.gate._probe = broken
    bench.pass_time(HOUR)
    assert bench.requests == []
    assert bench.outcomes == []


def test_work_that_appears_closes_the_gate_of_a_running_sweep(bench: Bench) -> None:
    """The sweep asks between two units; work never waits for the answer."""

    def interrupted(request: Request) -> Outcome:
        assert request.gate()
        bench.begin_work()
        assert not request.gate()
        assert not request.halt()
        bench.end_work()
        assert request.gate()
        bench.begin_work()
        assert not request.gate()
        return INTERRUPTED

    bench.script = [interrupted]
    bench.settle()
    assert bench.outcomes == [INTERRUPTED]
    bench.pass_time(HOUR)
    assert len(bench.requests) == 1
    bench.end_work()
    bench.settle()
    assert bench.starts == [0.0, HOUR]


def test_what_only_the_probe_knows_closes_the_gate_as_well(bench: Bench) -> None:
    """It is asked before each batch."""

    def interrupted(request: Request) -> Outcome:
        assert request.gate()
        bench.idle = False
        assert not request.gate()
        return INTERRUPTED

    bench.script = [interrupted]
    bench.settle()
    assert bench.outcomes == [INTERRUPTED]


def test_an_interrupted_sweep_stays_due(bench: Bench) -> None:
    """It is no completed one: it goes on as soon as the host is idle, after no more than a breath."""
    bench.script = [INTERRUPTED, INTERRUPTED]
    bench.pass_time(HOUR)
    assert bench.starts == [0.0, BREATH, 2 * BREATH]
    assert bench.standing.state == "waiting"


# ---------------------------------------------------------------------- one a day


def test_one_sweep_is_completed_in_a_day_however_often_it_is_asked_for(swept: Bench) -> None:
    """Events within the interval wait for its end."""
    for _ in range(23):
        swept.pass_time(HOUR)
        for reason in EVENTS:
            swept.scheduler.request(reason)
    assert len(swept.requests) == 1
    swept.pass_time(HOUR)
    assert swept.starts == [0.0, DAY]


def test_the_day_is_remembered_across_restarts(swept: Bench) -> None:
    """A host that is started again, and again, does not sweep more often."""
    swept.pass_time(HOUR)
    first = restarted(swept)
    first.pass_time(10 * HOUR)
    second = restarted(first)
    second.pass_time(12 * HOUR)
    assert first.requests == second.requests == []
    second.pass_time(HOUR)
    assert second.starts == [13 * HOUR]
    assert second.requests[0].reasons == (Reason.START_UP,)


def test_an_interrupted_sweep_is_due_after_a_restart(bench: Bench) -> None:
    """Only a completed one counts."""
    bench.script = [INTERRUPTED]
    bench.settle()
    again = restarted(bench)
    again.settle()
    assert again.starts == [0.0]


def test_the_interval_can_be_changed(swept: Bench) -> None:
    """It counts from the last completed sweep, whatever it was then."""
    again = restarted(swept, Timing(interval=timedelta(hours=1)))
    again.pass_time(3 * HOUR)
    assert again.starts == [HOUR, 2 * HOUR, 3 * HOUR]


def test_what_another_process_completed_counts(bench: Bench) -> None:
    """Two hosts with one store: the one that comes later finds it swept."""
    with bench.working():
        bench.pass_time(HOUR)
        bench.memory.completed = bench.time.wall()
    bench.pass_time(DAY - 1)
    assert bench.requests == []
    bench.pass_time(1)
    assert bench.starts == [DAY + HOUR]


def test_a_machine_that_slept_looks_at_the_time_of_day(swept: Bench) -> None:
    """The monotonic clock may stand meanwhile, so that the time of day is read at least every hour."""
    assert swept.settle() == LONGEST_WAIT
    swept.time.began += round(2 * DAY * SECOND)
    swept.pass_time(LONGEST_WAIT)
    assert len(swept.requests) == 2


def test_a_sweep_of_the_future_does_not_count(swept: Bench) -> None:
    """A clock that was wrong for a while does not keep the store from being swept for as long."""
    again = Bench(memory=swept.memory, time=FakeTime(swept.time.wall() - round(30 * DAY * SECOND)))
    again.settle()
    assert again.starts == [0.0]
    again.pass_time(DAY)
    assert again.starts == [0.0, DAY]


def test_small_differences_of_clocks_do_no_harm(swept: Bench) -> None:
    """A store's own clock may be a little ahead of the host's."""
    again = Bench(memory=swept.memory, time=FakeTime(swept.time.wall() - 2 * 60 * SECOND))
    again.settle()
    assert again.requests == []


# ---------------------------------------------------------------------- off


@pytest.mark.parametrize("reason", EVENTS)
def test_an_interval_of_zero_turns_automatic_sweeps_off(reason: Reason) -> None:
    """A request is declined, and counted as such; nothing is read, nothing is ever due."""
    bench = Bench(OFF)
    assert bench.scheduler.request(reason).declined == 2
    bench.pass_time(100 * DAY)
    assert bench.requests == []
    assert bench.memory.reads == 0
    standing = bench.standing
    assert (standing.state, standing.why, standing.reasons, standing.overdue) == ("off", Why.OFF, (), False)


def test_a_person_can_sweep_where_automatic_sweeps_are_off() -> None:
    """Once, and no further one follows by itself."""
    bench = Bench(OFF)
    bench.scheduler.request(Reason.MANUAL)
    bench.pass_time(10 * DAY)
    assert [request.reasons for request in bench.requests] == [(Reason.MANUAL,)]


def test_a_persons_sweep_that_failed_is_tried_again() -> None:
    """Also where automatic ones are off: what a person asked for is not dropped without a word."""
    bench = Bench(OFF)
    bench.script = [ended("failed"), ended("locked"), INTERRUPTED]
    bench.scheduler.request(Reason.MANUAL)
    bench.pass_time(HOUR)
    assert [outcome.ended for outcome in bench.outcomes] == ["failed", "locked", "interrupted", "completed"]


@pytest.mark.parametrize("word", ["guard", "refused"])
def test_a_persons_sweep_that_was_refused_is_answered(word: str) -> None:
    """Where automatic ones are off nobody asks again: the person has seen why."""
    bench = Bench(OFF)
    bench.script = [ended(word)]
    bench.scheduler.request(Reason.MANUAL)
    bench.pass_time(10 * DAY)
    standing = bench.standing
    assert (standing.state, standing.reasons, standing.last) == ("off", (), word)
    assert len(bench.requests) == 1


@pytest.mark.parametrize("timing", [{"interval": timedelta(-1)}, {"retry": timedelta(0)}])
def test_times_that_make_no_sense_are_refused(timing: dict[str, timedelta]) -> None:
    """A negative interval and no time between attempts."""
    with pytest.raises(UsageError):
        Timing(**timing)


# ---------------------------------------------------------------------- a person's request


def test_a_person_need_not_wait_for_the_interval(swept: Bench) -> None:
    """A sweep by hand is one more; from it the next interval counts."""
    swept.pass_time(HOUR)
    swept.scheduler.request(Reason.MANUAL)
    swept.pass_time(DAY)
    assert swept.starts == [0.0, HOUR, DAY + HOUR]


@pytest.mark.parametrize("word", ["failed", "guard", "refused", "locked", "budget"])
def test_a_person_need_not_wait_for_the_next_attempt(bench: Bench, word: str) -> None:
    """Whatever put it off: somebody has seen to it, or wants to know."""
    bench.script = [ended(word), ended(word)]
    bench.pass_time(1)
    bench.scheduler.request(Reason.MANUAL)
    bench.pass_time(1)
    assert bench.starts == [0.0, 1.0]


@pytest.mark.parametrize("word", ["failed", "locked", "budget", "guard", "refused"])
def test_a_person_is_answered_once(bench: Bench, word: str) -> None:
    """Passing over the wait is for one attempt; else a store that fails would be swept in circles."""
    bench.script = [ended(word)] * 9
    bench.scheduler.request(Reason.MANUAL)
    bench.pass_time(4 * MINUTE)
    assert bench.starts == [0.0]


def test_what_a_person_asks_during_a_sweep_is_answered_by_it(bench: Bench) -> None:
    """It joins like any other."""

    def asked(_request: Request) -> Outcome:
        bench.scheduler.request(Reason.MANUAL)
        return COMPLETED

    bench.script = [asked]
    bench.pass_time(DAY - 1)
    assert bench.starts == [0.0]


def test_a_persons_memory_that_fails_does_not_turn_in_circles(swept: Bench) -> None:
    """The attempt is over when the state file cannot be read."""
    swept.memory.error = StoreUnreadable("gone")
    swept.scheduler.request(Reason.MANUAL)
    swept.pass_time(MINUTE)
    assert [outcome.ended for outcome in swept.outcomes] == ["completed", "failed"]


# ---------------------------------------------------------------------- endings


@pytest.mark.parametrize("word", ["failed", "locked", "budget"])
def test_failed_locked_and_budget_are_tried_again_after_five_minutes(bench: Bench, word: str) -> None:
    """None of them is a completed sweep, so it stays due."""
    bench.script = [ended(word)]
    bench.settle()
    assert (bench.standing.state, bench.standing.why) == ("due", word)
    bench.pass_time(5 * MINUTE - 1)
    assert bench.starts == [0.0]
    bench.pass_time(1)
    assert bench.starts == [0.0, 5 * MINUTE]
    bench.pass_time(DAY)
    assert bench.starts == [0.0, 5 * MINUTE, DAY + 5 * MINUTE]


@pytest.mark.parametrize("word", ["failed", "locked", "budget", "guard", "refused"])
def test_events_do_not_shorten_a_back_off(bench: Bench, word: str) -> None:
    """A store that fails is not tried at every exit of a runner."""
    bench.script = [ended(word)]
    bench.settle()
    for _ in range(4):
        bench.pass_time(MINUTE)
        for reason in EVENTS:
            bench.scheduler.request(reason)
        with bench.working():
            bench.settle()
    assert bench.starts == [0.0]


@pytest.mark.parametrize("word", ["guard", "refused"])
def test_what_only_a_person_can_change_is_asked_again_after_an_interval(bench: Bench, word: str) -> None:
    """It is visible until then, and does not plan the whole store every five minutes."""
    bench.script = [ended(word)]
    bench.pass_time(DAY - 1)
    assert bench.starts == [0.0]
    standing = bench.standing
    assert (standing.state, standing.why, standing.last, standing.kind) == ("due", word, word, "kind")
    bench.pass_time(1)
    assert bench.starts == [0.0, DAY]


def test_what_only_a_person_can_change_is_asked_again_after_a_restart(bench: Bench) -> None:
    """A person may have changed the settings."""
    bench.script = [ended("guard")]
    bench.settle()
    again = restarted(bench)
    again.settle()
    assert again.starts == [0.0]


@pytest.mark.parametrize(
    ("error", "word", "kind"),
    [
        (StoreLocked("another sweep holds app.sqlite"), "locked", "locked"),
        (Refused("schema", "not read"), "refused", "schema"),
        (StoreUnreadable("there is no file app.sqlite" * 100), "failed", "StoreUnreadable"),
        (StoreFailure("disk-full", "x" * 1_000), "failed", "disk-full"),
        (PermissionError(13, "Permission denied", "/secret/path"), "failed", "PermissionError"),
        (ZeroDivisionError("payload"), "failed", "ZeroDivisionError"),
        (SystemExit(3), "failed", "SystemExit"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_a_failure_is_one_bounded_diagnostic(
    bench: Bench, error: BaseException, word: str, kind: str
) -> None:
    """Whatever a sweep raises becomes one outcome, and never more than 240 characters."""

    def fail(_request: Request) -> Outcome:
        raise error

    bench.script = [fail]
    bench.pass_time(MINUTE)
    (outcome,) = bench.outcomes
    assert (outcome.ended, outcome.kind) == (word, kind)
    assert 0 < len(outcome.message) <= MESSAGE_LIMIT
    assert "payload" not in outcome.message
    assert "/secret" not in outcome.message


def test_the_log_names_no_store(caplog: pytest.LogCaptureFixture) -> None:
    """The default diagnostic has stable words and counts only; what needs a look is a warning."""
    with caplog.at_level(logging.INFO, logger="afterrun.schedule"):
        log_outcome(Outcome.raised(StoreUnreadable("there is no file /home/me/app.sqlite")))
        log_outcome(COMPLETED)
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    assert "StoreUnreadable" in caplog.text
    assert "/home" not in caplog.text


def test_a_failure_does_not_stop_the_schedule(bench: Bench) -> None:
    """A store that fails for hours is swept when it works again."""
    bench.script = [ended("failed")] * 20
    bench.pass_time(2 * HOUR)
    assert bench.starts == [number * 5 * MINUTE for number in range(21)]
    assert bench.outcomes[-1] == COMPLETED


def test_an_observer_that_fails_stops_nothing(bench: Bench) -> None:
    """It is counted where a person looks, and sweeps go on."""
    bench.scheduler._observer = lambda outcome: setattr(outcome, "removed", 7)  # it is frozen
    bench.pass_time(DAY)
    assert bench.starts == [0.0, DAY]
    assert bench.standing.observer_failures == 2


@pytest.mark.parametrize(
    "error", [StoreUnreadable("damaged"), OSError(5, "Input/output error"), KeyError("x")]
)
def test_a_memory_that_cannot_be_read_is_a_failure(bench: Bench, error: Exception) -> None:
    """Nobody knows when the store was swept, so it is not: one diagnostic, again after five minutes."""
    bench.memory.error = error
    bench.settle()
    assert (bench.requests, [outcome.ended for outcome in bench.outcomes]) == ([], ["failed"])
    bench.memory.error = None
    bench.pass_time(5 * MINUTE)
    assert bench.starts == [5 * MINUTE]


# ---------------------------------------------------------------------- once


def test_once_sweeps_in_this_thread_if_a_sweep_is_due() -> None:
    """For a process that is started now and then: at most one sweep, none within the interval."""
    bench = Bench()
    for hours in (0, 1, 22, 1):
        bench.time.seconds += hours * HOUR
        bench.scheduler.once()
    assert bench.starts == [0.0, DAY]
    assert not bench.scheduler._thread.is_alive()


def test_an_abort_passes_and_leaves_the_sweep_due() -> None:
    """Ctrl-C is no failure of the store; the observer is told that the sweep was interrupted."""
    bench = Bench()

    def aborted(_request: Request) -> Outcome:
        raise KeyboardInterrupt

    bench.script = [aborted]
    with pytest.raises(KeyboardInterrupt):
        bench.scheduler.once()
    assert bench.outcomes == [INTERRUPTED]
    bench.scheduler.once(Reason.MANUAL)
    assert bench.outcomes == [INTERRUPTED, COMPLETED]


# ---------------------------------------------------------------------- manual commands, shutdown


def test_a_manual_command_keeps_sweeps_from_starting(bench: Bench) -> None:
    """Also one that a person asks for; several commands may run at once."""
    with bench.scheduler.manual(), bench.scheduler.manual():
        bench.scheduler.request(Reason.MANUAL)
        bench.pass_time(HOUR)
        assert bench.requests == []
        assert (bench.standing.state, bench.standing.why) == ("due", Why.MANUAL)
    bench.settle()
    assert bench.starts == [HOUR]


def test_a_maintenance_command_asks_for_a_sweep(bench: Bench) -> None:
    """Also one that failed."""
    with pytest.raises(ZeroDivisionError), bench.scheduler.manual():
        raise ZeroDivisionError
    bench.settle()
    assert bench.requests[0].reasons == (Reason.START_UP, Reason.MAINTENANCE)


def test_a_manual_command_waits_for_a_running_sweep(bench: Bench) -> None:
    """Within the seconds it is given; else it says that the store is taken, and nothing is left behind."""

    def waited_for(request: Request) -> Outcome:
        with pytest.raises(StoreLocked, match="still running"), bench.scheduler.manual(7):
            raise AssertionError("two at once")
        assert request.gate(), "the sweep goes on"
        return COMPLETED

    bench.script = [waited_for]
    bench.settle()
    assert bench.time.seconds == 7
    assert bench.outcomes == [COMPLETED]
    with bench.scheduler.manual(0):
        pass


def test_shutdown_starts_no_sweep(bench: Bench) -> None:
    """Whatever is asked afterwards is declined, and counted as such."""
    bench.scheduler.close()
    assert bench.scheduler.request(Reason.MANUAL).declined == 1
    bench.pass_time(10 * DAY)
    assert bench.requests == []
    assert bench.standing.state == "closed"


def test_shutdown_ends_a_running_sweep(bench: Bench) -> None:
    """Its gate says no, its plan is given up, and its pause is over."""

    def stopped(request: Request) -> Outcome:
        bench.scheduler.stop()
        assert (request.gate(), request.halt()) == (False, True)
        request.pause(60.0)
        assert bench.time.seconds == 0.0
        return INTERRUPTED

    bench.script = [stopped]
    assert bench.settle() is None
    assert bench.scheduler.close()
    assert bench.standing.state == "closed"


def test_shutdown_says_if_the_sweep_has_not_ended(bench: Bench) -> None:
    """A host with little patience knows that it may not let go of its lease yet."""

    def slow(_request: Request) -> Outcome:
        assert bench.scheduler.close(2.0) is False
        return INTERRUPTED

    bench.script = [slow]
    bench.settle()
    assert bench.time.seconds == 2.0
    assert bench.scheduler.close(2.0) is True


def test_shutdown_between_two_looks_starts_nothing(bench: Bench) -> None:
    """What is read of the memory may take a while."""

    class Closing(FakeMemory):
        def last_completed(self) -> int | None:
            bench.scheduler.stop()
            return None

    bench.scheduler._memory = Closing()
    bench.settle()
    assert bench.requests == []


def test_a_pause_lasts_as_long_as_it_should(bench: Bench) -> None:
    """While the host lives."""

    def resting(request: Request) -> Outcome:
        request.pause(2.5)
        return COMPLETED

    bench.script = [resting]
    bench.settle()
    assert bench.time.seconds == 2.5


def test_a_scheduler_can_be_closed_before_it_starts() -> None:
    """A host that fails while it starts closes what it has."""
    bench = Bench(SLOW)
    idle: Scheduler = bench.scheduler
    assert idle.close()
    assert idle.close()
