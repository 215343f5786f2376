"""Stores that a real engine makes on PostgreSQL, kept as dumps under `.engines` and made once."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any, Unpack

from psycopg import sql

from pg_server import Connection, Database, Server

from .clones import Clone, CloneOptions
from .pg_clones import clone_within, run_tables
from .stores import demo_digest, engine_python, run_engine

sys.path.append(str(Path(__file__).resolve().parents[2] / "demo"))  # scripts, not a package

from ageing import DAY_MS, FINISHED, KEYS, TIME_COLUMN
from environments import CACHE, is_fresh, locked

SCHEMA = "dbos"
"""The engine's own choice."""


def make_pg_store(version: str, database: Database, *, schema: str = SCHEMA) -> dict[str, Any]:
    """Fill a database with every situation and return what `populate` said of it.

    What was in the database before is gone, and so are connections to it.
    """
    database.refill(pg_template(version, database.server, schema=schema))
    return _facts(_dump(version, database.server, schema))


def pg_template(version: str, server: Server, *, schema: str = SCHEMA) -> str:
    """Return the name of a populated database of a server that nobody may change."""
    dump = _dump(version, server, schema)

    def restore(database: Database) -> None:
        server.tool("pg_restore", "--exit-on-error", str(dump), "--dbname", database.name)
        database.run("ANALYZE")

    return server.template(dump.stem, restore)


def clone_pg_store(
    database: Database, *, runs: int, version: str, schema: str = SCHEMA, **options: Unpack[CloneOptions]
) -> Clone:
    """Fill a database with many copies of one real run; see `CloneOptions`.

    What was in the database before is gone, and so are connections to it. Statistics are gathered unless
    ``analyze`` says no, as autovacuum would.
    """
    database.refill(pg_template(version, database.server, schema=schema))
    return clone_within(database, schema, runs=runs, **options)


def age_pg_runs(
    database: Database,
    days: float,
    ids: Collection[str] = (),
    *,
    but: Collection[str] = (),
    schema: str = SCHEMA,
) -> int:
    """Move runs into the past (default: all finished ones except `but`); return their number.

    Times stay whole epoch milliseconds; absent ones stay absent.
    """
    runs = sql.Identifier(schema, "workflow_status")
    with database.connect(autocommit=False) as connection:
        connection.execute(
            sql.SQL(
                "CREATE TEMP TABLE aged ON COMMIT DROP AS SELECT workflow_uuid AS id FROM {} WHERE "
                + ("workflow_uuid = ANY(%s)" if ids else "status = ANY(%s) AND workflow_uuid <> ALL(%s)")
            ).format(runs),
            [list(ids)] if ids else [list(FINISHED), list(but)],
        )
        for table, columns in run_tables(connection, schema).items():
            _age(connection, sql.Identifier(schema, table), columns, round(days * DAY_MS))
        return int(connection.execute("SELECT count(*) FROM aged").fetchall()[0][0])


def _age(connection: Connection, table: sql.Identifier, columns: list[str], shift: int) -> None:
    key = next(column for column in columns if column in KEYS)
    times = [column for column in columns if TIME_COLUMN.search(column)]
    if times:
        change = sql.SQL("{0} = {0} - {1}")
        connection.execute(
            sql.SQL("UPDATE {} SET {} FROM aged WHERE {} = aged.id").format(
                table,
                sql.SQL(", ").join(change.format(sql.Identifier(time), shift) for time in times),
                sql.Identifier(key),
            )
        )


def _dump(version: str, server: Server, schema: str) -> Path:
    """Return the dump of a populated store, made once for each state of the demo and version of PostgreSQL.

    An older `pg_restore` does not read what a newer `pg_dump` wrote.
    """
    name = f"{version}-{demo_digest()}-pg{server.binaries.major}-{schema}"
    dump = CACHE / "templates" / f"{name}.dump"
    if not is_fresh(dump):
        engine_python(version)
        with locked(name):
            if not is_fresh(dump):
                _populate(version, server, dump, schema)
    return dump


def _populate(version: str, server: Server, dump: Path, schema: str) -> None:
    dump.parent.mkdir(parents=True, exist_ok=True)
    draft = dump.with_suffix(".draft")
    database = server.create_database()
    try:
        answer = run_engine(version, "populate", database.url(schema=schema))
        server.tool("pg_dump", "--format=custom", "--file", str(draft), database=database.name)
    finally:
        server.drop_database(database.name)
    dump.with_suffix(".json").write_text(json.dumps(answer, indent=1), encoding="utf-8")
    draft.rename(dump)


def _facts(dump: Path) -> dict[str, Any]:
    return dict(json.loads(dump.with_suffix(".json").read_text(encoding="utf-8")))
