"""The calendar of a plan: a line a day, what goes and what stays as bars, in the width there is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from typing import Final

from rich.console import Console, ConsoleOptions
from rich.text import Text

from afterrun.core.outlook import Day

SHOWN: Final = 60
"""Days drawn, up to today; what is older is one line."""

LONGEST: Final = 60
SHORTEST: Final = 4
"""Cells of a bar. A terminal too narrow for the shortest one cuts the line."""

BLOCKS: Final = ("█", "░")
ASCII: Final = ("#", ".")
"""What is drawn for a unit that would go, and for one that stays."""


class Calendar:
    """Draws days. The marks differ by shape, so that no colour is needed to tell them apart."""

    def __init__(self, days: Sequence[Day], *, today: date, encoding: str | None) -> None:
        """Choose the days and the marks; ``encoding`` is that of the stream that shows them."""
        since = today - timedelta(days=SHOWN - 1)
        found = {day.day: day for day in days if day.day >= since}
        first, last = min(found, default=today), max([today, *found])
        shown = [first + timedelta(days=place) for place in range((last - first).days + 1)]
        self._days = [found.get(day, Day(day, 0, 0)) for day in shown]
        earlier = [day for day in days if day.day < since]
        self._earlier = Day(since, sum(day.kept for day in earlier), sum(day.expired for day in earlier))
        self._marks = BLOCKS if _can_show(BLOCKS, encoding) else ASCII

    def __rich_console__(self, _console: Console, options: ConsoleOptions) -> Iterator[Text]:
        """Yield the lines for rich."""
        for line in self.lines(options.max_width):
            yield Text(line, no_wrap=True, overflow="crop")

    def lines(self, width: int) -> Iterator[str]:
        """Yield the lines; those of days fit ``width`` columns where a bar has room at all."""
        gone, stays = self._marks
        yield f"units by day in UTC: {gone} would go, {stays} stay"
        if self._earlier.kept or self._earlier.expired:
            yield f"before      {_counts(self._earlier)}"
        room = width - len("2026-01-01") - max(len(_counts(day)) for day in self._days) - 4
        cells = max(min(room, LONGEST), SHORTEST)
        most = max(day.expired + day.kept for day in self._days)
        for day in self._days:
            bar = self._bar(day, most, cells)
            yield f"{day.day.isoformat()}  {bar:{cells}}  {_counts(day)}" if bar else day.day.isoformat()

    def _bar(self, day: Day, most: int, cells: int) -> str:
        """Return a bar in which whatever is there shows, be it ever so little."""
        total = day.expired + day.kept
        if not total:
            return ""
        both = day.expired > 0 and day.kept > 0
        whole = max(-(-total * cells // most), 2 if both else 1)
        expired = round(whole * day.expired / total)
        if both:
            expired = min(max(expired, 1), whole - 1)
        return self._marks[0] * expired + self._marks[1] * (whole - expired)


def _counts(day: Day) -> str:
    return f"{day.expired:,} go, {day.kept:,} stay"


def _can_show(marks: Sequence[str], encoding: str | None) -> bool:
    try:
        "".join(marks).encode(encoding or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
