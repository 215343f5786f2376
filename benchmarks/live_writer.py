"""A live sweep beside a writer that has a transaction due every 5 ms, in both journal modes.

The writer is `tests/concurrency/open_loop.py`: a wait counts from the moment a transaction was due. The sweep
runs at its default pace until the writer is done. Limits: no error, longest wait 500 ms, p99 60 ms; the
write lock is held for at most 50 ms (p99).

The first row of each pair is the writer alone, on the same store just before. Where that row exceeds the
limits, the disk or the machine is busy with something else, and the second row says little.

Run: python benchmarks/live_writer.py [--transactions 20000] [--runs 300000] [--rest 1.0] [--rounds 1]
[--journal delete|wal] [--folder PLACE]
"""

from __future__ import annotations

import argparse
import json
import tempfile
from dataclasses import asdict
from pathlib import Path

from _common import VERSION, header, say
from concurrency.beside_writer import (
    JOURNALS,
    RUNS,
    TRANSACTIONS,
    Measured,
    expired_store,
    sweep_beside_writer,
    write_alone,
)
from concurrency.open_loop import Waits

ALONE = 2_000
"""Transactions of the writer alone: 10 s."""

COLUMNS = (
    *("journal", "beside", "transactions", "errors", "wait p50", "p99", "longest", "over 100"),
    *("held p50", "p99", "longest", "sweep s", "runs/s"),
)


def measure(
    folder: Path, *, journal: str, runs: int, transactions: int, rest: float
) -> tuple[Waits, Measured]:
    """Make a store, measure the writer alone on it, then beside a live sweep."""
    mode = next(known for known in JOURNALS if known == journal)
    store = expired_store(folder / f"{mode}.sqlite", version=VERSION, journal=mode, runs=runs)
    alone = write_alone(store, transactions=ALONE)
    return alone, sweep_beside_writer(store, journal=mode, transactions=transactions, rest=rest)


def cells(waits: Waits) -> list[str]:
    """Write what the writer went through."""
    times = [f"{waits.p50:.1f}", f"{waits.p99:.1f}", f"{waits.longest:.0f}", str(waits.over_100)]
    return [str(waits.transactions), str(len(waits.errors)), *times]


def rows(alone: Waits, measured: Measured) -> list[list[str]]:
    """Write one measurement as two rows of the table."""
    held = [f"{measured.held_p50:.1f}", f"{measured.held_p99:.1f}", f"{measured.held_longest:.0f}"]
    pace = [f"{measured.sweep_seconds:.0f}", f"{measured.removed / measured.sweep_seconds:.0f}"]
    return [
        [measured.journal, "nothing", *cells(alone), *["-"] * 5],
        [measured.journal, "a sweep", *cells(measured.waits), *held, *pace],
    ]


def main() -> None:
    """Measure both journal modes; print the table, then the figures as JSON, an object a line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--transactions", type=int, default=TRANSACTIONS)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--rest", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--journal", choices=JOURNALS, action="append")
    parser.add_argument("--folder", help="where the stores are made: another disk, or one in memory")
    options = parser.parse_args()
    header("A live sweep beside an open-loop writer")
    say("Milliseconds, but for the sweep's length and pace.")
    say()
    say(f"| {' | '.join(COLUMNS)} |")
    say("|---" * len(COLUMNS) + "|")
    results = []
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        for _ in range(options.rounds):
            for journal in options.journal or JOURNALS:
                alone, measured = measure(
                    Path(folder),
                    journal=journal,
                    runs=options.runs,
                    transactions=options.transactions,
                    rest=options.rest,
                )
                results.append({"alone": asdict(alone), **asdict(measured), "faults": measured.faults()})
                for row in rows(alone, measured):
                    say(f"| {' | '.join(row)} |")
    say()
    for result in results:
        say(json.dumps(result))


if __name__ == "__main__":
    main()
