"""Stores whose runs share payloads, on both databases: one face, the same tables and the same words."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, Protocol

import sqlalchemy as sa

from afterrun import Policy, Report, Retention, SweepOptions
from afterrun.stores.sql.store import SqlStore
from fakes import NOW, stand_still
from pg_server import Database
from sql_kit import engine_of

NOW_MS: Final = NOW // 1_000
HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS
OLD_MS: Final = NOW_MS - 100 * DAY_MS
MONTH: Final = Policy(keep_for=timedelta(days=30))

TABLES: Final = """
CREATE TABLE version (number integer);
INSERT INTO version VALUES (1);
CREATE TABLE runs (id text PRIMARY KEY, status text, ended bigint, parent text, input text);
CREATE INDEX runs_ended ON runs (ended);
CREATE INDEX runs_parent ON runs (parent);
CREATE INDEX runs_input ON runs (input);
CREATE TABLE steps (run text NOT NULL, input text, output text);
CREATE INDEX steps_run ON steps (run);
CREATE INDEX steps_input ON steps (input);
CREATE INDEX steps_output ON steps (output);
CREATE TABLE blobs (digest text PRIMARY KEY, content {bytes}, size integer, stored bigint);
CREATE TABLE pins (digest text NOT NULL, lease bigint);
CREATE INDEX pins_digest ON pins (digest);
"""

HEAD: Final = """
name = "own"
engine = "Own"
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
missing = "root"
owned = [{ table = "steps", column = "run" }]
"""

CREATED: Final = 'created = { column = "stored", format = "epoch_ms" }\n'
PINS: Final = 'pins = { table = "pins", column = "digest", until = "lease", format = "epoch_ms" }\n'
REFERENCES: Final = (
    'references = [{ table = "runs", column = "input" }, { table = "steps", column = "input" },'
    ' { table = "steps", column = "output" }]\n'
)
BLOBS: Final = f'[[blobs]]\ntable = "blobs"\nkey = "digest"\nsize = "size"\n{CREATED}{PINS}{REFERENCES}'


class Session:
    """One connection of the engine's own. Statements have ``?`` for values; each commits unless told else."""

    def __init__(self, connection: Any, *, mark: str) -> None:  # noqa: ANN401 - either driver's
        """Take an open connection in autocommit mode."""
        self._connection = connection
        self._mark = mark

    def run(self, statement: str, *values: object) -> list[Any]:
        """Run one statement and return its rows, if it has any."""
        done = self._connection.execute(statement.replace("?", self._mark), values)
        return done.fetchall() if done.description else []

    def run_many(self, statement: str, rows: Sequence[Sequence[object]]) -> None:
        """Run one statement for each of these rows."""
        self._connection.cursor().executemany(statement.replace("?", self._mark), rows)

    def close(self) -> None:
        """Let go of the connection; what was not committed is undone."""
        self._connection.close()


class Shop(Protocol):
    """A store with a back door, as the engine has it."""

    name: str
    folder: Path
    profile: Path

    def connect(self) -> Session:
        """Open another connection."""

    @property
    def location(self) -> str:
        """Where the product finds it."""


