"""PostgreSQL stores that tests of backups work on: every kind of value, key and name, and all rows read."""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from psycopg import ClientCursor, sql

from afterrun import Policy, Report, Retention, SweepOptions
from afterrun.stores.sql.backups import BackupKind, BackupOrder, Restored
from afterrun.stores.sql.postgres.backup import PostgresMaker
from own_store import HEAD, OLD
from pg_server import OWNER, Database

MONTH = Policy(keep_for=timedelta(days=30))
SCHEMA = 'odd %s "name"'
HOSTILE = (
    "o'neil",
    'say "hi"',
    "a;--",
    "%s {x} ?",
    "\u202egnp.exe",
    "ключ",
    " ",
    "../../etc/passwd",
    "5",
    "\\N",
    "\\.",
    "tab\tline\nreturn\rback\\slash",
    "{braces,commas}",
    "NULL",
)
"""Ids that break out of quotes, paths, formats, arrays and COPY, where these are made by hand."""

TREE = """
table = "runs"
key = "id"
status = "status"
terminal = ["done", "failed"]
live = [["running"]]
end = [{ column = "ended", format = "epoch_ms" }]
edges = [{ column = "parent" }]
missing = "root"
owned = [
  { table = "notes%", column = "link", via = { table = "links", key = "link", owner = "run" } },
  { table = "links", column = "run" },
  { table = "loose", column = "run" },
]
"""

TABLES = r"""
CREATE TABLE version (number integer);
INSERT INTO version VALUES (1);
CREATE TYPE mood AS ENUM ('sad', 'o''k, "so" %');
CREATE TABLE runs (
  id text PRIMARY KEY, status text, ended bigint, parent text REFERENCES runs (id), "odd ""%name" bytea,
  f double precision, r real, d numeric, j json, b jsonb, z timestamptz, t timestamp, i interval, a text[],
  m mood, u uuid, v bit varying, g int4range, c char(5), n inet, x "char", mm mood[], h time, w date,
  twice bigint GENERATED ALWAYS AS (ended * 2) STORED, counted bigint GENERATED ALWAYS AS IDENTITY
);
CREATE INDEX runs_ended ON runs (ended);
CREATE INDEX runs_parent ON runs (parent);
CREATE TABLE links (link serial PRIMARY KEY, run text REFERENCES runs (id));
CREATE INDEX links_run ON links (run);
CREATE TABLE "notes%" (link integer REFERENCES links (link), "text" text, PRIMARY KEY (link, "text"));
CREATE TABLE loose (run text, value text);
CREATE INDEX loose_run ON loose (run);
"""

FILL = r"""
INSERT INTO runs (id, status, ended, "odd ""%%name", f, r, d, j, b, z, t, i, a, m, u, v, g, c, n, x, mm, h, w)
SELECT id, 'done', %s + number, decode(md5(id), 'hex') || '\x5c00ff0a09',
  (ARRAY['NaN', '-0', '1e300', '0.1', '-Infinity', '5e-324']::float8[])[1 + number %% 6], 1.0 / (number + 3),
  (ARRAY['1.500', 'NaN', '1e-20', '-0.0', '123456789012345678901234567890.10']::numeric[])[1 + number %% 5],
  '{"b" :  1.0, "a": "\u00e9\\n"}', '{"b":  1.0, "a": [null, "\\"]}',
  '2020-02-29 23:59:59.123456+05:45'::timestamptz + number * '1 h 1 us'::interval, 'infinity',
  '-1 mon 3 days -04:05:06.7', ARRAY[id, NULL, 'NULL', '', '"', '\', E'\n'],
  (ARRAY['sad', 'o''k, "so" %%']::mood[])[1 + number %% 2], md5(id)::uuid, B'1010', '[1,5)', 'ab',
  '10.0.0.1/8', 'x', ARRAY['sad', NULL]::mood[], '23:59:59.999999', '0044-03-15 BC'
FROM unnest(%s::text[]) WITH ORDINALITY AS given (id, number);
INSERT INTO links (run) SELECT id FROM runs ORDER BY ended, id;
INSERT INTO "notes%%" SELECT link, said FROM links, unnest(ARRAY['', E'\\N', E'a\tb\nc\\']) AS said;
INSERT INTO loose SELECT id, value FROM runs, unnest(ARRAY['same', 'same', NULL, '', 'NULL']) AS value;
INSERT INTO runs (id, status, ended, parent)
VALUES ('child', 'done', %s, 'run-0'), ('grandchild', 'failed', %s, 'child');
INSERT INTO loose VALUES ('grandchild', 'deep');
INSERT INTO runs (id, status) VALUES ('alive', 'running');
INSERT INTO loose VALUES ('alive', '1');
"""

