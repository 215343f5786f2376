"""Whose the sweep lock of a directory is, and whether it may be taken over. A pure decision."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any, Final

from afterrun.stores.directory.process import Here

UNRENEWED: Final = 24 * 3_600.0
"""Seconds without a renewal after which an owner that nobody can look at counts as gone."""

VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class Owner:
    """What an owner says of itself. ``renewed`` is its own clock, in seconds since 1970."""

    token: str
    pid: int
    start: str
    namespace: str
    boot: str
    machine: str
    renewed: float

    @classmethod
    def of(cls, me: Here, token: str, renewed: float) -> Owner:
        """Say who this process is."""
        return cls(token, me.pid, me.start, me.namespace, me.boot, me.machine, renewed)

    def as_bytes(self) -> bytes:
        """Write it down."""
        return json.dumps({"version": VERSION, **asdict(self)}).encode()


class Standing(Enum):
    """What may be done about a lock that is there."""

    HELD = "held"
    STALE = "stale"
    FOREIGN = "foreign"


def read_owner(raw: bytes) -> Owner | None:
    """Read what an owner wrote; nothing if it is malformed."""
    try:
        data: Any = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    if not isinstance(data, dict) or data.pop("version", None) != VERSION:
        return None
    try:
        owner = Owner(**data)
    except TypeError:
        return None
    words = (owner.token, owner.start, owner.namespace, owner.boot, owner.machine)
    good = all(isinstance(word, str) for word in words) and bool(owner.token)
    number = type(owner.pid) is int and owner.pid > 0 and type(owner.renewed) in (int, float)
    return owner if good and number else None


def standing(owner: Owner | None, me: Here, *, start: str | None, age: float) -> Standing:
    """Judge a lock.

    ``start`` is the start of the process that has the owner's id here, if there is one; ``age`` the seconds
    since the last renewal, or since the lock was written where it names no owner. What is `STALE` may be
    taken only if its flock can be had as well.
    """
    if owner is None:
        return Standing.STALE if age >= UNRENEWED else Standing.HELD
    if not _same_machine(owner, me):
        return Standing.FOREIGN
    seen = owner.boot == me.boot != "" and owner.namespace == me.namespace != "" and owner.start != ""
    if seen:
        return Standing.HELD if start == owner.start else Standing.STALE
    return Standing.STALE if age >= UNRENEWED else Standing.HELD


def _same_machine(owner: Owner, me: Here) -> bool:
    if owner.machine and me.machine:
        return owner.machine == me.machine
    return owner.boot == me.boot != ""
