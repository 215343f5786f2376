"""A store with tables like logs beside its runs, on SQLite and on PostgreSQL by the same SQL."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from afterrun import Policy, Report, Retention, SweepOptions
from afterrun.core.row_rules import RowRules
from generations.loops import Loops

DAY_MS: Final = 86_400_000
NOW_MS: Final = time.time_ns() // 1_000_000

PROFILE: Final = """
name = "shop"
engine = "Shop"
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
owned = [{ table = "logs", column = "run" }]
[units.rows.logs]
table = "logs"
key = ["id"]
end = { column = "at", format = "epoch_ms" }
note = "logs of runs that stay go, too"
[units.rows.events]
table = "events"
key = ["id"]
end = { column = "occurred", format = "text_utc" }
owned = [{ table = "event_parts", column = "event" }]
[units.rows.tasks]
table = "tasks"
key = ["id"]
end = { column = "ended", format = "epoch_ms" }
status = "status"
terminal = ["ok", "failed"]
where = { run = { null = true }, request = { null = true } }
owned = [{ table = "task_states", column = "task" }]
protect = [
  { reason = "wait", table = "waits", column = "task", where = { until = { future = "epoch_ms" } } },
]
[units.rows.results]
table = "results"
key = ["id"]
end = { column = "made", format = "epoch_ms" }
partition = ["name"]
protect = [{ reason = "head", table = "heads", column = "result" }]
[units.rows.marks]
table = "marks"
key = ["run", "number"]
end = { column = "at", format = "epoch_ms" }
"""

TABLES: Final = """
CREATE TABLE version (number INTEGER);
INSERT INTO version VALUES (1);
CREATE TABLE runs (id TEXT PRIMARY KEY, status TEXT, ended BIGINT);
CREATE INDEX runs_ended ON runs (ended);
CREATE TABLE logs (id BIGINT PRIMARY KEY, run TEXT, at BIGINT, body TEXT);
CREATE INDEX logs_at ON logs (at);
CREATE INDEX logs_run ON logs (run);
CREATE TABLE events (id TEXT PRIMARY KEY, occurred TEXT, kind TEXT);
CREATE INDEX events_occurred ON events (occurred);
CREATE TABLE event_parts (event TEXT, number BIGINT, PRIMARY KEY (event, number));
CREATE TABLE tasks (id TEXT PRIMARY KEY, status TEXT, ended BIGINT, run TEXT, request TEXT);
CREATE INDEX tasks_ended ON tasks (ended);
CREATE TABLE task_states (id BIGINT PRIMARY KEY, task TEXT REFERENCES tasks (id) ON DELETE CASCADE);
CREATE INDEX task_states_task ON task_states (task);
CREATE TABLE waits (task TEXT PRIMARY KEY, until BIGINT);
CREATE TABLE results (id BIGINT PRIMARY KEY, name TEXT, made BIGINT);
CREATE TABLE heads (name TEXT PRIMARY KEY, result BIGINT);
CREATE INDEX heads_result ON heads (result);
CREATE TABLE marks (run TEXT, number BIGINT, at BIGINT, PRIMARY KEY (run, number));
CREATE INDEX marks_at ON marks (at);
"""


def ago(days: float) -> int:
    """Return a moment in milliseconds."""
    return NOW_MS - round(days * DAY_MS)


def written(days: float) -> str:
    """Return a moment as text."""
    return datetime.fromtimestamp(ago(days) / 1_000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")


def make(store: Loops) -> None:
    """Make the tables and write the profile."""
    store.run(TABLES)
    (store.folder / "shop.toml").write_text(PROFILE, encoding="utf-8")


def log(store: Loops, days: Iterable[float | None], *, run: str | None = None, start: int = 0) -> None:
    """Write a log row for each age, numbered from ``start`` on."""
    store.insert(
        "logs",
        [(start + n, run, None if age is None else ago(age), "x") for n, age in enumerate(days)],
    )


def keep(days: float | None = 7, latest: int | None = None, *statuses: str) -> RowRules:
    """Return rules for one table."""
    age = None if days is None else timedelta(days=days)
    return RowRules(keep_for=age, keep_latest=latest, statuses=statuses)


def policy(**tables: RowRules) -> Policy:
    """Return a policy for row tables alone."""
    return Policy(tables=tables)


@dataclass(frozen=True)
class Shop:
    """A store, and what afterrun does with it."""

    store: Loops

    def open(self) -> Retention:
        """Open it."""
        return Retention(
            self.store.location,
            profile=str(self.store.folder / "shop.toml"),
            state=self.store.folder / "state",
        )

    def plan(self, rules: Policy) -> Report:
        """Plan."""
        with self.open() as retention:
            return retention.plan(rules)

    def prune(self, rules: Policy, options: SweepOptions | None = None) -> Report:
        """Remove."""
        with self.open() as retention:
            return retention.prune(rules, options=options or SweepOptions(rest=0.0))

    def sweep(self, rules: Policy, *, approve: str | None = None, always: bool = False) -> Report:
        """Sweep."""
        with self.open() as retention:
            return retention.sweep(rules, options=SweepOptions(rest=0.0), approve=approve, always=always)

    def both(self, rules: Policy) -> tuple[Report, Report]:
        """Plan, then apply; what the plan counts is what goes."""
        before = self.counts()
        plan = self.plan(rules)
        done = self.prune(rules)
        after = self.counts()
        gone = {name: before[name] - after[name] for name in before if before[name] != after[name]}
        assert {name: count for name, count in done.rows.items() if count} == gone
        assert {name: count for name, count in plan.rows.items() if count} == gone
        for kind, units in plan.kinds.items():
            assert done.kinds[kind].removed == units.would_go, kind
        return plan, done

    def counts(self) -> Mapping[str, int]:
        """Return the rows of each table."""
        names = [line.split()[2] for line in TABLES.splitlines() if line.startswith("CREATE TABLE")]
        return {name: int(self.store.rows(f"SELECT count(*) FROM {name}")[0][0]) for name in names}

    def ids(self, table: str) -> list[object]:
        """Return the first column of a table, in order."""
        return [row[0] for row in self.store.rows(f"SELECT * FROM {table} ORDER BY 1")]
