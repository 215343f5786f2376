"""What a SQL store says of the units that a plan's pages do not read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from afterrun.core.inspection import LookAhead
from afterrun.core.outlook import Standings
from afterrun.core.store import Cursor
from afterrun.core.times import Instant
from afterrun.stores.inspect import add_outside, ended_roots, stuck_runs
from afterrun.stores.sql.store import SqlStore


class SqlSurroundings:
    """The aggregates of one store."""

    def __init__(self, store: SqlStore) -> None:
        """Take a store; nothing is read yet."""
        self._store = store

    def standings(self, now: Instant) -> Standings:
        """Group all runs, in one scan."""
        found, statuses = self._store.standings(now), self._store.binding.model.statuses
        outside = LookAhead([])
        add_outside(outside, found, statuses)
        return Standings(ended_roots(found, statuses), outside, stuck_runs(found, statuses))

    def cursor_at(self, stream: int, moment: Instant) -> Cursor:
        """Return the place in a stream where a page up to this instant ends."""
        return self._store.cursor_at(stream, moment)

    def examples(self, reason: str, now: Instant, *, limit: int) -> Sequence[str]:
        """Return ids of runs that stand so."""
        return self._store.examples(reason, now, limit=limit)

    def kept_by_day(self, *, cutoff: Instant | None, now: Instant) -> Mapping[int, int]:
        """Count the ended roots that pages never meet by day."""
        return self._store.kept_by_day(cutoff=cutoff, now=now)
