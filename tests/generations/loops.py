"""Stores of runs with generations, in tables of their own, on SQLite and on PostgreSQL by the same SQL."""

from __future__ import annotations

import sqlite3
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, Protocol

from afterrun import Policy, Report, Retention, SweepOptions
from pg_server import Database

DAY_MS: Final = 86_400_000
NOW_MS: Final = time.time_ns() // 1_000_000
WEEK: Final = Policy(generations=Policy(keep_for=timedelta(days=7)))
"""Lets generations go that ended more than a week ago, and no run."""

PROFILE: Final = """
name = "loops"
engine = "Loops"
[detect]
tables = ["version"]
version = { table = "version", column = "number" }
read = { "1" = "" }
[units.tree]
table = "runs"
key = "id"
status = "status"
terminal = ["done"]
successful = ["done"]
live = [["running"]]
end = [{ column = "ended", format = "epoch_ms" }]
edges = [{ column = "parent" }]
owned = [
  { table = "events", column = "run" },
  { table = "turns", column = "run" },
  { table = "inbox", column = "run" },
]
[units.generation]
table = "turns"
key = ["run", "turn"]
current = "turn"
status = "status"
terminal = ["over"]
live = ["running"]
end = [
  { column = "ended", format = "epoch_ms" },
  { column = "at", format = "epoch_ms", rows = { table = "events", on = { run = "run", turn = "turn" } } },
]
owned = [{ table = "events", on = { run = "run", turn = "turn" } }]
[[units.generation.protect]]
reason = "pending-message"
rows = { table = "inbox", on = { run = "run", turn = "turn" } }
where = { taken = { null = true } }
[[units.generation.protect]]
reason = "held"
where = { hold = { equals = "yes" } }
"""

TABLES: Final = """
CREATE TABLE version (number INTEGER);
INSERT INTO version VALUES (1);
CREATE TABLE runs (id TEXT PRIMARY KEY, status TEXT, ended BIGINT, parent TEXT, turn BIGINT);
CREATE INDEX runs_ended ON runs (ended);
CREATE INDEX runs_parent ON runs (parent);
CREATE TABLE turns (run TEXT, turn BIGINT, status TEXT, ended BIGINT, hold TEXT, PRIMARY KEY (run, turn));
CREATE TABLE events (
    run TEXT, turn BIGINT, number BIGINT, at BIGINT, body TEXT, PRIMARY KEY (run, turn, number)
);
CREATE TABLE inbox (id INTEGER PRIMARY KEY, run TEXT, turn BIGINT, taken BIGINT);
CREATE INDEX inbox_run ON inbox (run, turn);
"""

Row = tuple[Any, ...]


@dataclass(frozen=True)
class Turn:
    """One generation; ``days`` ago it ended, and so did its events, if it has any."""

    run: str
    turn: int
    days: float | None = 30.0
    status: str = "over"
    hold: str | None = None
    events: int = 2
    event_days: float | None = 30.0


def days_ago(days: float | None) -> int | None:
    """Return a time in milliseconds."""
    return None if days is None else NOW_MS - round(days * DAY_MS)


class Loops(Protocol):
    """A store of loops. SQL in and out has no parameters and is what both databases understand."""

    @property
    def folder(self) -> Path:
        """Where its profile is, and what afterrun remembers."""

    @property
    def location(self) -> str:
        """Where it is."""

    def run(self, *statements: str) -> None:
        """Change it from outside."""

    def rows(self, statement: str) -> list[Row]:
        """Read."""

    def insert(self, table: str, rows: Sequence[Row]) -> None:
        """Add rows."""


@dataclass(frozen=True)
class SqliteLoops:
    """In a file."""

    folder: Path

    @property
    def location(self) -> str:
        """Its path."""
        return str(self.folder / "loops.sqlite")

    def run(self, *statements: str) -> None:
        """Run statements."""
        with closing(sqlite3.connect(self.location)) as connection, connection:
            for statement in statements:
                connection.executescript(statement)

    def rows(self, statement: str) -> list[Row]:
        """Return rows."""
        with closing(sqlite3.connect(self.location)) as connection:
            return connection.execute(statement).fetchall()

    def insert(self, table: str, rows: Sequence[Row]) -> None:
        """Add rows."""
        with closing(sqlite3.connect(self.location)) as connection, connection:
            marks = ", ".join("?" * len(rows[0]))
            connection.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)


