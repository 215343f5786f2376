"""Removal of old run folders, against the floor; what it reads; and how it treats a host's thread.

The floor is `shutil.rmtree` of every run in a shuffled order, over a copy of the same store on the same disk.
The ratios are those of one round. Each store has runs of three files, as pi-subagents makes them.

Where a figure could grow with the store it is measured on all runs: the floor, the offline removal, the host,
what is read, and memory. The live pace and repeated rounds are measured on a tenth of them: a live removal of
34,000 runs on a slow disk takes minutes, and the time a run takes is the same on either size, which is
printed, too.

Run: python benchmarks/directories.py [--runs 34000] [--rounds 3] [--folder DIR]
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import random
import resource
import shutil
import statistics
import subprocess
import tempfile
import time
from datetime import timedelta
from pathlib import Path

from _common import answer, header, say, spread, worker
from afterrun import Policy, SweepOptions
from afterrun.core.sweep import Budget
from afterrun.service import DirectoryRetention

KEPT = Policy(keep_for=timedelta(days=60))
MONTH = Policy(keep_for=timedelta(days=30))
OLD_DAYS = 40
LIMIT_RATIO = 2.5
LIMIT_ENTRIES = 3.0
LIMIT_PAUSE_MS = 50.0
LIMIT_GROWTH = 1.5
LIMIT_BYTES_A_RUN = 4_000
TICK = 0.002
HOST_SECONDS = 8.0
PART = 10
NESTED = 3


def make_store(root: Path, runs: int, *, nested: int = 0) -> Path:
    """Make a store of finished runs of three files, each with so many nested runs below it."""
    folder = root / "async-subagent-runs"
    folder.mkdir(parents=True)
    for number in range(runs):
        name = f"{random.Random(number).getrandbits(64):016x}"
        make_run(folder / name)
        for place in range(nested):
            (root / "nested-subagent-runs" / name).mkdir(parents=True, exist_ok=True)
            make_run(root / "nested-subagent-runs" / name / f"{name}-{place}")
    return root


def make_run(run: Path) -> None:
    """Make one run that ended long ago."""
    old = time.time() - OLD_DAYS * 86_400
    ended = int(old * 1_000)
    status = {
        "runId": run.name,
        "state": "complete",
        "mode": "single",
        "startedAt": ended - 60_000,
        "endedAt": ended,
        "lastUpdate": ended,
        "steps": [{"agent": "worker", "status": "complete"}],
    }
    run.mkdir()
    (run / "status.json").write_text(json.dumps(status))
    (run / "events.jsonl").write_text('{"type": "started"}\n' * 20)
    (run / "output-0.log").write_text("a line of output\n" * 40)
    for path in (*run.iterdir(), run):
        os.utime(path, (old, old))


def measure_floor(root: Path) -> float:
    """Remove every run by the standard library, in a shuffled order."""
    folder = root / "async-subagent-runs"
    names = os.listdir(folder)  # noqa: PTH208 - names are all that is wanted
    random.Random(1).shuffle(names)
    began = time.perf_counter()
    for name in names:
        shutil.rmtree(folder / name)
    return time.perf_counter() - began


def measure_afterrun(
    root: Path, *, offline: bool, batch_units: int | None = None, budget: Budget | None = None
) -> dict[str, float]:
    """Remove every run by a manual apply; return its seconds and what it read."""
    options = SweepOptions(offline=offline, batch_units=batch_units, budget=budget or Budget())
    with (
        tempfile.TemporaryDirectory() as state,
        DirectoryRetention(str(root), state=Path(state)) as retention,
    ):
        began = time.perf_counter()
        report = retention.prune(MONTH, options=options)
        seconds = time.perf_counter() - began
        return {
            "seconds": seconds,
            "removed": float(report.removed),
            "entries": float(retention.store.site.entries_read),
            "statuses": float(retention.store.site.statuses_read),
            "folders": float(report.rows.get("folders", 0)),
            "longest": report.longest_batch,
            "peak": float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1_024),
        }


def measure_host(root: Path) -> dict[str, float]:
    """Remove runs for some seconds in a thread beside an event loop; return how long the loop stood still.

    ``pause_ms`` is the longest time by the clock. ``own_ms`` is the same without what other processes of a
    busy machine took: the processor time of this process meanwhile, if that is less.
    """

    async def run() -> dict[str, float]:
        longest, own, over = 0.0, 0.0, False

        async def tick() -> None:
            nonlocal longest, own
            while not over:
                before, used = time.perf_counter(), time.process_time()
                await asyncio.sleep(TICK)
                late = time.perf_counter() - before - TICK
                longest = max(longest, late)
                own = max(own, min(late, time.process_time() - used))

        ticking = asyncio.create_task(tick())
        found = await asyncio.to_thread(
            measure_afterrun, root, offline=False, budget=Budget(seconds=HOST_SECONDS)
        )
        over = True
        await ticking
        return {"pause_ms": longest * 1_000, "own_ms": own * 1_000, "removed": found["removed"]}

    return asyncio.run(run())


def retained(root: Path) -> dict[str, float]:
    """Plan a store of which nothing goes; return what was read."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with (
        tempfile.TemporaryDirectory() as state,
        DirectoryRetention(str(root), state=Path(state)) as retention,
    ):
        began = time.perf_counter()
        report = retention.plan(KEPT)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return {
            "seconds": time.perf_counter() - began,
            "stays": float(report.units.recent),
            "entries": float(retention.store.site.entries_read),
            "statuses": float(retention.store.site.statuses_read),
            "memory": float((peak - before) * 1_024),
        }


