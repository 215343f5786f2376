"""Steps recorded in our own run store, sealed and scrubbed, against the same inserts by hand.

Each step has 4 KiB of JSON of its own, and is one durable commit (`synchronous = FULL`; a server with fsync).
By hand are the same three rows, made beforehand, in one transaction on one connection that stays open. Both
sides take turns in the same process, some steps a turn, so that a slow moment of the disk is in both.

Run: python benchmarks/recording.py [--steps 2000] [--only sqlite|postgresql]
"""

from __future__ import annotations

import argparse
import json
import random
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import sqlalchemy as sa

from _common import header, say
from afterrun.runs import Keys, RunStore
from afterrun.runs.displays import display_of
from afterrun.runs.schema import attempts, blobs, steps
from pg_server import Server

SIZE = 4_096
TURN = 100
LIMIT_TIMES = 2.0
LIMIT_CPU = 600
TEXT = "the model answers with a plan of some steps and calls a tool for each of them until it is done"
WORDS = TEXT.split()

Row = dict[str, Any]
Write = Callable[[Sequence[Row]], None]


def payload(rng: random.Random) -> bytes:
    """Return 4 KiB of what an agent's step is made of: messages, a tool's call, its answer, and a token."""
    messages: list[dict[str, Any]] = []
    while len(json.dumps(messages)) < SIZE - 400:
        text = " ".join(rng.choices(WORDS, k=40))
        call = {"id": f"call_{rng.getrandbits(96):024x}", "name": "search"}
        call["arguments"] = json.dumps({"query": text[:60]})
        messages.append({"role": "assistant", "content": text, "tool_calls": [call], "tokens": 17})
    token = "".join(rng.choices("abcdefghijklmnopqrstuvwxyz0123456789", k=36))
    made = {"model": "m-1", "messages": messages, "headers": {"Authorization": f"Bearer {token}"}, "pad": ""}
    made["pad"] = "." * (SIZE - len(json.dumps(made)))
    return json.dumps(made).encode()


def rows_of(run: str, number: int, content: bytes) -> Row:
    """Return what is inserted by hand for a step: sealed content is as long, and as random."""
    now = time.time_ns() // 1_000
    sealed = random.randbytes(len(content) + 68)
    address = random.randbytes(32).hex()
    blob = {"address": address, "size": len(content), "created_at": now, "key_id": "0" * 16}
    blob |= {"display": display_of(content), "display_mark": random.randbytes(32), "content": sealed}
    place = {"run_id": run, "generation": 1}
    step = place | {"number": number, "name": "think", "status": "completed", "attempt": 1}
    attempt = place | {"step": number, "number": 1, "status": "completed", "queued_at": now}
    times = {"started_at": now, "ended_at": now}
    return {"blob": blob, "step": step | times, "attempt": attempt | times}


def insert(table: sa.Table, names: Sequence[str], mark: str, schema: str = "") -> str:
    """Return an insert as a person writes it."""
    values = ", ".join(mark.format(name) for name in names)
    return f"INSERT INTO {schema}{table.name} ({', '.join(names)}) VALUES ({values})"


@contextmanager
def sqlite_by_hand(path: str) -> Iterator[Write]:
    """Write to a file by the standard library."""
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        for setting in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
            database.execute(f"PRAGMA {setting}")

        def write(rows: Sequence[Row]) -> None:
            for row in rows:
                database.execute("BEGIN IMMEDIATE")
                blob = insert(blobs, list(row["blob"]), ":{}") + " RETURNING id"
                [(number,)] = database.execute(blob, row["blob"]).fetchall()
                database.execute(insert(steps, list(row["step"]), ":{}"), row["step"])
                attempt = row["attempt"] | {"output_id": number}
                database.execute(insert(attempts, list(attempt), ":{}"), attempt)
                database.execute("COMMIT")

        yield write


@contextmanager
def postgres_by_hand(url: str) -> Iterator[Write]:
    """Write to a server by its driver."""
    engine = sa.create_engine(url)
    with closing(engine.raw_connection()) as pooled:
        database: psycopg.Connection[tuple[Any, ...]] = pooled.driver_connection  # type: ignore[assignment]

        def write(rows: Sequence[Row]) -> None:
            for row in rows:
                blob = insert(blobs, list(row["blob"]), "%({})s", "afterrun.") + " RETURNING id"
                [(number,)] = database.execute(blob.encode(), row["blob"]).fetchall()
                database.execute(
                    insert(steps, list(row["step"]), "%({})s", "afterrun.").encode(), row["step"]
                )
                attempt = row["attempt"] | {"output_id": number}
                database.execute(insert(attempts, list(attempt), "%({})s", "afterrun.").encode(), attempt)
                database.commit()

        yield write


def compare(name: str, places: Sequence[str], hand: Callable[[str], Any], *, count: int) -> None:
    """Take turns, and print a line."""
    rng = random.Random(4)
    times: dict[str, list[float]] = {"afterrun": [], "by hand": []}
    cpu = []
    cpu_by_hand = []
    ours, theirs = places
    keys = Keys.generate()
    with RunStore.open(theirs, sealing=keys) as other:
        by_hand = other.create("bench").run.id
        other.start(by_hand)
    with RunStore.open(ours, sealing=keys) as store, hand(theirs) as write:
        run = store.create("bench").run.id
        store.start(run)
        for turn in range(-1, count // TURN):
            contents = [payload(rng) for _ in range(TURN)]
            rows = [
                rows_of(by_hand, (turn + 1) * TURN + place, content) for place, content in enumerate(contents)
            ]
            begun, used = time.perf_counter(), time.process_time()
            for content in contents:
                store.steps.record(run, "think", output=content)
            middle, after = time.perf_counter(), time.process_time()
            write(rows)
            done, last = time.perf_counter(), time.process_time()
            if turn >= 0:  # the first turn fills caches
                times["afterrun"].append((middle - begun) / TURN)
                times["by hand"].append((done - middle) / TURN)
                cpu.append((after - used) / TURN)
                cpu_by_hand.append((last - after) / TURN)
    mine, their = (statistics.fmean(values) for values in times.values())
    say(
        f"| {name} | {1 / mine:.0f} | {1 / their:.0f} | **{mine / their:.2f}** | {LIMIT_TIMES} | "
        f"**{statistics.fmean(cpu) * 1e6:.0f} us** | {LIMIT_CPU} us | "
        f"{statistics.fmean(cpu_by_hand) * 1e6:.0f} us |"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=2_000)
    parser.add_argument("--only", choices=("sqlite", "postgresql"))
    arguments = parser.parse_args()
    header("Steps recorded with 4 KiB, sealed and scrubbed, one durable commit a step")
    say("| store | afterrun, steps/s | by hand, steps/s | times | limit | CPU a step | limit | CPU by hand |")
    say("|---|---|---|---|---|---|---|---|")
    if arguments.only != "postgresql":
        with tempfile.TemporaryDirectory() as folder:
            paths = [str(Path(folder) / name) for name in ("ours.sqlite", "theirs.sqlite")]
            compare("SQLite", paths, sqlite_by_hand, count=arguments.steps)
    if arguments.only != "sqlite":
        with Server(durable=True) as server:
            urls = [server.create_database().url() for _ in range(2)]
            compare("PostgreSQL", urls, postgres_by_hand, count=arguments.steps)


if __name__ == "__main__":
    main()
