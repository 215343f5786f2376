"""The workflow server: runs a second against DBOS, a loop of many generations, and the view of a long run.

Both engines execute the same three steps with eight runs in flight, each commit durable (SQLite: synchronous
= FULL, and a journal as the engine has it; PostgreSQL: fsync on), on fresh stores, in interleaved rounds. A
run counts from the call that starts it to its output. The loop is swept as it goes, with a policy that keeps
no past generation; what is live then are the pages of the file that are in use. The view of a run is what the
API shows of it: the run, and pages of its steps.

Run: python benchmarks/workflows.py [--runs 200] [--rounds 3] [--generations 2000] [--steps 10000]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sqlite3
import statistics
import subprocess
import tempfile
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

from _common import ROOT, VERSION, answer, header, say, spread, worker
from afterrun import Policy
from afterrun.core.sweep import Budget
from afterrun.runs import Keys, RunStatus
from afterrun.schedule import Timing
from afterrun.server.asks import PartsAsk
from afterrun.server.desk import StoreDesk
from afterrun.server.engine import Engine
from afterrun.server.settings import EngineSettings
from engines.stores import engine_python
from pg_server import Server

AT_A_TIME = 8
WARM = 16
RATIO_LIMIT = 0.8
LOOP_LIMIT = 1.2
VIEW_LIMIT = 16.0
"""MiB that the view of a long run may take."""

POLL = 0.002
KEYS = Keys.generate()
"""Of all stores: what is measured is sealed and scrubbed, as it is unless somebody says otherwise."""

NOTHING = Policy(grace=timedelta(0), generations=Policy(keep_for=timedelta(microseconds=1)))
PAGE = 100


@contextmanager
def serving(store: str, folder: str, *, runners: int = 2) -> Iterator[Engine]:
    """Serve a store in a thread of this process; its runners are processes."""
    settings = EngineSettings(
        app=f"{Path(__file__).with_name('_three_steps.py')}:app",
        store=store,
        sealing=KEYS,
        runners=runners,
        timing=Timing(interval=timedelta(0)),
        state=Path(folder) / "state",
    )
    engine = Engine.open(settings)
    thread = threading.Thread(target=lambda: asyncio.run(engine.run_until_stopped()))
    thread.start()
    while not engine.ready:
        time.sleep(POLL)
    try:
        yield engine
    finally:
        engine.stop()
        thread.join()


def one_run(engine: Engine, number: int) -> int:
    """Start a run, and return its output once it has ended."""
    run = engine.store.create("three_steps", content=json.dumps(number).encode()).run.id
    engine.look_for_work()
    engine.await_end(run)
    return int(engine.store.output_of(run) or b"0")


def measure_ours(store: str, folder: str, runs: int) -> float:
    """Return the seconds of so many runs."""
    with serving(store, folder) as engine, ThreadPoolExecutor(AT_A_TIME) as threads:
        list(threads.map(lambda number: one_run(engine, number), range(WARM)))
        began = time.perf_counter()
        outputs = list(threads.map(lambda number: one_run(engine, number), range(runs)))
        seconds = time.perf_counter() - began
    assert outputs == [number + 3 for number in range(runs)]
    return seconds


def measure_dbos(url: str, runs: int) -> float:
    """Return the seconds of so many runs in DBOS."""
    words = [str(ROOT / "benchmarks" / "_dbos_three_steps.py"), url, str(runs), str(AT_A_TIME)]
    done = subprocess.run([str(engine_python(VERSION)), *words], check=True, capture_output=True, text=True)
    return float(json.loads(done.stdout.splitlines()[-1])["seconds"])


def throughput(kind: str, runs: int, rounds: int) -> None:
    """Measure both engines on one kind of database, in turn."""
    ours, theirs = [], []
    with database(kind) as make:
        for _ in range(rounds):
            with tempfile.TemporaryDirectory() as folder:
                ours.append(runs / measure_ours(make(folder, "ours"), folder, runs))
                theirs.append(runs / measure_dbos(make(folder, "dbos"), runs))
    ratio = statistics.median(one / other for one, other in zip(ours, theirs, strict=True))
    say(
        f"| {kind} | {spread(ours)} | {spread(theirs)} | {ratio:.2f} | {RATIO_LIMIT} | "
        f"{'yes' if ratio >= RATIO_LIMIT else 'NO'} |"
    )


@contextmanager
def database(kind: str) -> Iterator[Callable[[str, str], str]]:
    """Give what makes a fresh store of a kind: in a folder, for one of the engines."""
    if kind == "SQLite":
        yield (
            lambda folder, name: (
                str(Path(folder) / "ours.sqlite") if name == "ours" else f"sqlite:///{folder}/dbos.sqlite"
            )
        )
        return
    with Server(durable=True, settings={"shared_buffers": "256MB"}) as server:
        yield lambda _folder, _name: server.create_database().url()


def measure_loop(generations: int) -> None:
    """Let a run go on as new, sweep it as it goes, and print the bytes that are live."""
    marks = [50, *range(200, generations, 200), generations]
    live: dict[int, int] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "runs.sqlite")
        with serving(path, folder, runners=1) as engine:
            run = engine.store.create("loop", content=json.dumps(marks[0]).encode()).run.id
            for mark, following in zip(marks, [*marks[1:], generations], strict=True):
                await_rest(engine, run, mark)
                engine.sweep(NOTHING, budget=Budget(), approve=None)
                live[mark] = live_bytes(path)
                engine.store.messages.send(run, json.dumps(following).encode())
                engine.nudge()
            engine.store.cancel_tree(run, reason="measured")
    ratio = live[generations] / live[marks[0]]
    verdict = "yes" if ratio <= LOOP_LIMIT else "NO"
    first, last = live[marks[0]], live[generations]
    say(f"| {first:,} | {generations:,} | {last:,} | {ratio:.2f} | {LOOP_LIMIT} | {verdict} |")


def await_rest(engine: Engine, run: str, generation: int) -> None:
    """Wait until a run waits in a generation."""
    while True:
        found = engine.store.get(run)
        if found.generation >= generation and found.status is RunStatus.WAITING:
            return
        time.sleep(0.02)


def live_bytes(path: str) -> int:
    """Return the bytes of the pages of a file that are in use."""
    with sqlite3.connect(path) as opened:
        pages, free, size = (
            opened.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("page_count", "freelist_count", "page_size")
        )
    return int((pages - free) * size)


def measure_view(steps: int) -> None:
    """Run many steps, and print the memory and the time that the view of the run takes."""
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "runs.sqlite")
        with serving(path, folder, runners=1) as engine:
            run = engine.store.create("many_steps", content=str(steps).encode()).run.id
            engine.nudge()
            while engine.store.get(run).ended_at is None:
                time.sleep(0.05)
        done = worker(__file__, path, run)
    verdict = "yes" if done["mib"] <= VIEW_LIMIT else "NO"
    say(f"| {done['steps']:,} | {done['seconds']:.2f} | {done['mib']:.1f} | {VIEW_LIMIT:.0f} | {verdict} |")


def look(path: str, run: str) -> None:
    """Look at a run as the API does, page by page, in a fresh process."""
    from afterrun.runs import RunStore  # noqa: PLC0415 - the worker's own

    with RunStore.open(path, migrate=False) as store:
        desk = StoreDesk(store)
        desk.view(run)
        tracemalloc.start()
        began, count, after = time.perf_counter(), 0, None
        while True:
            page = desk.steps(run, PartsAsk(limit=PAGE, after=after))
            count, after = count + len(page.steps), page.next
            if after is None:
                break
        seconds = time.perf_counter() - began
        _, peak = tracemalloc.get_traced_memory()
    answer(steps=count, seconds=seconds, mib=peak / 2**20)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--generations", type=int, default=2_000)
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--only", default="SQLite,PostgreSQL,loop,view")
    parser.add_argument("--worker", nargs=2)
    given = parser.parse_args()
    if given.worker:
        look(*given.worker)
        return
    chosen = given.only.split(",")
    header("The workflow server")
    say(
        f"Runs a second, three steps, {AT_A_TIME} in flight, median of {given.rounds} rounds (least-greatest)"
    )
    say()
    say("| database | afterrun | DBOS | times | limit | holds |\n|---|---|---|---|---|---|")
    for kind in ("SQLite", "PostgreSQL"):
        if kind in chosen:
            throughput(kind, given.runs, given.rounds)
    if "loop" in chosen:
        say("\n| live bytes after generation 50 | generation | live bytes | times | limit | holds |")
        say("|---|---|---|---|---|---|")
        measure_loop(given.generations)
    if "view" in chosen:
        say("\n| steps looked at | seconds | peak MiB | limit | holds |\n|---|---|---|---|---|")
        measure_view(given.steps)


if __name__ == "__main__":
    main()
