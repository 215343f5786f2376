"""Stores that a real procrastinate makes on PostgreSQL, in a schema of any name. Made once a server."""

from __future__ import annotations

import hashlib
import sys
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from psycopg import sql

from afterrun import Policy, Report, Retention, SweepOptions
from pg_server import Database, Server

sys.path.append(str(Path(__file__).resolve().parents[2] / "demo"))  # scripts, not a package

from environments import DEMO, ROOT, answer_of, environment_python

VERSION: Final = "3.10.0"
PINS: Final = ROOT / "constraints-procrastinate.txt"
SCRIPT: Final = DEMO / "procrastinate_app.py"
SECONDS: Final = 120.0
SCHEMAS: Final = ("public", "My jobs")
TABLES: Final = ("jobs", "events", "periodic_defers", "workers")

SUCCEEDED: Final = {1, 2, 3, 4, 5}
FAILED: Final = {6, 7}
RETRYING: Final = 8
TICKED: Final = {9, 10}
"""Jobs of a periodic task, of which the engine still remembers the last."""
TODO: Final = 11
CANCELLED: Final = 12
"""A job that was to begin tomorrow, and was called off."""
ABORTED: Final = 13
DOING: Final = 14
"""A job whose worker was killed."""
ENDED: Final = {*SUCCEEDED, *FAILED, *TICKED, CANCELLED, ABORTED}
ALIVE: Final = {RETRYING, TODO, DOING}

Rows = list[tuple[Any, ...]]


@dataclass(frozen=True)
class JobStore:
    """A schema of a database that the engine filled."""

    database: Database
    folder: Path
    schema: str = "public"

    @property
    def location(self) -> str:
        """Where it is, for afterrun and for the engine."""
        return self.database.url(schema=self.schema)

    def fill(self) -> None:
        """Make it a store with a job in every situation."""
        self.database.refill(_template(self.database.server, self.schema))

    def rows(self, statement: str) -> Rows:
        """Read; braces name a table of the engine's by what comes after its prefix."""
        with self.database.connect() as connection:
            connection.execute("SET datestyle = 'ISO'")
            return connection.execute(self._named(statement)).fetchall()

    def change(self, *statements: str) -> None:
        """Change it in one transaction."""
        with self.database.connect(autocommit=False) as connection:
            for statement in statements:
                connection.execute(self._named(statement))

    def _named(self, statement: str) -> sql.Composed:
        names = {table: sql.Identifier(self.schema, f"procrastinate_{table}") for table in TABLES}
        return sql.SQL(statement).format(**names)

    def jobs(self) -> set[int]:
        """Return the ids of all jobs."""
        return {row[0] for row in self.rows("SELECT id FROM {jobs}")}

    def status(self, job: int) -> str:
        """Return the status of a job."""
        return str(self.rows(f"SELECT status::text FROM {{jobs}} WHERE id = {job}")[0][0])

    def counts(self) -> Counter[str]:
        """Count the rows of each table."""
        return Counter({table: self.rows(f"SELECT count(*) FROM {{{table}}}")[0][0] for table in TABLES})

    def age(self, days: float, *, but: Collection[int] = ()) -> None:
        """Move the events of jobs into the past, but for those that lie ahead."""
        kept = ", ".join(map(str, [0, *but]))
        self.change(
            f"UPDATE {{events}} SET at = at - interval '{days} days' WHERE job_id NOT IN ({kept})"
            " AND type <> 'scheduled'"
        )

    def retention(self, **options: Any) -> Retention:  # noqa: ANN401 - as Retention takes them
        """Open it."""
        return Retention(self.location, state=self.folder / "state", **options)

    def prune(self, policy: Policy, *, options: SweepOptions | None = None) -> Report:
        """Remove what a policy lets go; plan, report and the difference of all tables must agree."""
        with self.retention() as opened:
            planned, before = opened.plan(policy), self.counts()
            report = opened.prune(policy, options=options or SweepOptions(offline=True))
            assert report.ended == "completed", report.message
            assert list(opened.verify()) == []
        gone = {f"procrastinate_{table}": count for table, count in (before - self.counts()).items()}
        assert {table: count for table, count in report.rows.items() if count} == gone
        assert {table: count for table, count in planned.rows.items() if count} == gone
        assert planned.units.members + planned.units.unrooted == before["jobs"]
        return report


def run_procrastinate(command: str, store: JobStore, *words: str) -> dict[str, Any]:
    """Run a command of `procrastinate_app.py` and return its answer. Raise RuntimeError when it fails."""
    python = environment_python(
        f"procrastinate-{VERSION}", f"procrastinate=={VERSION}", "psycopg[binary]", pins=PINS
    )
    return answer_of([str(python), "-E", str(SCRIPT), command, store.location, *words], SECONDS)


def _template(server: Server, schema: str) -> str:
    """Return the name of a populated database of a server that nobody may change."""

    def populate(database: Database) -> None:
        made = run_procrastinate("populate", JobStore(database, Path(), schema))
        assert {
            *made["succeeded"],
            *made["failed"],
            *made["ticks"],
            *made["cancelled"],
            *made["aborted"],
        } == ENDED
        assert {*made["retrying"], *made["todo"], *made["doing"]} == ALIVE
        database.run("ANALYZE")

    digest = hashlib.sha256(SCRIPT.read_bytes()).hexdigest()[:12]
    return server.template(f"procrastinate-{VERSION}-{schema}-{digest}", populate)