@dataclass(frozen=True)
class PostgresLoops:
    """In a database of a server."""

    folder: Path
    database: Database

    @property
    def location(self) -> str:
        """Its URL."""
        return self.database.url(schema="public")

    def run(self, *statements: str) -> None:
        """Run statements."""
        for statement in statements:
            self.database.run(statement)

    def rows(self, statement: str) -> list[Row]:
        """Return rows."""
        return self.database.rows(statement)

    def insert(self, table: str, rows: Sequence[Row]) -> None:
        """Add rows."""
        with (
            self.database.connect() as connection,
            connection.cursor().copy(f"COPY {table} FROM STDIN".encode()) as copy,
        ):
            for row in rows:
                copy.write_row(row)


def make(store: Loops) -> None:
    """Make the tables and write the profile."""
    store.run(TABLES)
    (store.folder / "loops.toml").write_text(PROFILE, encoding="utf-8")


def fill(store: Loops, turns: Iterable[Turn], *, ended: Iterable[str] = ()) -> None:
    """Add generations and their runs: alive, or ended 30 days ago; the newest turn is the current one."""
    turns, over = list(turns), set(ended)
    newest: dict[str, int] = {}
    for turn in turns:
        newest[turn.run] = max(newest.get(turn.run, 0), turn.turn)
    store.insert(
        "runs",
        [
            (run, "done" if run in over else "running", days_ago(30) if run in over else None, None, current)
            for run, current in newest.items()
        ],
    )
    store.insert(
        "turns", [(turn.run, turn.turn, turn.status, days_ago(turn.days), turn.hold) for turn in turns]
    )
    events = [
        (turn.run, turn.turn, number, days_ago(turn.event_days), "x" * 20)
        for turn in turns
        for number in range(turn.events)
    ]
    if events:
        store.insert("events", events)


def loop(run: str, turns: int, *, days: float = 30.0) -> list[Turn]:
    """Return a loop's generations, of which the last is still running."""
    past = [Turn(run, number, days=days, event_days=days) for number in range(1, turns)]
    return [*past, Turn(run, turns, days=None, status="running")]


def open_loops(store: Loops, *, writable: bool = True) -> Retention:
    """Open it with its profile."""
    profile = str(store.folder / "loops.toml")
    return Retention(store.location, profile=profile, state=store.folder / "state", writable=writable)


def left(store: Loops) -> set[tuple[str, int]]:
    """Return the keys of the generations that are left."""
    return {(row[0], row[1]) for row in store.rows("SELECT run, turn FROM turns")}


def counts(store: Loops) -> Counter[str]:
    """Count the rows of each table."""
    tables = ("runs", "turns", "events", "inbox")
    return Counter({table: store.rows(f"SELECT count(*) FROM {table}")[0][0] for table in tables})


def prune(store: Loops, policy: Policy = WEEK, *, options: SweepOptions | None = None) -> Report:
    """Remove; plan, report and the difference of all tables must agree, and every row be accounted for."""
    with open_loops(store) as retention:
        planned = retention.plan(policy)
        before = counts(store)
        report = retention.prune(policy, options=options or SweepOptions(offline=True))
        assert report.ended == "completed", report.message
        assert list(retention.verify()) == []
    gone = before - counts(store)
    assert Counter({table: count for table, count in report.rows.items() if count}) == gone
    assert Counter({table: count for table, count in planned.rows.items() if count}) == gone
    assert planned.would_go == report.removed + report.deferred
    assert planned.kinds["generation"].members == before["turns"]
    return report


def verdicts(store: Loops, *ids: str, policy: Policy = WEEK) -> dict[str, str]:
    """Explain generations; return the verdict of each with its reasons."""
    with open_loops(store, writable=False) as retention:
        found = {name: retention.explain(name, policy) for name in ids}
    assert {told.kind for told in found.values()} == {"generation"}
    return {
        name: " ".join([told.verdict.value, *sorted(reason.name for reason in told.reasons)])
        for name, told in found.items()
    }
