"""How long a sweep leaves the store alone between two batches."""

from __future__ import annotations

from datetime import timedelta
from typing import Self

import pytest

from afterrun import Policy
from afterrun.core.batch import live_pace, offline_pace
from afterrun.core.store import Transaction
from fakes import FakeClock, sweep
from memory import Wrapped, WrappedTransaction
from sites import MemorySite, fill, run


class Queueing(Wrapped):
    """A store whose lock is had only after a wait."""

    def __init__(self, site: MemorySite, clock: FakeClock, *, seconds: float) -> None:
        super().__init__(site.store)
        self.clock = clock
        self.seconds = seconds

    def transaction(self, *, seconds: float) -> Transaction:
        return _QueuedTransaction(self, self.inner.transaction(seconds=seconds))


class _QueuedTransaction(WrappedTransaction):
    def __init__(self, store: Queueing, inner: Transaction) -> None:
        super().__init__(store, inner)
        self._queueing = store

    def __enter__(self) -> Self:
        self._queueing.clock.seconds += self._queueing.seconds
        return super().__enter__()


@pytest.mark.parametrize(("waited", "pause"), [(0.0, 0.025), (0.01, 0.025), (0.3, 0.3), (5.0, 1.0)])
def test_a_sweep_that_had_to_wait_leaves_the_engine_as_long_alone(waited: float, pause: float) -> None:
    """Promise 6: an engine with a backlog gets time to work it off, up to a second after each batch."""
    clock, site = FakeClock(), MemorySite()
    fill(site, [run("x")])
    sweep(Queueing(site, clock, seconds=waited), Policy(keep_for=timedelta(days=30)), clock=clock)
    assert clock.sleeps == pytest.approx([pause])


def test_the_pause_grows_with_what_the_user_asked_for() -> None:
    """The multiple counts for both; without one only the shortest pause is left, and offline none."""
    assert live_pace(0.02, rest=2.0).pause(held=0.1, waited=0.0) == pytest.approx(0.2)
    assert live_pace(0.02, rest=2.0).pause(held=0.1, waited=0.3) == pytest.approx(0.6)
    assert live_pace(0.02, rest=0.0).pause(held=0.1, waited=0.3) == pytest.approx(0.025)
    assert offline_pace().pause(held=2.0, waited=2.0) == 0.0
