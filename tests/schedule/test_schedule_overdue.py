"""A host that is never idle: once its sweep is overdue, a unit goes whenever a piece of work ends."""

from __future__ import annotations

from datetime import timedelta

import pytest

from afterrun.core.times import SECOND
from afterrun.schedule import Outcome, Request, Timing, Why
from afterrun.schedule.agenda import BREATH
from afterrun.schedule.scheduler import STRETCH
from schedule.schedule_kit import (
    COMPLETED,
    DAY,
    HOUR,
    INTERRUPTED,
    MINUTE,
    Bench,
    FakeMemory,
    FakeTime,
    restarted,
)

OVERDUE = 3 * DAY
"""Seconds after a sweep was due."""


@pytest.fixture
def bench() -> Bench:
    """Give a host that has not been idle since it was first started."""
    bench = Bench()
    bench.begin_work()
    return bench


def piece(bench: Bench) -> None:
    """Begin and end a piece of work, beside what there is."""
    with bench.working():
        pass


def one_by_one(request: Request) -> Outcome:
    """Sweep units as the gate lets them go, three at most."""
    removed = 0
    while removed < 3 and request.gate():
        removed += 1
    return Outcome(ended="completed" if removed == 3 else "interrupted", removed=removed)


def test_nothing_goes_before_a_sweep_is_overdue_by_three_intervals(bench: Bench) -> None:
    """Up to then a busy host is left alone, between pieces of work as well."""
    bench.pass_time(OVERDUE - 1)
    piece(bench)
    bench.settle()
    assert bench.requests == []
    assert not bench.standing.overdue


def test_an_overdue_sweep_starts_when_a_piece_of_work_ends(bench: Bench) -> None:
    """Not while they only go on, however long."""
    bench.pass_time(OVERDUE + 10 * HOUR)
    assert (bench.requests, bench.standing.overdue, bench.standing.why) == ([], True, Why.BUSY)
    piece(bench)
    assert bench.scheduler._stirred
    bench.settle()
    assert [request.one_at_a_time for request in bench.requests] == [True]


def test_one_unit_goes_for_each_piece_that_ends(bench: Bench) -> None:
    """The first at once, the others when the next pieces end, until the store is swept."""
    bench.pass_time(OVERDUE)
    counts: list[int] = []

    def counted(request: Request) -> Outcome:
        while len(counts) < 4 and request.gate():
            counts.append(len(bench.time.meanwhile))
        return COMPLETED

    bench.time.meanwhile = [lambda: piece(bench), lambda: None, lambda: piece(bench), lambda: piece(bench)]
    bench.script = [counted]
    piece(bench)
    bench.settle()
    assert counts == [4, 3, 1, 0]
    assert bench.standing.state == "waiting"


def test_a_host_that_is_idle_meanwhile_holds_nothing_up(bench: Bench) -> None:
    """While it is idle, units go as they come."""
    bench.pass_time(OVERDUE)
    bench.script = [one_by_one]
    bench.time.meanwhile = [bench.end_work]
    piece(bench)
    bench.settle()
    assert bench.outcomes == [Outcome(ended="completed", removed=3)]


def test_such_a_sweep_holds_the_lock_for_a_minute_at_most(bench: Bench) -> None:
    """Then it ends interrupted, and the next piece of work starts it anew."""
    bench.pass_time(OVERDUE)
    bench.script = [one_by_one, one_by_one]
    piece(bench)
    bench.settle()
    assert bench.outcomes == [Outcome(ended="interrupted", removed=1)]
    assert bench.time.seconds == OVERDUE + STRETCH
    bench.pass_time(HOUR)
    assert len(bench.requests) == 1
    piece(bench)
    bench.settle()
    assert [request.one_at_a_time for request in bench.requests] == [True, True]


@pytest.mark.parametrize("who", ["manual", "stop"])
def test_such_a_sweep_ends_at_once_for_a_command_and_for_shutdown(bench: Bench, who: str) -> None:
    """Neither waits for the next piece of work to end."""
    bench.pass_time(OVERDUE)
    bench.script = [one_by_one]

    def command() -> None:
        bench.scheduler._agenda.manual += 1

    bench.time.meanwhile = [command if who == "manual" else bench.scheduler.stop]
    piece(bench)
    bench.scheduler._turn()
    assert bench.outcomes == [Outcome(ended="interrupted", removed=1)]
    assert bench.time.seconds == OVERDUE


def test_a_host_that_is_idle_only_for_moments_drains_as_well(bench: Bench) -> None:
    """Where every sweep is cut off before its first unit, the overdue one waits between the pieces."""
    bench.pass_time(OVERDUE)

    def too_late(request: Request) -> Outcome:
        bench.begin_work()
        assert not request.gate()
        bench.end_work()
        return INTERRUPTED

    bench.script = [too_late, one_by_one]
    bench.end_work()
    bench.settle()
    assert [request.one_at_a_time for request in bench.requests] == [False]
    bench.pass_time(BREATH)
    assert [request.one_at_a_time for request in bench.requests] == [False, True]
    assert bench.outcomes[-1] == Outcome(ended="completed", removed=3)


