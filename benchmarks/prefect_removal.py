"""Removal of expired flow runs from Prefect's store: afterrun against the engine's own vacuum and the floor.

A real server makes the store; one of its runs is copied, with 23 rows each. The engine removes by
`vacuum_old_flow_runs`, called in a process of its own as its server calls it, with its default batch. The
floor is one transaction that deletes exactly the same rows, set-based, with foreign keys on. Each side gets a
fresh copy of the store; rounds are interleaved, and the ratios are those of one round.
Limits at 100,000 runs: SQLite at least 3 times as fast as the engine and at most 2.5 times the floor;
PostgreSQL at least 0.8 times as fast as the engine. That takes a quarter of an hour and 10 GB, so less is the
default. With `--live`, a sweep beside a working server is measured, too, but for its pauses.

Run: python benchmarks/prefect_removal.py [--runs 100000] [--rounds 3] [--databases sqlite] [--live]
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from _common import header, say, spread
from engines import prefect_stores as prefect
from engines.prefect_clones import grow
from pg_server import Server

DAYS = 30
SETTINGS = {"shared_buffers": "1GB", "max_wal_size": "8GB", "autovacuum": "off"}
"""Vacuum and checkpoints at chance moments would be in one round and not in another."""

TASKS = "SELECT id FROM task_run WHERE flow_run_id IN (SELECT id FROM gone)"
FLOOR = (
    "DELETE FROM log WHERE flow_run_id IN (SELECT id FROM gone)",
    "DELETE FROM flow_run_input WHERE flow_run_id IN (SELECT id FROM gone)",
    f"DELETE FROM task_run_state WHERE task_run_id IN ({TASKS})",
    "DELETE FROM flow_run_state WHERE flow_run_id IN (SELECT id FROM gone)",
    "DELETE FROM artifact WHERE flow_run_id IN (SELECT id FROM gone)",
    "DELETE FROM task_run WHERE flow_run_id IN (SELECT id FROM gone)",
    "DELETE FROM flow_run WHERE id IN (SELECT id FROM gone)",
)
GONE = "CREATE TEMP TABLE gone AS SELECT id FROM flow_run WHERE name LIKE 'clone-%'"


def measure_afterrun(store: prefect.Store, *, offline: bool) -> tuple[float, int, float]:
    """Remove everything expired by the command line; return its seconds, the rows, and the longest batch."""
    words = ["prune", "--keep-for", f"{DAYS}d", "--apply", "--no-backup", "--yes", "--json"]
    words += ["--offline"] if offline else ["--pause", "0"]
    with tempfile.TemporaryDirectory() as state:
        done = subprocess.run(
            [sys.executable, "-m", "afterrun", *words],
            check=True,
            capture_output=True,
            text=True,
            env={**os.environ, "AFTERRUN_STATE_DIR": state, "AFTERRUN_STORE": store.location},
        )
    report = json.loads(done.stdout)
    seconds = report["seconds"]
    return float(seconds["total"]), sum(report["rows"].values()), float(seconds["longest_batch"])


def measure_floor(store: prefect.Store) -> tuple[float, int]:
    """Delete all rows of all copies in one transaction; return the seconds and the rows."""
    if isinstance(store, prefect.PostgresStore):
        with store.database.connect(autocommit=False) as connection:
            connection.execute(GONE.encode())
            connection.execute(b"ANALYZE gone")
            connection.execute(b"SET LOCAL jit = off")
            began = time.perf_counter()
            rows = sum(connection.execute(text.encode()).rowcount for text in FLOOR)
            connection.commit()
            return time.perf_counter() - began, rows
    with closing(sqlite3.connect(store.location, isolation_level=None)) as file:
        for setting in ("foreign_keys = ON", "cache_size = -65536", "wal_autocheckpoint = 0"):
            file.execute(f"PRAGMA {setting}")
        file.execute(GONE)
        began = time.perf_counter()
        file.execute("BEGIN IMMEDIATE")
        rows = sum(file.execute(text).rowcount for text in FLOOR)
        file.execute("COMMIT")
        file.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return time.perf_counter() - began, rows


def measure_engine(store: prefect.Store, expected: int) -> float:
    """Let the engine remove the same runs and return the seconds of its call."""
    before = store.rows("SELECT count(*) FROM flow_run")[0][0]
    seconds = float(prefect.run_prefect("vacuum", store, str(DAYS))["seconds"])
    gone = before - store.rows("SELECT count(*) FROM flow_run")[0][0]
    if gone != expected:
        sys.exit(f"the engine removed {gone} of {expected} runs")
    return seconds


@contextmanager
def copied(store: prefect.Store) -> Iterator[prefect.Store]:
    """Give a fresh copy of a store, with everything written back that the copy made dirty."""
    if isinstance(store, prefect.PostgresStore):
        server = store.database.server
        copy = server.create_database(template=store.database.name)
        with server.connect(copy.name, user="postgres") as connection:
            connection.execute(b"CHECKPOINT")
        yield prefect.PostgresStore(copy, store.folder)
        server.drop_database(copy.name)
        return
    path = Path(store.location).with_name("copy.db")
    shutil.copyfile(store.location, path)
    with path.open("rb") as file:
        os.fsync(file.fileno())
    yield prefect.SqliteStore(path)
    for left in path.parent.glob(f"{path.name}*"):
        left.unlink()


def compare(store: prefect.Store, *, runs: int, rounds: int, beside: bool) -> None:
    """Measure one size in one database and print its row of the table."""
    store.fill()
    rows = grow(store, runs)
    ours, floors, engines, live = [], [], [], []
    for _ in range(rounds):
        with copied(store) as copy:
            engines.append(measure_engine(copy, runs))
        with copied(store) as copy:
            seconds, removed, _ = measure_afterrun(copy, offline=True)
        with copied(store) as copy:
            floor, floor_rows = measure_floor(copy)
        if not removed == floor_rows == rows:
            sys.exit(f"not the same rows: {removed}, {floor_rows} and {rows}")
        if beside:
            with copied(store) as copy:
                taken, _, longest = measure_afterrun(copy, offline=False)
                live.append((taken, longest))
        ours.append(seconds)
        floors.append(floor)
    as_fast = [other / mine for mine, other in zip(ours, engines, strict=True)]
    to_floor = [mine / other for mine, other in zip(ours, floors, strict=True)]
    say(
        f"| {store.kind}, {runs} runs, {rows} rows | {spread(ours)} | {spread(engines)} | {spread(floors)} | "
        f"**{statistics.median(as_fast):.2f}** | **{statistics.median(to_floor):.2f}** | "
        + beside_engine(live)
    )


def beside_engine(live: Sequence[tuple[float, float]]) -> str:
    """Write the last two columns: seconds of sweeps that leave room for an engine, and the longest lock."""
    if not live:
        return "- | - |"
    return f"{spread([part[0] for part in live])} | {max(part[1] for part in live) * 1_000:.0f} ms |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", default="20000")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--databases", default="sqlite,postgresql")
    parser.add_argument("--live", action="store_true")
    options = parser.parse_args()
    header("Prefect: removal of flow runs")
    say(
        "| store | afterrun offline, s | engine's vacuum, s | floor, s | times as fast as it | to floor | "
        "live without pause, s | its longest batch |"
    )
    say("|---" * 8 + "|")
    sizes = [int(runs) for runs in options.runs.split(",")]
    with tempfile.TemporaryDirectory() as folder:
        if "sqlite" in options.databases:
            for runs in sizes:
                compare(
                    prefect.SqliteStore(Path(folder) / "prefect.db"),
                    runs=runs,
                    rounds=options.rounds,
                    beside=options.live,
                )
        binaries = prefect.capable()
        if "postgresql" not in options.databases:
            return
        if binaries is None:
            say(f"PostgreSQL is left out: none here has {prefect.EXTENSION}")
            return
        with Server(binaries, durable=True, settings=SETTINGS) as server:
            store = prefect.PostgresStore(server.create_database(), Path(folder))
            for runs in sizes:
                compare(store, runs=runs, rounds=options.rounds, beside=options.live)


if __name__ == "__main__":
    main()
