"""Big stores on PostgreSQL: copies of one real finished run, written with set-based SQL.

Ids, times and shapes are those that `clones.clone_from` gives a SQLite store for the same options. Schema
and rows come from the engine; indexes and constraints are made anew after filling, as the engine had them.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Unpack

from psycopg import sql

from pg_server import Connection, Database

from .clones import (
    _KEYS,
    _TIME_COLUMN,
    LINKING_RUN,
    Clone,
    CloneOptions,
    _ages,
    _clones,
    _units,
)

MEMORY = "SET LOCAL maintenance_work_mem = '512MB'; SET LOCAL work_mem = '256MB'"
LINKS = "operation_outputs"

PARTS: Final = """
SELECT t.relname, c.conname, pg_get_constraintdef(c.oid), 1 + (c.contype = 'f')::int AS turn
FROM pg_constraint AS c JOIN pg_class AS t ON t.oid = c.conrelid
WHERE c.contype IN ('p', 'u', 'f') AND t.relnamespace = %(schema)s::regnamespace
    AND t.relname = ANY(%(tables)s)
UNION ALL
SELECT t.relname, i.relname, pg_get_indexdef(i.oid), 0
FROM pg_index AS x JOIN pg_class AS i ON i.oid = x.indexrelid JOIN pg_class AS t ON t.oid = x.indrelid
WHERE t.relnamespace = %(schema)s::regnamespace AND t.relname = ANY(%(tables)s)
    AND NOT EXISTS (SELECT FROM pg_constraint AS c WHERE c.conindid = i.oid AND c.contype IN ('p', 'u'))
ORDER BY turn
"""
"""What is made anew after filling: indexes first, then keys, then foreign keys."""

Part = tuple[str, str, str, int]


def clone_within(database: Database, schema: str, *, runs: int, **options: Unpack[CloneOptions]) -> Clone:
    """Replace all runs of a populated store by `runs` finished copies of one of them; see `CloneOptions`.

    Times differ from unit to unit and rows lie in the order of time.
    """
    begin = time.perf_counter()
    ages = _ages(options)
    units = _units(runs, options.get("shape", "flat"))
    with database.connect(autocommit=False) as connection:
        connection.execute(MEMORY)
        connection.execute(sql.SQL("SET LOCAL search_path = {}").format(sql.Identifier(schema)))
        tables = run_tables(connection, schema)
        parts = connection.execute(PARTS, {"schema": f'"{schema}"', "tables": list(tables)}).fetchall()
        run_id = options.get("run_id", "simple-1")
        ended, steps = _original(connection, run_id)
        _take_out(connection, tables, parts)
        chance = random.Random(options.get("seed", 1))
        _plan(connection, _clones(units, ages, ages.now_ms - ended, steps, chance))
        rows = _fill(connection, tables, run_id)
        _put_back(connection, tables, parts)
    if options.get("analyze", True):
        database.run("VACUUM (ANALYZE)")
    old = ages.expired_units(len(units))
    return Clone(
        runs=runs,
        units=len(units),
        expired_runs=sum(len(unit) for unit in units[:old]),
        expired_units=old,
        rows=rows,
        bytes=database.rows("SELECT pg_database_size(current_database())")[0][0],
        seconds=time.perf_counter() - begin,
    )


def run_tables(connection: Connection, schema: str) -> dict[str, list[str]]:
    """Return the columns of every table that has a run's id, in their order."""
    found = connection.execute(
        """SELECT table_name, array_agg(column_name::text ORDER BY ordinal_position)
           FROM information_schema.columns JOIN information_schema.tables USING (table_schema, table_name)
           WHERE table_schema = %s AND table_type = 'BASE TABLE' GROUP BY table_name ORDER BY table_name""",
        [schema],
    )
    return {table: columns for table, columns in found if set(_KEYS) & set(columns)}


def _original(connection: Connection, run_id: str) -> tuple[int, int]:
    """Return when the run to copy ended, and its last step."""
    found = connection.execute(
        """SELECT completed_at, (SELECT max(function_id) FROM operation_outputs WHERE workflow_uuid = %(run)s)
           FROM workflow_status WHERE workflow_uuid = %(run)s""",
        {"run": run_id},
    ).fetchone()
    if found is None or found[0] is None:
        raise ValueError(f"{run_id} is not a finished run of the source")
    return found[0], found[1] or 0