UNITS = len(HOSTILE) + 8


@dataclass(frozen=True)
class PgStore:
    """A store in a schema of a database, the file of its profile, and afterrun's own folder."""

    database: Database
    schema: str
    profile: str
    state: Path

    @property
    def url(self) -> str:
        """Return its URL for its owner."""
        return self.database.url(schema=self.schema)

    def retention(self, *, user: str = OWNER) -> Retention:
        """Open it for removal."""
        return Retention(self.database.url(user, schema=self.schema), profile=self.profile, state=self.state)

    def run(self, script: str, *values: Any, user: str = OWNER) -> None:  # noqa: ANN401 - any value
        """Change it from outside."""
        with self.database.connect(user, autocommit=False) as connection:
            connection.execute(sql.SQL("SET search_path = {}").format(sql.Identifier(self.schema)))
            ClientCursor(connection).execute(script.encode(), values or None)

    def rows(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Return the rows of a statement."""
        with self.database.connect() as connection:
            connection.execute(sql.SQL("SET search_path = {}").format(sql.Identifier(self.schema)))
            return connection.execute(statement.encode(), values or None).fetchall()

    def content(self) -> dict[str, list[str]]:
        """Return every row of every table as the server writes it."""
        return content(self.database, self.schema)

    def ids(self) -> set[str]:
        """Return the ids of all runs."""
        return {row[0] for row in self.rows("SELECT id FROM runs")}

    def prune(
        self, target: Path, *, kind: BackupKind = "removed", options: SweepOptions | None = None
    ) -> Report:
        """Remove what is old, after a backup."""
        with self.retention() as retention:
            order = BackupOrder(path=target, kind=kind)
            return retention.prune(MONTH, options=options or SweepOptions(offline=True), backup=order)

    def restore(self, backup: Path, run: str | None = None) -> Restored:
        """Put back what a backup holds."""
        with self.retention() as retention:
            return retention.restore(backup, run, rest=0.0)


def content(database: Database, schema: str) -> dict[str, list[str]]:
    """Return every row of every table of a schema as the server writes it, floats without loss."""
    with database.connect() as connection:
        connection.execute("SET extra_float_digits = 3")
        listed = connection.execute(
            "SELECT c.relname FROM pg_class c WHERE c.relkind = 'r' AND c.relnamespace = %s::regnamespace"
            " ORDER BY 1",
            [f'"{schema.replace(chr(34), chr(34) * 2)}"'],
        ).fetchall()
        return {
            name: sorted(
                row[0]
                for row in connection.execute(
                    sql.SQL("SELECT whole_row::text FROM {} AS whole_row").format(
                        sql.Identifier(schema, name)
                    )
                )
            )
            for (name,) in listed
        }


def strange_store(database: Database, folder: Path) -> PgStore:
    """Make a store with every kind of value and key, computed columns, links and equal rows."""
    profile = folder / "own.toml"
    profile.write_text(HEAD.format(detect="", tree=TREE), encoding="utf-8")
    store = PgStore(database, SCHEMA, str(profile), folder / "state")
    with database.connect() as connection:
        connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(SCHEMA)))
    store.run(TABLES)
    ids = [*HOSTILE, *(f"run-{number}" for number in range(UNITS - len(HOSTILE)))]
    store.run(FILL, OLD, ids, OLD, OLD)
    return store


@contextmanager
def after_backup(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> Iterator[None]:
    """Do something between the making of a backup and the first batch."""
    made = PostgresMaker.made

    @contextmanager
    def meddled(*args: object, **words: object) -> Iterator[object]:
        with made(*args, **words) as backup:  # type: ignore[arg-type]
            act()
            yield backup

    with monkeypatch.context() as patch:
        patch.setattr(PostgresMaker, "made", meddled)
        yield


def rewritten(backup: Path, change: Callable[[str, bytes], bytes | None]) -> None:
    """Write a backup again, each member as a function has it; nothing leaves it out."""
    draft = backup.with_suffix(".draft")
    with zipfile.ZipFile(backup) as old, zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            found = change(name, old.read(name))
            if found is not None:
                new.writestr(name, found)
    shutil.move(draft, backup)


def head_of(backup: Path) -> dict[str, Any]:
    """Return what a backup says of itself."""
    with zipfile.ZipFile(backup) as file:
        found = json.loads(file.read("afterrun.json"))
    assert isinstance(found, dict)
    return found
