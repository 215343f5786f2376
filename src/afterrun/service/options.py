"""How a sweep or manual apply runs: its bounds, its pace, and whose clock it pauses by."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Self

from afterrun.core.batch import Pace, live_pace, offline_pace
from afterrun.core.errors import UsageError
from afterrun.core.events import Observer
from afterrun.core.report import Report
from afterrun.core.sweep import Budget, Clock


class SystemClock:
    """The monotonic clock and the pause of this machine."""

    def monotonic(self) -> float:
        """Return seconds from some fixed moment."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)


class HostedClock(SystemClock):
    """The monotonic clock of this machine, and a pause that the host spends."""

    def __init__(self, sleep: Callable[[float], None]) -> None:
        """Take the host's way to wait."""
        self._sleep = sleep

    def sleep(self, seconds: float) -> None:
        """Wait."""
        self._sleep(seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepOptions:
    """How a sweep or manual apply runs.

    ``gate`` is asked between batches whether to go on. ``observer`` is told of pages and batches. ``sleep``
    spends the pause after a batch, in seconds; a host's own can end it early. ``halt`` is asked all the
    time, and ends the sweep ``interrupted`` even within a batch or a plan, which then did not happen: the
    host shuts down.
    ``rest`` is the pause after a batch, as a multiple of the time its locks were held. ``offline`` says that
    no engine uses the store meanwhile; with it, ``reclaim`` gives free pages back after a sweep, if there are
    enough of them.
    """

    budget: Budget = field(default_factory=Budget)
    gate: Callable[[], bool] = lambda: True
    observer: Observer = lambda _event: None
    sleep: Callable[[float], None] | None = None
    halt: Callable[[], bool] = lambda: False
    batch_units: int | None = None
    rest: float = 1.0
    offline: bool = False
    reclaim: bool = False

    def __post_init__(self) -> None:
        """Refuse to compact a store that an engine may be using."""
        if self.reclaim and not self.offline:
            raise UsageError("a sweep reclaims space only offline: while no engine uses the store")

    def pace(self, hold: float) -> Pace:
        """Return the pace of batches; ``hold`` is for how many seconds locks are held beside an engine."""
        if self.offline:
            return offline_pace(max_units=self.batch_units)
        return live_pace(hold, rest=self.rest, max_units=self.batch_units)

    def clock(self, own: Clock) -> Clock:
        """Return the clock that batches run by: ``own``, unless the host spends the pauses."""
        return own if self.sleep is None else HostedClock(self.sleep)

    def after(self, report: Report | None) -> Self:
        """Return these options with the budget that an earlier pass left."""
        if report is None:
            return self
        return self.without(seconds=report.seconds, units=report.removed)

    def without(self, *, seconds: float, units: int) -> Self:
        """Return these options with what is left of the budget after so many seconds and removals."""
        most, bound = self.budget.seconds, self.budget.units
        rest = Budget(
            seconds=None if most is None else max(most - seconds, 0.0),
            units=None if bound is None else max(bound - units, 0),
        )
        return replace(self, budget=rest)

    def within(self, allowance: int) -> Self:
        """Return these options for a sweep that may remove so many units and no more."""
        units = self.budget.units
        bound = allowance if units is None else min(allowance, units)
        return replace(self, budget=replace(self.budget, units=bound))