def _take_out(connection: Connection, tables: Mapping[str, Sequence[str]], parts: Sequence[Part]) -> None:
    """Lay the rows to copy aside, empty the tables, and drop what would slow down filling them."""
    for table in tables:
        source, real = sql.Identifier(f"source {table}"), sql.Identifier(table)
        connection.execute(sql.SQL("CREATE TEMP TABLE {} AS TABLE {}").format(source, real))
        connection.execute(sql.SQL("ALTER TABLE {} DISABLE TRIGGER USER").format(real))
    for table, name, _, turn in reversed(parts):
        words = "ALTER TABLE {} DROP CONSTRAINT {}" if turn else "DROP INDEX {1}"
        connection.execute(sql.SQL(words).format(sql.Identifier(table), sql.Identifier(name)))
    connection.execute(sql.SQL("TRUNCATE {}").format(sql.SQL(", ").join(map(sql.Identifier, tables))))


def _plan(connection: Connection, clones: Iterable[tuple[str, str | None, int | None, int]]) -> None:
    """Write which run is cloned under which id, and which run starts which child."""
    connection.execute(
        "CREATE TEMP TABLE clone (n serial PRIMARY KEY, id text, parent text, step int, shift bigint)"
    )
    with connection.cursor().copy("COPY clone (id, parent, step, shift) FROM STDIN") as copy:
        for clone in clones:
            copy.write_row(clone)
    connection.execute("ANALYZE clone")


def _fill(connection: Connection, tables: Mapping[str, Sequence[str]], run_id: str) -> dict[str, int]:
    """Write all rows; return how many went into each table."""
    rows: dict[str, int] = {}
    for table, columns in tables.items():
        key = next(column for column in columns if column in _KEYS)
        rows[table] = _copy(connection, table, columns, {key: "c.id"}, f't."{key}" = %s', run_id)
    rows[LINKS] += _link(connection, tables[LINKS])
    return rows


def _link(connection: Connection, columns: Sequence[str]) -> int:
    """Record in each parent that it started its children and read their results."""
    values = {
        "workflow_uuid": "c.parent",
        "child_workflow_id": "c.id",
        "function_id": "c.step + (t.function_name = 'DBOS.getResult')::int",
    }
    wanted = f"""c.parent IS NOT NULL AND t.workflow_uuid = %s AND t.child_workflow_id =
        (SELECT min(child_workflow_id) FROM "source {LINKS}" WHERE workflow_uuid = t.workflow_uuid)"""
    return _copy(connection, LINKS, columns, values, wanted, LINKING_RUN)


def _copy(
    connection: Connection,
    table: str,
    columns: Sequence[str],
    values: Mapping[str, str],
    wanted: str,
    run_id: str,
) -> int:
    """Copy a run's rows once for each planned clone, in the order of the plan."""
    fixed = {"parent_workflow_id": "c.parent", "message_uuid": "gen_random_uuid()", **values}
    chosen = [
        fixed.get(column, f't."{column}" + c.shift' if _TIME_COLUMN.search(column) else f't."{column}"')
        for column in columns
    ]
    statement = (
        f'INSERT INTO "{table}" SELECT {", ".join(chosen)} '
        f'FROM clone AS c CROSS JOIN "source {table}" AS t WHERE {wanted} ORDER BY c.n'
    )
    return connection.execute(statement.encode(), [run_id]).rowcount


def _put_back(connection: Connection, tables: Mapping[str, Sequence[str]], parts: Sequence[Part]) -> None:
    for table, name, definition, turn in parts:
        add = sql.SQL("ALTER TABLE {} ADD CONSTRAINT {} ").format(sql.Identifier(table), sql.Identifier(name))
        connection.execute((add.as_string() if turn else "").encode() + definition.encode())
    for table in tables:
        connection.execute(sql.SQL("ALTER TABLE {} ENABLE TRIGGER USER").format(sql.Identifier(table)))
