"""Space: what a store takes on disk, what can be given back and by which method, and what came of it.

`Space` is what every database can say of itself. `FileSpace` is that of a file of pages; `SchemaSpace`, in a
module of its own, that of tables on a server.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol

MIB: Final = 1024 * 1024
WORTH_BYTES: Final = 64 * MIB
WORTH_SHARE: Final = 0.20
"""Below either, free pages are left to be used again: giving them back costs more than it brings."""

Method = Literal["none", "vacuum", "incremental", "plain-vacuum"]
Ending = Literal["completed", "pinned", "interrupted", "partial"]
"""How giving space back ended. ``pinned``: done, but what others still read was kept, so little came of it.
``partial``: some tables were left as they are, and the notices say why.
"""

ReclaimEnd = Literal["planned", "skipped", "failed"] | Ending
STEPWISE: Final = ("incremental", "plain-vacuum")
"""Methods that can be stopped between two bounded parts."""


class Space(Protocol):
    """What a store takes on disk, measured in bytes, and how some of it can be given back."""

    @property
    def tables_measured(self) -> bool:
        """Say whether the bytes of single tables are measured, too, and not estimated from samples."""

    @property
    def moves_content(self) -> bool:
        """Say whether giving space back writes kept content anew, so that a check has to follow."""

    @property
    def on_disk(self) -> int:
        """Return all bytes that it takes."""

    @property
    def method(self) -> Method:
        """Return how space can be given back."""

    @property
    def worth(self) -> bool:
        """Say whether giving space back is worth its cost: an automatic reclaim asks this."""

    @property
    def why_not_worth(self) -> str:
        """Say in a sentence why an automatic reclaim leaves it."""

    @property
    def notices(self) -> Sequence[str]:
        """Say what a reader should know of these numbers."""

    def compared(self, after: Space) -> Mapping[str, object]:
        """Return what changed, as the parts of a reclaim's ``--json`` that hold sizes."""

    def sizes(self) -> Mapping[str, int]:
        """Return sizes by name, in bytes."""

    def as_json(self) -> dict[str, object]:
        """Return plain values."""


def compared_sizes(before: Space, after: Space) -> dict[str, int]:
    """Return sizes before and after by name, and by how many bytes less is on disk."""
    pairs = zip(before.sizes().items(), after.sizes().values(), strict=True)
    found = {
        f"{name}_{moment}": count
        for (name, old), new in pairs
        for moment, count in (("before", old), ("after", new))
    }
    return {**found, "given_back": before.on_disk - after.on_disk}


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSpace:
    """Measured bytes and pages of a database in one file; ``file`` and ``wal`` are sizes on disk."""

    page_size: int
    pages: int
    free_pages: int
    file: int
    wal: int
    journal: str
    auto_vacuum: Literal["none", "full", "incremental"]

    @property
    def tables_measured(self) -> bool:
        """Say no: pages are counted, not whose they are."""
        return False

    @property
    def moves_content(self) -> bool:
        """Say yes: pages find another place in the file."""
        return True

    @property
    def on_disk(self) -> int:
        """Return the bytes of file and WAL."""
        return self.file + self.wal

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

    @property
    def why_not_worth(self) -> str:
        """Say why free pages are better left to be used again."""
        return (
            f"not worth it: {self.free:,} bytes are free, {self.free_share:.0%} of the file. Below "
            f"{WORTH_BYTES:,} bytes or {WORTH_SHARE:.0%} the engine uses free pages again, and an automatic "
            "reclaim leaves them"
        )

    @property
    def notices(self) -> Sequence[str]:
        """Return nothing."""
        return ()

    def sizes(self) -> Mapping[str, int]:
        """Return sizes by name, in bytes."""
        return {"file": self.file, "wal": self.wal, "free": self.free}

    def compared(self, after: Space) -> Mapping[str, object]:
        """Return sizes before and after."""
        return {"bytes": compared_sizes(self, after)}

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


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenBack:
    """What giving space back came to: how it ended, why it did no more, and what was left out."""

    ended: Ending
    message: str = ""
    notices: tuple[str, ...] = ()


@dataclass(slots=True, kw_only=True)
class Reclaim:
    """What a reclaim would do, or did. Sizes are measured bytes; ``ended`` says how far it came.

    ``pinned``: it was done, and what another reader may still need was kept until that one ends.
    ``partial``: some tables were left out. ``skipped``: not begun, and ``message`` says why. ``problems`` are
    faults found by the check afterwards.
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
        """Return by how much less is on disk, as measured."""
        return 0 if self.after is None else self.before.on_disk - self.after.on_disk

    def as_json(self) -> dict[str, object]:
        """Return the object that ``--json`` prints."""
        return {
            "store": self.store,
            "profile": self.profile,
            "dry_run": self.dry_run,
            "method": self.before.method,
            "worth": self.before.worth,
            "space": self.before.as_json(),
            "room": [room.as_json() for room in self.rooms],
            **self.before.compared(self.after or self.before),
            "seconds": round(self.seconds, 6),
            "ended": self.ended,
            "message": self.message,
            "notices": self.notices,
            "problems": self.problems,
        }
