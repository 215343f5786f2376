"""Old generations and finished trees of duroxide: afterrun offline against the engine's own calls.

The store is made by a real engine; its loop is copied to many generations of 7 events, its shortest instance
to many roots. Both sides work on a copy of the same store, in processes that have begun; opening it counts.
Limits: 20,000 generations of one instance against `prune_executions`: at least as fast on SQLite, at most 5
times its time on PostgreSQL; 2,000 roots on PostgreSQL against `delete_instance_bulk`: at least 10 times as
fast.

Run: python benchmarks/duroxide_removal.py [--generations 20000] [--roots 2000] [--rounds 3]
"""

from __future__ import annotations

import argparse
import gc
import tempfile
import time
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import afterrun
from _common import header, say, spread
from engines import duroxide_stores as duroxide
from pg_server import Server

SETTINGS = {"shared_buffers": "1GB", "max_wal_size": "8GB"}
OLD_DAYS = 40.0
GENERATIONS = afterrun.Policy(generations=afterrun.Policy(keep_for=timedelta(days=7)))
TREES = afterrun.Policy(keep_for=timedelta(days=7))
LAST = 6
"""The current generation of the made store's loop."""


def numbers(count: int) -> str:
    """Return a common table of the numbers from 1, as both databases understand it."""
    return f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count})"


def copied(store: duroxide.Store, table: str, *, count: int, row: str, **values: str) -> str:
    """Return the statement that copies rows many times; ``values`` are those of columns that differ."""
    columns = [name for name, _ in store.columns()[table] if (table, name) != ("orchestrator_queue", "id")]
    wanted = ", ".join(values.get(name, f"t.{name}") for name in columns)
    return (
        f"INSERT INTO {table} ({', '.join(columns)}) {numbers(count)} "
        f"SELECT {wanted} FROM {table} t, n WHERE {row}"
    )


def many_generations(store: duroxide.Store, count: int) -> None:
    """Give the loop so many superseded generations, the copies of its first."""
    first = "instance_id = 'eternal' AND execution_id"
    store.change(
        f"UPDATE executions SET execution_id = {count + LAST} WHERE {first} = {LAST}",
        f"UPDATE history SET execution_id = {count + LAST} WHERE {first} = {LAST}",
        f"UPDATE instances SET current_execution_id = {count + LAST} WHERE instance_id = 'eternal'",
        *(
            copied(store, table, count=count - LAST + 1, row=f"t.{first} = 1", execution_id=f"i + {LAST - 1}")
            for table in ("executions", "history")
        ),
    )


def many_roots(store: duroxide.Store, count: int) -> None:
    """Leave nothing but so many finished instances, copies of one."""
    rest = "<> 'single-0'"
    parts = ("history", "executions", "kv_delta", "kv_store", "orchestrator_queue", "worker_queue")
    store.change(
        *(f"DELETE FROM {table} WHERE instance_id {rest}" for table in parts),
        f"DELETE FROM instances WHERE parent_instance_id IS NOT NULL AND instance_id {rest}",
        f"DELETE FROM instances WHERE instance_id {rest}",
        *(
            copied(
                store, table, count=count - 1, row="t.instance_id = 'single-0'", instance_id="'more-' || i"
            )
            for table in ("instances", "executions", "history")
        ),
    )


def ours(store: duroxide.Store, policy: afterrun.Policy, expected: int) -> float:
    """Remove offline; return seconds."""
    gc.collect()
    began = time.monotonic()
    with duroxide.retention(store) as retention:
        report = retention.prune(policy, options=afterrun.SweepOptions(offline=True))
    seconds = time.monotonic() - began
    if (report.ended, report.removed) != ("completed", expected):
        raise SystemExit(f"removed {report.removed} of {expected}: {report.ended} {report.message}")
    return seconds


def engines(store: duroxide.Store, command: str, expected: int, *words: str) -> float:
    """Have the engine remove; return its own seconds."""
    found = duroxide.run_duroxide(command, store, *words)
    if found["deleted"] != expected:
        raise SystemExit(f"the engine removed {found['deleted']} of {expected}")
    return float(found["seconds"])


def row(name: str, mine: Sequence[float], theirs: Sequence[float]) -> None:
    """Print a line of the table."""
    ratio = sorted(one / other for one, other in zip(mine, theirs, strict=True))[len(mine) // 2]
    say(f"| {name} | {spread(mine)} | {spread(theirs)} | **{ratio:.2f}** |")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--generations", type=int, default=20_000)
    parser.add_argument("--roots", type=int, default=2_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    gc.set_threshold(100_000)  # as the command line does
    header("duroxide: old generations and finished trees")
    say("| what | afterrun, s | engine, s | to engine |")
    say("|---" * 4 + "|")
    with tempfile.TemporaryDirectory() as folder, Server(durable=True, settings=SETTINGS) as server:
        places: list[duroxide.SqliteStore | duroxide.PostgresStore] = [
            duroxide.SqliteStore(Path(folder) / "loop.sqlite"),
            duroxide.PostgresStore(server.create_database("loop"), Path(folder)),
        ]
        for store in places:
            store.fill()
            duroxide.age(store, OLD_DAYS)
            many_generations(store, options.generations)
            mine, theirs = [], []
            for _ in range(options.rounds):
                mine.append(ours(store.copy("ours"), GENERATIONS, options.generations))
                theirs.append(engines(store.copy("theirs"), "past", options.generations, "eternal"))
            row(f"{options.generations} generations of one instance, {store.kind}", mine, theirs)
        roots = duroxide.PostgresStore(server.create_database("roots"), Path(folder))
        roots.fill()
        duroxide.age(roots, OLD_DAYS)
        many_roots(roots, options.roots)
        mine, theirs = [], []
        for _ in range(options.rounds):
            mine.append(ours(roots.copy("ours"), TREES, options.roots))
            theirs.append(engines(roots.copy("theirs"), "bulk", options.roots))
        row(f"{options.roots} roots, postgresql", mine, theirs)


if __name__ == "__main__":
    main()
