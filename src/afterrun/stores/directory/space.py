"""What a directory takes on disk. Nothing is to be given back: each removal frees what it frees at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from afterrun.core.space import Method, Reclaim, Space, compared_sizes

NOTHING: Final = "a directory gives its space back with each removal; there is nothing left to reclaim"


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectorySpace:
    """Bytes on disk of runs and results; ``measured`` says whether all of them were looked at."""

    bytes: int = 0
    measured: bool = False

    @property
    def tables_measured(self) -> bool:
        """Say whether the bytes of runs are measured, and not estimated from samples."""
        return self.measured

    @property
    def moves_content(self) -> bool:
        """Say no."""
        return False

    @property
    def on_disk(self) -> int:
        """Return all bytes that it takes."""
        return self.bytes

    @property
    def method(self) -> Method:
        """Return that there is none."""
        return "none"

    @property
    def worth(self) -> bool:
        """Say no."""
        return False

    @property
    def why_not_worth(self) -> str:
        """Say why."""
        return NOTHING

    @property
    def notices(self) -> Sequence[str]:
        """Say it to people, too."""
        return (NOTHING,)

    def compared(self, after: Space) -> Mapping[str, object]:
        """Return sizes before and after."""
        return {"bytes": compared_sizes(self, after)}

    def sizes(self) -> Mapping[str, int]:
        """Return sizes by name, in bytes."""
        return {"content": self.bytes}

    def as_json(self) -> dict[str, object]:
        """Return plain values."""
        return {"content": self.bytes}


def nothing_to_reclaim(*, store: str, profile: str) -> Reclaim:
    """Return a reclaim that is none."""
    found = Reclaim(store=store, profile=profile, before=DirectorySpace(), rooms=())
    found.notices.append(NOTHING)
    return found
