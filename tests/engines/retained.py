"""Retention on a store that an engine made, in SQLite or PostgreSQL: what the engine tests share."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias, Unpack

from psycopg import Cursor, sql

from afterrun import Policy, Report, Retention, SweepOptions
from dumps import Dump, dump_sqlite, row_counts
from pg_dumps import dump_postgres
from pg_server import SUPERUSER, Connection, Database

from . import pg_stores, stores
from .clones import Clone, CloneOptions

MONTH = Policy(keep_for=timedelta(days=30))
OLD_DAYS = 40.0
"""Age that a test gives to runs which `MONTH` shall let go."""

LIVE_TREES = frozenset(
    {
        *("waiting-parent", "waiting-parent-child", "waiting-parent-grandchild"),
        *("ended-parent", "ended-parent-child"),
        *("watcher", "crashed", "queue-blocker", "queue-waiting-1", "queue-waiting-2", "delayed-1"),
    }
)
"""Trees of the made store in which a member is not finished."""

WATCHED = frozenset({"watched", "watched-child"})
"""A finished tree whose result the live watcher holds."""

KEYS = ("workflow_uuid", "workflow_id", "destination_uuid")
"""Columns that tie a row to the run that owns it."""

Kind: TypeAlias = Literal["sqlite", "postgres", "other schema"]
KINDS: tuple[Kind, ...] = ("sqlite", "postgres")
"""Where tests have their stores; some have one in a schema of another name, too."""


class EngineStore(Protocol):
    """Where an engine keeps its runs, with a back door. A statement has a ``?`` for each value."""

    @property
    def place(self) -> str:
        """What the engine and afterrun are told of it."""

    @property
    def folder(self) -> Path:
        """Where afterrun's own state is kept, and files of the test."""

    def make(self, version: str) -> dict[str, Any]:
        """Fill it with every situation; return what the engine said."""

    def clone(self, version: str, *, runs: int, **options: Unpack[CloneOptions]) -> Clone:
        """Fill it with copies of one finished run."""

    def age(self, days: float, ids: Collection[str] = (), *, but: Collection[str] = ()) -> int:
        """Move runs into the past (default: all finished ones except `but`); return their number."""

    def dump(self) -> Dump:
        """Return all rows of all tables."""

    def query(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Read all rows of a statement."""

    def change(self, statement: str, *values: object) -> int:
        """Change it behind everyone's back, unchecked by foreign keys; return the rows changed."""


@dataclass(frozen=True)
class InFile:
    """A store in a SQLite file."""

    path: Path

    @property
    def place(self) -> str:
        """Its path."""
        return str(self.path)

    @property
    def folder(self) -> Path:
        """The folder it is in."""
        return self.path.parent

    def make(self, version: str) -> dict[str, Any]:
        """Fill it with every situation."""
        return stores.make_store(version, self.path)

    def clone(self, version: str, *, runs: int, **options: Unpack[CloneOptions]) -> Clone:
        """Fill it with copies of one finished run."""
        return stores.clone_store(None, self.path, runs=runs, version=version, **options)

    def age(self, days: float, ids: Collection[str] = (), *, but: Collection[str] = ()) -> int:
        """Move runs into the past."""
        return stores.age_runs(self.path, days, ids, but=but)

    def dump(self) -> Dump:
        """Return all rows of all tables."""
        return dump_sqlite(self.path)

    def query(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Read all rows of a statement."""
        with closing(sqlite3.connect(self.path)) as connection:
            return connection.execute(statement, values).fetchall()

    def change(self, statement: str, *values: object) -> int:
        """Change it; the module of Python does not look after foreign keys."""
        with closing(sqlite3.connect(self.path)) as connection, connection:
            return connection.execute(statement, values).rowcount


@dataclass(frozen=True)
class OnServer:
    """A store in a schema of a PostgreSQL database."""

    database: Database
    folder: Path
    schema: str = pg_stores.SCHEMA

    @property
    def place(self) -> str:
        """Its URL, as the role that owns it; the schema is named where it is not the engine's own choice."""
        own = self.schema == pg_stores.SCHEMA
        return self.database.url() if own else self.database.url(schema=self.schema)

    def make(self, version: str) -> dict[str, Any]:
        """Fill it with every situation."""
        return pg_stores.make_pg_store(version, self.database, schema=self.schema)

    def clone(self, version: str, *, runs: int, **options: Unpack[CloneOptions]) -> Clone:
        """Fill it with copies of one finished run."""
        return pg_stores.clone_pg_store(
            self.database, runs=runs, version=version, schema=self.schema, **options
        )

    def age(self, days: float, ids: Collection[str] = (), *, but: Collection[str] = ()) -> int:
        """Move runs into the past."""
        return pg_stores.age_pg_runs(self.database, days, ids, but=but, schema=self.schema)

    def dump(self) -> Dump:
        """Return all rows of all tables."""
        with self.database.connect() as connection:
            return dump_postgres(connection, self.schema)

    def query(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Read all rows of a statement."""
        with self.database.connect() as connection:
            return self._run(connection, statement, values).fetchall()

    def change(self, statement: str, *values: object) -> int:
        """Change it as a superuser whom no foreign key checks."""
        with self.database.connect(SUPERUSER) as connection:
            connection.execute("SET session_replication_role = replica")
            return self._run(connection, statement, values).rowcount

    def _run(
        self, connection: Connection, statement: str, values: Sequence[object]
    ) -> Cursor[tuple[Any, ...]]:
        connection.execute(sql.SQL("SET search_path = {}").format(sql.Identifier(self.schema)))
        text = statement.replace("%", "%%").replace("?", "%s")
        return connection.execute(text.encode(), values)


Where: TypeAlias = Path | EngineStore
"""A store, or the path of one in a file."""


def engine_store(where: Where) -> EngineStore:
    """Return a store; a path is that of a SQLite file."""
    return InFile(where) if isinstance(where, Path) else where


def retention(where: Where) -> Retention:
    """Open a store, with afterrun's own state beside it."""
    store = engine_store(where)
    return Retention(store.place, state=store.folder / "state")


def prune(where: Where, policy: Policy = MONTH, *, offline: bool = True, **options: Any) -> Report:  # noqa: ANN401
    """Remove what a policy lets go and make sure that the store is sound afterwards."""
    with retention(where) as opened:
        report = opened.prune(policy, options=SweepOptions(offline=offline, **options))
        assert list(opened.verify()) == []
    return report


def run_ids(where: Where) -> set[str]:
    """Return the ids of all runs in a store."""
    return {row[0] for row in query(where, "SELECT workflow_uuid FROM workflow_status")}


def owners(where: Where) -> set[str]:
    """Return every id that any row of any table belongs to."""
    rows = (row for table in engine_store(where).dump().values() for row in table)
    return {str(row[key]) for row in rows for key in KEYS if row.get(key) is not None}


def counts(where: Where) -> dict[str, int]:
    """Count the rows of every table."""
    return row_counts(engine_store(where).dump())


def lost(before: dict[str, int], after: dict[str, int]) -> dict[str, int]:
    """Return how many rows each table lost, those without a loss left out."""
    return {table: rows - after[table] for table, rows in before.items() if rows != after[table]}


def query(where: Where, statement: str, *values: object) -> list[tuple[Any, ...]]:
    """Read all rows of a statement."""
    return engine_store(where).query(statement, *values)


def change(where: Where, statement: str, *values: object) -> int:
    """Change a store behind everyone's back, unchecked by foreign keys; return the rows changed."""
    return engine_store(where).change(statement, *values)
