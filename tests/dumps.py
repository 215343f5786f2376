"""Every row of a SQLite store as plain Python values, and back.

Text that is not valid UTF-8 is decoded with ``surrogateescape``, so that no two different stored values
read as the same Python value, and every value can be written back exactly as it was stored.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

Value = str | int | float | bytes | None
Row = dict[str, Value]
Dump = dict[str, list[Row]]


def dump_sqlite(path: Path) -> Dump:
    """Read all rows of all tables of a store, in rowid order, through a read-only connection."""
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
        connection.text_factory = _decode
        return {table: list(_rows(connection, table)) for table in _tables(connection)}


def load_sqlite(path: Path, dump: Dump) -> None:
    """Insert the rows of a dump into a store that has the tables, unchecked by foreign keys."""
    with open_unchecked(path) as connection:
        for table, rows in dump.items():
            for row in rows:
                insert_row(connection, table, row)


@contextmanager
def open_unchecked(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a store for one transaction that no foreign key checks; commit it unless the body raises."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA foreign_keys = OFF")
        connection.execute("PRAGMA synchronous = OFF")
        with connection:
            yield connection


def insert_row(connection: sqlite3.Connection, table: str, row: Row) -> None:
    """Insert one row; text with surrogate escapes is stored as the bytes it stands for."""
    columns = ", ".join(_quoted(column) for column in row)
    marks = ", ".join("CAST(? AS TEXT)" if _is_escaped(value) else "?" for value in row.values())
    values = [_encode(value) if _is_escaped(value) else value for value in row.values()]
    connection.execute(f"INSERT INTO {_quoted(table)} ({columns}) VALUES ({marks})", values)


def row_counts(dump: Dump) -> dict[str, int]:
    """Count the rows of each table."""
    return {table: len(rows) for table, rows in dump.items()}


def canonical(dump: Dump) -> dict[str, list[str]]:
    """Make a dump comparable: no order of rows or columns, and 1, 1.0 and '1' differ."""
    return {
        table: sorted(repr(sorted(row.items(), key=lambda item: item[0])) for row in rows)
        for table, rows in dump.items()
    }


def _tables(connection: sqlite3.Connection) -> list[str]:
    names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
    return [name for (name,) in names if not name.startswith("sqlite_")]


def _rows(connection: sqlite3.Connection, table: str) -> Iterator[Row]:
    cursor = connection.execute(f"SELECT * FROM {_quoted(table)} ORDER BY rowid")
    columns = [column[0] for column in cursor.description]
    for values in cursor:
        yield dict(zip(columns, values, strict=True))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _decode(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def _encode(value: Value) -> Value:
    return value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value


def _is_escaped(value: Value) -> bool:
    return isinstance(value, str) and any("\ud800" <= char <= "\udfff" for char in value)