def test_work_that_has_begun_is_not_the_end_of_one(bench: Bench) -> None:
    """A sweep that started in an idle moment waits for the end of the work that has begun since."""
    bench.pass_time(OVERDUE)
    ends: list[float] = []

    def disturbed(request: Request) -> Outcome:
        bench.begin_work()
        assert not request.gate()
        bench.end_work()
        return INTERRUPTED

    def waiting(request: Request) -> Outcome:
        assert request.one_at_a_time
        bench.begin_work()
        bench.time.meanwhile = [lambda: ends.append(bench.time.seconds), bench.end_work]
        assert request.gate()
        assert ends, "a unit went in the middle of a piece of work"
        return COMPLETED

    bench.script = [disturbed, waiting]
    bench.end_work()
    bench.pass_time(BREATH)
    assert bench.outcomes == [INTERRUPTED, COMPLETED]


def test_the_end_of_work_counts_for_the_moment_only(bench: Bench) -> None:
    """A look that comes when new work has begun finds the host busy, overdue or not."""
    bench.settle()
    bench.end_work()
    bench.begin_work()
    bench.settle()
    assert bench.requests == []


def test_an_overdue_sweep_of_an_idle_host_is_like_any_other(bench: Bench) -> None:
    """One unit at a time is for busy hosts."""
    bench.pass_time(OVERDUE + DAY)
    bench.end_work()
    bench.settle()
    assert [request.one_at_a_time for request in bench.requests] == [False]


def test_a_completed_sweep_ends_it(bench: Bench) -> None:
    """From then on the host is left alone again, until four more intervals are over."""
    bench.pass_time(OVERDUE)
    piece(bench)
    bench.settle()
    assert not bench.standing.overdue
    for hour in range(1, 4 * 24):
        bench.time.seconds = OVERDUE + hour * HOUR
        piece(bench)
        bench.settle()
    assert len(bench.requests) == 1
    bench.pass_time(HOUR)
    piece(bench)
    bench.settle()
    assert len(bench.requests) == 2


@pytest.mark.parametrize("completed", [False, True])
def test_what_is_overdue_is_so_after_a_restart(bench: Bench, completed: bool) -> None:
    """A host that is started again every day is never idle for weeks all the same."""
    if completed:
        bench.memory.completed = bench.time.wall() - round(DAY * SECOND)
    again = bench
    for _ in range(3):
        again.pass_time(DAY - 1)
        piece(again)
        again.settle()
        assert again.requests == []
        again = restarted(again)
        again.begin_work()
    again.settle()
    again.pass_time(3)
    piece(again)
    again.settle()
    assert [request.one_at_a_time for request in again.requests] == [True]


def test_a_back_off_counts_for_an_overdue_sweep(bench: Bench) -> None:
    """A store that fails is not tried after each piece of work."""
    bench.pass_time(OVERDUE)
    bench.script = [Outcome(ended="failed")]
    for _ in range(5):
        piece(bench)
        bench.settle()
        bench.pass_time(MINUTE - 1)
    assert len(bench.requests) == 1
    bench.pass_time(5)
    piece(bench)
    bench.settle()
    assert len(bench.requests) == 2


def test_the_intervals_are_those_of_the_settings() -> None:
    """Three hours for a store that is swept every hour; never where automatic sweeps are off."""
    hourly = Bench(Timing(interval=timedelta(hours=1)))
    off = Bench(Timing(interval=timedelta(0)))
    for bench in (hourly, off):
        bench.begin_work()
        bench.pass_time(3 * HOUR)
        piece(bench)
        bench.settle()
    assert (len(hourly.requests), len(off.requests)) == (1, 0)


def test_a_start_in_the_future_is_none() -> None:
    """A first start under a wrong clock does not put the rule off for years."""
    memory = FakeMemory()
    memory.due = FakeTime().wall() + round(1_000 * DAY * SECOND)
    bench = Bench(memory=memory)
    bench.begin_work()
    bench.pass_time(OVERDUE)
    piece(bench)
    bench.settle()
    assert len(bench.requests) == 1


def test_the_host_is_woken_only_where_it_matters(bench: Bench) -> None:
    """Work that ends while others go on costs a busy host nothing until the sweep is overdue."""
    bench.settle()
    bench.scheduler._stirred = False
    piece(bench)
    assert not bench.scheduler._stirred
    bench.pass_time(OVERDUE)
    bench.scheduler._stirred = False
    piece(bench)
    assert bench.scheduler._stirred
