"""Stores that a real duroxide makes, on SQLite and on PostgreSQL, behind the same few questions.

Made once: on SQLite kept under `.engines`, on PostgreSQL once a server.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from afterrun import Policy, Report, Retention, SweepOptions
from pg_server import Database, Server

sys.path.append(str(Path(__file__).resolve().parents[2] / "demo"))  # scripts, not a package

from environments import CACHE, DEMO, answer_of, is_fresh, locked, package_python

VERSION: Final = "0.2.2"
SCHEMA: Final = "my_flows"
"""Of a store on PostgreSQL; the engine takes any name."""
SCRIPTS: Final = ("duroxide_app.py", "duroxide_workflows.py")
TIME: Final = re.compile(r"(_at|_at_ms|_until)$")
"""Names of columns that hold times."""
DAY_SECONDS: Final = 86_400

ALIVE: Final = {
    *("eternal", *(f"eternal-child-{generation}" for generation in range(1, 7))),
    *("waiter", "sleeper"),
}
"""Members of the trees whose root is still running in a made store."""
HELD: Final = {"hasty", "single-2"}
"""Ended instances that have a message in the queue: a timer far in the future, and an event."""
ENDED: Final = {
    *("single-0", "single-1", "failed", "race", "race-winner", "race-loser", "fanout"),
    *("fanout::sub::2", "fanout::sub::2::sub::2", "fanout::sub::2::sub::3"),
    *("fanout::sub::3", "fanout::sub::3::sub::2", "fanout::sub::3::sub::3"),
}
"""Members of five trees that nothing holds."""

QUEUED: Final = ("hasty", "single-2", "sleeper")
"""Instances that have a message in a made store."""
ATTEMPTS: Final = 5

GAP = """
SELECT i.instance_id FROM instances i JOIN executions e
    ON e.instance_id = i.instance_id AND e.execution_id = i.current_execution_id
WHERE e.status = 'ContinuedAsNew' AND EXISTS (
    SELECT 1 FROM orchestrator_queue q WHERE q.instance_id = i.instance_id)
"""
"""Loops between two generations: the next one is no more than a message."""

Rows = list[tuple[Any, ...]]


class Store(Protocol):
    """A store that the engine made. SQL in and out is what both databases understand."""

    @property
    def kind(self) -> str:
        """Which database it is in."""

    @property
    def location(self) -> str:
        """Where it is, for afterrun and for the engine."""

    @property
    def state(self) -> Path:
        """Where afterrun may keep what it remembers of it."""

    def fill(self) -> None:
        """Make it a store with every situation."""

    def rows(self, statement: str) -> Rows:
        """Read."""

    def change(self, *statements: str) -> None:
        """Change it behind everyone's back, unchecked by foreign keys, in one transaction."""

    def columns(self) -> Mapping[str, Sequence[tuple[str, str]]]:
        """Return name and kind of the columns of each table: instant, number or text."""

    def copy(self, name: str) -> Store:
        """Make another store of the same content. Nobody may be using this one."""


@dataclass(frozen=True)
class SqliteStore:
    path: Path
    kind: str = "sqlite"

    @property
    def location(self) -> str:
        return str(self.path)

    @property
    def state(self) -> Path:
        return self.path.parent / "state"

    def fill(self) -> None:
        shutil.copyfile(_template(), self.path)

    def clear(self) -> None:
        """Remove it, with all that a killed process left beside it."""
        for left in self.path.parent.glob(f"{self.path.name}*"):
            left.unlink()

    def rows(self, statement: str) -> Rows:
        with closing(sqlite3.connect(self.path)) as connection:
            return connection.execute(statement).fetchall()

    def change(self, *statements: str) -> None:
        with closing(sqlite3.connect(self.path, timeout=30.0)) as connection, connection:
            for statement in statements:
                connection.execute(statement)

    def columns(self) -> Mapping[str, Sequence[tuple[str, str]]]:
        tables = self.rows("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'")
        return {
            table: [(name, "") for (name,) in self.rows(f"SELECT name FROM pragma_table_info('{table}')")]
            for (table,) in tables
        }

    def copy(self, name: str) -> SqliteStore:
        other = self.path.with_name(f"{name}.sqlite")
        with closing(sqlite3.connect(self.path)) as ours, closing(sqlite3.connect(other)) as theirs:
            ours.backup(theirs)
        return SqliteStore(other)


@dataclass(frozen=True)
class PostgresStore:
    database: Database
    folder: Path
    kind: str = "postgresql"

    @property
    def location(self) -> str:
        return self.database.url(schema=SCHEMA)

    @property
    def state(self) -> Path:
        return self.folder / f"state {self.database.name}"

    def fill(self) -> None:
        self.database.refill(_pg_template(self.database.server))

    def rows(self, statement: str) -> Rows:
        with self.database.connect() as connection:
            connection.execute(f"SET search_path = {SCHEMA}; SET datestyle = ISO")
            return connection.execute(statement.encode()).fetchall()

    def change(self, *statements: str) -> None:
        with self.database.connect(autocommit=False) as connection:
            connection.execute(f"SET search_path = {SCHEMA}; SET datestyle = ISO")
            for statement in statements:
                connection.execute(statement.encode())

    def columns(self) -> Mapping[str, Sequence[tuple[str, str]]]:
        found: dict[str, list[tuple[str, str]]] = {}
        for table, column, kind in self.rows(
            "SELECT table_name::text, column_name::text, data_type::text FROM information_schema.columns "
            f"WHERE table_schema = '{SCHEMA}' ORDER BY table_name, ordinal_position"
        ):
            found.setdefault(table, []).append((column, kind))
        return found

    def copy(self, name: str) -> PostgresStore:
        server = self.database.server
        server.drop_database(f"{self.database.name} {name}")
        copied = server.create_database(f"{self.database.name} {name}", template=self.database.name)
        return PostgresStore(copied, self.folder)


