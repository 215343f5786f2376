"""Offline removal of expired trees from our own run store, against the floor.

The runs stand in trees of 1 to 10, with steps, attempts, closed obligations and content, of which some is
shared within trees, between them, and with runs that stay. The floor is one transaction that deletes exactly
the same rows, set-based, in the same order, with foreign keys on, and at its end all content that nothing
refers to in one statement. Rounds are interleaved, and the ratios are those of one round.

Run: python benchmarks/native_removal.py [--runs 100000] [--rounds 3] [--databases sqlite,postgresql]
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
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from _common import answer, copy_of, header, say, spread, worker
from afterrun.core.times import DAY
from afterrun.profiles import load_built_in
from pg_server import SUPERUSER, Database, Server
from runs.run_clones import Cloning, Model, fill_postgres, fill_sqlite, model_of

SETTINGS = {"shared_buffers": "1GB", "max_wal_size": "8GB", "autovacuum": "off"}
"""Vacuum and checkpoints at chance moments would be in one round and not in another."""

LIMITS: Final = {"sqlite": 2.3, "postgresql": 2.5}
AGE_DAYS: Final = 30


def floor_statements() -> Iterator[str]:
    """Yield the statements of the floor, in the order of the profile. ``gone`` has the ids of all runs."""
    profile = load_built_in("native")
    for owned in profile.units.tree.owned:
        yield f"DELETE FROM {owned.table} WHERE {owned.column} IN (SELECT id FROM gone)"
    yield "DELETE FROM runs WHERE id IN (SELECT id FROM gone)"
    (blobs,) = profile.blobs
    used = " UNION ALL ".join(
        f"SELECT {link.column} FROM {link.table} WHERE {link.column} IS NOT NULL" for link in blobs.references
    )
    yield f"DELETE FROM blobs WHERE id IN (SELECT id FROM blobs EXCEPT SELECT * FROM ({used}) AS used)"


def gone() -> str:
    """Return what selects the ids of all runs that are to go."""
    cutoff = time.time_ns() // 1_000 - AGE_DAYS * DAY
    roots = f"SELECT id FROM runs WHERE id = root_id AND ended_at < {cutoff}"
    return f"SELECT id FROM runs WHERE root_id IN ({roots})"


def measure_afterrun(location: str) -> tuple[float, int, dict[str, float]]:
    """Remove everything expired by the command line; return its own seconds, the rows, and all seconds."""
    words = ["prune", "--keep-for", f"{AGE_DAYS}d", "--apply", "--no-backup", "--yes", "--offline", "--json"]
    with tempfile.TemporaryDirectory() as state:
        done = subprocess.run(
            [sys.executable, "-m", "afterrun", *words],
            check=True,
            capture_output=True,
            text=True,
            env={**os.environ, "AFTERRUN_STATE_DIR": state, "AFTERRUN_STORE": location},
        )
    report = json.loads(done.stdout)
    if report["ended"] != "completed":
        sys.exit(f"the sweep ended {report['ended']}: {report['message']}")
    return float(report["seconds"]["total"]), sum(report["rows"].values()), report["seconds"]


def measure_sqlite_floor(store: str) -> None:
    """Delete all rows in one transaction and print the seconds."""
    database = sqlite3.connect(store, isolation_level=None)
    for setting in ("foreign_keys=ON", "secure_delete=FAST", "temp_store=MEMORY", "cache_size=-65536"):
        database.execute(f"PRAGMA {setting}")
    database.execute("CREATE TEMP TABLE gone (id TEXT PRIMARY KEY)")
    database.execute(f"INSERT INTO gone {gone()}")
    began = time.perf_counter()
    database.execute("BEGIN IMMEDIATE")
    rows = sum(database.execute(statement).rowcount for statement in floor_statements())
    database.execute("COMMIT")
    answer(seconds=time.perf_counter() - began, rows=rows)


def measure_postgres_floor(store: Database) -> tuple[float, int]:
    """Delete all rows in one transaction; return the seconds and the rows."""
    with store.connect(autocommit=False) as connection:
        connection.execute(b"SET search_path = afterrun")
        connection.execute(f"CREATE TEMP TABLE gone AS {gone()}".encode())
        connection.execute(b"ANALYZE gone")
        connection.execute(b"SET LOCAL jit = off")
        began = time.perf_counter()
        rows = sum(connection.execute(statement.encode()).rowcount for statement in floor_statements())
        connection.commit()
        return time.perf_counter() - began, rows


class SqliteStores:
    """A store in a file, and copies of it that are removed from."""

    def __init__(self, folder: Path, cloning: Cloning) -> None:
        """Make it."""
        self._store = folder / "runs.sqlite"
        fill_sqlite(self._store, cloning)

    def round(self) -> tuple[float, float, int]:
        """Return the seconds of afterrun and of the floor, and the rows."""
        seconds, rows, _ = measure_afterrun(str(copy_of(self._store)))
        floor = worker(__file__, str(copy_of(self._store)))
        _same(rows, floor["rows"])
        return seconds, floor["seconds"], rows


class PostgresStores:
    """A store on a server, and copies of it that are removed from."""

    def __init__(self, server: Server, cloning: Cloning) -> None:
        """Make it."""
        self._server = server
        self._template = server.create_database()
        fill_postgres(self._template.url(), self._template.url(SUPERUSER), cloning)

    def round(self) -> tuple[float, float, int]:
        """Return the seconds of afterrun and of the floor, and the rows."""
        copies = [self._copy(), self._copy()]
        seconds, rows, _ = measure_afterrun(copies[0].url())
        floor, floor_rows = measure_postgres_floor(copies[1])
        _same(rows, floor_rows)
        for copy in copies:
            self._server.drop_database(copy.name)
        return seconds, floor, rows

    def _copy(self) -> Database:
        copy = self._server.create_database(template=self._template.name)
        with self._server.connect(copy.name, user="postgres") as connection:
            connection.execute(b"CHECKPOINT")
        return copy


def _same(ours: int, floor: int) -> None:
    if ours != floor:
        sys.exit(f"not the same rows: {ours} and {floor}")


def compare(name: str, stores: SqliteStores | PostgresStores, *, runs: int, rounds: int) -> None:
    """Measure one database and print its row of the table."""
    found = [stores.round() for _ in range(rounds)]
    ratio = statistics.median(ours / floor for ours, floor, _ in found)
    say(
        f"| {name} | {runs} | {found[0][2]} | {spread([ours for ours, _, _ in found])} | "
        f"{spread([floor for _, floor, _ in found])} | **{ratio:.2f}** (limit {LIMITS[name]}) |"
    )


def cloning(model: Model, runs: int) -> Cloning:
    """Return so many runs that are old, and a tenth of that which stay."""
    old = runs // model.runs
    return Cloning(model, old=old, kept=max(1, old // 10), now=time.time_ns() // 1_000)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--databases", default="sqlite,postgresql")
    parser.add_argument("--worker", metavar="STORE")
    arguments = parser.parse_args()
    if arguments.worker:
        measure_sqlite_floor(arguments.worker)
        return
    header("Offline removal from our own run store")
    say("| database | expired runs | rows | afterrun, s | floor, s | to floor |")
    say("|---|---|---|---|---|---|")
    size = {"runs": arguments.runs, "rounds": arguments.rounds}
    for database in arguments.databases.split(","):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            model = model_of(folder, began=time.time_ns() // 1_000 - 100 * DAY)
            made = cloning(model, arguments.runs)
            if database == "sqlite":
                compare(database, SqliteStores(folder, made), **size)
                continue
            with Server(durable=True, settings=SETTINGS) as server:
                compare(database, PostgresStores(server, made), **size)


if __name__ == "__main__":
    main()
