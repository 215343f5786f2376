"""A scheduler without a thread: its clocks stand until they are moved, and the test takes its turns."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta

from afterrun.core.times import SECOND, Instant
from afterrun.schedule import IdleGate, Outcome, Reason, Request, Scheduler, Standing, Timing
from fakes import NOW

MINUTE = 60.0
HOUR = 3_600.0
DAY = 24 * HOUR
SLOW = Timing(interval=timedelta(hours=24), retry=timedelta(minutes=5))
COMPLETED = Outcome(ended="completed", removed=3)
INTERRUPTED = Outcome(ended="interrupted")


class FakeTime:
    """Both clocks. What waits for something lets time pass, and what is in ``meanwhile`` happens first."""

    def __init__(self, wall: Instant = NOW) -> None:
        self.seconds = 0.0
        self.began = wall
        self.meanwhile: list[Callable[[], object]] = []

    def monotonic(self) -> float:
        return self.seconds

    def wall(self) -> Instant:
        return self.began + round(self.seconds * SECOND)

    def wait(self, _changed: threading.Condition, seconds: float | None) -> None:
        if self.meanwhile:
            self.meanwhile.pop(0)()
            return
        assert seconds is not None, "this would wait for ever"
        self.seconds += seconds


class FakeMemory:
    """What is remembered of a store, in memory; it outlives a scheduler."""

    def __init__(self) -> None:
        self.completed: Instant | None = None
        self.due: Instant | None = None
        self.error: Exception | None = None
        self.reads = 0

    def last_completed(self) -> Instant | None:
        self.reads += 1
        if self.error is not None:
            raise self.error
        return self.completed

    def due_since(self) -> Instant | None:
        return self.due

    def keep_due_since(self, moment: Instant) -> None:
        if self.error is not None:
            raise self.error
        self.due = moment


class Bench:
    """A host with one store. ``script`` holds what the next sweeps do; when it is used up, they complete."""

    def __init__(
        self, timing: Timing = SLOW, *, memory: FakeMemory | None = None, time: FakeTime | None = None
    ) -> None:
        self.time = time or FakeTime()
        self.memory = memory or FakeMemory()
        self.idle = True
        self.gate = IdleGate(probe=lambda: self.idle)
        self.script: list[Outcome | Callable[[Request], Outcome]] = []
        self.requests: list[Request] = []
        self.starts: list[float] = []
        self.outcomes: list[Outcome] = []
        self.faults: list[AssertionError] = []
        self.work = ExitStack()
        self.scheduler = Scheduler(
            self.run,
            gate=self.gate,
            memory=self.memory,
            timing=timing,
            clock=self.time,
            observer=self.outcomes.append,
        )
        self.gate.listen(self.scheduler._work_ended)
        self.scheduler.request(Reason.START_UP)

    def run(self, request: Request) -> Outcome:
        self.requests.append(request)
        self.starts.append(self.time.seconds)
        step = self.script.pop(0) if self.script else COMPLETED
        try:
            outcome = step if isinstance(step, Outcome) else step(request)
        except AssertionError as fault:  # to the scheduler it is one failure of a sweep more
            self.faults.append(fault)
            raise
        if outcome.ended == "completed":
            self.memory.completed = self.time.wall()
        return outcome

    def settle(self) -> float | None:
        """Take turns until there is nothing to do now; return the seconds until there may be."""
        for _ in range(100):
            seconds = self.scheduler._turn()
            if self.faults:
                raise self.faults[0]
            if seconds != 0.0:
                return seconds
        raise AssertionError("the scheduler turns in circles")

    def pass_time(self, seconds: float) -> None:
        """Let time pass as the thread would: from one look to the next."""
        end = self.time.seconds + seconds
        while True:
            ahead = self.settle()
            if ahead is None or self.time.seconds + ahead > end:
                self.time.seconds = max(end, self.time.seconds)
                return
            self.time.seconds += ahead

    def begin_work(self) -> None:
        """Begin a piece of work; they end in reverse order."""
        self.work.enter_context(self.gate.busy("run"))

    def end_work(self) -> None:
        """End all work there is."""
        self.work.close()

    @property
    def standing(self) -> Standing:
        return self.scheduler.standing()

    @contextmanager
    def working(self) -> Iterator[None]:
        """Be busy while this is entered."""
        with self.gate.busy("run"):
            yield


def restarted(bench: Bench, timing: Timing = SLOW) -> Bench:
    """Start the host again: the clocks go on, and only the memory is kept."""
    time = FakeTime(bench.time.wall())
    return Bench(timing, memory=bench.memory, time=time)
