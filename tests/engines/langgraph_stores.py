"""Stores that a real LangGraph makes, by its SQLite and its PostgreSQL saver, behind the same few questions.

Made once: on SQLite kept under `.engines`, on PostgreSQL once a server. The packages are checkpoint-sqlite
3.1.2 and checkpoint-postgres 3.2.0, with langgraph 1.2.24.
"""

from __future__ import annotations

import hashlib
import shutil
import sqlite3
import sys
from collections.abc import Collection, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, Protocol

from pg_server import Database, Server

sys.path.append(str(Path(__file__).resolve().parents[2] / "demo"))  # scripts, not a package

from environments import CACHE, DEMO, answer_of, environment_python, is_fresh, locked

VERSION: Final = "1.2.24"
PACKAGES: Final = (
    f"langgraph=={VERSION}",
    "langgraph-checkpoint-sqlite==3.1.2",
    "langgraph-checkpoint-postgres==3.2.0",
    "psycopg[binary]",
)
SCRIPTS: Final = ("langgraph_app.py", "langgraph_graphs.py")
SECONDS: Final = 120.0
DAYS: Final = 400
"""Age of a made store: ids tell times, so they cannot be moved afterwards."""

DONE: Final = {
    *("chat-0", "chat-1", "chat-2", "chat-forked", "flagged-0", "joined-0", "sending-0", "functional-0"),
    *("nested-0", "remembering-0", "heavy-0", "gathering-0", "gathering_always-0"),
}
"""Threads of a made store that ended, and that nothing holds."""
GATHERING: Final = {"gathering-0", "gathering_always-0"}
"""Threads whose values are gathered from all checkpoints."""
PENDING: Final = {
    *("waiting-0", "waiting-forked", "nested_waiting-0", "paused-0", "joining-0", "sent-0"),
    *("failing-0", "fanning-0", "dying-0", "chat-scheduled", "chat-odd-head"),
}
"""Threads that the engine would go on with."""
EARLY: Final = "chat-early"
"""A thread that ended, with a write to a checkpoint that is not saved yet."""
ODD: Final = "chat-odd"
"""A thread with an old checkpoint whose id tells no time; `chat-odd-head` has such a head."""

Rows = list[tuple[Any, ...]]
Kind = Literal["sqlite", "postgresql"]


class Store(Protocol):
    """A store that the engine made. SQL in and out is what both databases understand."""

    @property
    def kind(self) -> Kind:
        """Which database it is in."""

    @property
    def location(self) -> str:
        """Where it is, for afterrun and for the engine."""

    @property
    def writes(self) -> str:
        """Name of the table of writes."""

    @property
    def state(self) -> Path:
        """Where afterrun may keep what it remembers of it."""

    def fill(self) -> None:
        """Make it a store with every situation."""

    def rows(self, statement: str) -> Rows:
        """Read."""

    def change(self, *statements: str) -> None:
        """Change it behind everyone's back, in one transaction."""


@dataclass(frozen=True)
class SqliteStore:
    path: Path
    kind: Kind = "sqlite"
    writes: str = "writes"

    @property
    def location(self) -> str:
        return str(self.path)

    @property
    def state(self) -> Path:
        return self.path.parent / "state"

    def fill(self) -> None:
        shutil.copyfile(_template(), self.path)

    def rows(self, statement: str) -> Rows:
        with closing(sqlite3.connect(self.path)) as connection:
            return connection.execute(statement).fetchall()

    def change(self, *statements: str) -> None:
        with closing(sqlite3.connect(self.path, timeout=30.0)) as connection, connection:
            for statement in statements:
                connection.execute(statement)


@dataclass(frozen=True)
class PostgresStore:
    database: Database
    folder: Path
    kind: Kind = "postgresql"
    writes: str = "checkpoint_writes"

    @property
    def location(self) -> str:
        return self.database.url()

    @property
    def state(self) -> Path:
        return self.folder / f"state {self.database.name}"

    def fill(self) -> None:
        self.database.refill(_pg_template(self.database.server))

    def rows(self, statement: str) -> Rows:
        return self.database.rows(statement)

    def change(self, *statements: str) -> None:
        with self.database.connect(autocommit=False) as connection:
            for statement in statements:
                connection.execute(statement.encode())


def python() -> Path:
    """Return the python that has the engine, made on first use."""
    return environment_python(f"langgraph-{VERSION}", *PACKAGES)


def run_langgraph(name: str, store: Store, *threads: str, days: int = 0) -> dict[str, Any]:
    """Run a command of `langgraph_app.py`, so many days ago, and return its answer.

    Raise RuntimeError when it fails.
    """
    place = [store.location, *threads, "--days", str(days)]
    return answer_of([str(python()), "-E", str(DEMO / SCRIPTS[0]), name, *place], SECONDS)


def tables(store: Store) -> Sequence[str]:
    """Return the tables that hold rows of threads."""
    blobs = ["checkpoint_blobs"] if store.kind == "postgresql" else []
    return ["checkpoints", store.writes, *blobs]


def counts(store: Store) -> dict[str, int]:
    """Return the rows of each table."""
    return {table: store.rows(f"SELECT count(*) FROM {table}")[0][0] for table in tables(store)}


def content(store: Store, of: Collection[str]) -> dict[str, list[str]]:
    """Return every row of these threads, by table."""
    listed = ", ".join(f"'{thread}'" for thread in sorted(of)) or "''"
    return {
        table: sorted(repr(row) for row in store.rows(f"SELECT * FROM {table} WHERE thread_id IN ({listed})"))
        for table in tables(store)
    }


def threads(store: Store) -> set[str]:
    """Return every thread that any row belongs to."""
    found = [store.rows(f"SELECT DISTINCT thread_id FROM {table}") for table in tables(store)]
    return {row[0] for rows in found for row in rows}


def _digest() -> str:
    digest = hashlib.sha256()
    for name in SCRIPTS:
        digest.update((DEMO / name).read_bytes())
    return digest.hexdigest()[:12]


def _template() -> Path:
    """Return a populated file that nobody may change."""
    kept = CACHE / "templates" / f"langgraph-{VERSION}-{_digest()}.sqlite"
    if not is_fresh(kept):
        with locked(kept.stem):
            if not is_fresh(kept):
                kept.parent.mkdir(parents=True, exist_ok=True)
                draft = SqliteStore(kept.with_suffix(".draft"))
                for left in kept.parent.glob(f"{draft.path.name}*"):
                    left.unlink()
                run_langgraph("populate", draft, days=DAYS)
                draft.rows("PRAGMA wal_checkpoint(TRUNCATE)")  # what the engine left in its log
                draft.path.rename(kept)
    return kept


def _pg_template(server: Server) -> str:
    """Return the name of a populated database of a server that nobody may change."""

    def populate(database: Database) -> None:
        run_langgraph("populate", PostgresStore(database, Path()), days=DAYS)
        database.run("ANALYZE")

    return server.template(f"langgraph-{VERSION}", populate)
