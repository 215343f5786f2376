"""What PostgreSQL's space costs to look at and to make free again, and how far the estimates are off.

A store of finished DBOS runs, of which 60 % are expired, lying in front of the kept ones. They are removed in
SQL; then each way of making room is taken on a copy of the database. Writers insert in an open loop beside
the VACUUM.

Run: python benchmarks/pg_space.py [--runs 200000]
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import afterrun
from _common import VERSION, header, say
from afterrun.core.schema_space import SchemaSpace
from afterrun.core.space import Reclaim, ReclaimOptions
from engines.pg_stores import clone_pg_store
from pg_server import Database, Server

SETTINGS = {"shared_buffers": "512MB", "max_wal_size": "8GB", "autovacuum": "off"}
"""Vacuum and checkpoints at chance moments would be in one round and not in another."""

EVERY = 0.005
"""Seconds between the moments at which the writer is due."""

ALONE = 20.0
"""Seconds that the writer goes on alone before."""

GONE = """
CREATE TEMP TABLE gone AS SELECT workflow_uuid AS id FROM dbos.workflow_status
    WHERE completed_at < (extract(epoch FROM now()) * 1000)::bigint - 29 * 86400000::bigint;
ANALYZE gone;
DELETE FROM dbos.operation_outputs USING gone WHERE workflow_uuid = id;
DELETE FROM dbos.workflow_input USING gone WHERE workflow_uuid = id;
DELETE FROM dbos.workflow_output USING gone WHERE workflow_uuid = id;
DELETE FROM dbos.workflow_events USING gone WHERE workflow_uuid = id;
DELETE FROM dbos.workflow_events_history USING gone WHERE workflow_uuid = id;
DELETE FROM dbos.streams USING gone WHERE workflow_uuid = id;
DELETE FROM dbos.workflow_status USING gone WHERE workflow_uuid = id;
"""


def opened(database: Database, folder: str, *, writable: bool = False) -> afterrun.Retention:
    """Open the store with a memory of its own."""
    return afterrun.Retention(database.url(), state=Path(folder), writable=writable)


def look(database: Database, folder: str) -> tuple[SchemaSpace, float, float]:
    """Return the space of the store, the seconds of an inspection and of a dry run, with opening."""
    began = time.perf_counter()
    with opened(database, folder) as retention:
        retention.inspect()
    inspected = time.perf_counter() - began
    began = time.perf_counter()
    with opened(database, folder) as retention:
        space = retention.survey_space().before
    if not isinstance(space, SchemaSpace):
        raise TypeError(type(space))
    return space, inspected, time.perf_counter() - began


@contextmanager
def writing(database: Database, waits: list[float]) -> Iterator[None]:
    """Insert a run each 5 ms meanwhile; note how long after its moment each commit was done."""
    done = threading.Event()

    def write() -> None:
        with database.connect() as connection:
            due = time.perf_counter()
            while not done.wait(max(due - time.perf_counter(), 0)):
                connection.execute(
                    b"INSERT INTO dbos.workflow_status (workflow_uuid, status, name, created_at, updated_at)"
                    b" VALUES (%s, 'PENDING', 'flow', 1, 1)",
                    [uuid.uuid4().hex],
                )
                waits.append(time.perf_counter() - due)
                due += EVERY

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        done.set()
        writer.join()


def vacuumed(database: Database, folder: str, *, rest: float) -> tuple[Reclaim, list[float]]:
    """Reclaim beside a writer."""
    waits: list[float] = []
    with opened(database, folder, writable=True) as retention, writing(database, waits):
        report = retention.reclaim(ReclaimOptions(rest=rest))
    return report, sorted(waits)


def alone(database: Database, seconds: float) -> list[float]:
    """Let the writer go on without anything beside it."""
    waits: list[float] = []
    with writing(database, waits):
        time.sleep(seconds)
    return sorted(waits)


def rewritten(database: Database, space: SchemaSpace) -> Iterator[tuple[str, int, int, int, float]]:
    """Write each large table anew; yield its room as told, as it was, WAL and seconds."""
    with database.connect() as connection:
        for table in sorted(space.tables, key=lambda table: -table.total):
            if table.lean is None or table.total < space.on_disk / 100:
                continue
            [[start]] = connection.execute(b"SELECT pg_current_wal_lsn()::text").fetchall()
            began = time.perf_counter()
            connection.execute(f"VACUUM FULL dbos.{table.name}".encode())
            seconds = time.perf_counter() - began
            [[size, wal]] = connection.execute(
                b"SELECT pg_total_relation_size(%s::regclass),"
                b" pg_wal_lsn_diff(pg_current_wal_lsn(), %s)::bigint",
                [f"dbos.{table.name}", start],
            ).fetchall()
            yield table.name, table.lean, size, wal, seconds


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200_000)
    runs = parser.parse_args().runs
    header("Space on PostgreSQL")
    with Server(durable=True, settings=SETTINGS) as server, tempfile.TemporaryDirectory() as folder:
        full = server.create_database()
        clone_pg_store(full, runs=runs, version=VERSION, expired=0.6)
        full.run("VACUUM")
        space, inspected, surveyed = look(full, folder)
        say(f"{space.on_disk / 1e9:.2f} GB: inspect {inspected:.1f} s, a dry run of reclaim {surveyed:.2f} s")
        full.run(GONE)
        space, _, _ = look(full, folder)
        say("| VACUUM | seconds | GB before | after | dead rows left | p99 alone | beside it | longest |")
        say("|---|---|---|---|---|---|---|---|")
        for how, rest in (("beside an engine", 1.0), ("offline", 0.0)):
            copy = server.create_database(template=full.name)
            copy.run("ANALYZE")
            before = alone(copy, ALONE)
            report, waits = vacuumed(copy, folder, rest=rest)
            after = report.after or report.before
            usual, p99 = (each[len(each) * 99 // 100] for each in (before, waits))
            say(
                f"| {how} | {report.seconds:.1f} | {report.before.on_disk / 1e9:.2f} "
                f"| {after.on_disk / 1e9:.2f} | {after.dead if isinstance(after, SchemaSpace) else '-'} "
                f"| {usual * 1e3:.0f} ms | {p99 * 1e3:.0f} ms | {waits[-1] * 1e3:.0f} ms |"
            )
            server.drop_database(copy.name)
        full.run("VACUUM")
        say("| VACUUM FULL of | room as told, MB | as it was | WAL | seconds |")
        say("|---|---|---|---|---|")
        for name, told, real, wal, seconds in rewritten(full, space):
            say(f"| {name} | {told / 1e6:.0f} | {real / 1e6:.0f} | {wal / 1e6:.0f} | {seconds:.1f} |")


if __name__ == "__main__":
    main()