def command(name: str, store: Store, *words: str) -> list[str]:
    """Return the command line that runs a command of `duroxide_app.py`."""
    return [
        str(package_python("duroxide", VERSION)),
        "-E",
        str(DEMO / SCRIPTS[0]),
        name,
        store.location,
        *words,
    ]


def run_duroxide(name: str, store: Store, *words: str) -> dict[str, Any]:
    """Run a command of `duroxide_app.py` and return its answer. Raise RuntimeError when it fails."""
    return answer_of(command(name, store, *words), 60.0)


def age(store: Store, days: float, *, but: Collection[str] = ()) -> None:
    """Move every time of all instances into the past, except of those named and of what is due later."""
    store.change(
        *(
            f"UPDATE {table} SET {', '.join(_earlier(store, column, kind, days) for column, kind in times)} "
            f"WHERE instance_id NOT IN ({', '.join(map(_text, ['', *but]))}) AND {_is_due(store, table)}"
            for table, columns in store.columns().items()
            if "instance_id" in dict(columns)
            and (times := [(column, kind) for column, kind in columns if TIME.search(column)])
        )
    )


def _earlier(store: Store, column: str, kind: str, days: float) -> str:
    seconds = round(days * DAY_SECONDS)
    if store.kind == "sqlite":
        other = f"datetime({column}, '{-seconds:+d} seconds')"
        return (
            f"{column} = CASE typeof({column}) WHEN 'integer' THEN {column} - {seconds * 1_000} "
            f"WHEN 'text' THEN {other} END"
        )
    shift = f"interval '{seconds} seconds'" if kind.startswith("timestamp") else str(seconds * 1_000)
    return f"{column} = {column} - {shift}"


def _is_due(store: Store, table: str) -> str:
    if table != "orchestrator_queue":
        return "1 = 1"
    soon = "(strftime('%s', 'now') + 60) * 1000" if store.kind == "sqlite" else "now() + interval '1 minute'"
    return f"visible_at <= {soon}"


@contextmanager
def working(store: Store, loops: int) -> Iterator[None]:
    """Run the engine with its loops on their way, and kill it in the middle of its work."""
    words = command("loop", store, "--loops", str(loops))
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            told = next((line for line in process.stdout or () if line.startswith("{")), "{}")
            assert len(json.loads(told)["running"]) == loops
            yield
        finally:
            process.kill()


def ids(store: Store) -> set[str]:
    """Return the ids of all instances."""
    return {row[0] for row in store.rows("SELECT instance_id FROM instances")}


def content(store: Store, of: Collection[str]) -> dict[str, list[str]]:
    """Return every row of these instances, by table."""
    return {
        table: sorted(
            repr(row)
            for row in store.rows(
                f"SELECT * FROM {table} WHERE instance_id IN ({', '.join(map(_text, sorted(of)))})"
            )
        )
        for table, columns in store.columns().items()
        if "instance_id" in dict(columns)
    }


def owners(store: Store) -> set[str]:
    """Return every id that any row of any table belongs to."""
    tables = [table for table, columns in store.columns().items() if "instance_id" in dict(columns)]
    return {row[0] for table in tables for row in store.rows(f"SELECT instance_id FROM {table}")}


def retention(store: Store, profile: Path | None = None) -> Retention:
    """Open a store."""
    return Retention(store.location, profile=None if profile is None else str(profile), state=store.state)


def prune(store: Store, policy: Policy, *, profile: Path | None = None, offline: bool = True) -> Report:
    """Remove what a policy lets go and make sure that the store is sound afterwards."""
    with retention(store, profile) as opened:
        report = opened.prune(policy, options=SweepOptions(offline=offline))
        assert report.ended == "completed"
        assert list(opened.verify()) == []
    return report


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _digest() -> str:
    digest = hashlib.sha256()
    for name in SCRIPTS:
        digest.update((DEMO / name).read_bytes())
    return digest.hexdigest()[:12]


def _populate(store: Store, clear: Callable[[], None]) -> None:
    """Make a store with every situation; again, if a busy machine left more than it should in the queue."""
    for _ in range(ATTEMPTS):
        clear()
        run_duroxide("populate", store)
        if sorted(store.rows("SELECT instance_id FROM orchestrator_queue")) == [(key,) for key in QUEUED]:
            return
    raise RuntimeError(f"after {ATTEMPTS} attempts other instances than {', '.join(QUEUED)} have messages")


def _template() -> Path:
    """Return a populated file that nobody may change."""
    kept = CACHE / "templates" / f"duroxide-{VERSION}-{_digest()}.sqlite"
    if not is_fresh(kept):
        with locked(kept.stem):
            if not is_fresh(kept):
                kept.parent.mkdir(parents=True, exist_ok=True)
                draft = SqliteStore(kept.with_suffix(".draft"))
                _populate(draft, draft.clear)
                draft.rows("PRAGMA wal_checkpoint(TRUNCATE)")  # what the engine left in its log
                draft.path.rename(kept)
    return kept


def _pg_template(server: Server) -> str:
    """Return the name of a populated database of a server that nobody may change."""

    def populate(database: Database) -> None:
        drop = f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE"
        _populate(PostgresStore(database, Path()), lambda: database.run(drop))
        database.run("ANALYZE")

    return server.template(f"duroxide-{VERSION}-{SCHEMA}", populate)