def work(kind: str, folder: Path) -> None:
    """Measure one thing in this process, which has done nothing else."""
    if kind == "floor":
        answer(seconds=measure_floor(folder))
    elif kind in ("host", "frozen-host"):
        if kind == "frozen-host":
            gc.freeze()
        answer(**measure_host(folder))
    elif kind == "retained":
        answer(**retained(folder))
    elif kind == "trees":
        answer(**measure_afterrun(folder, offline=False, batch_units=50))
    else:
        answer(**measure_afterrun(folder, offline=kind == "offline"))


def copied(source: Path, name: str) -> Path:
    """Copy a store beside itself, with its times, and let the disk come to rest."""
    copy = source.with_name(name)
    subprocess.run(["cp", "-a", str(source), str(copy)], check=True)
    os.sync()
    return copy


def measure(kind: str, source: Path) -> dict[str, float]:
    """Measure one thing on a copy of a store."""
    copy = copied(source, f"{kind}-copy")
    found: dict[str, float] = worker(__file__, kind, str(copy))
    shutil.rmtree(copy)
    return found


def compare(folder: Path, runs: int, rounds: int, kinds: tuple[str, ...]) -> dict[str, float]:
    """Print removal against the floor; return the median of the seconds that one run took, by kind."""
    source = make_store(folder / f"old-{runs}", runs)
    seconds: dict[str, list[float]] = {kind: [] for kind in kinds}
    for _ in range(rounds):
        for kind in kinds:
            found = measure(kind, source)
            seconds[kind].append(found["seconds"])
            if kind == "offline":
                check_read(found, runs, folders=4)
    for kind in kinds:
        ratios = [mine / floor for mine, floor in zip(seconds[kind], seconds["floor"], strict=True)]
        say(f"| {runs} | {kind} | {spread(seconds[kind])} | {spread(ratios)} |")
    return {kind: statistics.median(found) / runs for kind, found in seconds.items()}


def check_read(found: dict[str, float], runs: int, *, folders: int) -> None:
    """Make sure that all went, and that not too much was read on the way."""
    assert found["removed"] == runs
    assert found["entries"] <= LIMIT_ENTRIES * folders * runs


def look(source: Path, runs: int) -> float:
    """Print what a plan reads of a store that keeps everything; return the memory that a run took."""
    found = worker(__file__, "retained", str(source))
    assert found["stays"] == runs
    say(
        f"{runs} retained runs: {found['seconds']:.2f} s, "
        f"each status read {found['statuses'] / runs:.2f} times, "
        f"entries read {found['entries'] / (4 * runs):.2f} times their number, "
        f"{found['memory'] / runs:.0f} bytes of memory a run (limit {LIMIT_BYTES_A_RUN})"
    )
    assert found["statuses"] == runs
    return float(found["memory"]) / runs


def trees(folder: Path, number: int) -> None:
    """Print what the removal of trees reads, in small batches."""
    source = make_store(folder / "trees", number, nested=NESTED)
    found = worker(__file__, "trees", str(source))
    entries = number * (4 * (1 + NESTED) + 1)
    say(
        f"{number} trees of {1 + NESTED} runs, 50 a batch: {found['seconds']:.1f} s, "
        f"entries read {found['entries'] / entries:.2f} times their number (limit {LIMIT_ENTRIES})"
    )
    assert found["removed"] == number
    assert found["entries"] <= LIMIT_ENTRIES * entries
    shutil.rmtree(source)


def host(source: Path) -> None:
    """Print how long a host's event loop stands still beside removals from a large store."""
    for kind, what in (("host", "as it is"), ("frozen-host", "after gc.freeze()")):
        found = worker(__file__, kind, str(source))
        say(
            f"longest time a host's event loop stood still, {what}: {found['pause_ms']:.1f} ms by the clock, "
            f"{found['own_ms']:.1f} ms of it this process's own (limit {LIMIT_PAUSE_MS:.0f}), "
            f"{found['removed']:.0f} runs removed meanwhile"
        )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=34_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--worker", nargs=2, metavar=("KIND", "FOLDER"))
    words = parser.parse_args()
    if words.worker:
        work(words.worker[0], Path(words.worker[1]))
        return
    header("Run folders")
    with tempfile.TemporaryDirectory(dir=words.folder) as name:
        report(Path(name), words.runs, words.rounds)


def report(folder: Path, runs: int, rounds: int) -> None:
    """Measure everything."""
    say("| runs | | seconds | times the floor |")
    say("|---|---|---|---|")
    few = compare(folder, runs // PART, rounds, ("floor", "offline", "live"))
    many = compare(folder, runs, 1, ("floor", "offline"))
    say()
    growth = (many["offline"] / many["floor"]) / (few["offline"] / few["floor"])
    say(f"offline at {runs}: {many['offline'] / many['floor']:.2f} times the floor (limit {LIMIT_RATIO})")
    say(f"the same at {runs} runs to that at {runs // PART}: {growth:.2f} (limit {LIMIT_GROWTH})")
    source = folder / f"old-{runs}"
    look(source, runs)
    host(source)
    trees(folder, runs // PART)


if __name__ == "__main__":
    main()
