"""A writer that has a transaction due every 5 ms, beside a live sweep."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from afterrun import Retention
from concurrency import open_loop
from concurrency.beside_writer import (
    JOURNALS,
    RUNS,
    TRANSACTIONS,
    Journal,
    expired_store,
    sweep_beside_writer,
)
from concurrency.open_loop import PREFIX, WARM_UP, write
from engines.stores import ENGINES

SOAK: Final = os.environ.get("AFTERRUN_SOAK") == "1"
BUSY_MS: Final = 5_000.0
"""The writer's busy timeout: beyond it SQLite gives up with `database is locked`."""


@pytest.mark.engine
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("journal", JOURNALS)
def test_writer_beside_a_live_sweep_is_never_refused(journal: Journal, tmp_path: Path) -> None:
    """No transaction fails or waits for long, and the sweep gets on; the long form holds the limits.

    The limits are times, so only the long form, on a machine that does nothing else, asserts them.
    """
    transactions, every_ms, runs = (TRANSACTIONS, 5.0, RUNS) if SOAK else (1_000, 10.0, 40_000)
    store = expired_store(tmp_path / "store.sqlite", version=ENGINES[0], journal=journal, runs=runs)
    measured = sweep_beside_writer(store, journal=journal, transactions=transactions, every_ms=every_ms)
    assert measured.waits.errors == ()
    assert measured.waits.slowest < BUSY_MS
    assert measured.deferred == 0
    assert measured.removed > 0
    written, rest = count(store)
    assert written == transactions // 2 + 10  # and the ten of its warm-up
    assert rest == runs - measured.removed
    with Retention(str(store), state=tmp_path / "state", writable=False) as retention:
        assert list(retention.verify()) == []
    if SOAK:
        assert measured.sweep_seconds >= 60
        assert measured.faults() == []


class Clock:
    """Time that passes only when somebody sleeps or works."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Stuck:
    """A writer whose tenth transaction takes a second; every other one takes a millisecond."""

    failures = (OSError,)

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def transact(self, number: int) -> None:
        self._clock.now += 1.0 if number == WARM_UP + 10 else 0.001


def test_every_transaction_due_behind_a_lock_is_charged_its_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """The measurement itself: one lock of a second is felt by all that were due meanwhile, not by one."""
    clock = Clock()
    monkeypatch.setattr(open_loop, "time", clock)
    waits = write(Stuck(clock), transactions=1_000, every=0.005)
    assert waits.longest == waits.slowest == pytest.approx(1_000)
    assert waits.over_100 == 225  # a backlog of 900 ms above the mark, 4 ms shorter with each transaction
    assert waits.p50 == pytest.approx(1)


def count(store: Path) -> tuple[int, int]:
    """Return the writer's runs that are finished, and all others."""
    with closing(sqlite3.connect(store)) as connection:
        query = "SELECT count(*) FROM workflow_status WHERE workflow_uuid LIKE ? AND status = 'SUCCESS'"
        written = connection.execute(query, (f"{PREFIX}%",)).fetchone()[0]
        return written, connection.execute("SELECT count(*) FROM workflow_status").fetchone()[0] - written
