"""The agenda of one store: what is due, and why nothing happens yet. Pure: no clock, no thread, no I/O.

Everything that happens is told to it with the moment it happened at, and `look` says what to do now.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal

from afterrun.core.times import CLOCK_SKEW, SECOND, Instant, micros
from afterrun.schedule.clock import Moment
from afterrun.schedule.outcome import Outcome
from afterrun.schedule.request import Reason, Timing

OVERDUE_INTERVALS: Final = 3
"""Intervals past the time a sweep was due after which it is overdue: its host is never idle."""

BREATH: Final = 1.0
"""Seconds between an interrupted sweep and the next. A host that is idle for moments only would otherwise pay
for a plan in each of them."""

LONGEST_WAIT: Final = 3_600.0
"""Seconds after which the clocks are read again: a machine that slept, or whose clock was set, is noticed."""


class Why(StrEnum):
    """Why no sweep starts just now."""

    RUNNING = "running"
    INTERVAL = "interval"
    BUSY = "busy"
    MANUAL = "manual"
    INTERRUPTED = "interrupted"
    BUDGET = "budget"
    FAILED = "failed"
    LOCKED = "locked"
    GUARD = "guard"
    REFUSED = "refused"
    OFF = "off"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class Start:
    """A sweep starts now."""

    one_at_a_time: bool


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing starts. Look again after so many seconds, ``None`` for never, and when something happens."""

    why: Why
    seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Where the sweeps of one store stand: counts, times and stable words, fit for status and metrics.

    Attributes:
        state: in a word. ``due`` is a sweep that would run, but for ``why``.
        why: why none starts just now.
        seconds: until the next look, as far as time alone decides.
        reasons: of the requests that wait or are being answered.
        overdue: the sweep is overdue, so that it also runs one unit at a time between pieces of work.
        completed_at: when the last sweep was completed.
        last: how the last one ended, as a word, and ``kind`` of its failure.
        sweeps: how many started in this process.
        declined: requests that no sweep will answer: automatic ones are off, or the host shuts down.
        observer_failures: how often the observer raised.
    """

    state: Literal["off", "waiting", "due", "running", "closed"]
    why: Why | None
    seconds: float | None
    reasons: tuple[Reason, ...]
    overdue: bool
    completed_at: Instant | None
    last: str
    kind: str
    sweeps: int
    declined: int
    observer_failures: int = 0


class Agenda:
    """Decides when a sweep of one store starts.

    How a sweep ended decides what comes next. *Completed*: one interval passes. *Interrupted*: it stays due,
    and starts again as soon as the host is idle. *Budget*: it stays due, and goes on after the retry time. A
    budget bounds how much happens at one stretch; the store has not been swept through, so this is no
    completed sweep, and a backlog larger than one budget is gone after some stretches rather than after some
    days. *Failed* and *locked*: again after the retry time; if the other sweep was completed meanwhile, that
    one counts. *Guard* and *refused*: only a person can change anything, so it is asked again after an
    interval, when a person asks for it, or when the host is started again.
    """

    def __init__(self, timing: Timing) -> None:
        """Start with nothing known and nothing asked for."""
        self._timing = timing
        self._interval = micros(timing.interval)
        self._retry = timing.retry.total_seconds()
        self._reasons: dict[Reason, None] = {}
        self._answered: tuple[Reason, ...] = ()
        self._hasty = False
        self._held_off: tuple[Why, float | None] | None = None
        self._completed: Instant | None = None
        self._due_since: Instant | None = None
        self._disturbed = False
        self._last: Outcome | None = None
        self._sweeps = 0
        self._declined = 0
        self._running = False
        self.recalled = False
        self.manual = 0
        self.closed = False

    def request(self, reason: Reason) -> None:
        """Ask for a sweep. It joins the one that is scheduled or running.

        Where no sweep can answer it, it counts as declined.
        """
        if self.closed or not (self._timing.automatic or reason is Reason.MANUAL):
            self._declined += 1
            return
        self._reasons[reason] = None
        if reason is Reason.MANUAL:
            self._hasty = True

    def recall(self, now: Moment, *, completed: Instant | None, due_since: Instant | None) -> None:
        """Take in what is on record. What lies in the future is from a wrong clock and says nothing."""
        latest = now.wall + micros(CLOCK_SKEW)
        self.recalled = True
        self._completed = completed if completed is not None and completed <= latest else None
        if due_since is not None and due_since <= now.wall:
            self._due_since = due_since
        elif self._due_since is None:
            self._due_since = now.wall

    def look(self, now: Moment, *, idle: bool, gap: bool) -> Start | Wait:
        """Say what to do now. ``gap``: a piece of the host's work has just ended."""
        wait = self._wait(now)
        if wait is not None:
            return wait
        overdue = self.is_overdue(now)
        if not idle and not (overdue and gap):
            return Wait(Why.BUSY, self._retry)
        return Start(one_at_a_time=overdue and (not idle or self._disturbed))

    def _wait(self, now: Moment) -> Wait | None:
        """Say what a sweep waits for that has nothing to do with the host's work."""
        if self._running or self.closed:
            return Wait(Why.RUNNING if self._running else Why.CLOSED, None)
        by_hand = Reason.MANUAL in self._reasons
        if not (self._timing.automatic or by_hand):
            return Wait(Why.OFF, None)
        left = self._left(now)
        if left > 0 and not by_hand:
            return Wait(Why.INTERVAL, min(left, LONGEST_WAIT))
        if self.manual:
            return Wait(Why.MANUAL, None)
        if self._held_off is not None and not self._hasty:
            why, until = self._held_off
            if until is None or now.monotonic < until:
                return Wait(why, None if until is None else min(until - now.monotonic, LONGEST_WAIT))
        return None

    def _left(self, now: Moment) -> float:
        """Return the seconds until a sweep is due; less than zero if it is due since then."""
        due = self._due_since if self._completed is None else self._completed + self._interval
        return 0.0 if due is None else (due - now.wall) / SECOND

    def is_overdue(self, now: Moment) -> bool:
        """Say whether a sweep is due for so long that the host must count as never idle."""
        if not (self._timing.automatic and self.recalled):
            return False
        return -self._left(now) * SECOND >= OVERDUE_INTERVALS * self._interval

    def begin(self) -> tuple[Reason, ...]:
        """Note that a sweep starts, and return the reasons of all requests that it answers."""
        if not self._reasons:
            self._reasons[Reason.INTERVAL] = None
        self._answered = tuple(self._reasons)
        self._hasty = False
        self._held_off = None
        self._running = True
        self._sweeps += 1
        return self._answered

    def end(self, outcome: Outcome, now: Moment, *, disturbed: bool) -> None:
        """Take in how a sweep ended, or what kept it from starting.

        ``disturbed``: it was cut off by the host's work.
        """
        self._running = self._hasty = False
        self._last = outcome
        self._disturbed = disturbed
        interval = self._timing.interval.total_seconds()
        match outcome.ended:
            case "completed":
                self._completed, self._reasons, self._held_off = now.wall, {}, None
            case "interrupted":
                self._held_off = (Why.INTERRUPTED, now.monotonic + BREATH)
            case "guard" | "refused":
                self._reasons.pop(Reason.MANUAL, None)
                until = now.monotonic + interval if self._timing.automatic else None
                self._held_off = (Why(outcome.ended), until)
            case _:
                self._held_off = (Why(outcome.ended), now.monotonic + self._retry)

    def close(self) -> None:
        """Start no sweep any more. What waits stays due, and is found so at the next start."""
        self.closed = True

    def standing(self, now: Moment, *, idle: bool) -> Standing:
        """Describe the agenda."""
        decision = self.look(now, idle=idle, gap=False)
        why, seconds = (decision.why, decision.seconds) if isinstance(decision, Wait) else (None, 0.0)
        return Standing(
            state=_state(why),
            why=why,
            seconds=seconds,
            reasons=tuple(self._reasons),
            overdue=self.is_overdue(now),
            completed_at=self._completed,
            last="" if self._last is None else self._last.ended,
            kind="" if self._last is None else self._last.kind,
            sweeps=self._sweeps,
            declined=self._declined,
        )


def _state(why: Why | None) -> Literal["off", "waiting", "due", "running", "closed"]:
    match why:
        case Why.RUNNING:
            return "running"
        case Why.INTERVAL:
            return "waiting"
        case Why.OFF:
            return "off"
        case Why.CLOSED:
            return "closed"
        case _:
            return "due"
