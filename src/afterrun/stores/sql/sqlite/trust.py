"""What a schema from outside may call while the database is open: nothing that SQLite holds for unsafe.

Some versions of SQLite hold their own JSON functions for unsafe, though these only look at their arguments,
and Prefect has an index over one of them. So those are let through, and nothing else.
"""

from __future__ import annotations

import re
import sqlite3
from typing import Final

INNOCUOUS: Final = 0x200000
"""Flag of a function in the list of SQLite that any schema may call."""

JSON: Final = re.compile(r"json(_[a-z_]+)?|->>?", re.IGNORECASE)
_COMMENT: Final = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)


def distrust(connection: sqlite3.Connection) -> None:
    """Keep a schema from calling unsafe functions. Raises `sqlite3.DatabaseError` if it does."""
    connection.execute("PRAGMA trusted_schema=OFF")
    try:
        _read_schema(connection)
    except sqlite3.DatabaseError as error:
        if "unsafe use of" not in str(error):
            raise
        connection.execute("PRAGMA trusted_schema=ON")
        if _calls_other(connection):
            raise


def _read_schema(connection: sqlite3.Connection) -> list[str]:
    found = connection.execute("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL").fetchall()
    return [row[0] for row in found if isinstance(row[0], str)]


def _calls_other(connection: sqlite3.Connection) -> bool:
    """Say whether the text of the schema may call an unsafe function that is not one of JSON's."""
    listed = connection.execute("SELECT DISTINCT name, flags FROM pragma_function_list").fetchall()
    unsafe = [name for name, flags in listed if not flags & INNOCUOUS and not JSON.fullmatch(name)]
    called = re.compile(rf"\b({'|'.join(map(re.escape, unsafe))})\b[\"'`\]]?\s*\(", re.IGNORECASE)
    return any(called.search(_COMMENT.sub(" ", text)) for text in _read_schema(connection))
