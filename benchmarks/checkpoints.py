"""LangGraph: threads whole on SQLite, superseded checkpoints on PostgreSQL, against the engine and the floor.

On SQLite, the engine removes the same threads by `delete_thread` in a loop, the only call that it has. On
PostgreSQL, it keeps the newest checkpoint of each thread by its own `prune`. The floor is one transaction
that deletes exactly the same rows, set-based. A store holds copies of one real thread of one turn: five
checkpoints of a small state. Each side gets a fresh copy; rounds are interleaved, and the ratios are those of
one round.

Run: python benchmarks/checkpoints.py [--threads 20000] [--rounds 3] [--engine-threads 20000]
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
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from _common import copy_of, header, say, spread
from engines.langgraph_stores import DAYS, PostgresStore, SqliteStore, Store, run_langgraph
from pg_server import Database, Server

SETTINGS = {"shared_buffers": "1GB", "max_wal_size": "8GB", "autovacuum": "off"}
"""Vacuum and checkpoints at chance moments would be in one round and not in another."""

MODEL = "chat-model"
KEY = "thread_id, checkpoint_ns, checkpoint_id"
IDS = ("checkpoint_id", "parent_checkpoint_id")
SUPERSEDED = (
    "EXISTS (SELECT 1 FROM checkpoints n WHERE n.thread_id = {0}.thread_id "
    "AND n.checkpoint_ns = {0}.checkpoint_ns AND n.checkpoint_id > {0}.checkpoint_id)"
)


class Figures(NamedTuple):
    """Seconds and removed rows of one side."""

    seconds: float
    rows: int


def fill(store: Store, threads: int) -> None:
    """Make a store of copies of one real thread, 400 days old, each with ids and payloads of its own."""
    run_langgraph("turn", store, MODEL, days=DAYS)
    for table in ("checkpoints", store.writes, *(["checkpoint_blobs"] if store.kind == "postgresql" else [])):
        _copy(store, table, threads)


def _copy(store: Store, table: str, threads: int) -> None:
    """Copy the rows that the model has in a table; the last digits of an id are those of the copy."""
    if isinstance(store, PostgresStore):
        columns = store.rows(
            f"SELECT string_agg(column_name, ',') FROM information_schema.columns "
            f"WHERE table_name = '{table}' AND column_name <> 'thread_id'"
        )[0][0].split(",")
        own = "left({0}, 24) || lpad(to_hex(n), 12, '0')"
        made = {name: own.format(name) for name in IDS}
        made["checkpoint"] = "jsonb_set(checkpoint, '{id}', to_jsonb(" + own.format("checkpoint_id") + "))"
        told = ", ".join(made.get(name, name) for name in columns)
        store.change(
            f"INSERT INTO {table} (thread_id, {', '.join(columns)}) "
            f"SELECT 'thread-' || lpad(n::text, 7, '0'), {told} "
            f"FROM {table} CROSS JOIN generate_series(1, {threads - 1}) AS n WHERE thread_id = '{MODEL}'"
        )
        return
    with closing(sqlite3.connect(store.location)) as database, database:
        found = database.execute(f"SELECT * FROM {table} WHERE thread_id = '{MODEL}'")
        names = [column[0] for column in found.description]
        rows = found.fetchall()
        ids = sorted({row[names.index("checkpoint_id")] for row in rows})
        marks = ", ".join("?" * len(names))
        database.executemany(
            f"INSERT INTO {table} VALUES ({marks})",
            (_copied(dict(zip(names, row, strict=True)), ids, n) for n in range(1, threads) for row in rows),
        )


def _copied(row: dict[str, object], ids: Sequence[str], number: int) -> tuple[object, ...]:
    last = f"{number:012x}"
    row["thread_id"] = f"thread-{number:07}"
    for name in IDS:
        if row.get(name) is not None:
            row[name] = f"{str(row[name])[:24]}{last}"
    payload = row.get("checkpoint")
    if isinstance(payload, bytes):
        for old in ids:
            payload = payload.replace(old.encode(), f"{old[:24]}{last}".encode())
        row["checkpoint"] = payload
    return tuple(row.values())


def afterrun(store: Store, *words: str) -> Figures:
    """Remove by the command line, offline; return its own seconds and the rows."""
    with tempfile.TemporaryDirectory() as state:
        done = subprocess.run(
            [
                *(sys.executable, "-m", "afterrun", "prune", *words),
                *("--apply", "--no-backup", "--yes", "--json", "--offline"),
            ],
            check=True,
            capture_output=True,
            text=True,
            env={**os.environ, "AFTERRUN_STATE_DIR": state, "AFTERRUN_STORE": store.location},
        )
    report = json.loads(done.stdout)
    return Figures(float(report["seconds"]["total"]), sum(report["rows"].values()))


def sqlite_floor(store: Store) -> Figures:
    """Delete all threads of a file in one transaction, and write the log back."""
    with closing(sqlite3.connect(store.location, isolation_level=None)) as database:
        threads = [row[0] for row in database.execute("SELECT DISTINCT thread_id FROM checkpoints")]
        keys = json.dumps(threads)
        began = time.perf_counter()
        database.execute("BEGIN IMMEDIATE")
        rows = sum(
            database.execute(
                f"DELETE FROM {table} WHERE thread_id IN (SELECT value FROM json_each(?))", (keys,)
            ).rowcount
            for table in ("writes", "checkpoints")
        )
        database.execute("COMMIT")
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return Figures(time.perf_counter() - began, rows)


def postgres_floor(database: Database) -> Figures:
    """Delete all superseded checkpoints in one transaction, with what only they need."""
    with database.connect(autocommit=False) as connection:
        connection.execute(
            b"CREATE TEMP TABLE gone AS SELECT "
            + f"{KEY} FROM checkpoints c WHERE {SUPERSEDED.format('c')}".encode()
        )
        connection.execute(b"ANALYZE gone")
        connection.execute(b"SET LOCAL jit = off; SET LOCAL work_mem = '256MB'")
        began = time.perf_counter()
        rows = sum(
            connection.execute(
                f"DELETE FROM {table} WHERE ({KEY}) IN (SELECT {KEY} FROM gone)".encode()
            ).rowcount
            for table in ("checkpoint_writes", "checkpoints")
        )
        connection.execute(b"SET LOCAL work_mem = '1GB'")  # so that what is left is hashed, not searched
        rows += connection.execute(
            b"DELETE FROM checkpoint_blobs b WHERE (thread_id, checkpoint_ns, channel, version) NOT IN "
            b"(SELECT c.thread_id, c.checkpoint_ns, v.key, v.value FROM checkpoints c "
            b"CROSS JOIN LATERAL jsonb_each_text(c.checkpoint -> 'channel_versions') v)"
        ).rowcount
        connection.execute(b"UPDATE checkpoints SET parent_checkpoint_id = NULL")
        connection.commit()
        return Figures(time.perf_counter() - began, rows)


def engine(command: str, store: Store, threads: int) -> float:
    """Let the engine do it to so many of the threads, and return the seconds for all of them."""
    total = int(store.rows("SELECT count(DISTINCT thread_id) FROM checkpoints")[0][0])
    if threads < total:
        left = f"thread_id IN (SELECT DISTINCT thread_id FROM checkpoints ORDER BY thread_id LIMIT {threads})"
        for table in (store.writes, "checkpoints"):
            store.change(f"DELETE FROM {table} WHERE NOT {left}")
    told = run_langgraph(command, store)
    return float(told["seconds"]) * total / int(told["threads"])


def row(name: str, ours: Sequence[float], engines: Sequence[float], floors: Sequence[float]) -> None:
    """Print one row of the table."""
    to_engine = [other / mine for mine, other in zip(ours, engines, strict=True)]
    to_floor = [mine / other for mine, other in zip(ours, floors, strict=True)]
    say(
        f"| {name} | {spread(ours)} | {spread(engines)} | {spread(floors)} | "
        f"**{statistics.median(to_engine):.1f}** | **{statistics.median(to_floor):.2f}** |"
    )


def compare(
    name: str,
    rounds: int,
    *,
    ours: Callable[[], Figures],
    floor: Callable[[], Figures],
    engines: Callable[[], float],
) -> None:
    """Measure each side in turn and print the row."""
    found: list[tuple[float, float, float]] = []
    for _ in range(rounds):
        theirs, mine, least = engines(), ours(), floor()
        if mine.rows != least.rows:
            sys.exit(f"not the same rows: {mine.rows} and {least.rows}")
        found.append((mine.seconds, theirs, least.seconds))
    row(name, *zip(*found, strict=True))


def sqlite_threads(folder: Path, options: argparse.Namespace) -> None:
    """Compare the removal of whole threads from a file."""
    model = SqliteStore(folder / "threads.sqlite")
    fill(model, options.threads)
    model.rows("PRAGMA wal_checkpoint(TRUNCATE)")

    def fresh() -> SqliteStore:
        return SqliteStore(copy_of(model.path))

    compare(
        f"SQLite, {options.threads} whole threads",
        options.rounds,
        ours=lambda: afterrun(fresh(), "--keep-for", "30d"),
        floor=lambda: sqlite_floor(fresh()),
        engines=lambda: engine("delete", fresh(), options.engine_threads),
    )


def postgres_checkpoints(folder: Path, server: Server, options: argparse.Namespace) -> None:
    """Compare the removal of superseded checkpoints from a server."""
    model = server.create_database()
    fill(PostgresStore(model, folder), options.threads)
    model.run("ANALYZE")
    made: list[Database] = []

    def fresh() -> Database:
        for old in made:
            server.drop_database(old.name)
        made[:] = [server.create_database(template=model.name)]
        with server.connect(model.name, user="postgres") as connection:
            connection.execute(b"CHECKPOINT")
        return made[0]

    compare(
        f"PostgreSQL, all but the newest checkpoint of {options.threads} threads",
        options.rounds,
        ours=lambda: afterrun(PostgresStore(fresh(), folder), "--generations-keep-for", "30d"),
        floor=lambda: postgres_floor(fresh()),
        engines=lambda: engine("prune", PostgresStore(fresh(), folder), options.engine_threads),
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--engine-threads", type=int, default=20_000, help="how many of them the engine does")
    options = parser.parse_args()
    header("LangGraph")
    say("| removed | afterrun, s | engine, s | floor, s | times as fast as the engine | to floor |")
    say("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder, Server(durable=True, settings=SETTINGS) as server:
        sqlite_threads(Path(folder), options)
        postgres_checkpoints(Path(folder), server, options)


if __name__ == "__main__":
    main()
