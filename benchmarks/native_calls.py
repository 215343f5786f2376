"""What single calls of our own run store cost: slim reads by the size of content, and a large cancellation.

Read are lists, trees, steps and states of a store with so many runs, just opened: KiB of pages that the call
read from the file, or that the server found for it. `content` reads one payload, for comparison. Cancelled is
a tree of running runs, each with a running step, in one transaction; memory is the peak of what Python holds.

Run: python benchmarks/native_calls.py [--runs 40] [--tree 50000] [--databases sqlite,postgresql]
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from _common import header, say
from afterrun.runs import Keys, RunStore
from pg_server import SUPERUSER, Server
from runs.read_meter import bytes_read, fill, slim_calls, statements
from runs.runs_kit import Home, fan_out, running

SIZES = {"100 B": 100, "4 KiB": 4_096, "1 MiB": 2**20}
KIB = 1_024
MIB = 2**20


@contextmanager
def homes(database: str) -> Iterator[Home]:
    """Give a place for a store."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        if database == "sqlite":
            path = str(folder / "runs.sqlite")
            yield Home("sqlite", path, folder, path)
            return
        server = stack.enter_context(Server(durable=True))
        made = server.create_database()
        yield Home("postgresql", made.url(), folder, made.url(SUPERUSER))


def measure_reads(database: str, count: int) -> None:
    """Print what each call reads, a row for each size of content."""
    for label, size in SIZES.items():
        with homes(database) as home:
            with home.open() as store:
                root = fill(store, size, count=count)
            read = [round(bytes_read(home, call) / KIB) for call in slim_calls(root).values()]
            content = round(bytes_read(home, partial(RunStore.input_of, run=root)) / KIB)
        say(f"| {database} | {label} | {' | '.join(map(str, read))} | {content} |")


def measure_cancellation(database: str, count: int) -> None:
    """Print what it costs to cancel a large tree."""
    with homes(database) as home, home.open() as store:
        root = running(store)
        fan_out(home, store.steps.start(root, "fan out"), root, count - 1)
        tracemalloc.start()
        began = time.perf_counter()
        with statements(store) as seen:
            ended = store.cancel_tree(root, reason="enough")
        seconds = time.perf_counter() - began
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    if ended != count:
        raise SystemExit(f"cancelled {ended} of {count} runs")
    most = max(len(values) for _, values in seen)
    say(f"| {database} | {count} | {seconds:.2f} | {len(seen)} | {most} | {peak / MIB:.1f} |")


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--tree", type=int, default=50_000)
    parser.add_argument("--databases", default="sqlite,postgresql")
    arguments = parser.parse_args()
    databases = arguments.databases.split(",")
    os.environ["AFTERRUN_SEALING_KEY"] = Keys.generate().text()
    header("Slim reads of our own run store, KiB of pages")
    names = " | ".join(slim_calls(""))
    say(f"| database | content | {names} | content |")
    say("|---" * (3 + len(slim_calls(""))) + "|")
    for database in databases:
        measure_reads(database, arguments.runs)
    say()
    header("Cancellation of a tree")
    say("| database | runs | seconds | statements | most parameters of one | peak memory, MiB |")
    say("|---|---|---|---|---|---|")
    for database in databases:
        measure_cancellation(database, arguments.tree)


if __name__ == "__main__":
    main()
