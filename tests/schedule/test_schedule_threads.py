"""The scheduler's own thread, with the clocks of this machine: it starts, waits and ends, in nobody's way."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Final

import pytest

from afterrun import StoreLocked
from afterrun.schedule import IdleGate, Outcome, Reason, Request, Scheduler, Timing
from schedule.schedule_kit import COMPLETED, INTERRUPTED, FakeMemory

PATIENCE: Final = 20.0
"""Seconds after which what a test waits for counts as never coming."""


class Sweeps:
    """Sweeps that run until they are told to end, or their gate says so."""

    def __init__(self) -> None:
        self.started = threading.Semaphore(0)
        self.ending = threading.Event()
        self.at_once = 0
        self.most = 0
        self.count = 0
        self._changed = threading.Lock()

    def run(self, request: Request) -> Outcome:
        with self._changed:
            self.count += 1
            self.at_once += 1
            self.most = max(self.most, self.at_once)
        self.started.release()
        try:
            while request.gate():
                if self.ending.wait(0.001):
                    return COMPLETED
            return INTERRUPTED
        finally:
            with self._changed:
                self.at_once -= 1

    def await_start(self) -> None:
        assert self.started.acquire(timeout=PATIENCE), "no sweep started"


@pytest.fixture
def sweeps() -> Sweeps:
    """Give sweeps that end when a test says so."""
    return Sweeps()


@pytest.fixture
def gate() -> IdleGate:
    """Give the gate of an idle host."""
    return IdleGate()


@pytest.fixture
def scheduler(sweeps: Sweeps, gate: IdleGate) -> Iterator[Scheduler]:
    """Give a scheduler that has not been started; it is closed at the end."""
    made = make(sweeps, gate)
    yield made
    sweeps.ending.set()
    assert made.close(PATIENCE)


def make(sweeps: Sweeps, gate: IdleGate, timing: Timing | None = None) -> Scheduler:
    """Make a scheduler with the real clocks."""
    return Scheduler(
        sweeps.run, gate=gate, memory=FakeMemory(), timing=timing, observer=lambda _outcome: None
    )


@contextmanager
def thread(work: threading.Thread) -> Iterator[None]:
    """Let a thread run meanwhile, and end."""
    work.start()
    yield
    work.join(PATIENCE)
    assert not work.is_alive()


def test_it_sweeps_when_it_is_started_and_waits_then(scheduler: Scheduler, sweeps: Sweeps) -> None:
    """In a thread of its own, which nothing wakes once the store is swept."""
    sweeps.ending.set()
    scheduler.start()
    standing = scheduler.wait(lambda standing: standing.state == "waiting", PATIENCE)
    assert (standing.last, standing.sweeps, sweeps.count) == ("completed", 1, 1)


def test_the_end_of_work_wakes_it(scheduler: Scheduler, sweeps: Sweeps, gate: IdleGate) -> None:
    """Without any polling: the next look would be in five minutes."""
    sweeps.ending.set()
    with gate.busy("run"):
        scheduler.start()
        assert scheduler.wait(lambda standing: standing.why == "busy", PATIENCE).sweeps == 0
    assert scheduler.wait(lambda standing: standing.sweeps == 1, PATIENCE).sweeps == 1


def test_work_begins_at_once_and_ends_the_sweep(scheduler: Scheduler, sweeps: Sweeps, gate: IdleGate) -> None:
    """The host never waits for a sweep."""
    scheduler.start()
    sweeps.await_start()
    with gate.busy("run"):
        standing = scheduler.wait(lambda standing: standing.last == "interrupted", PATIENCE)
        assert (standing.state, sweeps.at_once) == ("due", 0)


def test_close_settles_a_running_sweep(scheduler: Scheduler, sweeps: Sweeps) -> None:
    """It returns when nothing is going on in the store any more, and everyone was told."""
    told: list[str] = []
    scheduler._observer = lambda outcome: told.append(outcome.ended)
    scheduler.start()
    sweeps.await_start()
    assert scheduler.close(PATIENCE)
    assert (sweeps.at_once, told) == (0, ["interrupted"])
    assert scheduler.request(Reason.MANUAL).state == "closed"
    scheduler._thread.join(PATIENCE)
    assert not scheduler._thread.is_alive()


def test_close_from_an_observer_does_not_wait_for_itself(scheduler: Scheduler, sweeps: Sweeps) -> None:
    """A host may give up at the first failure; it must not hang, and neither may a command hang there."""
    told = threading.Event()
    refused: list[str] = []

    def observer(_outcome: Outcome) -> None:
        with pytest.raises(StoreLocked) as error, scheduler.manual():
            pass
        refused.append(str(error.value))
        assert scheduler.close() is False
        told.set()

    scheduler._observer = observer
    sweeps.ending.set()
    scheduler.start()
    assert told.wait(PATIENCE)
    assert scheduler.close(PATIENCE)
    assert len(refused) == 1


def test_a_manual_command_waits_for_the_sweep_and_keeps_others_off(
    scheduler: Scheduler, sweeps: Sweeps
) -> None:
    """From another thread, by a condition."""
    scheduler.start()
    sweeps.await_start()
    inside = threading.Event()

    def command() -> None:
        with scheduler.manual(PATIENCE):
            assert sweeps.at_once == 0
            inside.set()
            assert scheduler.request(Reason.MANUAL).why == "manual"

    with thread(threading.Thread(target=command)):
        assert not inside.is_set()
        sweeps.ending.set()
        assert inside.wait(PATIENCE)
    assert scheduler.wait(lambda standing: standing.sweeps == 2, PATIENCE).sweeps == 2


def test_a_lock_on_the_schedule_is_never_held_while_something_slow_is_asked(
    scheduler: Scheduler, gate: IdleGate, sweeps: Sweeps
) -> None:
    """A probe that takes its time holds up no request of the host, and no shutdown but its own end."""
    asked, answer = threading.Event(), threading.Event()

    def slow() -> bool:
        asked.set()
        return answer.wait(PATIENCE)

    gate._probe = slow
    scheduler.start()
    assert asked.wait(PATIENCE)
    assert scheduler.request(Reason.RUNNER_EXIT).sweeps == 0
    scheduler.stop()
    assert scheduler.close(0) is False
    answer.set()
    assert scheduler.close(PATIENCE)
    assert sweeps.count == 0


def test_never_two_sweeps_whatever_threads_do(sweeps: Sweeps, gate: IdleGate) -> None:
    """Requests, work and commands from many threads: one sweep at a time, none during a command."""
    scheduler = make(sweeps, gate, Timing(interval=timedelta(microseconds=1)))
    faults: list[str] = []

    def host(seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(150):
            step = chance.randrange(3)
            if step == 0:
                scheduler.request(chance.choice(list(Reason)))
            elif step == 1:
                with gate.busy("run"):
                    pass
            else:
                with scheduler.manual(PATIENCE):
                    if sweeps.at_once:
                        faults.append("a sweep during a command")

    hosts = [threading.Thread(target=host, args=(seed,)) for seed in range(4)]
    ending = threading.Timer(0, sweeps.ending.set)
    with scheduler:
        for each in (*hosts, ending):
            each.start()
        for each in (*hosts, ending):
            each.join(PATIENCE)
        assert not any(each.is_alive() for each in hosts)
    assert (faults, sweeps.most, sweeps.at_once) == ([], 1, 0)


def test_it_can_live_in_an_event_loop(sweeps: Sweeps, gate: IdleGate) -> None:
    """Leaving it settles the sweep in a thread, and the loop goes on meanwhile."""

    async def main() -> None:
        scheduler = make(sweeps, gate)
        async with scheduler:
            await asyncio.to_thread(sweeps.await_start)
        assert sweeps.at_once == 0
        assert scheduler.standing().state == "closed"

    asyncio.run(asyncio.wait_for(main(), PATIENCE))


def test_a_cancelled_host_settles_its_sweep_all_the_same(gate: IdleGate) -> None:
    """It lets go of its store only when nothing is going on there, however it is ended."""
    started, leaving, end = threading.Event(), threading.Event(), threading.Event()
    settled: list[bool] = []

    def sweep(request: Request) -> Outcome:
        started.set()
        while request.gate():
            end.wait(0.001)
        leaving.set()
        end.wait(PATIENCE)
        settled.append(True)
        return INTERRUPTED

    async def host() -> None:
        async with Scheduler(sweep, gate=gate, memory=FakeMemory(), observer=lambda _outcome: None):
            await asyncio.to_thread(started.wait, PATIENCE)

    async def main() -> None:
        task = asyncio.create_task(host())
        await asyncio.to_thread(leaving.wait, PATIENCE)
        task.cancel()
        await asyncio.sleep(0)
        assert not settled
        end.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert settled == [True]

    asyncio.run(asyncio.wait_for(main(), PATIENCE))


FORGETFUL = """
import sys, threading
from afterrun.schedule import IdleGate, Outcome, Scheduler
sys.path.append(sys.argv[1])
from schedule.schedule_kit import FakeMemory
started = threading.Event()
def sweep(request):
    started.set()
    while request.gate():
        threading.Event().wait(0.001)
    print("settled", flush=True)
    return Outcome(ended="interrupted")
scheduler = Scheduler(sweep, gate=IdleGate(), memory=FakeMemory(), observer=lambda outcome: None)
scheduler.start()
started.wait(20)
"""


def test_a_process_ends_although_nobody_closed_its_scheduler() -> None:
    """The thread keeps no process alive, and a sweep that runs is settled on the way out."""
    tests = sys.path[0] if sys.path[0].endswith("tests") else __file__.rsplit("/", 2)[0]
    done = subprocess.run(
        [sys.executable, "-c", FORGETFUL, tests], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "settled\n", "")
