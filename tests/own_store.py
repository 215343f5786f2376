"""A small store with tables of its own and a user's own profile: judged, planned, pruned and compared."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from afterrun import Policy, Report, Retention, SweepOptions
from afterrun.stores import open_store
from afterrun.stores.sql.store import SqlStore

DAY = Policy(keep_for=timedelta(days=1))
OLD = 1_600_000_000_000
"""A time in 2020, in milliseconds."""
HOURS_AGO = time.time_ns() // 1_000_000 - 7_200_000
"""A time past grace and not yet a day ago."""

HEAD = """
name = "own"
engine = "Own"
[detect]
tables = ["version"]
version = {{ table = "version", column = "number" }}
read = {{ "1" = "" }}
{detect}
[units.tree]
{tree}
"""

PLAIN = """
table = "runs"
key = "id"
status = "status"
terminal = ["done", "failed"]
successful = ["done"]
live = [["running"]]
end = [{ column = "ended", format = "epoch_ms" }]
"""
"""The simplest tree: what a test is not about."""

RUNS = """
CREATE TABLE runs (id TEXT PRIMARY KEY, status TEXT, ended INTEGER, parent TEXT);
CREATE INDEX runs_ended ON runs (ended);
CREATE INDEX runs_parent ON runs (parent);
"""


@dataclass(frozen=True)
class OwnStore:
    """A store, the file of its profile, and afterrun's own folder."""

    path: Path
    profile: Path
    state: Path

    def retention(self, *, writable: bool = True) -> Retention:
        """Open it for removal."""
        return Retention(str(self.path), profile=str(self.profile), state=self.state, writable=writable)

    def open(self) -> SqlStore:
        """Open it for reading."""
        return open_store(str(self.path), profile=str(self.profile))

    def run(self, script: str) -> None:
        """Change it from outside, unchecked by foreign keys."""
        with closing(sqlite3.connect(self.path)) as connection:
            connection.executescript(script)

    def verdicts(self, *runs: str, policy: Policy = DAY) -> dict[str, str]:
        """Explain runs; return the verdict of each with its reasons, and its unit if it is not its own."""
        told = {}
        with self.retention(writable=False) as retention:
            for run in runs:
                found = retention.explain(run, policy)
                words = [found.verdict.value, *sorted(reason.name for reason in found.reasons)]
                if found.unit != run:
                    words.insert(0, f"in {found.unit}:")
                told[run] = " ".join(words)
        return told

    def counts(self) -> Mapping[str, int]:
        """Count the rows of all tables."""
        return {table: len(rows) for table, rows in self.content().items()}

    def content(self) -> Mapping[str, list[str]]:
        """Return all rows of all tables, in a comparable form."""
        with closing(sqlite3.connect(self.path)) as connection:
            connection.text_factory = bytes
            names = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
            quoted = {name.decode(): name.decode().replace('"', '""') for (name,) in names}
            return {
                name: sorted(map(repr, connection.execute(f'SELECT * FROM "{table}"')))
                for name, table in quoted.items()
            }

    def plan(self, policy: Policy = DAY) -> Report:
        """Plan, and make sure that nothing changed and every row of the run table is accounted for."""
        before = self.content()
        with self.retention(writable=False) as retention:
            report = retention.plan(policy)
            rows = retention.store.census().rows
        assert self.content() == before
        assert report.units.members + report.units.unrooted == rows
        return report

    def prune(self, policy: Policy = DAY) -> Report:
        """Remove; make sure that the plan, the report and the difference of all tables agree."""
        planned = self.plan(policy)
        before = self.counts()
        with self.retention() as retention:
            report = retention.prune(policy, options=SweepOptions(offline=True))
        assert report.ended == "completed", report.message
        after = self.counts()
        gone = {table: before[table] - after[table] for table in before if before[table] != after[table]}
        assert {table: count for table, count in report.rows.items() if count} == gone
        assert {table: count for table, count in planned.rows.items() if count} == gone
        assert report.units.removed == planned.units.expired
        return report

    def left(self, table: str = "runs", column: str = "id") -> list[object]:
        """Return the values of a column that are left, sorted as text."""
        with closing(sqlite3.connect(self.path)) as connection:
            found = connection.execute(f'SELECT "{column}" FROM "{table}"').fetchall()
        return sorted((row[0] for row in found), key=str)


def own_store(folder: Path, script: str, tree: str = PLAIN, *, detect: str = "") -> OwnStore:
    """Write a store from SQL and its profile from TOML."""
    path, profile = folder / "own.sqlite", folder / "own.toml"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(
            "PRAGMA synchronous = OFF;"
            "CREATE TABLE version (number INTEGER); INSERT INTO version VALUES (1);"
            f"{script}"
        )
    profile.write_text(HEAD.format(detect=detect, tree=tree), encoding="utf-8")
    return OwnStore(path, profile, folder / "state")
