"""A small PostgreSQL store with tables of its own and a user's own profile; all names may be hostile."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any, Final

from psycopg import sql

from afterrun import Policy, Report, Retention, SweepOptions
from pg_server import Database

MONTH: Final = Policy(keep_for=timedelta(days=30))
TABLE_WORDS: Final = ("version", "runs", "steps")
COLUMN_WORDS: Final = ("number", "id", "status", "ended", "parent", "kind", "run", "child")
PLAIN: Final = {word: word for word in (*TABLE_WORDS, *COLUMN_WORDS)}

_schemas = count(1)

PROFILE: Final = """
name = "own"
engine = "Own"
[detect]
tables = [{version}]
version = {{ table = {version}, column = {number} }}
read = {{ "1" = "" }}
[units.tree]
table = {runs}
key = {id}
status = {status}
terminal = ["done", "failed"]
successful = ["done"]
live = [["running"]]
end = [{{ column = {ended}, format = "{format}" }}]
edges = [{{ column = {parent} }}]
missing = "root"
group = [{kind}]
protect = [{{ reason = "handle", table = {steps}, column = {child}, by_live = {run} }}]
owned = [{{ table = {steps}, column = {run} }}]
"""

TABLES: Final = """
CREATE SCHEMA {schema};
CREATE TABLE {schema}.{version} ({number} int);
INSERT INTO {schema}.{version} VALUES (1);
CREATE TABLE {schema}.{runs}
    ({id} {key} PRIMARY KEY, {status} text, {ended} {time}, {parent} {link}, {kind} text);
CREATE INDEX ON {schema}.{runs} ({ended}) WHERE {ended} IS NOT NULL;
CREATE INDEX ON {schema}.{runs} ({parent});
CREATE TABLE {schema}.{steps} ({run} {link}, {child} {link});
CREATE INDEX ON {schema}.{steps} ({run});
"""


@dataclass(frozen=True, kw_only=True)
class OwnPgStore:
    """A store of runs and steps; ``names`` gives each table and column its real name."""

    database: Database
    folder: Path
    schema: str = field(default_factory=lambda: f"own-{next(_schemas)}")
    names: Mapping[str, str] = field(default_factory=lambda: PLAIN)
    key: str = "text"
    link: str = ""
    time: str = "bigint"
    format: str = "epoch_ms"

    def __post_init__(self) -> None:
        """Make the tables and write the profile."""
        self.run(TABLES)
        quoted = {word: json.dumps(name, ensure_ascii=False) for word, name in self.names.items()}
        self.profile.write_text(PROFILE.format(**quoted, format=self.format), encoding="utf-8")

    @property
    def profile(self) -> Path:
        """The file of the profile."""
        return self.folder / "own.toml"

    def run(self, statement: str, *values: Sequence[Any]) -> None:
        """Run SQL in which braces name schema, tables, columns and types, once for each of ``values``."""
        types = {"key": sql.SQL(self.key), "link": sql.SQL(self.link or self.key), "time": sql.SQL(self.time)}
        names = {word: _named(name) for word, name in self.names.items()}
        text = sql.SQL(statement).format(schema=_named(self.schema), **types, **names)
        with self.database.connect() as connection, connection.transaction():
            connection.execute("SET LOCAL timezone = 'UTC'")
            for row in values or ((),):
                connection.execute(text, row)

    def add(self, *runs: tuple[Any, str, Any, Any]) -> None:
        """Add runs: id, status, end, parent; each with one step."""
        if not runs:
            return
        self.run(
            "INSERT INTO {schema}.{runs} ({id}, {status}, {ended}, {parent}, {kind})"
            " VALUES (%s::{key}, %s, %s::{time}, %s::{link}, 'k')",
            *runs,
        )
        self.run("INSERT INTO {schema}.{steps} ({run}) VALUES (%s::{link})", *([row[0]] for row in runs))

    def handle(self, owner: object, child: object) -> None:
        """Let a step of one run refer to another run."""
        self.run(
            "INSERT INTO {schema}.{steps} ({run}, {child}) VALUES (%s::{link}, %s::{link})", [owner, child]
        )

    def left(self, table: str = "runs", column: str = "id") -> list[str]:
        """Return a column's values as text, sorted."""
        names = [sql.Identifier(self.schema, self.names[table]), sql.Identifier(self.names[column])]
        query = sql.SQL("SELECT {1}::text FROM {0}").format(*names)
        with self.database.connect() as connection:
            connection.execute("SET datestyle = 'ISO'")
            return sorted(str(value) for (value,) in connection.execute(query).fetchall())

    def open(self) -> Retention:
        """Open it through the product."""
        return Retention(
            self.database.url(schema=self.schema), profile=str(self.profile), state=self.folder / "state"
        )

    def prune(self, policy: Policy = MONTH) -> Report:
        """Plan, remove, and expect the plan, the report and a check to agree."""
        with self.open() as retention:
            planned = retention.plan(policy)
            report = retention.prune(policy, options=SweepOptions(offline=True))
            assert report.ended == "completed", report.message
            assert report.units.removed == planned.units.expired
            assert report.rows == planned.rows or not report.units.removed
            assert list(retention.verify()) == []
        return report


def _named(name: str) -> sql.Identifier:
    """Quote a name for a statement with marks for values."""
    return sql.Identifier(name.replace("%", "%%"))
