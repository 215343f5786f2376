"""Files that may be SQLite databases, and the text in them.

They are looked at from outside and opened by SQLite alone; `sqlite` says why.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final, TypeGuard
from urllib.parse import quote

from afterrun.core.errors import Refused, StoreUnreadable
from afterrun.core.facts import Scalar
from afterrun.stores.sql.sqlite.errors import opening_error

BUSY_MS: Final = 5_000
"""How long one statement waits for another process's lock."""

SMALLEST_PAGE: Final = 512
"""Bytes of the shortest database; SQLite takes a shorter file for an empty one."""

UTF8: Final = "utf-8"


def table_names(path: Path) -> frozenset[str]:
    """Return the tables of a file of any kind, and change nothing: a journal left by a crash stays, too.

    Raises `StoreUnreadable`, or `Refused` where the rights do not suffice.
    """
    check_file(path)
    try:
        connection = sqlite3.connect(
            address(path, recover=False), uri=True, isolation_level=None, timeout=BUSY_MS / 1_000
        )
        with closing(connection):
            connection.text_factory = decode
            connection.execute("PRAGMA query_only=ON")
            rows = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
    except sqlite3.Error as error:
        raise opening_error(error, path) from None
    return frozenset(name for (name,) in rows)


def address(path: Path, *, recover: bool) -> str:
    """Return the URI to open a file with.

    Where this user may write, SQLite cleans up after itself best. But if a journal with content is there, the
    last to close the file would put it into the database: only one who may not write leaves it as it is.
    """
    left = not recover and any(_has_content(Path(f"{path}{ending}")) for ending in ("-wal", "-journal"))
    mode = "rw" if os.access(path, os.W_OK) and not left else "ro"
    return f"file:{quote(str(path))}?mode={mode}"


def _has_content(path: Path) -> bool:
    try:
        return path.stat().st_size > 0
    except OSError:
        return False


def check_file(path: Path) -> None:
    """Look before opening, without opening: SQLite would create a missing file and empty a stray WAL.

    Raises `StoreUnreadable`, or `Refused` for a file with several names.
    """
    try:
        status = path.stat()
    except FileNotFoundError:
        stray = Path(f"{path}-wal").exists()
        hint = "; its -wal file is there, so the database was moved without it" if stray else ""
        raise StoreUnreadable(f"there is no file {path}{hint}") from None
    except OSError as error:
        raise StoreUnreadable(f"{path} cannot be reached: {error.strerror}") from None
    if not path.is_file():
        kind = "a directory" if path.is_dir() else "no regular file"
        raise StoreUnreadable(f"{path} is {kind}; a SQLite store is a file")
    if status.st_nlink > 1:
        raise Refused(
            "hard-link",
            f"{path} has {status.st_nlink} names (hard links): SQLite keeps the journal beside one of them, "
            "and to open another damages the database. Keep one name; symbolic links may be the others",
        )
    for ending in ("-wal", "-shm", "-journal"):
        beside = Path(f"{path}{ending}")
        if beside.is_symlink() or (beside.exists() and not beside.is_file()):
            raise StoreUnreadable(f"{beside} is no regular file")
    if status.st_size == 0:
        raise StoreUnreadable(f"{path} is empty: no engine has written to it")
    if status.st_size < SMALLEST_PAGE:
        raise StoreUnreadable(f"{path} is not a SQLite database: it is too short to be one")


def decode(raw: bytes) -> str:
    """Read text as UTF-8; bytes that are none become lone surrogates, which no key may hold."""
    return raw.decode(UTF8, "surrogateescape")


def encode(text: str) -> bytes:
    """Return the bytes that text came from by `decode`."""
    return text.encode(UTF8, "surrogateescape")


def is_broken(value: Scalar) -> TypeGuard[str]:
    """Say whether this is text whose bytes are no UTF-8."""
    return isinstance(value, str) and any("\ud800" <= char <= "\udfff" for char in value)
