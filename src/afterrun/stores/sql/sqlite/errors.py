"""What SQLite's errors mean: a fault of one unit, of the whole store, or of opening it."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import sqlalchemy as sa

from afterrun.core.errors import AfterrunError, Refused, StoreFailure, StoreUnreadable, UnitFailure

UNIT_FAULTS: Final = {
    "SQLITE_CONSTRAINT_TRIGGER": "trigger",
    "SQLITE_CONSTRAINT": "constraint",
    "SQLITE_BUSY": "lock",
    "SQLITE_LOCKED": "lock",
    "SQLITE_INTERRUPT": "timeout",
}
STORE_FAULTS: Final = {
    "SQLITE_FULL": "disk-full",
    "SQLITE_READONLY": "read-only",
    "SQLITE_IOERR": "io",
    "SQLITE_CORRUPT": "corrupt",
    "SQLITE_NOTADB": "corrupt",
    "SQLITE_PERM": "permission",
    "SQLITE_AUTH": "permission",
    "SQLITE_CANTOPEN": "permission",
    "SQLITE_NOMEM": "memory",
    "SQLITE_ERROR": "schema-changed",
    "SQLITE_SCHEMA": "schema-changed",
}


def opening_error(error: Exception, path: Path) -> AfterrunError:
    """Say why a file cannot be opened, and what would help."""
    cause = error.orig if isinstance(error, sa.exc.DBAPIError) else error
    name = getattr(cause, "sqlite_errorname", "") or ""
    if name.startswith("SQLITE_NOTADB"):
        return StoreUnreadable(f"{path} is not a SQLite database, or it is encrypted")
    if "unsafe use of" in str(cause):
        return Refused(
            "schema",
            f"{path} has an index or view that calls a function which SQLite holds for unsafe in a schema "
            f"from outside: {str(cause)[:200]}",
        )
    if name.startswith("SQLITE_CORRUPT"):
        return StoreUnreadable(f"{path} is damaged: {cause}")
    if name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM")):
        return _rights_error(name, path)
    if isinstance(cause, AfterrunError):
        return cause
    return classify(cause)


def _rights_error(name: str, path: Path) -> Refused:
    """Say what rights are wanting, or that the file was opened without the right to mend it."""
    if name == "SQLITE_READONLY_ROLLBACK" and os.access(path, os.W_OK) and os.access(path.parent, os.W_OK):
        return Refused(
            "unrecovered",
            f"{path} has a journal left by a crash in the middle of a transaction: {path.name}-journal takes "
            "that transaction back, and before that nobody can read the database. The engine does it by "
            "itself when it starts, and so do prune --apply and sweep. This command only reads, so it leaves "
            "both files as they are; copy them first if you want to see what the crash left",
        )
    return Refused(
        "rights",
        f"{path} cannot be read with the rights this user has: a database in WAL mode, or with a journal "
        "left by a crash, needs write access to the file and its folder",
    )


def classify(error: BaseException | None) -> UnitFailure | StoreFailure:
    """Say whether a database error lies in the units of a batch or in the store.

    The message is SQLite's own, which names tables and columns and never holds a value.
    """
    name = getattr(error, "sqlite_errorname", None) or "SQLITE_ERROR"
    for prefix, kind in UNIT_FAULTS.items():
        if name.startswith(prefix):
            return UnitFailure(kind, name)
    for prefix, kind in STORE_FAULTS.items():
        if name.startswith(prefix):
            return StoreFailure(kind, f"{name}: {error}")
    return StoreFailure("unexpected", f"{name}: {type(error).__name__}")


@contextmanager
def classified() -> Iterator[None]:
    """Turn errors of the database into our own, without the statement and its values."""
    try:
        yield
    except sa.exc.DBAPIError as error:
        raise classify(error.orig) from None
    except sqlite3.Error as error:
        raise classify(error) from None
