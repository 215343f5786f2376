"""What PostgreSQL's errors mean: a fault of one unit, of the whole store, or of opening it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import psycopg
import sqlalchemy as sa

from afterrun.core.errors import AfterrunError, Refused, StoreFailure, StoreUnreadable, UnitFailure

UNIT_FAULTS: Final = {
    "23": "constraint",
    "40P01": "deadlock",
    "40": "serialization",
    "55P03": "lock",
    "57014": "timeout",
    "09": "trigger",
    "27": "trigger",
    "38": "trigger",
    "39": "trigger",
    "P0": "trigger",
}
STORE_FAULTS: Final = {
    "25006": "read-only",
    "53100": "disk-full",
    "53": "resources",
    "42501": "permission",
    "42": "schema-changed",
    "0A": "schema-changed",
    "08": "lost-connection",
    "25P03": "lost-connection",
    "25P04": "lost-connection",
    "57P": "lost-connection",
    "58": "io",
    "XX001": "corrupt",
    "XX002": "corrupt",
}
"""Kinds by the SQLSTATE or the start of it; a longer start stands before a shorter one."""

ROW_SECURITY: Final = "row-level security"


def opening_error(error: Exception, place: str) -> AfterrunError:
    """Say why a database cannot be opened, and what would help. ``place`` is its URL without the password."""
    cause = error.orig if isinstance(error, sa.exc.DBAPIError) else error
    if isinstance(cause, AfterrunError):
        return cause
    if isinstance(cause, UnicodeDecodeError):
        return StoreUnreadable(f"{place} has names that are no UTF-8 text")
    state = getattr(cause, "sqlstate", None)
    if state == "42501":
        return Refused("rights", f"this role may not read {place}: grant it USAGE and SELECT on the schema")
    lines = str(cause).strip().splitlines()
    said = next((line for line in lines if "FATAL" in line or "failed" in line), lines[0] if lines else "")
    return StoreUnreadable(f"{place} cannot be opened: {said.strip()[:240] or type(cause).__name__}")


def classify(error: BaseException | None) -> UnitFailure | StoreFailure:
    """Say whether a database error lies in the units of a batch or in the store.

    The message has the SQLSTATE and the names of what was violated; the server's own text may hold values.
    """
    state = getattr(error, "sqlstate", None) or ""
    text = _words(error, state)
    for start, kind in UNIT_FAULTS.items():
        if state.startswith(start):
            return UnitFailure(kind, text)
    for start, kind in STORE_FAULTS.items():
        if state.startswith(start):
            return StoreFailure(kind, text)
    if not state and isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return StoreFailure("lost-connection", "the server or the network closed the connection")
    return StoreFailure("unexpected", text)


def _words(error: BaseException | None, state: str) -> str:
    words = [f"SQLSTATE {state}" if state else "no SQLSTATE", f"({type(error).__name__})"]
    diagnosis = getattr(error, "diag", None)
    for name in ("constraint_name", "table_name", "column_name"):
        value = getattr(diagnosis, name, None)
        if value:
            words.append(f"{name.partition('_')[0]} {value}")
    primary = getattr(diagnosis, "message_primary", None) or ""
    if state in ("42501", "42883"):  # names a table, a function or types, and nothing of a row
        words.append(primary)
    return " ".join(words)


@contextmanager
def classified() -> Iterator[None]:
    """Turn errors of the database into our own, without the statement and its values."""
    try:
        yield
    except sa.exc.DBAPIError as error:
        raise classify(error.orig) from None
    except psycopg.Error as error:
        raise classify(error) from None
