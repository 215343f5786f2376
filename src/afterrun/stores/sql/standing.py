"""How the runs of a store stand, in one pass over the run table: by state, age, and what is unknown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa

from afterrun.core.facts import UNREADABLE, Scalar, Status, key_order, key_text
from afterrun.core.times import CLOCK_SKEW, DAY, Instant, micros
from afterrun.stores.sql.binding import RUN
from afterrun.stores.sql.dialect import Column
from afterrun.stores.sql.facts import Facts
from afterrun.stores.sql.literals import literal, one_of

MONTH: Final = 30 * DAY
STUCK: Final = "stuck"
PART_ROWS: Final = 20_000
"""Rows that one statement groups."""


@dataclass(frozen=True, slots=True)
class Standing:
    """Runs that are alike. ``oldest`` is the first time that the profile's columns show of any of them.

    ``stream`` is the end source that decides, or -1. ``end`` is ``known`` or the reason why it is not.
    ``days`` are whole days since the end. ``age`` is ``fresh`` for a run made within 30 days, ``stale`` for
    one without a sign of life for as long, else empty.
    """

    status: Scalar
    root: bool
    stream: int
    end: str
    days: int
    age: str
    count: int
    oldest: Instant | None


def standings(facts: Facts, now: Instant) -> list[Standing]:
    """Group all runs, some rows at a time: no engine waits for a scan of them all, and no sort holds them."""
    counts: dict[tuple[Any, ...], int] = {}
    oldest: dict[tuple[Any, ...], Instant] = {}
    after: Scalar = None
    seen = PART_ROWS
    while seen == PART_ROWS:
        seen = 0
        parameters = {"latest": now + micros(CLOCK_SKEW), "after": facts.dialect.bind(after)}
        for *alike, count, first, last in facts.dialect.execute(_part(facts, now, after), parameters):
            key = tuple(alike)
            counts[key] = counts.get(key, 0) + count
            if first is not None:
                oldest[key] = min(oldest.get(key, first), first)
            seen += count
            after = max(after, last, key=key_order)
    return [
        Standing(key[0], bool(key[1]), key[2], key[3], key[4], key[5], count, oldest.get(key))
        for key, count in counts.items()
    ]


def _part(facts: Facts, now: Instant, after: Scalar) -> sa.Select[Any]:
    """Return the statement that groups the next rows, in the order in which the table holds them."""
    known = _end_class(facts)
    since = sa.case((known == literal("known"), (literal(now - 1) - facts.end) / literal(DAY)), else_=0)
    first = _seen(facts)
    oldest = _oldest(first)
    alike = [
        facts.dialect.order_key(facts.status).label("status"),
        sa.case((facts.has_parent(), literal(0)), else_=literal(1)).label("root"),
        _stream(facts).label("stream"),
        known.label("known"),
        sa.cast(since, sa.Integer).label("days"),
        _age(first, now).label("age"),
    ]
    real = sa.case((oldest > literal(0), oldest), else_=sa.null()).label("oldest")
    tie = facts.dialect.tie(facts.tree.table, RUN, facts.key)
    part = sa.select(*alike, real, tie.label("tie")).select_from(facts.with_parents(facts.source))
    part = part.order_by(tie).limit(PART_ROWS)
    if after is not None:
        part = part.where(tie > facts.dialect.parameter("after", after))
    rows = part.subquery("rows")
    groups = [rows.c[label.name] for label in alike]
    return sa.select(*groups, sa.func.count(), sa.func.min(rows.c.oldest), sa.func.max(rows.c.tie)).group_by(
        *groups
    )


def examples(facts: Facts, reason: str, now: Instant, *, limit: int) -> list[str]:
    """Return ids of runs that are stuck, or of roots that this unknown fact of their own blocks."""
    seen = _seen(facts)
    statuses = facts.binding.model.statuses
    live = [word for word, meaning in statuses.items() if meaning is Status.LIVE]
    status = facts.dialect.order_key(facts.status)
    if reason == STUCK:
        where = [_one_of(status, live), _age(seen, now) == literal("stale")]
    elif reason == "unknown-status":
        known = sa.and_(status.is_not(None), _one_of(status, list(statuses)))
        where = [sa.not_(facts.has_parent()), sa.not_(known)]
    else:
        ended = [word for word in statuses if word not in live]
        where = [sa.not_(facts.has_parent()), _one_of(status, ended), _end_class(facts) == literal(reason)]
    statement: sa.Select[Any] = (
        sa.select(facts.key)
        .select_from(facts.with_parents(facts.source))
        .where(*where)
        .order_by(_oldest(seen), facts.key)
        .limit(limit)
    )
    rows = facts.dialect.execute(statement, {"latest": now + micros(CLOCK_SKEW)})
    return [key_text(row[0]) for row in rows]


def _one_of(status: Column, words: Sequence[Scalar]) -> Column:
    usable = [word for word in words if isinstance(word, str | int)]
    return one_of(status, usable) if usable else sa.false()


def _oldest(seen: list[Column]) -> Column:
    """Return the first of these times that is known, else something that is no time."""
    oldest = seen[0]
    for other in seen[1:]:
        oldest = sa.case((oldest > literal(0), oldest), else_=other)
    return oldest


def _end_class(facts: Facts) -> Column:
    return sa.case(
        (facts.end.is_(None), literal("unknown-end-time")),
        (facts.end == literal(UNREADABLE), literal("unreadable-end-time")),
        (facts.end > sa.bindparam("latest"), literal("future-end-time")),
        else_=literal("known"),
    )


def _stream(facts: Facts) -> Column:
    cases: list[Any] = [
        (facts.binding.address(facts.runs, source.column).is_not(None), literal(place))
        for place, source in enumerate(facts.tree.end)
    ]
    return sa.case(*cases, else_=literal(-1))


def _seen(facts: Facts) -> list[Column]:
    """Return the times that tell of a run, the first of which says when it was made; 0 where unknown."""
    sources = facts.tree.seen or facts.tree.end
    return [
        sa.func.coalesce(
            facts.dialect.instant(facts.binding.address(facts.runs, source.column), source.format), literal(0)
        )
        for source in sources
    ]


def _age(seen: list[Column], now: Instant) -> Column:
    since = literal(now - MONTH)
    known = sa.or_(*(moment > literal(0) for moment in seen))
    stale = sa.and_(known, *(moment < since for moment in seen))
    return sa.case((seen[0] >= since, literal("fresh")), (stale, literal("stale")), else_=literal(""))
