"""Removal of expired DBOS runs from PostgreSQL, against the engine's own call and against the floor.

The engine removes the same runs by `delete_workflows`, 1,000 ids a call, with no check of its own. The floor
is one transaction that deletes exactly the same rows, set-based, with foreign keys on. Each side gets a fresh
copy of the store; rounds are interleaved, and the ratios are those of one round.

Run: python benchmarks/pg_removal.py [--runs 20000,100000] [--rounds 3] [--shape flat]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from _common import VERSION, header, say, spread
from engines.pg_stores import clone_pg_store
from engines.stores import run_engine
from pg_server import Database, Server

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

SETTINGS = {"shared_buffers": "1GB", "max_wal_size": "8GB", "autovacuum": "off"}
"""Vacuum and checkpoints at chance moments would be in one round and not in another."""


def measure_afterrun(store: Database, *, offline: bool) -> tuple[float, int, float]:
    """Remove everything expired by the command line; return its seconds, the rows, and the longest batch."""
    words = ["prune", "--keep-for", "29d", "--apply", "--no-backup", "--yes", "--json"]
    words += ["--offline"] if offline else ["--pause", "0"]
    with tempfile.TemporaryDirectory() as state:
        done = subprocess.run(
            [sys.executable, "-m", "afterrun", *words],
            check=True,
            capture_output=True,
            text=True,
            env={**os.environ, "AFTERRUN_STATE_DIR": state, "AFTERRUN_STORE": store.url()},
        )
    report = json.loads(done.stdout)
    seconds = report["seconds"]
    return float(seconds["total"]), sum(report["rows"].values()), float(seconds["longest_batch"])


def measure_floor(store: Database) -> tuple[float, int]:
    """Delete all rows of all runs in one transaction; return the seconds and the rows."""
    rows = 0
    with store.connect(autocommit=False) as connection:
        connection.execute(b"CREATE TEMP TABLE gone AS SELECT workflow_uuid AS id FROM dbos.workflow_status")
        connection.execute(b"ANALYZE gone")
        connection.execute(b"SET LOCAL jit = off")
        began = time.perf_counter()
        for table in TABLES:
            column = "destination_uuid" if table == "notifications" else "workflow_uuid"
            text = f"DELETE FROM dbos.{table} WHERE {column} IN (SELECT id FROM gone)"
            rows += connection.execute(text.encode()).rowcount
        connection.commit()
        return time.perf_counter() - began, rows


def measure_engine(store: Database, folder: Path) -> float:
    """Let the engine remove the same runs and return the seconds of its calls."""
    ids = folder / "ids"
    found = store.rows("SELECT workflow_uuid FROM dbos.workflow_status ORDER BY completed_at")
    ids.write_text("\n".join(key for (key,) in found), encoding="utf-8")
    return float(run_engine(VERSION, "delete", store.url(schema="dbos"), ids, timeout=900.0)["seconds"])


def copied(server: Server, template: Database) -> Database:
    """Return a fresh copy of a store, with everything written back that the copy made dirty."""
    copy = server.create_database(template=template.name)
    with server.connect(template.name, user="postgres") as connection:
        connection.execute(b"CHECKPOINT")
    return copy


def compare(server: Server, folder: Path, *, runs: int, rounds: int, shape: str) -> None:
    """Measure one size and print its row of the table."""
    template = server.create_database()
    clone_pg_store(template, runs=runs, version=VERSION, shape=shape, expired=1.0)  # type: ignore[arg-type]
    ours, floors, engines, live = [], [], [], []
    for _ in range(rounds):
        copies = [copied(server, template) for _ in range(4)]
        engines.append(measure_engine(copies[0], folder))
        seconds, rows, _ = measure_afterrun(copies[1], offline=True)
        floor, floor_rows = measure_floor(copies[2])
        if rows != floor_rows:
            sys.exit(f"not the same rows: {rows} and {floor_rows}")
        ours.append(seconds)
        floors.append(floor)
        live.append(measure_afterrun(copies[3], offline=False)[::2])
        for copy in copies:
            server.drop_database(copy.name)
    server.drop_database(template.name)
    to_engine = [mine / other for mine, other in zip(ours, engines, strict=True)]
    to_floor = [mine / other for mine, other in zip(ours, floors, strict=True)]
    live_to_engine = [mine[0] / other for mine, other in zip(live, engines, strict=True)]
    say(
        f"| {runs} {shape} | {spread(ours)} | {spread(engines)} | {spread(floors)} | "
        f"**{statistics.median(to_engine):.2f}** | **{statistics.median(to_floor):.2f}** | "
        f"{statistics.median(live_to_engine):.2f} | {max(longest for _, longest in live) * 1_000:.0f} ms |"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", default="20000,100000")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--shape", default="flat", choices=("flat", "tree"))
    arguments = parser.parse_args()
    header("Removal from PostgreSQL")
    say(
        "| expired runs | afterrun, s | engine, s | floor, s | to engine | to floor | live without pause, "
        "to engine | its longest batch |"
    )
    say("|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder, Server(durable=True, settings=SETTINGS) as server:
        for runs in arguments.runs.split(","):
            compare(server, Path(folder), runs=int(runs), rounds=arguments.rounds, shape=arguments.shape)


if __name__ == "__main__":
    main()
