"""A row table in memory, as plainly as the protocol allows, and one that misbehaves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from afterrun.core.errors import UnitFailure
from afterrun.core.facts import Key
from afterrun.core.judge import rank
from afterrun.core.policy import DEFAULT_GRACE
from afterrun.core.row_rules import RowRules
from afterrun.core.row_tables import Place, RowCounts, RowPage, RowsGone
from afterrun.core.times import CLOCK_SKEW, YEAR_2000, Instant, micros

NOW: Final[Instant] = 1_800_000_000_000_000
A_ROW: Final = 0.0002
"""Seconds that a row takes, if nothing else is said."""


@dataclass
class FakeClock:
    """A clock that stands still but for what takes time; pauses are noted."""

    time: float = 0.0
    pauses: list[float] = field(default_factory=list)

    def monotonic(self) -> float:
        """Return the time."""
        return self.time

    def sleep(self, seconds: float) -> None:
        """Let it pass."""
        self.time += seconds
        self.pauses.append(seconds)


@dataclass(frozen=True)
class Line:
    """A row: its end as the store has it, its partition, and what keeps it."""

    end: Instant | None
    part: str = ""
    held: str = ""


class MemoryRows:
    """Rows by key. Every question is answered by looking at all of them."""

    aim = 0.1
    look = 4_000
    problems: Sequence[str] = ()

    def __init__(
        self, rows: Mapping[int, Line], rules: RowRules, *, name: str = "logs", clock: FakeClock | None = None
    ) -> None:
        """Resolve the rules against these rows."""
        self.name = name
        self.lines = dict(rows)
        self.clock = clock or FakeClock()
        self.a_row: Callable[[], float] = lambda: A_ROW
        self.batches: list[int] = []
        self.pages = 0
        self._cutoff = rules.cutoff(NOW, grace=DEFAULT_GRACE)
        self._rules = rules
        self._newest = self._ranked(rules.keep_latest)

    def _ranked(self, count: int | None) -> Mapping[str, object]:
        if count is None:
            return {}
        ranks: dict[str, list[tuple[Instant, object]]] = {}
        for key, line in self.lines.items():
            if line.end is not None and YEAR_2000 <= line.end <= NOW + micros(CLOCK_SKEW):
                ranks.setdefault(line.part, []).append(rank(line.end, key))
        return {
            part: sorted(found, reverse=True)[count - 1]
            for part, found in ranks.items()
            if len(found) >= count
        }

    def _keeping(self, key: Key, line: Line) -> tuple[str, str] | None:
        if fault := _fault(line.end):
            return "blocked", fault
        if self._cutoff is None or line.end is None or not line.end < self._cutoff:
            return "recent", "keep-for"
        if line.held:
            return "protected", line.held
        if self._rules.keep_latest is None:
            return None
        newest = self._newest.get(line.part)
        kept = newest is None or rank(line.end, key) >= newest  # type: ignore[operator]
        return ("recent", "keep-latest") if kept else None

    def _in_range(self) -> list[tuple[Instant, int]]:
        return sorted(
            (line.end, key)
            for key, line in self.lines.items()
            if line.end is not None and self._cutoff is not None and line.end < self._cutoff
        )

    def page(self, place: Place | None, *, limit: int) -> RowPage:
        """Judge the next rows."""
        self.pages += 1
        met = [entry for entry in self._in_range() if place is None or entry > tuple(place)][:limit]
        going = [key for _, key in met if self._keeping(key, self.lines[key]) is None]
        kept = self._counts([key for _, key in met])
        return RowPage(len(met), going, kept, met[-1] if len(met) == limit else None)

    def _counts(self, keys: Sequence[int]) -> RowCounts:
        counts = RowCounts()
        for key in keys:
            keeping = self._keeping(key, self.lines[key])
            if keeping is None:
                continue
            if keeping[0] == "recent":
                counts.recent += 1
            else:
                (counts.protected if keeping[0] == "protected" else counts.blocked)[keeping[1]] += 1
        return counts

    def remove(self, keys: Sequence[Key], *, seconds: float) -> RowsGone:  # noqa: ARG002 - nothing is late here
        """Remove what may still go."""
        self.before(keys)
        going = [key for key in keys if self.may_go(key)]
        for key in going:
            del self.lines[key]  # type: ignore[arg-type]
        held = len(going) * self.a_row()
        self.clock.time += held
        self.batches.append(len(keys))
        return RowsGone(len(going), {self.name: len(going)}, held, held, held)

    def before(self, keys: Sequence[Key]) -> None:
        """Do something before a batch; here nothing."""

    def may_go(self, key: Key) -> bool:
        """Judge a row again."""
        line = self.lines.get(key) if isinstance(key, int) else None
        return line is not None and self._keeping(key, line) is None

    def beyond(self) -> RowCounts:
        """Count what no page meets."""
        met = {key for _, key in self._in_range()}
        return self._counts([key for key in self.lines if key not in met])

    def count(self, keys: Sequence[Key]) -> Mapping[str, int]:
        """Return the rows."""
        return {self.name: len(keys)}

    def measure(self, keys: Sequence[Key]) -> tuple[int, int]:
        """Return bytes and rows."""
        return 100 * len(keys), len(keys)

    def backlog(self, place: Place | None) -> int:
        """Return how many may go at most."""
        return sum(place is None or entry > tuple(place) for entry in self._in_range())

    def candidates(self, most: int) -> int:
        """Count old rows."""
        return min(len(self._in_range()), most)

    def rows(self) -> int:
        """Count rows."""
        return len(self.lines)

    def settle(self) -> None:
        """Leave nothing for later."""


def _fault(end: Instant | None) -> str:
    if end is None:
        return "unknown-end-time"
    if end < YEAR_2000:
        return "unreadable-end-time"
    return "future-end-time" if end > NOW + micros(CLOCK_SKEW) else ""


class Poisoned(MemoryRows):
    """Some rows of it cannot be removed."""

    poison: frozenset[int] = frozenset()

    def before(self, keys: Sequence[Key]) -> None:
        """Fail with a poisoned row."""
        if self.poison.intersection(keys):
            raise UnitFailure("constraint", "poisoned")


class Busy(MemoryRows):
    """Some rows of it are locked by others all the time."""

    locked: frozenset[int] = frozenset()

    def may_go(self, key: Key) -> bool:
        """Pass by locked rows."""
        return key not in self.locked and super().may_go(key)
