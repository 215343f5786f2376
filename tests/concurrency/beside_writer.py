"""One measurement: a live sweep of expired runs beside an open-loop writer. Shared with the benchmark."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Literal

import afterrun
from afterrun.core.events import BatchDone, Event
from concurrency.open_loop import Waits, percentile, writing
from engines.stores import clone_store

Journal = Literal["delete", "wal"]
JOURNALS: tuple[Journal, ...] = ("delete", "wal")
POLICY = afterrun.Policy(keep_for=timedelta(days=29))

MAX_WAIT_MS = 500.0
MAX_P99_MS = 60.0
MAX_HELD_MS = 50.0
TRANSACTIONS = 20_000
RUNS = 300_000
"""Expired runs, enough for the sweep to outlast the writer's 100 s on any machine met so far."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A live sweep and the writer beside it. Times are milliseconds unless named seconds."""

    journal: Journal
    waits: Waits
    held_p50: float
    held_p99: float
    held_longest: float
    batches: int
    removed: int
    deferred: int
    sweep_seconds: float
    ended: str

    def faults(self) -> list[str]:
        """Say which limits of a live sweep are exceeded."""
        limits = {
            "longest wait": (self.waits.longest, MAX_WAIT_MS),
            "p99 of waits": (self.waits.p99, MAX_P99_MS),
            "p99 of the lock held": (self.held_p99, MAX_HELD_MS),
        }
        found = [
            f"{name} {value:.1f} ms > {most:.0f} ms" for name, (value, most) in limits.items() if value > most
        ]
        if self.waits.errors:
            found.append(f"{len(self.waits.errors)} errors, the first {self.waits.errors[0]}")
        if self.ended != "interrupted":
            found.append(f"the sweep ended {self.ended}, before the writer was done")
        return found


def expired_store(path: Path, *, version: str, journal: Journal, runs: int) -> Path:
    """Make a store of runs that are all expired, and wait until it is on the disk.

    Otherwise the system writes it back during the measurement, and every commit waits behind that.
    """
    path.unlink(missing_ok=True)
    clone_store(None, path, runs=runs, version=version, journal=journal)
    with path.open("rb+") as file:
        os.fsync(file.fileno())
    return path


def write_alone(store: Path, *, transactions: int) -> Waits:
    """Measure the writer with no sweep: what the machine and its disk cost by themselves."""
    with writing(store, transactions=transactions, prefix="alone-") as writer:
        return writer.waits()


def sweep_beside_writer(
    store: Path, *, journal: Journal, transactions: int, every_ms: float = 5.0, rest: float = 1.0
) -> Measured:
    """Sweep a store of expired runs, at the live pace, until the writer beside it is done."""
    held: list[float] = []

    def observe(event: Event) -> None:
        if isinstance(event, BatchDone):
            held.append(event.held * 1_000)

    with (
        tempfile.TemporaryDirectory() as state,
        afterrun.Retention(str(store), state=Path(state)) as retention,
        writing(store, transactions=transactions, every_ms=every_ms) as writer,
    ):
        options = afterrun.SweepOptions(gate=writer.active, observer=observe, rest=rest)
        report = retention.sweep(POLICY, options=options, always=True)
        waits = writer.waits()
    held.sort()
    return Measured(
        journal=journal,
        waits=waits,
        held_p50=percentile(held, 0.50),
        held_p99=percentile(held, 0.99),
        held_longest=held[-1],
        batches=report.batches,
        removed=report.units.removed,
        deferred=report.units.deferred,
        sweep_seconds=report.seconds,
        ended=report.ended,
    )
