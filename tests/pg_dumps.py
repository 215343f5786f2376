"""Every row of a PostgreSQL store as plain Python values, and rows of random stores on their way in.

What `random_stores` writes is made for SQLite, where any value fits in any column. `as_stored` brings each
value into the type of its column, always to the same value, so that links between rows hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from itertools import groupby
from typing import TypeAlias

from psycopg import sql
from psycopg.types.json import set_json_loads

from dumps import Dump, Row, Value
from pg_server import Connection

Types: TypeAlias = Mapping[str, Mapping[str, str]]
"""The type of each column of each table."""

INTEGERS: Mapping[str, int] = {"bigint": 2**63 - 1, "integer": 2**31 - 1}
REFUSED = str.maketrans({"\0": "\u2400", **{chr(code): "\ufffd" for code in range(0xDC80, 0xDD00)}})
"""NUL and what is not UTF-8: no text of PostgreSQL holds them."""


def column_types(connection: Connection, schema: str) -> Types:
    """Return the columns of all tables of a schema with their types."""
    found = connection.execute(
        """SELECT table_name::text, column_name::text, data_type::text
           FROM information_schema.columns JOIN information_schema.tables USING (table_schema, table_name)
           WHERE table_schema = %s AND table_type = 'BASE TABLE' ORDER BY table_name, ordinal_position""",
        [schema],
    ).fetchall()
    return {
        table: {column: kind for _, column, kind in columns}
        for table, columns in groupby(found, key=lambda row: row[0])
    }


def dump_postgres(connection: Connection, schema: str, types: Types | None = None) -> Dump:
    """Read all rows of all tables of a schema, in the order in which they lie there."""
    set_json_loads(lambda text: text if isinstance(text, str) else text.decode(), connection)
    dump: Dump = {}
    for table, columns in (types or column_types(connection, schema)).items():
        chosen = sql.SQL(", ").join(map(sql.Identifier, columns))
        query = sql.SQL("SELECT {} FROM {} ORDER BY ctid").format(chosen, sql.Identifier(schema, table))
        dump[table] = [
            dict(zip(columns, map(_plain, row), strict=True)) for row in connection.execute(query).fetchall()
        ]
    return dump


def insert_rows(connection: Connection, schema: str, rows: Iterable[tuple[str, Row]]) -> None:
    """Insert rows, each with the name of its table, as they are; only a superuser is not checked by keys."""
    for (table, columns), group in groupby(rows, key=lambda entry: (entry[0], tuple(entry[1]))):
        target = sql.SQL("COPY {} ({}) FROM STDIN").format(
            sql.Identifier(schema, table), sql.SQL(", ").join(map(sql.Identifier, columns))
        )
        with connection.cursor().copy(target) as copy:
            for _, row in group:
                copy.write_row(list(row.values()))


def as_stored(rows: Iterable[tuple[str, Row]], types: Types) -> list[tuple[str, Row]]:
    """Return rows as PostgreSQL can hold them; of rows with equal primary keys the first."""
    keys: dict[object, tuple[str, Row]] = {}
    for table, row in rows:
        stored = {column: _fitting(value, types[table][column]) for column, value in row.items()}
        if table == "workflow_status" and stored["workflow_uuid"] is None:
            stored["workflow_uuid"] = "no key"
        identity = stored["workflow_uuid"] if table == "workflow_status" else len(keys)
        keys.setdefault((table, identity), (table, stored))
    return list(keys.values())


def _fitting(value: Value, kind: str) -> Value:
    if value is None or kind == "boolean":
        return value
    if kind in INTEGERS:
        return _integer(value, INTEGERS[kind])
    if isinstance(value, bytes):
        return f"bytes {value.hex()}"
    return str(value).translate(REFUSED)


def _integer(value: Value, limit: int) -> int | None:
    """Return a number as it is, or as near as its column can hold it; all else is as good as absent."""
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return round(value) if abs(value) < limit else limit if value > 0 else -limit
    return None


def _plain(value: object) -> Value:
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, Decimal):
        return float(value)
    if value is None or isinstance(value, str | int | float | bytes):
        return value
    raise TypeError(f"a dump has no place for a {type(value).__name__}")
