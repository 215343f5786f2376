"""The one predicate of a row table: a verdict as one expression, for pages, plans and the removal itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

import sqlalchemy as sa

from afterrun.core.facts import UNREADABLE
from afterrun.core.times import CLOCK_SKEW, Instant, micros
from afterrun.profiles.rows import RowProtection
from afterrun.profiles.words import Condition
from afterrun.stores.sql.conditions import unknown_holds
from afterrun.stores.sql.dialect import Column
from afterrun.stores.sql.literals import literal, one_of
from afterrun.stores.sql.row_binding import ForeignKey, RowBinding

Kept = Literal["recent", "protected", "blocked"]
GOES: Final = 0
"""The verdict of a row that may go; any other is the place of what keeps it, counted from 1."""


class Keeping(NamedTuple):
    """What keeps a row: under which word it is counted, and the reason's name."""

    word: Kept
    reason: str


NOT_MEANT: Final = Keeping("protected", "not-meant")
NOT_ENDED: Final = Keeping("protected", "not-ended")
OTHER_STATUS: Final = Keeping("recent", "status")
UNKNOWN_END: Final = Keeping("blocked", "unknown-end-time")
UNREADABLE_END: Final = Keeping("blocked", "unreadable-end-time")
FUTURE_END: Final = Keeping("blocked", "future-end-time")
YOUNG: Final = Keeping("recent", "keep-for")


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """One ``now`` and the cutoff that rules give then; without a cutoff no age lets a row go."""

    now: Instant
    cutoff: Instant | None

    @property
    def parameters(self) -> dict[str, object]:
        """Return the parameters of the verdict."""
        latest = self.now + micros(CLOCK_SKEW)
        return {"now": self.now, "latest": latest, "cutoff": 0 if self.cutoff is None else self.cutoff}


class RowVerdict:
    """Compiles the verdict. ``keepings`` are what a number other than `GOES` stands for, from 1 on."""

    def __init__(self, rows: RowBinding, statuses: Sequence[str]) -> None:
        """Take the states that the policy lets go, of those that the profile calls terminal."""
        self._rows = rows
        self._statuses = tuple(statuses)
        self.keepings: list[Keeping] = []

    def _code(self, keeping: Keeping) -> Column:
        """Return the number of what keeps a row."""
        if keeping not in self.keepings:
            self.keepings.append(keeping)
        return literal(self.keepings.index(keeping) + 1)

    def of(self, table: sa.FromClause) -> Column:
        """Return the whole verdict of a row of this table."""
        return self._own(table, then=self._aged(table, then=self._held(table)))

    def cheap(self, table: sa.FromClause) -> Column:
        """Return the verdict as far as the row itself tells."""
        return self._own(table, then=self._aged(table, then=literal(GOES)))

    def counts(self, table: sa.FromClause) -> Column:
        """Return the condition under which ``keep_latest`` counts a row: it ended, and is meant."""
        known = sa.case((self._known(table), literal(GOES)), else_=literal(1))
        return self._own(table, then=known) == literal(GOES)

    def _own(self, table: sa.FromClause, *, then: Column) -> Column:
        """Ask what the row says of itself. What is NULL meets no condition."""
        profile, verdict = self._rows.rows, then
        if profile.status is not None:
            status = self._rows.dialect.order_key(table.c[profile.status])
            if set(self._statuses) != set(profile.terminal):
                chosen = one_of(status, self._statuses)
                verdict = sa.case((chosen, verdict), else_=self._code(OTHER_STATUS))
            ended = one_of(status, profile.terminal)
            verdict = sa.case((ended, verdict), else_=self._code(NOT_ENDED))
        if profile.where:
            tests = [self._rows.met(table.c[name], test) for name, test in profile.where.items()]
            verdict = sa.case((sa.and_(*tests), verdict), else_=self._code(NOT_MEANT))
        return verdict

    def end(self, table: sa.FromClause) -> Column:
        """Return when a row ended."""
        source = self._rows.rows.end
        return self._rows.dialect.instant(table.c[source.column], source.format)

    def _known(self, table: sa.FromClause) -> Column:
        end = self.end(table)
        return sa.and_(end > literal(0), end <= sa.bindparam("latest"))

    def _aged(self, table: sa.FromClause, *, then: Column) -> Column:
        end = self.end(table)
        # first what most rows of a page are: each branch that is passed works the time out anew
        return sa.case(
            (sa.and_(end > literal(0), end < sa.bindparam("cutoff")), then),
            (end.is_(None), self._code(UNKNOWN_END)),
            (end == literal(UNREADABLE), self._code(UNREADABLE_END)),
            (end > sa.bindparam("latest"), self._code(FUTURE_END)),
            else_=self._code(YOUNG),
        )

    def _held(self, table: sa.FromClause) -> Column:
        """Ask what refers to the row."""
        whens = [
            (self._protected(table, held), self._code(Keeping("protected", held.reason)))
            for held in self._rows.protect
        ]
        whens += [
            (self._referred(table, link), self._code(Keeping("blocked", f"unknown-reference:{link.table}")))
            for link in self._rows.strays()
        ]
        return sa.case(*whens, else_=literal(GOES)) if whens else literal(GOES)

    def _protected(self, table: sa.FromClause, held: RowProtection) -> Column:
        other = self._rows.binding.table(held.table, "r")
        tests = [self._unknown_holds(other.c[name], test) for name, test in held.where.items()]
        same = other.c[held.column] == table.c[held.own or self._rows.rows.key[0]]
        return sa.exists().select_from(other).where(same, *tests).correlate(table)

    def _unknown_holds(self, column: Column, test: Condition) -> Column:
        return unknown_holds(self._rows.dialect, column, test)

    def _referred(self, table: sa.FromClause, link: ForeignKey) -> Column:
        other = self._rows.binding.table(link.table, "r")
        pairs = zip(link.columns, link.targets, strict=True)
        same = [other.c[column] == table.c[target] for column, target in pairs]
        return sa.exists().select_from(other).where(*same).correlate(table)

    def named(self, numbers: Mapping[int, int]) -> Mapping[Keeping, int]:
        """Return counts by what keeps rows, from counts by number."""
        return {self.keepings[number - 1]: count for number, count in numbers.items() if number != GOES}
