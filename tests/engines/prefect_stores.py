"""Stores that a real Prefect server makes, on SQLite and on PostgreSQL, behind the same few questions.

Made once and kept under `.engines`: a file, and a dump for each major version of PostgreSQL. Prefect needs
the extension pg_trgm there, which Debian's package brings and the wheel does not.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import sqlite3
import sys
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from afterrun import Policy, Report, Retention, SweepOptions
from pg_binaries import Binaries, installations
from pg_server import SUPERUSER, Database, Server

sys.path.append(str(Path(__file__).resolve().parents[2] / "demo"))  # scripts, not a package

from environments import CACHE, DEMO, ROOT, answer_of, environment_python, is_fresh, locked

VERSION: Final = "3.9.1"
SCRIPTS: Final = ("prefect_app.py", "prefect_client.py", "prefect_flows.py")
PINS: Final = ROOT / "constraints-prefect.txt"
SECONDS: Final = 240.0
EXTENSION: Final = "pg_trgm"
SHARE: Final = (("..", "share"), ("..", "..", "..", "..", "share", "postgresql", "{major}"))
"""Where an installation keeps its extensions, from its programs: in the wheel, and in Debian's packages."""

TIME: Final = re.compile(r"^(?!total_).*(created|updated|timestamp|occurred|received|recorded|_time)$")
"""Names of columns that hold times."""

TREES: Final[Mapping[str, frozenset[str]]] = {
    **{name: frozenset({name}) for name in ("single-0", "single-1", "single-2", "failed", "cancelled")},
    **{name: frozenset({name}) for name in ("bulk", "crashed", "keyed", "reporting-0", "reporting-1")},
    "reporting-alone": frozenset({"reporting-alone"}),
    "family": frozenset({"family", "family-child", "family-middle", "family-leaf"}),
}
"""Trees of a made store that ended, by the name of their root."""
ENDED: Final = frozenset().union(*TREES.values())
ALIVE: Final = frozenset(
    {
        *("hanging", "waiting", "waiting-child", "working", "working-child", "paused", "suspended"),
        *("late", "due", "dispatching", "dispatching-child"),
        *("abandoning", "abandoning-child", "abandoning-child-child", "abandoning-leaf"),
    }
)
"""Members of the trees in which something has not ended, but for what the scheduler made ahead of time."""

OWNERS: Final[Mapping[str, str]] = {
    "flow_run": "id IN ({runs})",
    "flow_run_state": "flow_run_id IN ({runs})",
    "flow_run_input": "flow_run_id IN ({runs})",
    "task_run": "flow_run_id IN ({runs})",
    "task_run_state": "task_run_id IN (SELECT id FROM task_run WHERE flow_run_id IN ({runs}))",
    "log": "flow_run_id IN ({runs})",
    "artifact": "flow_run_id IN ({runs})",
    "artifact_collection": "flow_run_id IN ({runs})",
}
"""Which rows of a table belong to runs."""

LOOSE: Final[Mapping[str, str]] = {
    "task_run": "flow_run_id IS NULL",
    "task_run_state": "task_run_id IN (SELECT id FROM task_run WHERE flow_run_id IS NULL)",
    "log": "flow_run_id IS NULL",
    "events": "1 = 1",
    "event_resources": "1 = 1",
}
"""Which rows of a table belong to no run."""

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

    def change(self, *statements: str) -> int:
        """Change it behind everyone's back, unchecked, in one transaction; return the last one's rows."""

    def columns(self) -> Mapping[str, Sequence[str]]:
        """Return the columns of each table."""

    def earlier(self, column: str, days: float) -> str:
        """Return the time of a column so many days before, as the engine spells it."""


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
        shutil.copyfile(template(), self.path)

    def rows(self, statement: str) -> Rows:
        with closing(sqlite3.connect(self.path)) as connection:
            return connection.execute(statement).fetchall()

    def change(self, *statements: str) -> int:
        with closing(sqlite3.connect(self.path, timeout=30.0)) as connection, connection:
            return [connection.execute(statement).rowcount for statement in statements][-1]

    def columns(self) -> Mapping[str, Sequence[str]]:
        tables = self.rows("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'")
        return {
            table: [name for (name,) in self.rows(f"SELECT name FROM pragma_table_info('{table}')")]
            for (table,) in tables
        }

    def earlier(self, column: str, days: float) -> str:
        return f"datetime(substr({column}, 1, 19), '{-days:+} days') || substr({column}, 20)"


@dataclass(frozen=True)
class PostgresStore:
    database: Database
    folder: Path
    kind: str = "postgresql"

    @property
    def location(self) -> str:
        return self.database.url()

    @property
    def state(self) -> Path:
        return self.folder / f"state {self.database.name}"

    def fill(self) -> None:
        self.database.refill(pg_template(self.database.server))

    def rows(self, statement: str) -> Rows:
        with self.database.connect() as connection:
            connection.execute("SET datestyle = ISO")
            return connection.execute(statement.encode()).fetchall()

    def change(self, *statements: str) -> int:
        with self.database.connect(SUPERUSER, autocommit=False) as connection:
            connection.execute("SET LOCAL session_replication_role = replica")
            return [connection.execute(statement.encode()).rowcount for statement in statements][-1]

    def columns(self) -> Mapping[str, Sequence[str]]:
        found: dict[str, list[str]] = {}
        for table, column in self.rows(
            "SELECT table_name::text, column_name::text FROM information_schema.columns "
            "WHERE table_schema = 'public' ORDER BY table_name, ordinal_position"
        ):
            found.setdefault(table, []).append(column)
        return found

    def earlier(self, column: str, days: float) -> str:
        return f"{column} - interval '{days} days'"


