"""Removal of old run folders, against the floor; what it reads; and how it treats a host's thread.

The floor is `shutil.rmtree` of every run in a shuffled order, over a copy of the same store on the same disk.
Rounds are interleaved, and the ratios are those of one round. Each store has runs of three files, as
pi-subagents makes them.

Run: python benchmarks/directories.py [--runs 34000] [--rounds 3] [--folder DIR]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import shutil
import statistics
import tempfile
import time
from datetime import timedelta
from pathlib import Path

from _common import answer, header, say, spread, worker
from afterrun import Policy, SweepOptions
from afterrun.service import DirectoryRetention

MONTH = Policy(keep_for=timedelta(days=30))
OLD_DAYS = 40
LIMIT_RATIO = 2.5
LIMIT_ENTRIES = 3.0
LIMIT_PAUSE_MS = 50.0
TICK = 0.002


def make_store(root: Path, runs: int, *, days: float = OLD_DAYS) -> Path:
    """Make a store of finished runs of three files that ended so many days ago."""
    old = time.time() - days * 86_400
    ended = int(old * 1_000)
    folder = root / "async-subagent-runs"
    folder.mkdir(parents=True)
    for number in range(runs):
        name = f"{random.Random(number).getrandbits(64):016x}"
        run = folder / name
        run.mkdir()
        status = {
            "runId": name,
            "state": "complete",
            "mode": "single",
            "startedAt": ended - 60_000,
            "endedAt": ended,
            "lastUpdate": ended,
            "steps": [{"agent": "worker", "status": "complete"}],
        }
        (run / "status.json").write_text(json.dumps(status))
        (run / "events.jsonl").write_text('{"type": "started"}\n' * 20)
        (run / "output-0.log").write_text("a line of output\n" * 40)
        for path in (*run.iterdir(), run):
            os.utime(path, (old, old))
    return root


def measure_floor(root: Path) -> float:
    """Remove every run by the standard library, in a shuffled order."""
    folder = root / "async-subagent-runs"
    names = os.listdir(folder)  # noqa: PTH208 - names are all that is wanted
    random.Random(1).shuffle(names)
    began = time.perf_counter()
    for name in names:
        shutil.rmtree(folder / name)
    return time.perf_counter() - began


def measure_afterrun(root: Path, *, offline: bool) -> dict[str, float]:
    """Remove every run by a manual apply; return its seconds and what it read."""
    with (
        tempfile.TemporaryDirectory() as state,
        DirectoryRetention(str(root), state=Path(state)) as retention,
    ):
        began = time.perf_counter()
        report = retention.prune(MONTH, options=SweepOptions(offline=offline))
        seconds = time.perf_counter() - began
        return {
            "seconds": seconds,
            "removed": float(report.removed),
            "entries": float(retention.store.site.entries_read),
            "statuses": float(retention.store.site.statuses_read),
            "longest": report.longest_batch,
        }


def measure_host(root: Path) -> dict[str, float]:
    """Remove every run in a thread beside an event loop; return the longest time the loop stood still."""

    async def run() -> dict[str, float]:
        longest, over, begun = 0.0, False, time.perf_counter()

        async def tick() -> None:
            nonlocal longest
            while not over:
                before = time.perf_counter()
                await asyncio.sleep(TICK)
                longest = max(longest, time.perf_counter() - before - TICK)

        ticking = asyncio.create_task(tick())
        found = await asyncio.to_thread(measure_afterrun, root, offline=False)
        over = True
        await ticking
        return {
            "pause_ms": longest * 1_000,
            "removed": found["removed"],
            "seconds": time.perf_counter() - begun,
        }

    return asyncio.run(run())


def retained(root: Path) -> dict[str, float]:
    """Plan a store of which nothing goes; return what was read."""
    with (
        tempfile.TemporaryDirectory() as state,
        DirectoryRetention(str(root), state=Path(state)) as retention,
    ):
        began = time.perf_counter()
        report = retention.plan(MONTH)
        return {
            "seconds": time.perf_counter() - began,
            "stays": float(report.units.recent),
            "entries": float(retention.store.site.entries_read),
            "statuses": float(retention.store.site.statuses_read),
        }


def work(kind: str, folder: Path) -> None:
    """Measure one thing in this process, which has done nothing else."""
    if kind == "floor":
        answer(seconds=measure_floor(folder))
    elif kind == "host":
        answer(**measure_host(folder))
    elif kind == "retained":
        answer(**retained(folder))
    else:
        answer(**measure_afterrun(folder, offline=kind == "offline"))


def copied(source: Path, name: str) -> Path:
    """Copy a store beside itself, with its times, and let the disk come to rest."""
    copy = source.with_name(name)
    shutil.copytree(source, copy)
    os.sync()
    return copy


def measure(kind: str, source: Path) -> dict[str, float]:
    """Measure one thing on a copy of a store."""
    copy = copied(source, f"{kind}-copy")
    found: dict[str, float] = worker(__file__, kind, str(copy))
    shutil.rmtree(copy)
    return found


def compare(folder: Path, runs: int, rounds: int) -> None:
    """Print removal against the floor."""
    source = make_store(folder / "old", runs)
    kinds = ("floor", "offline", "live")
    seconds: dict[str, list[float]] = {kind: [] for kind in kinds}
    read: list[tuple[float, float]] = []
    for _ in range(rounds):
        for kind in kinds:
            found = measure(kind, source)
            seconds[kind].append(found["seconds"])
            if kind == "offline":
                assert found["removed"] == runs
                read.append((found["entries"] / (4 * runs), found["statuses"] / runs))
    say("| | seconds | times the floor |")
    say("|---|---|---|")
    for kind in kinds:
        ratios = [mine / floor for mine, floor in zip(seconds[kind], seconds["floor"], strict=True)]
        say(f"| {kind} | {spread(seconds[kind])} | {spread(ratios)} |")
    ratio = statistics.median(
        mine / floor for mine, floor in zip(seconds["offline"], seconds["floor"], strict=True)
    )
    say()
    say(f"entries read, as times their number: {read[0][0]:.2f} (limit {LIMIT_ENTRIES})")
    say(f"statuses read, for each run that goes: {read[0][1]:.2f}")
    say(f"offline against the floor: {ratio:.2f} (limit {LIMIT_RATIO})")
    assert read[0][0] <= LIMIT_ENTRIES
    pause = measure("host", source)
    stood = f"{pause['pause_ms']:.1f} ms (limit {LIMIT_PAUSE_MS:.0f})"
    say(f"longest time a host's event loop stood still: {stood}")
    shutil.rmtree(source)


def look(folder: Path, runs: int) -> None:
    """Print what a plan reads of a store that keeps everything."""
    source = make_store(folder / "kept", runs, days=3)
    found = worker(__file__, "retained", str(source))
    assert found["stays"] == runs
    say(
        f"{runs} retained runs: {found['seconds']:.2f} s, "
        f"each status read {found['statuses'] / runs:.2f} times, "
        f"entries read {found['entries'] / (4 * runs):.2f} times their number"
    )
    assert found["statuses"] == runs
    shutil.rmtree(source)


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
    with tempfile.TemporaryDirectory(dir=words.folder) as folder:
        compare(Path(folder), words.runs, words.rounds)
        look(Path(folder), words.runs)


if __name__ == "__main__":
    main()
