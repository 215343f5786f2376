"""The scheduler: the thread that starts the sweeps of one store, and what its host says to it."""

from __future__ import annotations

import asyncio
import atexit
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from types import TracebackType
from typing import Final, Self

from afterrun.core.errors import AfterrunError, StoreLocked
from afterrun.core.times import Instant
from afterrun.schedule.agenda import BREATH, Agenda, Standing, Start, Wait, Why
from afterrun.schedule.clock import Clock, SystemTime, moment_of
from afterrun.schedule.gate import IdleGate
from afterrun.schedule.memory import Memory
from afterrun.schedule.outcome import Outcome, log_outcome
from afterrun.schedule.request import Reason, Request, Timing

STRETCH: Final = 60.0
"""Seconds after which a sweep that takes one unit at a time is started anew, so that it does not hold the
sweep lock of the store for as long as its host is busy."""

PATIENCE_AT_EXIT: Final = 10.0
"""Seconds that a process which ends without closing its scheduler waits for a batch to end."""

Run = Callable[[Request], Outcome]


class Scheduler:
    """Sweeps one store when its host is idle, in a daemon thread of its own.

    Use it as a context manager, ``with`` or ``async with``: it starts on entry, and settles a running sweep
    on exit. All methods may be called from any thread. ``run`` does one sweep and returns its outcome; what
    it raises becomes one. No failure leaves the thread, and the thread keeps no process alive.
    """

    def __init__(
        self,
        run: Run,
        *,
        gate: IdleGate,
        memory: Memory,
        timing: Timing | None = None,
        clock: Clock | None = None,
        observer: Callable[[Outcome], None] = log_outcome,
        name: str = "store",
    ) -> None:
        """Prepare; nothing runs before `start`.

        ``observer`` is told every outcome, in the scheduler's thread. ``name`` ends that of the thread.
        """
        self._run = run
        self._gate = gate
        self._memory = memory
        self._clock = clock or SystemTime()
        self._observer = observer
        self._agenda = Agenda(timing or Timing())
        self._changed = threading.Condition()
        self._waits: Why | None = None
        self._stirred = self._breathless = self._gap = False
        self._occupied = self._slowly = self._disturbed = False
        self._observer_failures = 0
        self._thread = threading.Thread(target=self._loop, name=f"afterrun-{name}", daemon=True)

    def start(self) -> None:
        """Start the thread, and request a sweep. Call it once, after the host's start-up recovery."""
        self._gate.listen(self._work_ended)
        atexit.register(self.close, PATIENCE_AT_EXIT)
        self.request(Reason.START_UP)
        self._thread.start()

    def once(self, reason: Reason = Reason.START_UP) -> None:
        """Sweep in this thread if a sweep is due now: for a process that is started now and then.

        It takes the place of `start`. The observer is told the outcome; none is told if nothing was due.
        """
        self.request(reason)
        self._turn()

    def request(self, reason: Reason) -> Standing:
        """Ask for a sweep, and return at once. It joins the one that is scheduled or running.

        A request that no sweep will answer counts as declined in what is returned.
        """
        with self._changed:
            self._agenda.request(reason)
            self._stir()
            return self.standing()

    def standing(self) -> Standing:
        """Say where the sweeps of this store stand."""
        with self._changed:
            idle = self._gate.is_quiet and self._waits is not Why.BUSY  # which may be the probe's word
            standing = self._agenda.standing(moment_of(self._clock), idle=idle)
            return replace(standing, observer_failures=self._observer_failures)

    def wait(self, until: Callable[[Standing], bool], seconds: float | None = None) -> Standing:
        """Wait until the standing fulfils this, at most so many seconds, and return it."""
        with self._changed:
            self._await(lambda: until(self.standing()), seconds)
            return self.standing()

    @contextmanager
    def manual(self, seconds: float | None = None) -> Iterator[None]:
        """Keep sweeps from starting while a manual command runs, and ask for one afterwards.

        Entering waits for a sweep that runs. Raises `StoreLocked` if it has not ended after so many seconds,
        and at once in the scheduler's own thread, as in an observer.
        """
        if self._thread is threading.current_thread():
            raise StoreLocked("this is the thread of the sweeps; run the command from another one")
        with self._changed:
            self._agenda.manual += 1
            self._changed.notify_all()
        try:
            with self._changed:
                if not self._await(lambda: not self._occupied, seconds):
                    raise StoreLocked("a sweep of this store is still running; try again later")
            yield
        finally:
            with self._changed:
                self._agenda.manual -= 1
                self.request(Reason.MAINTENANCE)

    def stop(self) -> None:
        """Start no sweep any more and tell a running one to end after its batch. Returns at once."""
        with self._changed:
            self._agenda.close()
            self._stir()

    def close(self, seconds: float | None = None) -> bool:
        """Stop, and wait until a running sweep is settled. Say whether that was so within the seconds.

        Only then may the host let go of what keeps others from its store.
        """
        self.stop()
        self._gate.forget(self._work_ended)
        if self._thread is threading.current_thread():  # it cannot wait for itself
            return False
        with self._changed:
            settled = self._await(lambda: not self._occupied, seconds)
        if settled:
            atexit.unregister(self.close)
        return settled

    def __enter__(self) -> Self:
        """Start."""
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Settle a running sweep."""
        self.close()

    async def __aenter__(self) -> Self:
        """Start."""
        self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Settle a running sweep without holding up the event loop, also when the task is cancelled."""
        self.stop()
        closing = asyncio.ensure_future(asyncio.to_thread(self.close))
        try:
            await asyncio.shield(closing)
        except asyncio.CancelledError:
            await closing
            raise

    def _loop(self) -> None:
        while not self._agenda.closed:
            self._stirred = False
            seconds = self._turn()
            with self._changed:
                if self._breathless:
                    self._await(lambda: self._agenda.closed, BREATH)
                if not self._stirred:
                    self._clock.wait(self._changed, seconds)

    def _turn(self) -> float | None:
        """Do what is due now, and return the seconds until the next look, ``None`` for never."""
        with self._changed:
            gap, self._gap, self._breathless = self._gap, False, False
            decision = self._look(idle=self._gate.is_quiet, gap=gap)
            unknown = self._waits is Why.BUSY and not self._agenda.recalled
            if isinstance(decision, Wait) and not unknown:
                return decision.seconds
            self._occupied = True
        try:
            return self._look_closely(gap=gap)
        finally:
            with self._changed:
                self._occupied = self._slowly = False
                self._changed.notify_all()

    def _look(self, *, idle: bool, gap: bool) -> Start | Wait:
        decision = self._agenda.look(moment_of(self._clock), idle=idle, gap=gap)
        self._waits = decision.why if isinstance(decision, Wait) else None
        return decision

    def _look_closely(self, *, gap: bool) -> float | None:
        """Look again, knowing what is on record and what the probe says, and sweep if that still is due.

        Both may take a while and are asked without the lock. If the answer is no, they are left alone for a
        moment, however much happens in the host.
        """
        try:
            completed, due_since = self._recall()
        except Exception as error:  # noqa: BLE001 - the host goes on, whatever a state file is like
            self._end(Outcome.raised(error))
            return 0.0
        idle = self._gate.ask_probe()
        with self._changed:
            self._agenda.recall(moment_of(self._clock), completed=completed, due_since=due_since)
            decision = self._look(idle=idle and self._gate.is_quiet, gap=gap)
            self._breathless = isinstance(decision, Wait)
            if isinstance(decision, Wait):
                return decision.seconds
            request = self._begin(one_at_a_time=decision.one_at_a_time, gap=gap, since=completed or 0)
        self._end(self._outcome_of(request))
        return 0.0

    def _recall(self) -> tuple[Instant | None, Instant | None]:
        completed, due_since = self._memory.last_completed(), self._memory.due_since()
        if completed is None and due_since is None:
            due_since = self._clock.wall()
            with suppress(AfterrunError, OSError):  # another sweep has the lock, say: it can be noted later
                self._memory.keep_due_since(due_since)
        return completed, due_since

    def _begin(self, *, one_at_a_time: bool, gap: bool, since: Instant) -> Request:
        self._slowly, self._gap, self._disturbed = one_at_a_time, gap, False
        until = self._clock.monotonic() + STRETCH
        reasons = self._agenda.begin()
        self._changed.notify_all()
        return Request(
            reasons=reasons,
            one_at_a_time=one_at_a_time,
            gate=(lambda: self._may_take_one(until)) if one_at_a_time else self._may_go_on,
            halt=lambda: self._agenda.closed,
            pause=self._pause,
            since=since,
        )

    def _outcome_of(self, request: Request) -> Outcome:
        try:
            return self._run(request)
        except KeyboardInterrupt:  # somebody aborts `once`; no thread but the main one gets it
            self._end(Outcome(ended="interrupted"))
            raise
        except BaseException as error:  # noqa: BLE001 - the thread goes on, and so does the host
            return Outcome.raised(error)

    def _end(self, outcome: Outcome) -> None:
        with self._changed:
            self._slowly = False
            self._agenda.end(outcome, moment_of(self._clock), disturbed=self._disturbed)
            self._changed.notify_all()
        try:
            self._observer(outcome)
        except (Exception, SystemExit):  # noqa: BLE001 - it has no part in sweeping; that it failed shows in the standing
            self._observer_failures += 1

    def _may_go_on(self) -> bool:
        """Answer a sweep that runs while the host is idle."""
        self._disturbed = not self._gate.is_idle
        return not (self._disturbed or self._agenda.closed)

    def _may_take_one(self, until: float) -> bool:
        """Answer a sweep that is overdue: yes, once a piece of work has ended or the host is idle."""
        while True:
            idle = self._gate.is_idle
            with self._changed:
                left = until - self._clock.monotonic()
                if self._agenda.closed or self._agenda.manual or left <= 0:
                    self._disturbed = not idle
                    return False
                if idle or self._gap:
                    self._gap = False
                    return True
                self._clock.wait(self._changed, left)

    def _pause(self, seconds: float) -> None:
        """Spend the rest after a batch, but no longer than the host lives."""
        with self._changed:
            self._await(lambda: self._agenda.closed, seconds)

    def _work_ended(self) -> None:
        """Hear from the gate. The thread is woken only where that may change something."""
        with self._changed:
            if self._slowly:
                self._gap = True
                self._changed.notify_all()
            elif self._waits is Why.BUSY and (
                self._gate.is_quiet or self._agenda.is_overdue(moment_of(self._clock))
            ):
                self._gap = True
                self._stir()

    def _stir(self) -> None:
        self._stirred = True
        self._changed.notify_all()

    def _await(self, done: Callable[[], bool], seconds: float | None) -> bool:
        """Wait, with the lock held, until this is so; say whether it was within the seconds."""
        until = None if seconds is None else self._clock.monotonic() + seconds
        while not done():
            left = None if until is None else until - self._clock.monotonic()
            if left is not None and left <= 0:
                return False
            self._clock.wait(self._changed, left)
        return True
