"""A writer that does not wait for its own answers: a transaction is due every few milliseconds.

Each wait counts from the moment the transaction was due to the end of its COMMIT, so that time spent behind
somebody's lock is charged to every transaction that should have run meanwhile. A writer that starts its
clock only when it gets round to the next one hides exactly that.

Works as an engine on a DBOS store does: plain sqlite3, BEGIN IMMEDIATE, durable commits. A run is started
with its input and first step in one transaction and finished with its output in the next.

Run: python open_loop.py STORE [--transactions N] [--every-ms MS] [--busy-ms MS] [--prefix TEXT]. Prints
``ready`` once it works, and at the end one JSON object.
"""

from __future__ import annotations

import argparse
import gc
import json
import re
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

WARM_UP = 20
"""Transactions before the writer says that it is ready; they are not measured."""

PREFIX = "open-loop-"
"""What the ids of new runs begin with."""

_TIME_COLUMN = re.compile(r"(_at|_epoch_ms|^retention_timestamp)$")


@dataclass(frozen=True, slots=True)
class Waits:
    """What the writer went through; times are milliseconds from the due moment to the end of COMMIT."""

    transactions: int
    errors: tuple[str, ...]
    p50: float
    p99: float
    longest: float
    over_100: int
    slowest: float
    """Longest that one transaction itself took, without the wait for those before it."""


class Writing:
    """A writer process at work. It is killed if it is left before it ended."""

    def __init__(self, process: subprocess.Popen[str], output: IO[str]) -> None:
        """Wrap a writer that is ready."""
        self._process = process
        self._output = output

    def active(self) -> bool:
        """Say whether the writer still has transactions to do."""
        return self._process.poll() is None

    def waits(self) -> Waits:
        """Wait for its end and return what it measured."""
        told = json.loads(self._output.readlines()[-1])
        if self._process.wait():
            raise RuntimeError(f"the writer ended with {self._process.returncode}")
        return Waits(**{**told, "errors": tuple(told["errors"])})


@contextmanager
def writing(
    store: Path | str,
    *,
    transactions: int,
    every_ms: float = 5.0,
    prefix: str = PREFIX,
    script: str = __file__,
) -> Iterator[Writing]:
    """Start a writer and give it once it works; ``script`` writes to stores of another kind."""
    command = [sys.executable, script, str(store), "--transactions", str(transactions)]
    command += ["--every-ms", str(every_ms), "--prefix", prefix]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            if process.stdout is None or process.stdout.readline() != "ready\n":
                raise RuntimeError("the writer did not get ready")
            yield Writing(process, process.stdout)
        finally:
            process.kill()


class Writer:
    """Starts and finishes runs that are copies of one in the store."""

    failures = (sqlite3.Error,)

    def __init__(self, connection: sqlite3.Connection, prefix: str) -> None:
        """Read the rows to copy."""
        self._connection = connection
        self._prefix = prefix
        found = connection.execute(
            "SELECT workflow_uuid FROM workflow_status WHERE status = 'SUCCESS' LIMIT 1"
        )
        self._model = found.fetchone()[0]
        self._rows = {
            table: row
            for table in ("workflow_status", "operation_outputs", "workflow_input", "workflow_output")
            if (row := self._row(table)) is not None
        }

    def _row(self, table: str) -> dict[str, object] | None:
        known = self._connection.execute("SELECT count(*) FROM sqlite_master WHERE name = ?", (table,))
        if not known.fetchone()[0]:
            return None
        cursor = self._connection.execute(f"SELECT * FROM {table} WHERE workflow_uuid = ?", (self._model,))
        columns = [column[0] for column in cursor.description]
        row = cursor.fetchone()
        return None if row is None else dict(zip(columns, row, strict=True))

    def transact(self, number: int) -> None:
        """Run one transaction: even ones start a run, odd ones finish it. Raises `sqlite3.Error`."""
        run = f"{self._prefix}{number // 2}"
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            if number % 2:
                self._finish(run)
            else:
                self._start(run)
            self._connection.execute("COMMIT")
        except sqlite3.Error:
            if self._connection.in_transaction:
                self._connection.rollback()
            raise

    def _start(self, run: str) -> None:
        self._insert("workflow_status", run, status="PENDING", completed_at=None)
        self._insert("workflow_input", run)
        self._insert("operation_outputs", run)

    def _finish(self, run: str) -> None:
        now = _now_ms()
        self._connection.execute(
            "UPDATE workflow_status SET status = 'SUCCESS', completed_at = ?, updated_at = ?"
            " WHERE workflow_uuid = ?",
            (now, now, run),
        )
        self._insert("workflow_output", run)

    def _insert(self, table: str, run: str, **changes: object) -> None:
        if table not in self._rows:
            return
        now = _now_ms()
        row = {
            column: now if _TIME_COLUMN.search(column) and value is not None else value
            for column, value in self._rows[table].items()
        }
        row |= {"workflow_uuid": run, **changes}
        marks = ", ".join("?" * len(row))
        columns = ", ".join(row)
        self._connection.execute(f"INSERT INTO {table} ({columns}) VALUES ({marks})", tuple(row.values()))


class Transacts(Protocol):
    """Whatever runs the transactions of `write`."""

    @property
    def failures(self) -> tuple[type[Exception], ...]:
        """What it raises when the database fails."""

    def transact(self, number: int) -> None:
        """Run one. Raises one of `failures`."""


def write(writer: Transacts, *, transactions: int, every: float) -> Waits:
    """Run the transactions, each at its due moment or as soon after it as the store lets."""
    waits: list[float] = []
    errors: list[str] = []
    slowest = 0.0
    start = time.monotonic()
    for number in range(transactions):
        due = start + number * every
        early = due - time.monotonic()
        if early > 0:
            time.sleep(early)
        begun = time.monotonic()
        try:
            writer.transact(WARM_UP + number)
        except writer.failures as error:
            errors.append(repr(error))
        ended = time.monotonic()
        waits.append((ended - due) * 1_000)
        slowest = max(slowest, (ended - begun) * 1_000)
    waits.sort()
    return Waits(
        transactions=transactions,
        errors=tuple(errors),
        p50=percentile(waits, 0.50),
        p99=percentile(waits, 0.99),
        longest=waits[-1],
        over_100=sum(wait > 100 for wait in waits),
        slowest=slowest,
    )


def percentile(ordered: Sequence[float], share: float) -> float:
    """Return the value that this share of the sorted values does not exceed."""
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def main() -> None:
    """Write to the store named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("store", type=Path)
    parser.add_argument("--transactions", type=int, default=20_000)
    parser.add_argument("--every-ms", type=float, default=5.0)
    parser.add_argument("--busy-ms", type=float, default=5_000.0)
    parser.add_argument("--prefix", default=PREFIX)
    options = parser.parse_args()
    gc.disable()  # a pause of our own would be charged to the store
    connection = sqlite3.connect(options.store, timeout=options.busy_ms / 1_000, isolation_level=None)
    with closing(connection):
        writer = Writer(connection, options.prefix)
        for number in range(WARM_UP):
            writer.transact(number)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        waits = write(writer, transactions=options.transactions, every=options.every_ms / 1_000)
    told = {name: getattr(waits, name) for name in Waits.__slots__}
    sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    main()
