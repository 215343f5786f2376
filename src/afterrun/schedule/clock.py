"""Time, as the schedule reads it; handed in, so that tests need none."""

from __future__ import annotations

import threading
import time
from typing import NamedTuple, Protocol

from afterrun.core.times import Instant


class Moment(NamedTuple):
    """One look at both clocks.

    ``monotonic`` (seconds) measures waits within a process. ``wall`` (an instant) is what outlives it: the
    interval between two completed sweeps is kept by that one.
    """

    monotonic: float
    wall: Instant


class Clock(Protocol):
    """Both clocks, and a wait that something else can end early."""

    def monotonic(self) -> float:
        """Return seconds from some fixed moment."""

    def wall(self) -> Instant:
        """Return the time of day."""

    def wait(self, changed: threading.Condition, seconds: float | None) -> None:
        """Wait until the condition, which the caller holds, is notified, or the seconds are over."""


class SystemTime:
    """The clocks of this machine."""

    def monotonic(self) -> float:
        """Return seconds from some fixed moment."""
        return time.monotonic()

    def wall(self) -> Instant:
        """Return the time of day."""
        return time.time_ns() // 1_000

    def wait(self, changed: threading.Condition, seconds: float | None) -> None:
        """Wait until the condition is notified, or the seconds are over."""
        changed.wait(None if seconds is None else min(seconds, threading.TIMEOUT_MAX))


def moment_of(clock: Clock) -> Moment:
    """Look at both clocks."""
    return Moment(clock.monotonic(), clock.wall())