class SqliteShop:
    """A SQLite file."""

    name = "sqlite"

    def __init__(self, folder: Path) -> None:
        """Make the tables and the profile."""
        self.folder, self.profile = folder, folder / "own.toml"
        self.path = folder / "own.sqlite"
        self.profile.write_text(HEAD + BLOBS, encoding="utf-8")
        with closing(sqlite3.connect(self.path)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.executescript("PRAGMA synchronous = OFF;" + TABLES.format(bytes="blob"))

    @property
    def location(self) -> str:
        """Return the path."""
        return str(self.path)

    def connect(self) -> Session:
        """Open another connection; it waits for no lock."""
        connection = sqlite3.connect(self.path, isolation_level=None, timeout=0)
        connection.execute("PRAGMA synchronous = OFF")
        return Session(connection, mark="?")


class PostgresShop:
    """A PostgreSQL schema."""

    name = "postgresql"

    def __init__(self, database: Database, folder: Path) -> None:
        """Make the tables and the profile."""
        self.folder, self.profile, self.database = folder, folder / "own.toml", database
        self.profile.write_text(HEAD + BLOBS, encoding="utf-8")
        with database.connect() as connection:
            connection.execute("CREATE SCHEMA own")
            connection.execute(("SET search_path = own;" + TABLES.format(bytes="bytea")).encode())

    @property
    def location(self) -> str:
        """Return the URL."""
        return self.database.url(schema="own")

    def connect(self) -> Session:
        """Open another connection; it waits for no lock longer than a moment."""
        connection = self.database.connect()
        connection.execute("SET search_path = own; SET lock_timeout = '5s'")
        return Session(connection, mark="%s")


def execute(shop: Shop, statement: str, *rows: Sequence[object]) -> None:
    """Run a statement once for each of these rows, or once."""
    with closing(shop.connect()) as session:
        session.run("BEGIN")
        for row in rows or ((),):
            session.run(statement, *row)
        session.run("COMMIT")


def add_runs(shop: Shop, *runs: str, parent: str | None = None, live: bool = False) -> None:
    """Add runs that ended long ago, or are alive."""
    status, ended = ("running", None) if live else ("done", OLD_MS)
    rows = [(run, status, ended, parent) for run in runs]
    execute(shop, "INSERT INTO runs (id, status, ended, parent) VALUES (?, ?, ?, ?)", *rows)


def add_blobs(shop: Shop, *digests: str, stored: int | None = OLD_MS) -> None:
    """Add blobs of 10 bytes."""
    rows = [(digest, b"0123456789", 10, stored) for digest in digests]
    execute(shop, "INSERT INTO blobs VALUES (?, ?, ?, ?)", *rows)


def refer(shop: Shop, *pairs: tuple[str, str | None]) -> None:
    """Add steps: the run of each, and the blob of its output."""
    execute(shop, "INSERT INTO steps (run, output) VALUES (?, ?)", *pairs)


def left(shop: Shop, table: str = "blobs", column: str = "digest") -> list[Any]:
    """Return the values of a column, sorted."""
    with closing(shop.connect()) as session:
        return sorted(row[0] for row in session.run(f"SELECT {column} FROM {table}"))


def dangling(shop: Shop) -> list[Any]:
    """Return the keys that some row holds and no blob has."""
    asked = " UNION ".join(
        f"SELECT {column} FROM {table} WHERE {column} IS NOT NULL"
        f" AND {column} NOT IN (SELECT digest FROM blobs)"
        for table, column in (("runs", "input"), ("steps", "input"), ("steps", "output"))
    )
    with closing(shop.connect()) as session:
        return sorted(row[0] for row in session.run(asked))


@contextmanager
def opened(shop: Shop, *, now: int = NOW) -> Iterator[Retention]:
    """Open it through the product; its clock stands still."""
    with opened_at(shop.location, str(shop.profile), str(shop.folder / "state"), now=now) as retention:
        yield retention


@contextmanager
def opened_at(location: str, profile: str, state: str, *, now: int = NOW) -> Iterator[Retention]:
    """Open a store through the product, in whatever process; its clock stands still."""
    with Retention(location, profile=profile, state=Path(state)) as retention:
        stand_still(retention, now)
        yield retention


def prune(shop: Shop, policy: Policy = MONTH, *, now: int = NOW, offline: bool = False) -> Report:
    """Plan, then remove; make sure that both agree, and that nothing dangles."""
    before = counts(shop)
    with opened(shop, now=now) as retention:
        planned = retention.plan(policy)
        report = retention.prune(policy, options=SweepOptions(offline=offline))
    assert report.ended == "completed", report.message
    after = counts(shop)
    gone = {table: before[table] - after[table] for table in before}
    assert {table: report.rows[table] for table in before} == gone
    assert report.blobs.count == gone["blobs"]
    assert planned.blobs.count <= report.blobs.count  # a full pass may find more
    return report


def counts(shop: Shop) -> dict[str, int]:
    """Return the rows by table."""
    with closing(shop.connect()) as session:
        return {
            table: session.run(f"SELECT count(*) FROM {table}")[0][0]
            for table in ("runs", "steps", "blobs", "pins")
        }


@contextmanager
def between(store: object, moment: str, pattern: str, act: Callable[[], object]) -> Iterator[list[str]]:
    """Act once, before or after the first statement that fits; the list is what was acted at."""
    assert isinstance(store, SqlStore)
    engine = engine_of(store)
    acted: list[str] = []

    def hear(*arguments: Any) -> None:  # noqa: ANN401 - the event's own
        if not acted and re.search(pattern, arguments[2]):
            acted.append(arguments[2])
            act()

    sa.event.listen(engine, f"{moment}_cursor_execute", hear)
    try:
        yield acted
    finally:
        sa.event.remove(engine, f"{moment}_cursor_execute", hear)
