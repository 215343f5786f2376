"""Offline removal of expired DBOS runs, against the engine's own call and against the floor.

The engine removes the same runs by `delete_workflows`, 1,000 ids a call, with no check of its own. The floor
is one transaction that deletes exactly the same rows, set-based, with foreign keys on. Rounds are
interleaved, and the ratios are those of one round.

Run: python benchmarks/removal.py [--runs 20000,100000] [--rounds 3] [--shape flat]
"""

from __future__ import annotations

import argparse
import json
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from _common import VERSION, answer, copy_of, expired_store, header, run_ids, say, spread, worker

TABLES = (
    "operation_outputs",
    "workflow_input",
    "workflow_output",
    "workflow_events",
    "workflow_events_history",
    "streams",
    "notifications",
    "workflow_status",
)


def measure_afterrun(store: Path) -> tuple[float, int]:
    """Remove everything expired by the command line; return its own seconds and the rows.

    Like the engine's and the floor's, the seconds begin when the store is open.
    """
    words = (
        "prune",
        str(store),
        "--keep-for",
        "29d",
        "--apply",
        "--no-backup",
        "--yes",
        "--offline",
        "--json",
    )
    with tempfile.TemporaryDirectory() as state:
        done = subprocess.run(
            [sys.executable, "-m", "afterrun", *words],
            check=True,
            capture_output=True,
            text=True,
            env={**os.environ, "AFTERRUN_STATE_DIR": state},
        )
    report = json.loads(done.stdout)
    return float(report["seconds"]["total"]), sum(report["rows"].values())


def measure_floor(store: str) -> None:
    """Delete all rows of all runs in one transaction and print the seconds."""
    database = sqlite3.connect(store, isolation_level=None)
    for setting in ("foreign_keys=ON", "secure_delete=FAST", "temp_store=MEMORY", "cache_size=-65536"):
        database.execute(f"PRAGMA {setting}")
    database.execute("CREATE TEMP TABLE gone (id TEXT PRIMARY KEY)")
    database.execute("INSERT INTO gone SELECT workflow_uuid FROM workflow_status")
    rows = 0
    began = time.perf_counter()
    database.execute("BEGIN IMMEDIATE")
    for table in TABLES:
        column = "destination_uuid" if table == "notifications" else "workflow_uuid"
        where = f"{column} IN (SELECT id FROM gone)"
        rows += database.execute(f"DELETE FROM {table} WHERE {where}").rowcount
    database.execute("COMMIT")
    answer(seconds=time.perf_counter() - began, rows=rows)


def measure_engine(store: Path) -> float:
    """Let the engine remove the same runs and return the seconds of its calls."""
    from engines.stores import run_engine  # noqa: PLC0415 - found by the path that _common adds

    ids = store.with_suffix(".ids")
    ids.write_text("\n".join(run_ids(store)), encoding="utf-8")
    return float(run_engine(VERSION, "delete", store, ids, timeout=900.0)["seconds"])


def compare(folder: Path, *, runs: int, rounds: int, shape: str) -> None:
    """Measure one size and print its rows of the table."""
    store = expired_store(folder, runs, shape=shape)
    ours, floors, engines = [], [], []
    for _ in range(rounds):
        engines.append(measure_engine(copy_of(store)))
        seconds, rows = measure_afterrun(copy_of(store))
        floor = worker(__file__, str(copy_of(store)))
        if rows != floor["rows"]:
            sys.exit(f"not the same rows: {rows} and {floor['rows']}")
        ours.append(seconds)
        floors.append(floor["seconds"])
    to_engine = [mine / other for mine, other in zip(ours, engines, strict=True)]
    to_floor = [mine / other for mine, other in zip(ours, floors, strict=True)]
    say(
        f"| {runs} {shape} | {spread(ours)} | {spread(engines)} | {spread(floors)} | "
        f"**{statistics.median(to_engine):.2f}** | **{statistics.median(to_floor):.2f}** |"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", default="20000,100000")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--shape", default="flat", choices=("flat", "tree"))
    parser.add_argument("--worker", metavar="STORE")
    arguments = parser.parse_args()
    if arguments.worker:
        measure_floor(arguments.worker)
        return
    header("Offline removal")
    say("| expired runs | afterrun, s | engine, s | floor, s | to engine | to floor |")
    say("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for runs in arguments.runs.split(","):
            compare(Path(folder), runs=int(runs), rounds=arguments.rounds, shape=arguments.shape)


if __name__ == "__main__":
    main()
