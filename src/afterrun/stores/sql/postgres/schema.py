"""Reflect a PostgreSQL schema: names of tables, columns, types, keys, triggers and indexes.

Read from the catalogue in one statement a kind, not one a table. Tables of other schemas come in where a
foreign key of theirs refers into this one: their rows may need ours.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import psycopg

from afterrun.profiles import TableShape
from afterrun.stores.sql.dialect import Index
from afterrun.stores.sql.postgres.column_types import PADDED, Stored

ACTIONS: Final = {"a": "NO ACTION", "r": "RESTRICT", "c": "CASCADE", "n": "SET NULL", "d": "SET DEFAULT"}

TABLES: Final = """
SELECT c.oid, n.nspname, c.relname
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'f') AND (n.nspname = %(schema)s OR EXISTS (
    SELECT 1 FROM pg_catalog.pg_constraint f JOIN pg_catalog.pg_class t ON t.oid = f.confrelid
    JOIN pg_catalog.pg_namespace s ON s.oid = t.relnamespace
    WHERE f.contype = 'f' AND f.conrelid = c.oid AND s.nspname = %(schema)s))
ORDER BY n.nspname <> %(schema)s, n.nspname, c.relname
"""

COLUMNS: Final = """
SELECT a.attrelid, a.attname, pg_catalog.format_type(a.atttypid, NULL),
    coalesce(NOT l.collisdeterministic, false), (
        WITH RECURSIVE base AS (
            SELECT t.* FROM pg_catalog.pg_type t WHERE t.oid = a.atttypid UNION ALL
            SELECT t.* FROM base b JOIN pg_catalog.pg_type t ON t.oid = b.typbasetype WHERE b.typtype = 'd')
        SELECT bool_or(base.typtype = 'b' AND n.nspname <> 'pg_catalog')
        FROM base JOIN pg_catalog.pg_namespace n ON n.oid = base.typnamespace)
FROM pg_catalog.pg_attribute a LEFT JOIN pg_catalog.pg_collation l ON l.oid = a.attcollation
WHERE a.attrelid = ANY (%(tables)s) AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attrelid, a.attnum
"""

"""Name and type of each column, whether its collation takes different text for equal, and whether its type is
an extension's (such as citext) or based on one: what is equal there is for the extension to say."""

KEYS: Final = """
SELECT k.conrelid, k.contype, k.confrelid, k.confdeltype,
    to_json(ARRAY(SELECT a.attname::text FROM unnest(k.conkey) WITH ORDINALITY u(n, i)
        JOIN pg_catalog.pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = u.n ORDER BY i))::text,
    to_json(ARRAY(SELECT a.attname::text FROM unnest(k.confkey) WITH ORDINALITY u(n, i)
        JOIN pg_catalog.pg_attribute a ON a.attrelid = k.confrelid AND a.attnum = u.n ORDER BY i))::text
FROM pg_catalog.pg_constraint k
WHERE k.conrelid = ANY (%(tables)s) AND k.contype IN ('p', 'f')
ORDER BY k.conrelid, k.conname
"""

TRIGGERS: Final = """
SELECT t.tgrelid, t.tgname FROM pg_catalog.pg_trigger t
WHERE t.tgrelid = ANY (%(tables)s) AND NOT t.tgisinternal AND t.tgenabled <> 'D' AND (t.tgtype & 24) <> 0
UNION ALL
SELECT r.ev_class, 'rule ' || r.rulename FROM pg_catalog.pg_rewrite r
WHERE r.ev_class = ANY (%(tables)s) AND r.ev_type IN ('2', '4')
ORDER BY 1, 2
"""
"""Triggers and rules that a DELETE fires, or the UPDATE that a foreign key makes of it."""

