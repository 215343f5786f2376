"""Stores on PostgreSQL with many old runs, or with what those left behind, made in SQL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dumps import Dump
from pg_dumps import column_types, dump_postgres
from pg_server import SUPERUSER, Connection, Database
from sites import SCHEMA, empty_store

TOUCHED = (
    "operation_outputs",
    "workflow_input",
    "workflow_output",
    "workflow_events",
    "workflow_events_history",
    "streams",
    "notifications",
    "workflow_status",
)
"""Tables that a removal reaches in a store of this schema."""

FILL = f"""
INSERT INTO {SCHEMA}.workflow_status (workflow_uuid, status, name, created_at, updated_at, completed_at)
SELECT '%(name)s-' || i, 'SUCCESS', 'flow', at - i, at - i, at - i
FROM generate_series(1, %(count)s) AS i,
    (SELECT (extract(epoch FROM now()) * 1000)::bigint - %(days)s * 86400000::bigint AS at) AS moment;
INSERT INTO {SCHEMA}.operation_outputs (workflow_uuid, function_id, function_name, output)
SELECT '%(name)s-' || i, f, 'step', repeat(md5(i::text || f), 8)
FROM generate_series(1, %(count)s) AS i, generate_series(1, 2) AS f;
INSERT INTO {SCHEMA}.workflow_input (workflow_uuid, inputs)
SELECT '%(name)s-' || i, (SELECT string_agg(md5(i::text || n), '') FROM generate_series(1, 100) AS n)
FROM generate_series(1, %(count)s) AS i;
"""

EMPTY = "; ".join(
    f"DELETE FROM {SCHEMA}.{table} WHERE workflow_uuid LIKE 'old-%'"
    for table in ("operation_outputs", "workflow_input", "workflow_status")
)


def fill(
    database: Database, *, old: int = 2_000, young: int = 200, last: str = "young", emptied: bool = True
) -> None:
    """Make a store of old and young runs; ``emptied``: the old ones are gone, their rows still there.

    ``last`` lie at the end of their tables. Statistics are those of a full store.
    """
    database.refill(empty_store(database.server, 125))
    parts = [("old", old, 60), ("young", young, 1)]
    for name, count, days in sorted(parts, key=lambda part: part[0] == last):
        database.run(FILL % {"name": name, "count": count, "days": days})
    database.run("VACUUM ANALYZE")
    if emptied:
        database.run(EMPTY)


def contents(database: Database) -> Dump:
    """Return every row of every table."""
    with database.connect(SUPERUSER) as connection:
        return dump_postgres(connection, SCHEMA, column_types(connection, SCHEMA))


def total(database: Database, table: str) -> int:
    """Return the bytes of a table with all that belongs to it."""
    [[size]] = database.rows("SELECT pg_total_relation_size(%s::regclass)", f"{SCHEMA}.{table}")
    return int(size)


def vacuum_times(database: Database) -> dict[str, str]:
    """Return when each table was last vacuumed by command."""
    return dict(
        database.rows(
            "SELECT relname::text, coalesce(last_vacuum::text, '') FROM pg_stat_user_tables"
            " WHERE schemaname = %s ORDER BY relname",
            SCHEMA,
        )
    )


def passed(before: dict[str, str], after: dict[str, str]) -> set[str]:
    """Return the tables that were vacuumed between two looks."""
    return {name for name, moment in after.items() if moment != before[name]}


def may_read(database: Database, role: str) -> None:
    """Grant a role the right to read all tables of the store."""
    database.run(
        f'GRANT USAGE ON SCHEMA {SCHEMA} TO "{role}";'
        f'GRANT SELECT ON ALL TABLES IN SCHEMA {SCHEMA} TO "{role}"'
    )


@contextmanager
def snapshot(database: Database, user: str = "app") -> Iterator[Connection]:
    """Hold a snapshot of the store as it is."""
    with database.connect(user, autocommit=False) as connection:
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        connection.execute("SELECT 1").fetchall()
        yield connection
        connection.rollback()
