"""What a store knows of its units: the shapes that every store hands over, and the judge takes."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from afterrun.core.times import Instant

Scalar: TypeAlias = "str | int | float | bytes | None"
Key: TypeAlias = "Scalar | tuple[Scalar, ...]"
"""Key of a row: the value of its key column, or a tuple where the key has several columns."""

UNREADABLE: Final[Instant] = -1
"""End of a row whose time is there and makes no sense: text, or a number before the year 2000."""


class Status(Enum):
    """What the engine's own word for a run's state means, by the profile's lists."""

    TERMINAL = "terminal"
    SUCCESSFUL = "successful"
    LIVE = "live"
    UNKNOWN = "unknown"


class Reason(NamedTuple):
    """A reason by its name and, in words, what was seen."""

    name: str
    detail: str = ""


class Row(NamedTuple):
    """One run as the store has it. ``end`` is an instant, ``None`` where none is stored, or `UNREADABLE`.

    ``keyed`` says whether it holds an idempotency key.
    """

    key: Key
    parent: Key
    status: Scalar
    end: Instant | None
    group: tuple[Scalar, ...] = ()
    keyed: bool = False


class Newest(NamedTuple):
    """The newest counted root of a group in one slot of time: the root's end and its key."""

    group: tuple[Scalar, ...]
    end: Instant
    key: Key


class Flag(NamedTuple):
    """Something outside a run's own row that holds its unit: a protection, or (``blocks``) an unknown."""

    reason: Reason
    blocks: bool = False


class Unit(NamedTuple):
    """One unit with all that a verdict needs but the policy and ``now``.

    A tuple rather than a dataclass: a sweep makes two for each unit it removes, at a third of the cost.

    Attributes:
        key: the root's key.
        members: keys of all rows of the unit, the root first.
        end: latest known end of any member; ``None`` if no member has one.
        settled: whether every member ended, at a known time; only then is ``end`` the unit's own.
        root_end: the root's own end; ``None`` if it has not ended, or at no known time.
        successful: whether the root's status counts as a success.
        group: the root's values of the profile's group columns.
        blocked: reasons that are unknown or broken, whatever the policy says.
        protected: reasons that can end, whatever the policy says.
        complete: false where the walk stopped before it had seen every member.
        run: key of the run that a generation is of; ``None`` for a tree.
        newer: newer generations of the same run, counted as far as anybody asks; ``None`` for a tree.
        status: the root's status, in the engine's own word; ``None`` where units have none.
        keyed: whether a member holds an idempotency key.
    """

    key: Key
    members: tuple[Key, ...]
    end: Instant | None
    root_end: Instant | None
    successful: bool
    group: tuple[Scalar, ...] = ()
    blocked: tuple[Reason, ...] = ()
    protected: tuple[Reason, ...] = ()
    complete: bool = True
    settled: bool = True
    run: Key = None
    newer: int | None = None
    status: Scalar = None
    keyed: bool = False


def key_text(key: Key) -> str:
    """Write a key as one string: the id that people type."""
    if isinstance(key, str):
        return key
    if isinstance(key, tuple):
        return "/".join([part if isinstance(part, str) else key_text(part) for part in key])
    if isinstance(key, bytes):
        return f"x'{key.hex()}'"
    return "" if key is None else str(key)


def key_order(key: Key) -> tuple[tuple[int, object], ...]:
    """Return a sort key that orders keys as a store does: numbers, then text by its bytes, then bytes."""
    if isinstance(key, tuple):
        return tuple(part for value in key for part in key_order(value))
    if key is None:
        return ((0, 0),)
    if isinstance(key, int | float):
        return ((1, key),)
    if isinstance(key, str):
        return ((2, key.encode("utf-8", "surrogateescape")),)
    return ((3, key),)


def in_order(keys: Iterable[Key]) -> list[Key]:
    """Return keys as a store's indexes have them, so that neighbours there are changed together."""
    found = list(keys)
    try:
        found.sort()  # keys of one type, as most are, take a tenth of the time so
    except TypeError:
        found.sort(key=key_order)
    return found


def readable(key: Key) -> bool:
    """Say whether a key can be bound and found again exactly as it was read."""
    if isinstance(key, str):
        return key.isprintable() or not any(char == "\0" or "\ud800" <= char <= "\udfff" for char in key)
    if isinstance(key, tuple):
        for part in key:  # noqa: SIM110 - twice as fast, and every unit's key comes here
            if not readable(part):
                return False
        return True
    return isinstance(key, int)
