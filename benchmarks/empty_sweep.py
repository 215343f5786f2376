"""What a sweep costs that finds nothing to remove, by the number of runs that are kept.

A sweep's cost shall grow with what expires, not with what is stored. Each store holds finished runs that are
all younger than the policy; the first sweep is on record.

Run: python benchmarks/empty_sweep.py [--runs 10000,100000] [--rounds 15]
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from datetime import timedelta
from pathlib import Path

import afterrun
from _common import expired_store, header, say, spread


def sweep_once(store: Path, state: Path, *, always: bool) -> float:
    """Open the store, sweep it and close it; return the seconds."""
    began = time.perf_counter()
    policy = afterrun.Policy(keep_for=timedelta(days=365))
    with afterrun.Retention(str(store), state=state) as retention:
        report = retention.sweep(policy, always=always)
    seconds = time.perf_counter() - began
    if report.ended != "completed" or report.units.removed:
        raise SystemExit(f"the sweep ended {report.ended} and removed {report.units.removed}")
    return seconds


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", default="10000,100000")
    parser.add_argument("--rounds", type=int, default=15)
    arguments = parser.parse_args()
    sizes = [int(runs) for runs in arguments.runs.split(",")]
    header("Empty sweep")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        stores = {runs: expired_store(folder, runs, expired=0.0) for runs in sizes}
        for runs in sizes:
            sweep_once(stores[runs], folder / "state", always=True)
        times: dict[int, list[float]] = {runs: [] for runs in sizes}
        for _ in range(arguments.rounds):
            for runs in sizes:
                times[runs].append(sweep_once(stores[runs], folder / "state", always=False))
    say("| kept runs | seconds | to the smallest |")
    say("|---|---|---|")
    base = statistics.median(times[sizes[0]])
    for runs in sizes:
        say(f"| {runs} | {spread(times[runs])} | **{statistics.median(times[runs]) / base:.2f}** |")


if __name__ == "__main__":
    main()
