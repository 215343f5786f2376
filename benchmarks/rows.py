"""Row policies: 500,000 old log rows, and tables into which rows keep arriving.

1. A table of log rows of which most are old, live and offline. Limit: no statement of a batch takes more than
   250 ms.
2. Three tables that have a backlog; 10 more old rows arrive in each of them every second, for 5 minutes. A
   pass of at most `--pass-seconds` begins every 10 s. Limit: the backlog of every table falls on every pass,
   until none is left.

Run: python benchmarks/rows.py [--rows 500000] [--seconds 300] [--backlog 100000] [--pass-seconds 1]
"""

from __future__ import annotations

import argparse
import gc
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from _common import header, say
from afterrun import SweepOptions
from afterrun.core.sweep import Budget
from generations.loops import Loops, PostgresLoops, SqliteLoops
from pg_server import Server
from row_policies.inflow import POLICY, TABLES, Inflow
from row_policies.tables import Shop, ago, keep, make, policy

SETTINGS = {"shared_buffers": "1GB", "max_wal_size": "8GB"}
LIMIT = 0.250
"""Seconds that no statement may take longer."""

EVERY = 10.0
"""Seconds from the start of one pass to that of the next."""

PART = 50_000
Left = Mapping[str, int]
"""Rows that are left by table."""


def shops(folder: Path, server: Server, name: str) -> Iterator[tuple[str, Shop]]:
    """Yield an empty store of each kind."""
    for kind in ("sqlite", "postgresql"):
        place = folder / f"{name}-{kind}"
        place.mkdir()
        store: Loops = (
            SqliteLoops(place) if kind == "sqlite" else PostgresLoops(place, server.create_database(name))
        )
        if kind == "sqlite":
            store.run("PRAGMA journal_mode=WAL")
        make(store)
        yield kind, Shop(store)


def fill_logs(shop: Shop, count: int) -> None:
    """Write log rows, nine tenths of them old."""
    for start in range(0, count, PART):
        rows = [
            (n, f"run-{n // 20}", ago(60 * (count - n) / count), "a line of a log " * 8)
            for n in range(start, min(start + PART, count))
        ]
        shop.store.insert("logs", rows)


def large_table(folder: Path, server: Server, count: int) -> None:
    """Measure one large table, live and offline."""
    say(f"\n{count:,} log rows, of which nine tenths go\n")
    say("| store | pace | seconds | rows/s | batches | slowest statement, ms | longest lock, ms |")
    say("|---" * 7 + "|")
    for pace, options in (("live", SweepOptions()), ("offline", SweepOptions(offline=True))):
        for kind, shop in shops(folder, server, f"logs-{pace}"):
            fill_logs(shop, count)
            gc.collect()
            began = time.monotonic()
            report = shop.prune(policy(logs=keep(6)), options)
            seconds = time.monotonic() - began
            table = report.tables["logs"]
            if table.outcome != "drained":
                raise SystemExit(f"{kind}: {table.outcome} {table.why}")
            say(
                f"| {kind} | {pace} | {seconds:.1f} | {table.rows / seconds:,.0f} | {table.batches} "
                f"| **{table.slowest * 1_000:.0f}** | {report.longest_batch * 1_000:.0f} |"
            )
            if table.slowest > LIMIT:
                say(f"{kind}, {pace}: a statement took longer than {LIMIT * 1_000:.0f} ms")


@contextmanager
def arriving(inflow: Inflow) -> Iterator[None]:
    """Let rows arrive by the clock, as an engine writes them, from a thread of their own."""
    ended = threading.Event()

    def run() -> None:
        since = time.monotonic()
        while not ended.wait(0.2):
            now = time.monotonic()
            inflow.after(now - since)
            since = now

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def passes(shop: Shop, *, seconds: float, backlog: int, budget: float) -> Iterator[tuple[Left, Left]]:
    """Sweep for so long; yield the rows that are left before and after each pass."""
    inflow = Inflow(shop)
    for _ in range(0, backlog, PART):
        inflow.write(min(PART, backlog))
    options = SweepOptions(budget=Budget(seconds=budget))
    until = time.monotonic() + seconds
    with arriving(inflow), shop.open() as retention:
        while time.monotonic() < until:
            began = time.monotonic()
            before = inflow.left()
            retention.sweep(POLICY, options=options, always=True)
            yield before, inflow.left()
            time.sleep(max(0.0, began + EVERY - time.monotonic()))


def inflow(folder: Path, server: Server, *, seconds: float, backlog: int, budget: float) -> None:
    """Measure whether passes gain on what arrives."""
    arrive = f"10 rows a second in each of {len(TABLES)} tables for {seconds:.0f} s"
    say(f"\n{arrive}, a pass of {budget:g} s every 10 s\n")
    say("| store | passes | with a backlog | it fell in all tables on | backlog at first | at the end |")
    say("|---" * 6 + "|")
    for kind, shop in shops(folder, server, "inflow"):
        found = list(passes(shop, seconds=seconds, backlog=backlog, budget=budget))
        full = [(before, after) for before, after in found if min(before.values())]
        fell = [all(after[table] < before[table] for table in TABLES) for before, after in full]
        say(
            f"| {kind} | {len(found)} | {len(full)} | **{sum(fell)}** "
            f"| {sum(found[0][0].values()):,} | {sum(found[-1][1].values()):,} |"
        )
        say(f"  {kind}, left after each pass: {', '.join(str(sum(after.values())) for _, after in found)}")


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--backlog", type=int, default=100_000)
    parser.add_argument("--pass-seconds", type=float, default=1.0)
    options = parser.parse_args()
    gc.set_threshold(100_000)  # as the command line does
    header("Row policies")
    with tempfile.TemporaryDirectory() as folder, Server(durable=True, settings=SETTINGS) as server:
        if options.rows:
            large_table(Path(folder), server, options.rows)
        if options.seconds:
            inflow(
                Path(folder),
                server,
                seconds=options.seconds,
                backlog=options.backlog,
                budget=options.pass_seconds,
            )


if __name__ == "__main__":
    main()
