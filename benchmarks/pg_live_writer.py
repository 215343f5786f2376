"""A live sweep on PostgreSQL beside a writer that has a transaction due every 5 ms: alone, beside, alone.

A sweep at every pause of `--rest` is measured in the same run, each between two measurements of the writer
alone; the limit on p99 compares it with the larger of the two.

The writer is `tests/concurrency/pg_open_loop.py`: a wait counts from the moment a transaction was due.
Limits: no error, p99 at most 1.5 times that of the writer alone, longest wait 250 ms.

Run: python benchmarks/pg_live_writer.py [--transactions 20000] [--runs 600000] [--rest 1.0 3.0]
"""

from __future__ import annotations

import argparse
import os
import tempfile
from datetime import timedelta
from pathlib import Path

import afterrun
from _common import VERSION, header, say
from afterrun.core.events import BatchDone, Event
from concurrency import pg_open_loop
from concurrency.open_loop import Waits, percentile, writing
from engines.pg_stores import clone_pg_store
from pg_server import Database, Server

POLICY = afterrun.Policy(keep_for=timedelta(days=29))
WARM_UP = 2_000
"""Transactions before the first that count."""

SETTINGS = {
    "shared_buffers": "4GB",
    "max_wal_size": "8GB",
}  # a quarter of the memory, as its manual advises, less some


def settle(store: Database) -> None:
    """Have everything on the disk that making the store left for later."""
    with store.connect("postgres") as connection:
        connection.execute(b"CHECKPOINT")
    os.sync()


def alone(store: Database, *, transactions: int, prefix: str) -> Waits:
    """Measure the writer with no sweep."""
    with writing(
        store.url(), transactions=transactions, prefix=prefix, script=pg_open_loop.__file__
    ) as writer:
        return writer.waits()


def beside(
    store: Database, *, transactions: int, rest: float, number: int
) -> tuple[Waits, afterrun.Report, list[float]]:
    """Sweep, at the live pace, until the writer is done; return its waits, the report and the batches."""
    held: list[float] = []

    def observe(event: Event) -> None:
        if isinstance(event, BatchDone):
            held.append(event.held * 1_000)

    with (
        tempfile.TemporaryDirectory() as state,
        afterrun.Retention(store.url(), state=Path(state)) as retention,
        writing(
            store.url(), transactions=transactions, prefix=f"beside-{number}-", script=pg_open_loop.__file__
        ) as writer,
    ):
        options = afterrun.SweepOptions(gate=writer.active, observer=observe, rest=rest)
        report = retention.sweep(POLICY, options=options, always=True)
        return writer.waits(), report, sorted(held)


def row(name: str, waits: Waits, rest: str = "- | - | - | - | -") -> str:
    """Write one line of the table."""
    return (
        f"| {name} | {waits.transactions} | {len(waits.errors)} | {waits.p50:.1f} | {waits.p99:.1f} | "
        f"{waits.longest:.0f} | {waits.over_100} | {rest} |"
    )


def pace(held: list[float], report: afterrun.Report, times: float) -> str:
    """Write how long batches held their locks, what was removed a second, and the p99 as a ratio."""
    return (
        f"{percentile(held, 0.5):.0f} | {percentile(held, 0.99):.0f} | {held[-1]:.0f} | "
        f"{report.units.removed / report.seconds:.0f} | {times:.2f}"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--transactions", type=int, default=20_000)
    parser.add_argument("--runs", type=int, default=600_000)
    parser.add_argument("--rest", type=float, nargs="+", default=[1.0, 3.0])
    options = parser.parse_args()
    header("A live sweep on PostgreSQL beside an open-loop writer")
    say("Milliseconds, but for the pace.")
    say()
    say(
        "| beside | transactions | errors | wait p50 | p99 | longest | over 100 | held p50 | p99 | longest | "
        "runs/s | p99 to alone |"
    )
    say("|---" * 12 + "|")
    with Server(durable=True, settings=SETTINGS) as server:
        store = server.create_database()
        clone_pg_store(store, runs=options.runs, version=VERSION, shape="flat", expired=1.0)
        settle(store)
        alone(store, transactions=WARM_UP, prefix="warm-up-")
        before = alone(store, transactions=options.transactions, prefix="before-")
        say(row("nothing", before))
        for number, rest in enumerate(options.rest):
            waits, report, held = beside(store, transactions=options.transactions, rest=rest, number=number)
            after = alone(store, transactions=options.transactions, prefix=f"after-{number}-")
            times = waits.p99 / max(before.p99, after.p99)
            say(row(f"a sweep, pause {rest:g} ({report.ended})", waits, pace(held, report, times)))
            say(row("nothing", after))
            for error in waits.errors[:3]:
                say(error)
            before = after


if __name__ == "__main__":
    main()
