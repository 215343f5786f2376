"""A store that a real engine made, and the database of its datasource, each on SQLite or on PostgreSQL.

Three of its orders are finished and aged, the fourth waits: see `demo/dbos_datasource.py`.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, Protocol

import sqlalchemy as sa
from psycopg.conninfo import make_conninfo

from afterrun import Policy, Retention
from pg_server import SUPERUSER, Server

sys.path.append(str(Path(__file__).resolve().parents[2] / "demo"))  # scripts, not a package

from environments import CACHE, DEMO, answer_of, engine_python, locked

VERSION: Final = "3.4.0"
SCRIPTS: Final = ("dbos_datasource.py", "dbos_workflows.py")
DAY_MS: Final = 86_400_000
OLD_DAYS: Final = 40
MONTH: Final = Policy(keep_for=timedelta(days=30))

CRASHED: Final = "order-crashed"
DONE: Final = "order-done"
CLEAN: Final = "order-clean"
WAITING: Final = "order-waiting"
EXPIRED: Final = frozenset({CRASHED, DONE, CLEAN})
HELD: Final = frozenset({CRASHED, DONE})
"""Expired orders with rows in the datasource."""

ROWS: Final = "datasource:datasource_outputs"
TIMES: Final = ("created_at", "updated_at", "completed_at")


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two databases, behind the product's back. ``location`` is what the product is given."""

    location: str

    @property
    def on_server(self) -> bool:
        """Whether it is on PostgreSQL."""
        return "://" in self.location

    def rows(self, statement: str, **values: object) -> Sequence[Any]:
        """Run a statement, commit, and return its rows if it has any. ``{s}`` is where tables are."""
        engine = sa.create_engine(
            self.location if self.on_server else f"sqlite:///{self.location}", poolclass=sa.NullPool
        )
        text = sa.text(statement.replace("{s}", "dbos." if self.on_server else ""))
        try:
            with engine.begin() as connection:
                found = connection.execute(text, values)
                return found.all() if found.returns_rows else ()
        finally:
            engine.dispose()

    def ids(self, statement: str) -> frozenset[str]:
        """Return the first column."""
        return frozenset(row[0] for row in self.rows(statement))


@dataclass(frozen=True, slots=True)
class Pair:
    """A store and its datasource. ``state`` is afterrun's own folder."""

    store: Side
    datasource: Side
    state: Path

    def retention(self, *, reaching: bool = True, writable: bool = True) -> Retention:
        """Open the store, with its datasource unless told otherwise."""
        return Retention(
            self.store.location,
            writable=writable,
            state=self.state,
            datasources=[self.datasource.location] if reaching else [],
        )

    def runs(self) -> frozenset[str]:
        """Return the ids of all runs of the store."""
        return self.store.ids("SELECT workflow_uuid FROM {s}workflow_status")

    def held(self) -> frozenset[str]:
        """Return the ids of runs that have rows in the datasource."""
        return self.datasource.ids("SELECT workflow_id FROM {s}datasource_outputs")

    def owners(self) -> frozenset[str]:
        """Return the ids of runs that have rows anywhere in the store."""
        tables = ("operation_outputs", "workflow_input", "workflow_output", "workflow_events", "streams")
        parts = (f"SELECT workflow_uuid FROM {{s}}{table}" for table in ("workflow_status", *tables))
        return self.store.ids(" UNION ".join(parts))

    def intents(self) -> list[Path]:
        """Return the files of intents that are there."""
        return sorted(self.state.glob("*.intents.json"))

    def age(self, ids: Collection[str] = EXPIRED, *, days: int = OLD_DAYS) -> None:
        """Move runs into the past."""
        moved = ", ".join(f"{column} = {column} - {days * DAY_MS}" for column in TIMES)
        for run_id in ids:
            self.store.rows(f"UPDATE {{s}}workflow_status SET {moved} WHERE workflow_uuid = :id", id=run_id)

    def leave(self, *ids: str) -> None:
        """Remove runs from the store alone, as the engine's own call does."""
        for table in ("operation_outputs", "workflow_input", "workflow_output", "workflow_status"):
            for run_id in ids:
                self.store.rows(f"DELETE FROM {{s}}{table} WHERE workflow_uuid = :id", id=run_id)

    def lose(self, *ids: str) -> None:
        """Remove rows from the datasource alone."""
        for run_id in ids:
            self.datasource.rows("DELETE FROM {s}datasource_outputs WHERE workflow_id = :id", id=run_id)

    def engine(self, command: str, *ids: str) -> dict[str, Any]:
        """Run a command of the demo on the real engine and return its answer."""
        return run_datasource(command, self.store.location, self.datasource.location, *ids)


