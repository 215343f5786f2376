"""Run stores for tests, on both databases: with a clock in the test's hand, and a back door."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa

from afterrun import Policy, Report, Retention, SweepOptions
from afterrun.core.times import DAY, SECOND, Instant, parse_duration
from afterrun.runs import Attempt, Key, Keys, Resource, RunStatus, RunStore
from afterrun.runs.database import Database, Transaction
from afterrun.runs.identity import Choice
from afterrun.runs.opening import dialect_of
from afterrun.runs.schema import blobs, obligations, runs
from afterrun.runs.side_tables import metadata
from afterrun.runs.words import OF_RUN, Work
from fakes import NOW, stand_still

LONG_AGO: Final[Instant] = NOW - 100 * DAY
KEYS: Final = Keys(Key.of(bytes(range(32))))
"""The key of the stores of tests."""

MONTH: Final = Policy(keep_for=timedelta(days=30))


@dataclass(slots=True)
class ManualClock:
    """A clock that moves one second at each look."""

    now: Instant = LONG_AGO

    def __call__(self) -> Instant:
        self.now += SECOND
        return self.now


@dataclass
class Home:
    """Where a run store lives: its location, its clock, and the folder of what retention remembers."""

    name: str
    location: str
    folder: Path
    superuser: str
    clock: ManualClock = field(default_factory=ManualClock)

    def open(self, sealing: Choice = None) -> RunStore:
        """Open the store as an application does: the environment has a key."""
        return RunStore.open(self.location, sealing=sealing, clock=self.clock)

    @contextmanager
    def database(self) -> Iterator[Database]:
        """Open the bare database."""
        opened = Database(dialect_of(self.location), clock=self.clock)
        try:
            yield opened
        finally:
            opened.close()

    @contextmanager
    def behind(self) -> Iterator[Transaction]:
        """Change rows from behind, without foreign keys."""
        opened = Database(dialect_of(self.superuser), clock=self.clock)
        try:
            with opened._engine.connect() as connection:
                if self.name == "sqlite":
                    connection.exec_driver_sql("PRAGMA foreign_keys = OFF")
                else:
                    connection.exec_driver_sql("SET session_replication_role = replica")
                    connection.commit()
            with opened.writing() as transaction:
                yield transaction
        finally:
            opened.close()

    def rows(self, table: sa.Table) -> list[Mapping[str, Any]]:
        """Return all rows of a table."""
        with self.database() as database, database.reading() as transaction:
            return [dict(row._mapping) for row in transaction.rows(sa.select(table))]

    def counts(self) -> dict[str, int]:
        """Count the rows of every table that has any, but for the one row of the store itself."""
        with self.database() as database, database.reading() as transaction:
            counted = {
                name: transaction.value(sa.select(sa.func.count()).select_from(table))
                for name, table in metadata.tables.items()
                if name != "store_identity"
            }
        return {name: count for name, count in counted.items() if count}

    @contextmanager
    def retention(self, *, profile: str | None = None, now: Instant = NOW) -> Iterator[Retention]:
        """Open the store for removal, with a clock that stands still."""
        with Retention(self.location, profile=profile, state=self.folder / "state") as retention:
            stand_still(retention, now)
            yield retention

    def prune(self, policy: Policy = MONTH, *, profile: str | None = None, now: Instant = NOW) -> Report:
        """Remove what a policy lets go, and make sure that the plan said just that."""
        before = self.counts()
        with self.retention(profile=profile, now=now) as retention:
            planned = retention.plan(policy)
            report = retention.prune(policy, options=SweepOptions(offline=True))
        assert report.ended == "completed", report.message
        after = self.counts()
        gone = {name: count - after.get(name, 0) for name, count in before.items()}
        told = {name: count for name, count in report.rows.items() if count}
        assert told == {name: count for name, count in gone.items() if count}
        assert told == {name: count for name, count in planned.rows.items() if count}
        return report

    def prune_generations(self, age: str) -> Report:
        """Remove past generations that ended longer ago than so."""
        return self.prune(Policy(generations=Policy(keep_for=parse_duration(age))))

    def verdict(self, run: str) -> list[str]:
        """Return the verdict about a run's tree, with its reasons."""
        return self.verdicts([run])[0]

    def verdicts(self, wanted: Iterable[str], *, profile: str | None = None) -> list[list[str]]:
        """Return the verdicts about the trees of runs, each with its reasons."""
        with self.retention(profile=profile) as retention:
            found = [retention.explain(run, MONTH) for run in wanted]
        return [[one.verdict.value, *sorted({reason.name for reason in one.reasons})] for one in found]


def ended_run(store: RunStore, *, parent: Attempt | None = None) -> str:
    """Make an ordinary run with one step that ended long ago; return its id."""
    run = store.create("import", content=b"in", parent=parent).run.id
    store.start(run)
    step = store.steps.start(run, "work")
    store.steps.complete(step, output=b"out")
    store.finish(run, output=f"output of {run}".encode())
    return run


def child_of(store: RunStore, run: str) -> tuple[Attempt, str]:
    """Begin a step of a running run that starts a child; return the attempt and the child."""
    step = store.steps.start(run, "delegate")
    return step, store.create("child", parent=step).run.id


def running(store: RunStore, *, key: str | None = None, parent: Attempt | None = None) -> str:
    """Make a run and start it; return its id."""
    run = store.create("agent", idempotency_key=key, parent=parent).run.id
    store.start(run)
    return run


def machine_for(store: RunStore, run: str, *, key: str = "vm", **more: Any) -> Resource:  # noqa: ANN401 - of any option
    """Ask for a resource of a run, under a request key."""
    words = {"request_key": key, "fingerprint": "2 cpu", "start": "make vm", "content": b"2 cpu"}
    return store.resources.ensure(run, "vm", "vm-1.example", **(words | more))


def any_address(store: RunStore) -> str:
    """Return the address of some content."""
    with store._database.reading() as transaction:
        return str(transaction.value(sa.select(blobs.c.address).limit(1)))


def owe(home: Home, run: str, kind: Work, **more: str | int) -> None:
    """Open a piece of work of a run from behind."""
    values: dict[str, Any] = {"run_id": run, "root_id": run, "generation": OF_RUN, "kind": kind}
    values |= {"subject": "test", "opened_at": LONG_AGO, "closed_at": None, "lease_until": None}
    with home.behind() as transaction:
        transaction.insert(obligations, **(values | more))


def statuses(home: Home) -> dict[str, RunStatus]:
    """Return the state of every run by its id."""
    return {row["id"]: RunStatus(row["status"]) for row in home.rows(runs)}
