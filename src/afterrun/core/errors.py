"""Everything afterrun raises, and the exit code each kind of ending has.

A message says what happened, which store or unit it is about, and what to do. It never holds a value of a
parameter, a payload or a password.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from enum import IntEnum
from typing import ClassVar


class Exit(IntEnum):
    """Exit codes of the command line; a contract that scripts rely on."""

    DONE = 0
    ERROR = 1
    USAGE = 2
    DEFERRED = 3
    REFUSED = 4
    LOCKED = 5
    INTERRUPTED = 130


class AfterrunError(Exception):
    """Base of all errors of this package. Catch it to handle any of them; ``exit_code`` ranks it."""

    exit_code: ClassVar[Exit] = Exit.ERROR


class UsageError(AfterrunError):
    """A word of the request is wrong: an option, a duration, a column. Correct it and ask again."""

    exit_code = Exit.USAGE


class ProfileError(UsageError):
    """A profile is malformed, unknown, ambiguous or does not fit the store.

    ``problems`` lists every fault found, each with its place in the file.
    """

    def __init__(self, message: str, *, problems: Iterable[str] = ()) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join([message, *(f"  - {line}" for line in self.problems)]))


class Refused(AfterrunError):
    """The request is understood and declined, because doing it could lose something. ``reason`` is stable."""

    exit_code = Exit.REFUSED

    def __init__(self, reason: str, message: str) -> None:
        self.reason = reason
        super().__init__(message)


class StoreLocked(AfterrunError):
    """Another sweep holds this store. Nothing was done; it can be tried again later."""

    exit_code = Exit.LOCKED


class StoreUnreadable(AfterrunError):
    """The store cannot be opened or read: missing, not a database, truncated, no rights. It is unchanged."""


class BackupFailed(AfterrunError):
    """A backup could not be made, verified or read. The store is unchanged, and no part of a new one stays.

    ``kind`` is one of disk-full, io, permission, changed, corrupt.
    """

    def __init__(self, kind: str, message: str) -> None:
        self.kind = kind
        super().__init__(message)


class UnitNotFound(AfterrunError):
    """No unit of the store has that id; it was never there or is already gone."""


class UnitFailure(AfterrunError):
    """A batch failed for a reason that lies in one of its units; it was rolled back.

    ``kind`` is one of constraint, trigger, timeout, lock, deadlock, serialization, oversized. The sweep
    halves the batch until the unit stands alone, and defers that one.
    """

    def __init__(self, kind: str, message: str) -> None:
        self.kind = kind
        super().__init__(f"{kind}: {message}"[:MESSAGE_LIMIT])


class StoreFailure(AfterrunError):
    """The store itself failed: disk full, busy, read-only, corrupt, changed. The sweep ends ``failed``.

    What was committed stays committed; the batch in progress was rolled back.
    """

    def __init__(self, kind: str, message: str) -> None:
        self.kind = kind
        super().__init__(f"{kind}: {message}"[:MESSAGE_LIMIT])


MESSAGE_LIMIT = 240
"""Longest text kept of a database's error, in characters: enough for its kind, too short for a payload."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return `` (did you mean 'x'?)`` for the nearest known word, or an empty string."""
    spelled = {other.casefold(): other for other in known}
    near = difflib.get_close_matches(word.casefold(), spelled, n=1)
    return f" (did you mean {spelled[near[0]]!r}?)" if near else ""
