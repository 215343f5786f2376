"""Space: what a database's file holds, what can be given back and by which method, and what came of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Literal

MIB: Final = 1024 * 1024
WORTH_BYTES: Final = 64 * MIB
WORTH_SHARE: Final = 0.20
"""Below either, free pages are left to be used again: giving them back costs more than it brings."""

Method = Literal["none", "vacuum", "incremental"]
ReclaimEnd = Literal["planned", "completed", "pinned", "interrupted", "skipped", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """Measured bytes and pages of a database. ``file`` and ``wal`` are sizes on disk, in bytes."""

    page_size: int
    pages: int
    free_pages: int
    file: int
    wal: int
    journal: str
    auto_vacuum: Literal["none", "full", "incremental"]

    @property
    def free(self) -> int:
        """Return the bytes of pages that hold nothing."""
        return self.free_pages * self.page_size

    @property
    def live_pages(self) -> int:
        """Return the pages that hold something."""
        return self.pages - self.free_pages

    @property
    def live(self) -> int:
        """Return the bytes of pages that hold something."""
        return self.live_pages * self.page_size

    @property
    def free_share(self) -> float:
        """Return which part of the file holds nothing."""
        return self.free_pages / self.pages if self.pages else 0.0

    @property
    def worth(self) -> bool:
        """Say whether giving the free pages back is worth its cost: an automatic reclaim asks this."""
        return self.free >= WORTH_BYTES and self.free_share >= WORTH_SHARE

    @property
    def method(self) -> Method:
        """Return how the free pages can be given back."""
        if not self.free_pages:
            return "none"
        return "incremental" if self.auto_vacuum == "incremental" else "vacuum"

    def as_json(self) -> dict[str, object]:
        """Return plain values."""
        return {
            "page_size": self.page_size,
            "pages": self.pages,
            "free_pages": self.free_pages,
            "free": self.free,
            "free_share": round(self.free_share, 4),
            "live": self.live,
            "file": self.file,
            "wal": self.wal,
            "journal": self.journal,
            "auto_vacuum": self.auto_vacuum,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """Bytes that a reclaim needs for a while on one volume, and what that volume has."""

    volume: Literal["database", "temporary files", "database and temporary files"]
    path: str
    needed: int
    available: int

    @property
    def enough(self) -> bool:
        """Say whether it fits."""
        return self.needed <= self.available

    def as_json(self) -> dict[str, object]:
        """Return plain values."""
        return {
            "volume": self.volume,
            "path": self.path,
            "needed": self.needed,
            "available": self.available,
            "enough": self.enough,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ReclaimOptions:
    """How a reclaim runs.

    ``gate`` is asked between bounded calls whether to go on. ``rest`` is the pause after each, as a multiple
    of the time it held the lock. ``worth_only`` leaves a store alone whose free pages are below the
    thresholds.
    """

    gate: Callable[[], bool] = lambda: True
    rest: float = 1.0
    worth_only: bool = False


@dataclass(slots=True, kw_only=True)
class Reclaim:
    """What a reclaim would do, or did. Sizes are measured bytes; ``ended`` says how far it came.

    ``pinned``: it was done, and another process's reader keeps the file or its WAL at its size until it ends.
    ``skipped``: not begun, and ``message`` says why. ``problems`` are faults found by the check afterwards.
    """

    store: str
    profile: str
    before: Space
    rooms: tuple[Room, ...]
    dry_run: bool = True
    after: Space | None = None
    seconds: float = 0.0
    ended: ReclaimEnd = "planned"
    message: str = ""
    notices: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def given_back(self) -> int:
        """Return by how much file and WAL together became smaller, as measured."""
        if self.after is None:
            return 0
        return self.before.file + self.before.wal - self.after.file - self.after.wal

    def as_json(self) -> dict[str, object]:
        """Return the object that ``--json`` prints."""
        last = self.after or self.before
        return {
            "store": self.store,
            "profile": self.profile,
            "dry_run": self.dry_run,
            "method": self.before.method,
            "worth": self.before.worth,
            "space": self.before.as_json(),
            "room": [room.as_json() for room in self.rooms],
            "bytes": {
                "file_before": self.before.file,
                "file_after": last.file,
                "wal_before": self.before.wal,
                "wal_after": last.wal,
                "free_before": self.before.free,
                "free_after": last.free,
                "given_back": self.given_back,
            },
            "seconds": round(self.seconds, 6),
            "ended": self.ended,
            "message": self.message,
            "notices": self.notices,
            "problems": self.problems,
        }
