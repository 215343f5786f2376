"""Batches: how many units one transaction takes, and what is done when one fails."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from afterrun.core.facts import Key, Unit

PART_MEMBERS: Final = 10_000
PART_ROWS: Final = 150_000
"""Members and expected rows that one statement a table removes; a large batch is removed in several parts."""

FIRST_ROWS: Final = 200
"""Rows of the first live batch, before anything is known of the machine."""

LIVE_BLOBS: Final = 20_000
OFFLINE_BLOBS: Final = 100_000
"""Most blobs of one transaction; the first of a sweep takes no more than a live one. Addresses of content are
spread over their whole index, so that each transaction writes most of it anew, however few blobs it takes."""

LIVE_GROWTH: Final = 1.5
OFFLINE_GROWTH: Final = 8.0
"""A batch may grow by this factor, and only after a full one: a page's last batch says little."""


MAX_YIELD: Final = 1.0
"""Longest pause, in seconds, that a wait for the lock brings about."""

MAX_REST: Final = 60.0
"""Longest pause after any batch, in seconds."""

HARDLY_FASTER: Final = 0.75
"""A batch of half the rows that still takes this share of the time is held up by something else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How a sweep shares the store with the engine.

    Attributes:
        page: raw keys a page reads.
        hold: seconds a batch aims to hold locks.
        rest: the pause after a batch, as a multiple of the time its locks were held.
        min_rest: the shortest pause, in seconds.
        rows: rows of the first batch.
        growth: factor by which a batch may grow after a full one.
        members: most members of a batch of several units.
        most_rows: most rows a batch of several units aims at.
        blobs: most blobs of one transaction, and so a bound of the candidates that wait in memory for one.
        deadline: seconds after which a batch of several units is rolled back.
        max_units: most units of a batch, or ``None``.
        weigh: count the rows of each unit before it is packed. Offline, an average serves, and the batch
            that turns out too large is rolled back and halved.
    """

    page: int
    hold: float
    rest: float
    min_rest: float
    rows: int
    growth: float
    members: int = PART_MEMBERS
    most_rows: int = PART_ROWS
    blobs: int = LIVE_BLOBS
    deadline: float = 5.0
    max_units: int | None = None
    weigh: bool = True

    def pause(self, *, held: float, waited: float) -> float:
        """Return the seconds to leave the store alone after a batch.

        ``waited`` is how long its lock was not to be had: an engine that long busy has work piled up, and
        needs more than the time we took from it.
        """
        return min(max(self.rest * max(held, min(waited, MAX_YIELD)), self.min_rest), MAX_REST)


def live_pace(hold: float, *, rest: float = 1.0, max_units: int | None = None) -> Pace:
    """Return the pace beside a working engine: short locks, and a pause as long as each was held."""
    return Pace(
        page=1_000,
        hold=hold,
        rest=rest,
        min_rest=0.025,
        rows=FIRST_ROWS,
        growth=LIVE_GROWTH,
        max_units=max_units,
    )


def offline_pace(*, max_units: int | None = None) -> Pace:
    """Return the pace for a store that nobody uses: large batches, no pause."""
    return Pace(
        page=16_000,
        hold=5.0,
        rest=0.0,
        min_rest=0.0,
        rows=2 * PART_ROWS,
        growth=OFFLINE_GROWTH,
        members=16_000,
        most_rows=2 * PART_ROWS,
        blobs=OFFLINE_BLOBS,
        deadline=60.0,
        max_units=max_units,
        weigh=False,
    )


