"""What came last: the newest time that runs show, and the runs that were added last."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from afterrun.core.facts import Key
from afterrun.core.times import CLOCK_SKEW, Instant, micros
from afterrun.profiles.model import EndSource
from afterrun.stores.sql.binding import RUN
from afterrun.stores.sql.facts import Facts
from afterrun.stores.sql.literals import literal


def newest_time(facts: Facts, now: Instant) -> Instant | None:
    """Return the newest time, not after ``now``, that the profile's columns show."""
    latest = sa.literal(now + micros(CLOCK_SKEW))
    times = [moment for source in facts.tree.seen for moment in _newest(facts, source, latest)]
    return max(times, default=None)


def _newest(facts: Facts, source: EndSource, latest: sa.ColumnElement[int]) -> Sequence[Instant]:
    column, origin = facts.ends.stored(source)
    instant = facts.dialect.instant(column, source.format)
    credible = sa.and_(instant >= sa.literal(0), instant <= latest)
    order = column if source.along is None else facts.runs.c[source.along]
    statement = sa.select(instant).select_from(origin).where(column.is_not(None), credible)
    return [int(row[0]) for row in facts.dialect.execute(statement.order_by(order.desc()).limit(1))]


def last_added(facts: Facts, count: int, *, within: int) -> Sequence[Key]:
    """Return the keys of the runs that were added last, of rows at most so far below the last one."""
    table = facts.tree.table
    tie = facts.dialect.tie(table, RUN, facts.key)
    newest = sa.select(facts.key).select_from(facts.runs).order_by(tie.desc()).limit(count)
    if tie is not facts.key:
        others = facts.binding.table(table, "n")
        last = sa.select(sa.func.max(facts.dialect.tie(table, "n", others.c[facts.tree.key])))
        newest = newest.where(tie > last.select_from(others).scalar_subquery() - literal(within))
    return [row[0] for row in facts.dialect.execute(newest)]
