"""What an inspection costs, and how far its estimates are off, by the size of the store.

Each store holds finished runs in trees, over 120 days. Sizes of tables from samples are held against those
that reading every page gives; units that 7, 30 and 90 days would free against a plan's.

Run: python benchmarks/inspect_size.py [--runs 100000,600000] [--pruned]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from datetime import timedelta
from pathlib import Path

import afterrun
from _common import header, say
from afterrun.core.inspection import HORIZONS, Inspection
from engines.stores import clone_store

LARGE = 0.01
"""Share of the store above which a table's size is compared."""


def make(folder: Path, runs: int, *, pruned: bool) -> Path:
    """Make a store; ``pruned``: what is older than 30 days was removed from it, its pages are free."""
    store = folder / f"{runs}.sqlite"
    clone_store(None, store, runs=runs, version="3.4.0", shape="tree", expired=0.5, spread_days=90)
    if pruned:
        with afterrun.Retention(str(store), state=folder / "state") as retention:
            policy = afterrun.Policy(keep_for=timedelta(days=30))
            retention.prune(policy, options=afterrun.SweepOptions(offline=True))
    return store


def inspected(store: Path, *, exact: bool) -> tuple[Inspection, float]:
    """Inspect in a connection of its own; return the seconds with opening and closing."""
    began = time.perf_counter()
    with afterrun.Retention(str(store), writable=False) as retention:
        found = retention.inspect(exact=exact)
    return found, time.perf_counter() - began


def planned(store: Path, days: int) -> tuple[int, float]:
    """Return the units that a plan would let go, and its seconds."""
    began = time.perf_counter()
    with afterrun.Retention(str(store), writable=False) as retention:
        report = retention.plan(afterrun.Policy(keep_for=timedelta(days=days)))
    return report.units.expired, time.perf_counter() - began


def off(guessed: float, real: float) -> float:
    """Return by how much an estimate is off, as a part of the real figure."""
    return abs(guessed - real) / real if real else 0.0


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", default="100000,600000")
    parser.add_argument("--pruned", action="store_true")
    arguments = parser.parse_args()
    header("Inspection" + (" after a removal" if arguments.pruned else ""))
    say("| runs | GB | seconds | exact, s | a plan, s | worst table, bytes | rows | worst age, units |")
    say("|---|---|---|---|---|---|---|---|")
    for runs in (int(word) for word in arguments.runs.split(",")):
        with tempfile.TemporaryDirectory() as name:
            store = make(Path(name), runs, pruned=arguments.pruned)
            found, seconds = inspected(store, exact=False)
            exact, reading = inspected(store, exact=True)
            content = sum(table.total for table in exact.tables)
            real = {table.name: table for table in exact.tables if table.total > LARGE * content}
            guessed = {table.name: table for table in found.tables}
            size = max(off(guessed[table].total, real[table].total) for table in real)
            rows = max(off(guessed[table].rows, real[table].rows) for table in real)
            plans = {days: planned(store, days) for days in HORIZONS}
            units = max(off(ahead.units, plans[ahead.days][0]) for ahead in found.look.ahead)
            say(
                f"| {runs} | {exact.space.on_disk / 1e9:.2f} | **{seconds:.1f}** | {reading:.1f} | "
                f"{plans[HORIZONS[0]][1]:.1f} | {size:.1%} | {rows:.1%} | {units:.1%} |"
            )


if __name__ == "__main__":
    main()
