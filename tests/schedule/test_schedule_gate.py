"""The idle gate: what the host is doing, counted by name."""

from __future__ import annotations

import asyncio
import threading
from contextlib import ExitStack

import pytest

from afterrun.schedule import IdleGate


def test_a_host_without_activities_is_idle() -> None:
    """A process that only looks after stores need not register anything."""
    gate = IdleGate()
    assert (gate.is_idle, gate.is_quiet, gate.activities()) == (True, True, {})


def test_activities_are_counted_by_name() -> None:
    """The same one may be there many times; the host is idle when all of all names are over."""
    gate = IdleGate()
    with gate.busy("run"), gate.busy("run"), gate.busy("pending claims"):
        assert gate.activities() == {"run": 2, "pending claims": 1}
        assert not gate.is_idle
    assert gate.activities() == {}
    assert gate.is_idle


def test_an_activity_that_fails_is_over() -> None:
    """Whatever it raises."""
    gate = IdleGate()
    with pytest.raises(ZeroDivisionError), gate.busy("run"):
        raise ZeroDivisionError
    assert gate.is_idle


def test_the_probe_is_asked_as_well() -> None:
    """Idle is what is neither registered nor found."""
    answers = [False, True]
    gate = IdleGate(probe=lambda: answers.pop(0))
    with gate.busy("run"):
        assert not gate.is_idle
    assert answers == [False, True], "while something is registered nobody need ask"
    assert not gate.is_idle
    assert gate.is_quiet
    assert gate.is_idle


def test_waiting_ends_when_the_last_activity_does() -> None:
    """By a condition, in any thread."""
    gate = IdleGate()
    work = ExitStack()
    work.enter_context(gate.busy("run"))
    assert gate.wait_quiet(0) is False
    waiting = threading.Barrier(2)

    def end() -> None:
        waiting.wait(10)
        work.close()

    thread = threading.Thread(target=end)
    thread.start()
    waiting.wait(10)
    assert gate.wait_quiet(10) is True
    thread.join()


def test_listeners_hear_each_end_and_may_leave() -> None:
    """After the activity is taken off, so that they find the gate as it is."""
    gate = IdleGate()
    heard: list[bool] = []

    def listener() -> None:
        heard.append(gate.is_idle)

    gate.listen(listener)
    with gate.busy("run"), gate.busy("run"):
        pass
    gate.forget(listener)
    with gate.busy("run"):
        pass
    assert heard == [False, True]


def test_many_threads_leave_nothing_behind() -> None:
    """Counts are exact whatever runs at once."""
    gate = IdleGate()
    ends: list[None] = []
    gate.listen(lambda: ends.append(None))
    ready = threading.Barrier(8)

    def work(number: int) -> None:
        ready.wait(10)
        for _ in range(500):
            with gate.busy(f"runner-{number % 3}"):
                assert not gate.is_quiet

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert gate.activities() == {}
    assert len(ends) == 8 * 500


def test_an_activity_may_span_what_is_awaited() -> None:
    """In a coroutine, many at once in one thread."""

    async def main() -> int:
        gate = IdleGate()
        go = asyncio.Event()
        most = 0

        async def work() -> None:
            nonlocal most
            with gate.busy("request"):
                most = max(most, gate.activities()["request"])
                await go.wait()

        async with asyncio.TaskGroup() as tasks:
            for _ in range(5):
                tasks.create_task(work())
            await asyncio.sleep(0)
            go.set()
        assert gate.is_idle
        return most

    assert asyncio.run(main()) == 5
