"""Sweeps that are observed."""

from __future__ import annotations

from datetime import timedelta

from afterrun import Policy, Report, Retention, SweepOptions
from afterrun.core.events import (
    BatchDone,
    BatchFailed,
    BlobsDone,
    Event,
    Observer,
    PageRead,
    SweepEnded,
    UnitDeferred,
)
from afterrun.telemetry import compose

MONTH = Policy(keep_for=timedelta(days=30))

EVENTS: tuple[Event, ...] = (
    PageRead(40, 11),
    BatchDone(3, 9, 40, 1, 0.25),
    BlobsDone(5, 50, 6, 0.125),
    BatchFailed(8, "lock"),
    UnitDeferred("timeout"),
    SweepEnded("completed", 11, 1.5),
)
"""One of each."""


def swept(retention: Retention, *observers: Observer, always: bool = True, units: int = 2) -> Report:
    """Sweep with these observers, in batches of so many units."""
    options = SweepOptions(observer=compose(*observers), batch_units=units, rest=0.0)
    return retention.sweep(MONTH, options=options, always=always)


class Failing:
    """An observer that raises at every event, or at one kind."""

    def __init__(self, error: BaseException, kind: type[Event] | None = None) -> None:
        self.error = error
        self.kind = kind
        self.seen = 0

    def __call__(self, event: Event) -> None:
        if self.kind is None or isinstance(event, self.kind):
            self.seen += 1
            raise self.error
