"""Times of runs: a column of the run's own row or of a lookup, or the newest among rows of another table.

A column is compared as it is stored, so that an index serves. What is newest among rows is worked out as an
instant, run by run, by the index of those rows. Where a sub-select may refer to the row beside it, it is
joined, so that it is worked out once for a run; elsewhere it stands in the statement for each use.
"""

from __future__ import annotations

from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.sql.selectable import LateralFromClause

from afterrun.core.times import Instant
from afterrun.profiles.model import EndRows, EndSource
from afterrun.stores.sql.binding import Binding
from afterrun.stores.sql.conditions import unknown_holds
from afterrun.stores.sql.dialect import Column

TIME: Final = "t"
"""Alias of a table whose rows tell a run's time."""


class Ends:
    """The expressions of all times of one binding. Building them runs nothing."""

    def __init__(self, binding: Binding) -> None:
        """Look at the profile's sources."""
        self._binding = binding
        self._dialect = binding.dialect
        self._of_rows: list[tuple[EndRows, EndSource]] = []
        for source in (*binding.tree.end, *binding.tree.seen):
            if source.rows is not None and (source.rows, _bare(source)) not in self._of_rows:
                self._of_rows.append((source.rows, _bare(source)))
        self._joined: dict[tuple[sa.FromClause, int], LateralFromClause] = {}

    def join(self, runs: sa.FromClause) -> sa.FromClause:
        """Join to runs what `stored` and `instant` take from other rows, lookups included."""
        joined = self._binding.with_lookups(runs)
        if self._dialect.has_lateral:
            for place in range(len(self._of_rows)):
                joined = joined.outerjoin(self._lateral(runs, place), sa.true())
        return joined

    def is_own(self, runs: sa.FromClause, source: EndSource) -> bool:
        """Say whether a source is a column of the run's own row, so that an index may order runs by it."""
        return source.rows is None and source.column in runs.c

    def raw(self, runs: sa.FromClause, source: EndSource) -> Column:
        """Return what pages compare and order by: the stored value, or the newest instant among rows."""
        if source.rows is None:
            return self._binding.address(runs, source.column)
        place = self._of_rows.index((source.rows, _bare(source)))
        if self._dialect.has_lateral:
            newest: Column = self._lateral(runs, place).c.newest
            return newest
        return self._newest(runs, place).scalar_subquery()

    def instant(self, runs: sa.FromClause, source: EndSource) -> Column:
        """Return the time as an instant, `UNREADABLE` where it makes no sense; NULL stays NULL."""
        raw = self.raw(runs, source)
        return raw if source.rows is not None else self._dialect.instant(raw, source.format)

    def bound(self, runs: sa.FromClause, source: EndSource, moment: Instant) -> object:
        """Return a value such that every `raw` time before this moment compares less than it."""
        if source.rows is not None:
            return moment
        return self._dialect.bound(moment, self.raw(runs, source), source.format)

    def stored(self, source: EndSource) -> tuple[Column, sa.FromClause]:
        """Return a source's column, of whatever run, and where it is stored."""
        runs = self._binding.runs()
        if source.rows is not None:
            other = self._binding.table(source.rows.table, TIME)
            return other.c[source.column], other
        column = self._binding.address(runs, source.column)
        return column, runs if source.column in runs.c else self._binding.with_lookups(runs)

    def _lateral(self, runs: sa.FromClause, place: int) -> LateralFromClause:
        key = (runs, place)
        if key not in self._joined:
            self._joined[key] = self._newest(runs, place).lateral(f"newest{place}")
        return self._joined[key]

    def _newest(self, runs: sa.FromClause, place: int) -> sa.Select[Any]:
        """Return the sub-select that finds the newest time among the rows of one run."""
        rows, source = self._of_rows[place]
        other = self._binding.table(rows.table, f"{TIME}{place}")
        tests = [unknown_holds(self._dialect, other.c[name], test) for name, test in rows.where.items()]
        newest = self._dialect.newest(other.c[source.column], source.format).label("newest")
        on = [self._belongs(other, runs, rows.table, pair) for pair in rows.on.items()]
        return sa.select(newest).select_from(other).where(*on, *tests).correlate(runs)

    def _belongs(
        self, other: sa.FromClause, runs: sa.FromClause, table: str, pair: tuple[str, str]
    ) -> Column:
        """Return the condition that a column of other rows is exactly that of the run's own row."""
        theirs, ours = pair
        if ours == self._binding.tree.key:
            return self._binding.equals(other, table, theirs, runs.c[ours])
        same: Column = other.c[theirs] == runs.c[ours]
        return same


def _bare(source: EndSource) -> EndSource:
    """Return a source without what makes no difference to its time."""
    return source.model_copy(update={"rare": False})