def run_datasource(command: str, store: str, datasource: str, *ids: str) -> dict[str, Any]:
    """Run a command of `dbos_datasource.py` and return its answer."""
    script = str(DEMO / "dbos_datasource.py")
    return answer_of([str(engine_python(VERSION)), "-E", script, command, store, datasource, *ids], 60.0)


def sqlite_template() -> Path:
    """Return a folder with a populated `store.sqlite` and `datasource.sqlite` that nobody may change."""
    digest = hashlib.sha256(b"".join((DEMO / name).read_bytes() for name in SCRIPTS)).hexdigest()[:12]
    folder = CACHE / "templates" / f"datasource-{VERSION}-{digest}"
    if not folder.exists():
        engine_python(VERSION)
        with locked(folder.name):
            if not folder.exists():
                draft = folder.with_suffix(".draft")
                shutil.rmtree(draft, ignore_errors=True)
                draft.mkdir(parents=True)
                run_datasource("populate", str(draft / "store.sqlite"), str(draft / "datasource.sqlite"))
                draft.rename(folder)
    return folder


class Pairs(Protocol):
    """Makes pairs of one kind, populated by the engine and aged."""

    @property
    def admin(self) -> str:
        """How to connect as the server's superuser; empty for files."""

    def make(self, folder: Path) -> Pair:
        """Return a pair of its own; the folder, which is there, will hold afterrun's state."""

    def drop(self, pair: Pair) -> None:
        """Remove what is not in the folder."""


class FilePairs:
    """Pairs of SQLite files."""

    @property
    def admin(self) -> str:
        """Return nothing."""
        return ""

    def make(self, folder: Path) -> Pair:
        """Copy the files."""
        shutil.copytree(sqlite_template(), folder, dirs_exist_ok=True)
        sides = [Side(str(folder / f"{name}.sqlite")) for name in ("store", "datasource")]
        pair = Pair(sides[0], sides[1], folder / "state")
        pair.age()
        return pair

    def drop(self, pair: Pair) -> None:
        """Do nothing."""


@dataclass(frozen=True, slots=True)
class ServerPairs:
    """Pairs of databases of a PostgreSQL server, copied from one that the engine populated."""

    server: Server
    store: str
    datasource: str

    @property
    def admin(self) -> str:
        """Return how to connect as the superuser."""
        return make_conninfo(
            host="127.0.0.1",
            port=self.server.port,
            user=SUPERUSER,
            password=self.server.passwords[SUPERUSER],
            dbname="postgres",
        )

    def make(self, folder: Path) -> Pair:
        """Copy the databases."""
        sides = [
            Side(self.server.create_database(template=name).url()) for name in (self.store, self.datasource)
        ]
        return Pair(sides[0], sides[1], folder / "state")

    def drop(self, pair: Pair) -> None:
        """Remove the databases of a pair."""
        for side in (pair.store, pair.datasource):
            self.server.drop_database(str(sa.make_url(side.location).database))


def server_pairs(server: Server) -> ServerPairs:
    """Populate and age the pair that others are copied from."""
    store, datasource = (server.create_database(f"template {name}") for name in ("store", "datasource"))
    pair = Pair(Side(store.url()), Side(datasource.url()), Path())
    pair.engine("populate")
    pair.age()
    return ServerPairs(server, store.name, datasource.name)
