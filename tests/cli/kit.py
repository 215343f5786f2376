"""Runs the command line inside the test, and makes the stores it is given."""

from __future__ import annotations

import functools
import hashlib
import io
import json
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from afterrun.cli import main

SCHEMA = Path(__file__).resolve().parents[1] / "schemas" / "dbos-125.sql"
MARKER = "payload-that-nobody-may-see"
"""Stands in every payload of every store here, and may never be shown."""
DAY_MS = 86_400_000
COMMAND = [
    sys.executable,
    "-c",
    # a test runner may have been started with SIGINT turned off, which children inherit
    """if True:
        import signal, sys
        signal.signal(signal.SIGINT, signal.default_int_handler)
        from afterrun.cli import main
        sys.exit(main())
    """,
]
POWERLESS = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
"""Before a command, so that file permissions count for root, too."""


@dataclass(frozen=True, slots=True)
class Answer:
    """How one command line ended and what it said."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """Return the one JSON object that standard output must be."""
        assert self.out.endswith("\n")
        assert self.out.count("\n") == 1
        value = json.loads(self.out)
        assert isinstance(value, dict)
        return value


class Terminal(io.StringIO):
    """A stream with a person before it."""

    def isatty(self) -> bool:
        return True


def run_cli(
    *words: str | Path, stdin: io.StringIO | None = None, stderr: io.StringIO | None = None
) -> Answer:
    """Run one command line in this process; no payload may show in its answer."""
    out, err = io.StringIO(), stderr or io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), patch.object(sys, "stdin", stdin or io.StringIO()):
        code = main([str(word) for word in words])
    answer = Answer(code, out.getvalue(), err.getvalue())
    assert MARKER not in answer.out + answer.err
    assert "Traceback" not in answer.out + answer.err
    return answer


def spawn(
    *words: str | Path, prefix: Sequence[str] = (), stdout: int = subprocess.PIPE
) -> subprocess.Popen[str]:
    """Start one command line as a process of its own."""
    command = [*prefix, *COMMAND, *map(str, words)]
    return subprocess.Popen(
        command, text=True, stdin=subprocess.DEVNULL, stdout=stdout, stderr=subprocess.PIPE
    )


def run_process(*words: str | Path, prefix: Sequence[str] = (), stdout: int = subprocess.PIPE) -> Answer:
    """Run one command line as a process of its own, to its end."""
    with spawn(*words, prefix=prefix, stdout=stdout) as process:
        out, err = process.communicate(timeout=60)
    assert MARKER not in f"{out}{err}"
    return Answer(process.returncode, out or "", err or "")


def make_store(path: Path, runs: int = 40, *, live: int = 1, version: str = "125") -> Path:
    """Make a store with runs that ended 1, 2, 3 ... days ago, each with payloads, and live ones."""
    path.write_bytes(_contents(runs, live, version))
    return path


@functools.cache
def _contents(runs: int, live: int, version: str) -> bytes:
    now = time.time_ns() // 1_000_000
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(SCHEMA.read_text(encoding="utf-8"))
        with connection:
            connection.execute("UPDATE dbos_migrations SET version = ?", (version,))
            for number in range(runs):
                add_run(connection, f"run-{number}", now - (number + 1) * DAY_MS)
            for number in range(live):
                add_run(connection, f"live-{number}", now - DAY_MS, status="PENDING")
        return connection.serialize()


def add_run(
    connection: sqlite3.Connection,
    run: str,
    ended_ms: int,
    *,
    status: str = "SUCCESS",
    name: str = "flow",
    parent: str | None = None,
) -> None:
    """Add one run with payloads in every place that holds some."""
    connection.execute(
        "INSERT INTO workflow_status (workflow_uuid, status, name, created_at, updated_at, completed_at,"
        " parent_workflow_id, inputs, output, error) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            run,
            status,
            name,
            ended_ms,
            ended_ms,
            None if status == "PENDING" else ended_ms,
            parent,
            *[MARKER] * 3,
        ),
    )
    connection.execute(
        "INSERT INTO operation_outputs (workflow_uuid, function_id, output, error) VALUES (?, 1, ?, ?)",
        (run, MARKER, MARKER),
    )
    connection.execute("INSERT INTO workflow_events VALUES (?, 'key', ?, NULL)", (run, MARKER))


def change(path: Path, *statements: str) -> None:
    """Change a store by SQL."""
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


def count(path: Path, table: str = "workflow_status") -> int:
    """Count the rows of a table."""
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


@contextmanager
def unchanged(path: Path) -> Iterator[None]:
    """Expect every byte of a file, or its absence, to be the same afterwards."""
    before = _digest(path)
    yield
    assert _digest(path) == before


def _digest(path: Path) -> str | None:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None
