"""Reflect a SQLite database: names of tables, columns, keys, triggers and indexes."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from afterrun.profiles import TableShape
from afterrun.profiles.detect import Kind
from afterrun.stores.sql.dialect import Index

ForeignKey: TypeAlias = tuple[tuple[str, ...], str, tuple[str, ...], str]


def reflect(driver: sqlite3.Connection) -> Mapping[str, TableShape]:
    """Return the shape of every table, also of virtual ones. SQLite's own tables are left out."""
    listed = driver.execute(
        "SELECT name, wr FROM pragma_table_list WHERE schema = 'main' AND type IN ('table', 'virtual')"
        " AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
    ).fetchall()
    shapes = {name: _shape(driver, name, has_rowid=not wr) for name, wr in listed}
    return _spelled_alike(shapes)


def _shape(driver: sqlite3.Connection, table: str, *, has_rowid: bool) -> TableShape:
    columns = driver.execute(
        "SELECT name, pk, upper(type) FROM pragma_table_xinfo(?) ORDER BY cid", (table,)
    ).fetchall()
    key = tuple(name for name, place, _ in sorted(columns, key=lambda column: column[1]) if place)
    triggers = driver.execute(
        "SELECT name FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = ? COLLATE NOCASE ORDER BY name",
        (table,),
    )
    return TableShape(
        columns=tuple(name for name, _, _ in columns),
        primary_key=key,
        foreign_keys=tuple(_foreign_keys(driver, table)),
        triggers=tuple(name for (name,) in triggers),
        has_rowid=has_rowid,
        loose=tuple(name for name, _, _ in columns if _is_loose(driver, table, name)),
        kinds={name: _kind(declared) for name, _, declared in columns},
    )


def _kind(declared: str) -> Kind:
    """Return what a column of a declared type makes of values: SQLite's rules of affinity, in their order."""
    if "INT" in declared:
        return "number"
    if any(word in declared for word in ("CHAR", "CLOB", "TEXT")):
        return "text"
    return "any" if declared in ("", "ANY") or "BLOB" in declared else "number"


def _is_loose(driver: sqlite3.Connection, table: str, column: str) -> bool:
    """Find out whether a column compares text loosely. No PRAGMA tells; a column of a UNION inherits it."""
    union = f"SELECT {quoted(column)} AS c FROM {quoted(table)} WHERE 0 UNION ALL SELECT 'a'"  # noqa: S608 - quoted names
    try:
        found = driver.execute(f"SELECT c = 'A', c = 'a ' FROM ({union})").fetchone()  # noqa: S608 - the same
    except sqlite3.OperationalError:  # a collation that only the engine has
        return True
    return any(found)


def quoted(name: str) -> str:
    """Return a name as an identifier that means nothing else."""
    return '"' + name.replace('"', '""') + '"'


def _spelled_alike(shapes: Mapping[str, TableShape]) -> Mapping[str, TableShape]:
    """Spell what foreign keys refer to as the tables do: letter case makes no other name."""
    tables = {name.lower(): name for name in shapes}

    def spell(key: ForeignKey) -> ForeignKey:
        columns, referred, targets, action = key
        referred = tables.get(referred.lower(), referred)
        known = {name.lower(): name for name in shapes[referred].columns} if referred in shapes else {}
        return columns, referred, tuple(known.get(target.lower(), target) for target in targets), action

    return {
        name: replace(shape, foreign_keys=tuple(spell(key) for key in shape.foreign_keys))
        for name, shape in shapes.items()
    }


def _foreign_keys(driver: sqlite3.Connection, table: str) -> Sequence[ForeignKey]:
    listed = driver.execute(
        'SELECT id, "from", "table", "to", on_delete FROM pragma_foreign_key_list(?) ORDER BY id, seq',
        (table,),
    ).fetchall()
    keys = []
    for number in sorted({row[0] for row in listed}):
        parts = [row for row in listed if row[0] == number]
        referred = parts[0][2]
        columns = tuple(part[1] for part in parts)
        targets = tuple(part[3] for part in parts)
        if None in targets:  # a key that names no columns means the other table's primary key
            targets = tuple(
                name
                for (name,) in driver.execute(
                    "SELECT name FROM pragma_table_info(?) WHERE pk > 0 ORDER BY pk", (referred,)
                )
            )
        keys.append((columns, referred, targets, parts[0][4]))
    return keys


def reflect_indexes(driver: sqlite3.Connection, table: str) -> Sequence[Index]:
    """Return the indexes by which any value of their first column is found.

    Left out are those on an expression, in another collation, or on some rows only.
    """
    found = []
    listed = driver.execute('SELECT name, "unique" FROM pragma_index_list(?)', (table,)).fetchall()
    for name, unique in listed:
        columns = driver.execute("SELECT name FROM pragma_index_info(?) ORDER BY seqno", (name,)).fetchall()
        if columns[0][0] is not None and _serves(driver, table, name, columns[0][0]):
            names = tuple(column or "" for (column,) in columns)
            found.append(Index(name, names, unique=bool(unique)))
    return found


def _serves(driver: sqlite3.Connection, table: str, index: str, column: str) -> bool:
    """Ask the planner whether an index finds values of a column; it refuses one that cannot."""
    probe = f"SELECT 1 FROM {quoted(table)} INDEXED BY {quoted(index)} WHERE {quoted(column)} > ?"  # noqa: S608 - quoted names
    try:
        steps = driver.execute(f"EXPLAIN QUERY PLAN {probe}", (0,)).fetchall()
    except sqlite3.OperationalError:
        return False
    return all(step[3].startswith("SEARCH") for step in steps)
