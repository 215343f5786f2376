"""Row tables as a sweep sees them: what is asked of one table, and the figures that tell what came of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias

from afterrun.core.facts import Key, Unit

Outcome = Literal["drained", "budget", "interrupted", "failed", "blocked"]
"""How the work on one table ended; ``blocked``: it does not fit the profile, so nothing was tried."""

UNDONE: Final[Collection[str]] = ("failed", "blocked")
"""Outcomes after which a sweep counts as one that left something undone."""

Place: TypeAlias = tuple[object, ...]
"""Where a page of rows ended, as the store has it: raw values of the columns that order them."""


ROW: Final = "row:"
"""What the names of the kinds of units begin with that are rows."""


def kind_of(table: str) -> str:
    """Return what rows of a table are called as a kind of units."""
    return f"{ROW}{table}"


def row_unit(key: Key) -> Unit:
    """Return a row as a unit, for who asks no more than its key."""
    return Unit(key, (key,), None, None, successful=False)


@dataclass(slots=True)
class RowCounts:
    """Rows that stay, by what keeps them. ``protected`` and ``blocked`` count a row under one reason."""

    recent: int = 0
    protected: Counter[str] = field(default_factory=Counter)
    blocked: Counter[str] = field(default_factory=Counter)

    @property
    def total(self) -> int:
        """Return how many rows these are."""
        return self.recent + self.protected.total() + self.blocked.total()


class RowPage(NamedTuple):
    """The next raw rows: how many were passed, which may go, what keeps the others, and where to go on.

    ``unlisted`` counts those that may go but for a list of rows, of a plan file or a backup, that lacks them.
    """

    scanned: int
    going: Sequence[Key]
    kept: RowCounts
    place: Place | None
    unlisted: int = 0


class RowsGone(NamedTuple):
    """One committed batch: rows of the table that went, all rows by real table, and what it took in seconds.

    ``held`` is how long it held locks, ``slowest`` its longest statement, and ``taken`` what its size is
    adapted by: a commit that waits for a disk takes as long for few rows as for many. ``changed`` counts rows
    that are left since they differ from their backup.
    """

    units: int
    rows: Mapping[str, int]
    held: float
    taken: float
    slowest: float
    changed: int = 0


class RowSource(Protocol):
    """One row table of a store under its rules, resolved at one ``now``."""

    @property
    def name(self) -> str:
        """The profile's name for it."""

    @property
    def problems(self) -> Sequence[str]:
        """Why nothing of it may go; anything else is not to be asked then."""

    @property
    def aim(self) -> float:
        """Seconds that a batch beside an engine should take."""

    @property
    def look(self) -> int:
        """Raw rows of a page beside an engine: fewer where a look keeps it from committing."""

    def page(self, place: Place | None, *, limit: int) -> RowPage:
        """Judge the next raw rows after a place, in the order of an index."""

    def remove(self, keys: Sequence[Key], *, seconds: float) -> RowsGone:
        """Remove those of these rows that may still go, judged again, in one transaction.

        Raises `UnitFailure` for a fault of these rows; nothing of the batch is gone then.
        """

    def beyond(self) -> RowCounts:
        """Count the rows that no page meets."""

    def count(self, keys: Sequence[Key]) -> Mapping[str, int]:
        """Return the rows by real table that removing these would take."""

    def measure(self, keys: Sequence[Key]) -> tuple[int, int]:
        """Return bytes of content and number of rows that removing these would take, to estimate from."""

    def backlog(self, place: Place | None) -> int:
        """Return how many rows after a place may go, at most, as far as that is cheap to tell."""

    def candidates(self, most: int) -> int:
        """Count the rows that pages meet, so many at most."""

    def rows(self) -> int:
        """Count all rows."""

    def settle(self) -> None:
        """Do what a batch leaves for afterwards, outside its lock."""


@dataclass(slots=True)
class TableFigures:
    """What came of one table. ``slowest`` is the longest that a statement of a batch took, in seconds.

    In a plan ``rows`` and ``backlog`` are the rows that would go, and ``outcome`` is ``None`` but for a table
    that is blocked. ``why`` says, for people, what failed or what blocks.
    """

    rows: int = 0
    batches: int = 0
    slowest: float = 0.0
    backlog: int = 0
    outcome: Outcome | None = None
    why: str = ""

    def as_json(self) -> dict[str, object]:
        """Return plain values."""
        return {
            "rows": self.rows,
            "batches": self.batches,
            "slowest": round(self.slowest, 6),
            "backlog": self.backlog,
            "outcome": self.outcome,
            "why": self.why,
        }
