"""Requests: why a sweep is wanted, how often one may be completed, and what the one that runs may ask."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Final

from afterrun.core.errors import UsageError
from afterrun.core.times import Instant

INTERVAL: Final = timedelta(hours=24)
RETRY: Final = timedelta(minutes=5)


class Reason(StrEnum):
    """Why a sweep is asked for.

    ``MANUAL`` is a person who wants one now: it passes over the interval and over a back-off, also where
    automatic sweeps are off. It waits for an idle host like any other.
    """

    START_UP = "start-up"
    RUNNER_EXIT = "runner-exit"
    MAINTENANCE = "maintenance"
    INTERVAL = "interval"
    MANUAL = "manual"


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """How often a store is swept.

    Attributes:
        interval: from one completed sweep to the next; zero turns automatic sweeps off.
        retry: from a sweep that failed, was put off or ran out of budget to the next attempt.
    """

    interval: timedelta = INTERVAL
    retry: timedelta = RETRY

    def __post_init__(self) -> None:
        """Refuse times that would turn in circles."""
        if self.interval < timedelta(0):
            raise UsageError("the interval between two sweeps is negative; zero turns them off")
        if self.retry <= timedelta(0):
            raise UsageError("the time until a sweep is tried again must be more than zero")

    @property
    def automatic(self) -> bool:
        """Say whether sweeps start by themselves."""
        return self.interval > timedelta(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What the sweep that starts is given.

    Attributes:
        reasons: of all requests that it answers, the oldest first.
        one_at_a_time: remove one unit in a batch: the host is never idle, and the gate opens between two
            pieces of its work.
        gate: asked before each batch whether to go on. It may wait, so nothing may be locked meanwhile.
        halt: asked all the time; yes means that the host shuts down, and that a plan or a batch which has
            begun is given up.
        pause: spends the rest after a batch, in seconds; it returns early when the host shuts down.
        since: when the last sweep was completed, zero for never. Once it has the store to itself, the sweep
            must make sure that none was completed after that, and raise `StoreLocked` otherwise.
    """

    reasons: tuple[Reason, ...]
    one_at_a_time: bool
    gate: Callable[[], bool]
    halt: Callable[[], bool]
    pause: Callable[[float], None]
    since: Instant = 0
