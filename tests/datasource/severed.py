"""A process whose children remove from two databases and are cut off before the n-th of their steps.

A step is a statement on either database, from the first transaction on, or a durable change of afterrun's
state. It reads requests from standard input, a JSON object a line, and forks a child for each: everything is
imported once. The child writes the name of each step to a log before it does it; the exit code follows.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

import psycopg

from afterrun import Policy, Retention, SweepOptions

How = Literal["kill", "stop", "end store", "end datasource"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """One removal. Before step ``at`` (from 1) it is killed, or stopped, or its session on one side ends.

    ``admin`` is how to connect as a superuser, for the latter.
    """

    store: str
    datasource: str
    state: str
    log: str
    at: int | None = None
    how: How = "kill"
    admin: str = ""
    offline: bool = False


class Steps:
    """Counts steps, names them and cuts the process off."""

    def __init__(self, cut: Cut) -> None:
        """Open the log."""
        self._cut = cut
        self._log = os.open(cut.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        self._sessions: dict[str, int] = {}
        self._count = 0
        self._quiet = False

    def statement(self, side: str, text: str) -> None:
        """Take a statement for a step once the first transaction has begun."""
        if self._count or text.startswith("BEGIN"):
            self._step(f"{side}: {' '.join(text.split())[:60]}")

    def change(self, text: str) -> None:
        """Take a change of a file for a step, once the first transaction has begun."""
        if self._count:
            self._step(f"state: {text}")

    def session(self, side: str, process: int) -> None:
        """Note the server's process behind a side."""
        self._sessions[side] = process

    def _step(self, name: str) -> None:
        if self._quiet:
            return
        self._count += 1
        os.write(self._log, f"{name}\n".encode())
        if self._count != self._cut.at:
            return
        if self._cut.how in ("kill", "stop"):
            os.kill(os.getpid(), signal.SIGKILL if self._cut.how == "kill" else signal.SIGSTOP)
            return
        self._quiet = True
        with psycopg.connect(self._cut.admin) as admin:
            admin.execute("SELECT pg_terminate_backend(%s, 5000)", [self._sessions[self._cut.how[4:]]])
        self._quiet = False


def hook(steps: Steps, cut: Cut) -> None:
    """Let every statement and every durable change of state be a step."""
    sides = {Path(cut.store).name: "store", Path(cut.datasource).name: "datasource"}
    execute = psycopg.Cursor.execute

    def execute_counted(self: Any, query: Any, *args: Any, **words: Any) -> Any:  # noqa: ANN401 - as psycopg's
        text = query.decode() if isinstance(query, bytes) else str(query)
        side = sides.get(self.connection.info.dbname, "")
        if side:
            steps.session(side, self.connection.info.backend_pid)
            steps.statement(side, text.strip())
        return execute(self, query, *args, **words)

    psycopg.Cursor.execute = execute_counted  # type: ignore[method-assign]
    connect = sqlite3.connect

    def connect_traced(address: str, **words: Any) -> sqlite3.Connection:  # noqa: ANN401 - as sqlite3's
        connection: sqlite3.Connection = connect(address, **words)
        side = sides[Path(address.partition("?")[0]).name]
        connection.set_trace_callback(lambda text: steps.statement(side, text))
        return connection

    sqlite3.connect = connect_traced  # type: ignore[assignment]
    for name in ("fsync", "replace", "unlink"):
        setattr(os, name, _counted(steps, name, getattr(os, name)))


def _counted(steps: Steps, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
    def counted(*args: Any, **words: Any) -> Any:  # noqa: ANN401 - as the call's
        steps.change(name)
        return call(*args, **words)

    return counted


def remove(cut: Cut) -> int:
    """Remove what is older than a month; return 0 if that was completed."""
    policy = Policy(keep_for=timedelta(days=30))
    options = SweepOptions(offline=cut.offline)
    with Retention(cut.store, state=Path(cut.state), datasources=[cut.datasource]) as retention:
        return 0 if retention.prune(policy, options=options).ended == "completed" else 2


def main() -> None:
    """Fork a child for each request and say how it ended (negative: by a signal)."""
    for line in sys.stdin:
        child = os.fork()
        if child:
            sys.stdout.write(f"{child}\n")
            sys.stdout.flush()
        if not child:
            code = 1
            try:
                cut = Cut(**json.loads(line))
                hook(Steps(cut), cut)
                code = remove(cut)
            except BaseException:  # noqa: BLE001 - the exit code is all that comes out of here
                traceback.print_exc()
            os._exit(code)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