class Sizer:
    """Adapts the rows of a batch to a target time of locks held."""

    def __init__(self, pace: Pace, *, most: int) -> None:
        """Start at the pace's first size; never exceed ``most`` rows."""
        self._hold = pace.hold
        self._growth = pace.growth
        self._most = most
        self._least = 1
        self._slow: tuple[int, float] | None = None
        self.rows = min(pace.rows, most)

    def learn(self, *, rows: int, held: float, full: bool) -> None:
        """Take in what a committed batch of ``rows`` rows cost."""
        if not rows or held <= 0:
            return
        fitting = int(rows * self._hold / held)
        if fitting < self.rows and held > self._hold:
            self._shrink(rows, held, fitting)
        elif full:
            larger = max(self.rows + 1, int(self.rows * self._growth))
            self.rows = min(self._most, larger, max(fitting, self.rows))

    def _shrink(self, rows: int, held: float, fitting: int) -> None:
        """Make batches smaller, unless that was tried and the time lies elsewhere: then stay at that size."""
        if self._slow is None or rows > self._slow[0]:
            self._slow = (rows, held)
        elif rows * 2 <= self._slow[0]:  # many small steps, too, come to half in the end
            slow_rows, slow_held = self._slow
            if held >= slow_held * HARDLY_FASTER:
                self._least = slow_rows
            self._slow = (rows, held)
        self.rows = min(self._most, max(self._least, fitting, self.rows // 4))


@dataclass(slots=True)
class Weights:
    """Average rows a member has, learnt from a sample and then from what was removed."""

    rows: int = 0
    members: int = 0

    def learn(self, *, rows: int, members: int) -> None:
        """Take in what was counted."""
        self.rows += rows
        self.members += members

    def guess(self, unit: Unit) -> int:
        """Estimate the rows of a unit."""
        average = self.rows / self.members if self.members else 1.0
        return max(1, round(len(unit.members) * average))


class Batch(NamedTuple):
    """Units that go in one transaction, and whether the bound rather than the supply ended it."""

    units: list[Unit]
    weights: list[int]
    full: bool

    @property
    def rows(self) -> int:
        """Return the rows expected of the whole batch."""
        return sum(self.weights)


class Pending:
    """Weighed units that wait for a batch, in the order they were found."""

    def __init__(self, *, most_members: int = PART_MEMBERS) -> None:
        """Start empty. No batch of several units takes more than ``most_members`` members."""
        self._most_members = most_members
        self._units: deque[tuple[Unit, int]] = deque()
        self._rows = 0

    def __len__(self) -> int:
        """Return how many units wait."""
        return len(self._units)

    def push(self, units: Sequence[Unit], weights: Sequence[int]) -> None:
        """Add units at the end, each with the rows expected of it."""
        self._units.extend(zip(units, weights, strict=True))
        self._rows += sum(weights)

    def put_back(self, batch: Batch) -> None:
        """Put the units of a batch that failed back to the front."""
        self._units.extendleft(reversed(list(zip(batch.units, batch.weights, strict=True))))
        self._rows += batch.rows

    def fills(self, *, rows: int, max_units: int | None) -> bool:
        """Say whether what waits makes a full batch."""
        return (
            self._rows >= rows
            or len(self._units) >= self._most_members
            or (max_units is not None and len(self._units) >= max_units)
        )

    def take(self, *, rows: int, max_units: int | None) -> Batch:
        """Take the next batch. A unit with more rows than the bound goes alone."""
        units: list[Unit] = []
        weights: list[int] = []
        total = members = 0
        full = False
        while self._units and not full:
            unit, expected = self._units[0]
            full = bool(units) and (
                total + expected > rows
                or members + len(unit.members) > self._most_members
                or (max_units is not None and len(units) >= max_units)
            )
            if not full:
                self._units.popleft()
                units.append(unit)
                weights.append(expected)
                total += expected
                members += len(unit.members)
        self._rows -= total
        return Batch(units, weights, full or total >= rows)


def parts(units: Sequence[Unit], weights: Mapping[Key, int]) -> Iterator[list[Unit]]:
    """Cut the units of a batch into parts that one statement a table may remove.

    A unit whose rows alone exceed all bounds makes its part exceed them, too, so that it is noticed.
    """
    part: list[Unit] = []
    rows = members = 0
    for unit in units:
        weight = weights[unit.key]
        if part and (rows + weight > PART_ROWS or members + len(unit.members) > PART_MEMBERS):
            yield part
            part, rows, members = [], 0, 0
        part.append(unit)
        rows += weight
        members += len(unit.members)
    if part:
        yield part