def python() -> Path:
    """Return the python that has the engine, made on first use."""
    return environment_python(f"prefect-{VERSION}", f"prefect=={VERSION}", pins=PINS)


def run_prefect(name: str, store: Store, *words: str) -> dict[str, Any]:
    """Run a command of `prefect_app.py` and return its answer. Raise RuntimeError when it fails."""
    return answer_of([str(python()), "-E", str(DEMO / SCRIPTS[0]), name, store.location, *words], SECONDS)


def capable(binaries: Sequence[Binaries] | None = None) -> Binaries | None:
    """Return the newest PostgreSQL here that has the extension which Prefect needs."""
    return next(filter(_has_extension, installations() if binaries is None else binaries), None)


def _has_extension(binaries: Binaries) -> bool:
    folders = [
        binaries.bin.joinpath(*(part.format(major=binaries.major) for part in parts)) for parts in SHARE
    ]
    return any((folder / "extension" / f"{EXTENSION}.control").exists() for folder in folders)


def age(store: Store, days: float, *, but: Collection[str] = ()) -> None:
    """Move every time of all runs into the past, except of those named and of what is scheduled."""
    kept = ", ".join(map(_text, ["", *but]))
    runs = f"SELECT id FROM flow_run WHERE state_type <> 'SCHEDULED' AND name NOT IN ({kept})"
    _shift(store, days, {table: where.format(runs=runs) for table, where in OWNERS.items()})


def age_loose(store: Store, days: float) -> None:
    """Move every time of events, and of tasks that ran outside of flows, into the past."""
    _shift(store, days, LOOSE)


def _shift(store: Store, days: float, tables: Mapping[str, str]) -> None:
    columns = store.columns()
    for table, where in tables.items():
        times = [name for name in columns[table] if TIME.search(name)]
        changes = ", ".join(f"{name} = {store.earlier(name, days)}" for name in times)
        store.change(f"UPDATE {table} SET {changes} WHERE {where}")


def names(store: Store) -> set[str]:
    """Return the names of all runs but those that the scheduler made."""
    found = store.rows("SELECT name FROM flow_run WHERE auto_scheduled IN (SELECT false)")
    return {row[0] for row in found}


def counts(store: Store) -> dict[str, int]:
    """Count the rows of every table."""
    return {table: store.rows(f"SELECT count(*) FROM {table}")[0][0] for table in store.columns()}


def content(store: Store, of: Collection[str]) -> dict[str, list[str]]:
    """Return every row of these runs, by table."""
    runs = f"SELECT id FROM flow_run WHERE name IN ({', '.join(map(_text, sorted(of)))})"
    return {
        table: sorted(
            repr(row) for row in store.rows(f"SELECT * FROM {table} WHERE {where.format(runs=runs)}")
        )
        for table, where in OWNERS.items()
    }


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
    for path in (*(DEMO / name for name in SCRIPTS), PINS):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def template() -> Path:
    """Return a populated file that nobody may change."""
    kept = CACHE / "templates" / f"prefect-{VERSION}-{_digest()}.sqlite"
    if not is_fresh(kept):
        python()
        with locked(kept.stem):
            if not is_fresh(kept):
                kept.parent.mkdir(parents=True, exist_ok=True)
                draft = SqliteStore(kept.with_suffix(".draft"))
                for left in kept.parent.glob(f"{draft.path.name}*"):
                    left.unlink()
                run_prefect("populate", draft)
                draft.rows("PRAGMA wal_checkpoint(TRUNCATE)")  # what the engine left in its log
                draft.path.rename(kept)
    return kept


def pg_template(server: Server) -> str:
    """Return the name of a populated database of a server that nobody may change."""
    dump = _dump(server)

    def restore(database: Database) -> None:
        server.tool("pg_restore", "--exit-on-error", str(dump), "--dbname", database.name)
        database.run("ANALYZE")

    return server.template(dump.stem, restore)


def _dump(server: Server) -> Path:
    name = f"prefect-{VERSION}-{_digest()}-pg{server.binaries.major}"
    dump = CACHE / "templates" / f"{name}.dump"
    if not is_fresh(dump):
        python()
        with locked(name):
            if not is_fresh(dump):
                _populate(server, dump)
    return dump


def _populate(server: Server, dump: Path) -> None:
    dump.parent.mkdir(parents=True, exist_ok=True)
    draft = dump.with_suffix(".draft")
    database = server.create_database()
    try:
        run_prefect("populate", PostgresStore(database, Path()))
        server.tool("pg_dump", "--format=custom", "--file", str(draft), database=database.name)
    finally:
        server.drop_database(database.name)
    draft.rename(dump)