INDEXES: Final = """
SELECT i.indrelid, c.relname, i.indisunique,
    to_json(ARRAY(SELECT coalesce(a.attname::text, '')
        FROM unnest(i.indkey::smallint[]) WITH ORDINALITY u(n, k)
        LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = u.n AND u.n > 0
        WHERE u.k <= i.indnkeyatts ORDER BY k))::text
FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid
    JOIN pg_catalog.pg_am m ON m.oid = c.relam
WHERE i.indrelid = ANY (%(tables)s) AND i.indisvalid AND m.amname = 'btree' AND (i.indpred IS NULL
    OR pg_catalog.pg_get_expr(i.indpred, i.indrelid) = (
        SELECT pg_catalog.format('(%%I IS NOT NULL)', a.attname) FROM pg_catalog.pg_attribute a
        WHERE a.attrelid = i.indrelid AND a.attnum = i.indkey[0]))
ORDER BY i.indrelid, c.relname
"""
"""Indexes that find any value of their first column: those on some rows only if these are its values."""


@dataclass(frozen=True, slots=True)
class Reflected:
    """A schema as it is. ``places`` gives (schema, name) of each table, ``types`` the type of each column."""

    shapes: Mapping[str, TableShape]
    places: Mapping[str, tuple[str, str]]
    oids: Mapping[str, int]
    types: Mapping[str, Mapping[str, str]]
    indexes: Mapping[str, Sequence[Index]]


def reflect(driver: psycopg.Connection[Any], schema: str) -> Reflected:
    """Return the shape of every table of a schema, and of tables elsewhere that refer to them."""
    places, names = _places(driver.execute(TABLES, {"schema": schema}).fetchall(), schema)
    tables = {"tables": list(names)}
    columns: defaultdict[int, list[tuple[str, str, bool, bool]]] = defaultdict(list)
    for oid, name, spelling, loose, own in driver.execute(COLUMNS, tables).fetchall():
        columns[oid].append((name, spelling, loose, own))
    primary: dict[int, tuple[str, ...]] = {}
    foreign: defaultdict[int, list[tuple[tuple[str, ...], str, tuple[str, ...], str]]] = defaultdict(list)
    for oid, kind, referred, action, own, theirs in driver.execute(KEYS, tables).fetchall():
        if kind == "p":
            primary[oid] = tuple(json.loads(own))
        else:
            target = names.get(referred, str(referred))
            foreign[oid].append((tuple(json.loads(own)), target, tuple(json.loads(theirs)), ACTIONS[action]))
    triggers: defaultdict[int, list[str]] = defaultdict(list)
    for oid, name in driver.execute(TRIGGERS, tables).fetchall():
        triggers[oid].append(name)
    indexes: defaultdict[str, list[Index]] = defaultdict(list)
    for oid, name, unique, keys in driver.execute(INDEXES, tables).fetchall():
        indexes[names[oid]].append(Index(name, tuple(json.loads(keys)), unique=unique))
    shapes = {
        name: TableShape(
            columns=tuple(column for column, *_ in columns[oid]),
            primary_key=primary.get(oid, ()),
            foreign_keys=tuple(foreign[oid]),
            triggers=tuple(triggers[oid]),
            loose=tuple(
                column for column, spelling, loose, own in columns[oid] if loose or own or spelling == PADDED
            ),
            kinds={
                column: "own" if own else Stored(spelling).kind for column, spelling, _, own in columns[oid]
            },
        )
        for oid, name in names.items()
    }
    types = {name: {column: spelling for column, spelling, *_ in columns[oid]} for oid, name in names.items()}
    return Reflected(shapes, places, {name: oid for oid, name in names.items()}, types, indexes)


def _places(rows: Sequence[Any], schema: str) -> tuple[Mapping[str, tuple[str, str]], Mapping[int, str]]:
    """Name tables: by their own name in this schema, with their schema's in another one."""
    places: dict[str, tuple[str, str]] = {}
    names: dict[int, str] = {}
    for oid, space, table in rows:
        name = table if space == schema else f"{space}.{table}"
        while name in places:  # a dot is allowed in a name, too
            name += "'"
        places[name] = (space, table)
        names[oid] = name
    return places, names
