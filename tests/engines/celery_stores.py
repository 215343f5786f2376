"""Results that a real Celery stores in SQLite or PostgreSQL, its broker beside them in the same database.

Made once: on SQLite kept under `.engines`, on PostgreSQL once a server.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sqlite3
import sys
from collections import Counter
from collections.abc import Collection, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from afterrun import Policy, Report, Retention, SweepOptions
from pg_server import Database, Server

sys.path.append(str(Path(__file__).resolve().parents[2] / "demo"))  # scripts, not a package

from environments import CACHE, DEMO, ROOT, answer_of, environment_python, is_fresh, locked

VERSION: Final = "5.7.0"
PINS: Final = ROOT / "constraints-celery.txt"
SCRIPT: Final = DEMO / "celery_app.py"
SECONDS: Final = 240.0
TABLES: Final = ("celery_taskmeta", "celery_tasksetmeta", "kombu_queue", "kombu_message")
ENDED: Final = ("succeeded", "failed", "revoked")
ALIVE: Final = ("retrying", "started", "progress")

Made = Mapping[str, list[str]]
"""Ids of tasks, by what became of them."""
Rows = list[tuple[Any, ...]]


class ResultStore(Protocol):
    """A store that the engine filled. SQL in and out is what both databases understand."""

    @property
    def location(self) -> str:
        """Where it is, for afterrun."""

    @property
    def url(self) -> str:
        """Where it is, for the engine."""

    @property
    def folder(self) -> Path:
        """Where afterrun may keep what it remembers of it."""

    def fill(self) -> Made:
        """Make it a store with a result in every state; return the ids."""

    def rows(self, statement: str) -> Rows:
        """Read."""

    def change(self, *statements: str) -> None:
        """Change it, in one transaction."""

    def earlier(self, hours: float) -> str:
        """Return the SQL of `date_done`, so many hours earlier."""


@dataclass(frozen=True)
class SqliteResults:
    path: Path

    @property
    def location(self) -> str:
        return str(self.path)

    @property
    def url(self) -> str:
        return f"sqlite:///{self.path}"

    @property
    def folder(self) -> Path:
        return self.path.parent

    def fill(self) -> Made:
        kept = _template()
        shutil.copyfile(kept, self.path)
        return _made(kept.with_suffix(".json"))

    def rows(self, statement: str) -> Rows:
        with closing(sqlite3.connect(self.path)) as connection:
            return connection.execute(statement).fetchall()

    def change(self, *statements: str) -> None:
        with closing(sqlite3.connect(self.path, timeout=30.0)) as connection, connection:
            for statement in statements:
                connection.execute(statement)

    def earlier(self, hours: float) -> str:
        return f"strftime('%Y-%m-%d %H:%M:%f000', date_done, '{-hours:+f} hours')"


@dataclass(frozen=True)
class PostgresResults:
    database: Database
    folder: Path

    @property
    def location(self) -> str:
        return self.database.url()

    @property
    def url(self) -> str:
        return self.database.url()

    def fill(self) -> Made:
        name, made = _pg_template(self.database.server)
        self.database.refill(name)
        return made

    def rows(self, statement: str) -> Rows:
        with self.database.connect() as connection:
            connection.execute("SET datestyle = 'ISO'")
            return connection.execute(statement.encode()).fetchall()

    def change(self, *statements: str) -> None:
        with self.database.connect(autocommit=False) as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def earlier(self, hours: float) -> str:
        return f"date_done - interval '{hours} hours'"


def age(store: ResultStore, days: float, *, but: Collection[str] = ()) -> None:
    """Move the times of all results and groups into the past, except of those that are named."""
    kept = ", ".join(f"'{task}'" for task in ["", *but])
    moved = f"SET date_done = {store.earlier(days * 24)}"
    store.change(
        f"UPDATE celery_taskmeta {moved} WHERE task_id NOT IN ({kept})", f"UPDATE celery_tasksetmeta {moved}"
    )


def tasks(store: ResultStore) -> set[str]:
    """Return the ids of all results."""
    return {row[0] for row in store.rows("SELECT task_id FROM celery_taskmeta")}


def of(made: Made, *words: str) -> set[str]:
    """Return the ids of tasks that became one of these."""
    return {task for word in words for task in made[word]}


def counts(store: ResultStore) -> Counter[str]:
    """Count the rows of each table."""
    return Counter({table: store.rows(f"SELECT count(*) FROM {table}")[0][0] for table in TABLES})


def retention(store: ResultStore, **options: Any) -> Retention:  # noqa: ANN401 - as Retention takes them
    """Open a store."""
    return Retention(store.location, state=store.folder / "state", **options)


def prune(store: ResultStore, policy: Policy) -> Report:
    """Remove what a policy lets go; plan, report and the difference of all tables must agree."""
    with retention(store) as opened:
        planned, before = opened.plan(policy), counts(store)
        report = opened.prune(policy, options=SweepOptions(offline=True))
        assert report.ended == "completed", report.message
        assert list(opened.verify()) == []
    gone = before - counts(store)
    assert Counter({table: count for table, count in report.rows.items() if count}) == gone
    assert Counter({table: count for table, count in planned.rows.items() if count}) == gone
    assert planned.units.members + planned.units.unrooted == before["celery_taskmeta"]
    return report


def run_celery(command: str, store: ResultStore, *words: str) -> dict[str, Any]:
    """Run a command of `celery_app.py` and return its answer. Raise RuntimeError when it fails."""
    wanted = (f"celery=={VERSION}", "SQLAlchemy", "psycopg[binary]")
    python = environment_python(f"celery-{VERSION}", *wanted, pins=PINS)
    return answer_of([str(python), "-E", str(SCRIPT), command, store.url, *words], SECONDS)


def _made(path: Path) -> Made:
    return dict(json.loads(path.read_text(encoding="utf-8")))


def _digest() -> str:
    return hashlib.sha256(SCRIPT.read_bytes()).hexdigest()[:12]


def _template() -> Path:
    """Return a populated file that nobody may change, with the ids beside it."""
    kept = CACHE / "templates" / f"celery-{VERSION}-{_digest()}.sqlite"
    if not is_fresh(kept):
        with locked(kept.stem):
            if not is_fresh(kept):
                kept.parent.mkdir(parents=True, exist_ok=True)
                draft = kept.with_suffix(".draft")
                draft.unlink(missing_ok=True)
                made = run_celery("populate", SqliteResults(draft))
                kept.with_suffix(".json").write_text(json.dumps(made), encoding="utf-8")
                draft.rename(kept)
    return kept


def _pg_template(server: Server) -> tuple[str, Made]:
    """Return the name of a populated database of a server that nobody may change, and the ids in it."""
    noted = server.home / f"celery-{_digest()}.json"

    def populate(database: Database) -> None:
        made = run_celery("populate", PostgresResults(database, Path()))
        noted.write_text(json.dumps(made), encoding="utf-8")
        database.run("ANALYZE")

    name = server.template(f"celery-{VERSION}-{_digest()}", populate)
    return name, _made(noted)
