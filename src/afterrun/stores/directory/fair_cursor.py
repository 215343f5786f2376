"""A place in several sources at once: each page takes from all of them in turn, so that none waits for ever.

Pure functions over sorted names. The place is one text, so that it is kept whole or not at all.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Self

WINDOW: Final = 100
"""Sources of one window; the next window begins when all of these are read to their end."""


@dataclass(frozen=True, slots=True)
class FairCursor:
    """``after`` holds the last name taken of each source of the window that begins behind ``window``."""

    window: str = ""
    after: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, text: object) -> Self:
        """Read a place; a malformed one is the beginning."""
        try:
            window, after = json.loads(str(text))
            good = isinstance(window, str) and all(isinstance(name, str) for name in after.values())
        except (ValueError, TypeError, AttributeError, RecursionError):
            return cls()
        return cls(window, dict(after)) if good else cls()

    def text(self) -> str:
        """Write a place as one text."""
        return json.dumps([self.window, dict(sorted(self.after.items()))])


def take(
    sources: Mapping[str, Sequence[str]], cursor: FairCursor, *, limit: int
) -> tuple[list[tuple[str, str]], FairCursor | None]:
    """Take up to ``limit`` names, one of each source in turn; return them and the place behind them.

    ``sources`` maps a source to its names, sorted. The place is ``None`` once everything was taken.
    """
    taken: list[tuple[str, str]] = []
    place: FairCursor | None = cursor
    while place is not None and len(taken) < limit:
        names = [name for name in sorted(sources) if name > place.window][:WINDOW]
        left = {name: _rest(sources[name], place.after.get(name), limit=limit + 1) for name in names}
        after = dict(place.after)
        _round_robin(left, taken, after, limit=limit)
        if any(left.values()):
            place = FairCursor(place.window, after)
        else:
            more = bool(names) and any(name > names[-1] for name in sources)
            place = FairCursor(names[-1]) if more else None
    return taken, place


def _rest(names: Sequence[str], after: str | None, *, limit: int | None = None) -> list[str]:
    """Return what comes behind a name, the first one last, so that it can be popped."""
    start = 0 if after is None else bisect_right(names, after)
    return list(reversed(names[start : None if limit is None else start + limit]))


def _round_robin(
    left: Mapping[str, list[str]], taken: list[tuple[str, str]], after: dict[str, str], *, limit: int
) -> None:
    while len(taken) < limit and any(left.values()):
        for source, names in left.items():
            if names and len(taken) < limit:
                after[source] = names.pop()
                taken.append((source, after[source]))


def remaining(sources: Mapping[str, Sequence[str]], cursor: FairCursor) -> list[tuple[str, str]]:
    """Return everything behind a place."""
    return [
        (source, name)
        for source in sorted(sources)
        if source > cursor.window
        for name in _rest(sources[source], cursor.after.get(source))
    ]
