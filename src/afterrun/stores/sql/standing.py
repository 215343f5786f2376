"""How the runs of a store stand, in one pass over the run table: by state, age, and what is unknown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import sqlalchemy as sa

from afterrun.core.facts import UNREADABLE, Scalar, Status, key_order, key_text
from afterrun.core.times import CLOCK_SKEW, DAY, Instant, micros
from afterrun.profiles.model import EndSource
from afterrun.stores.sql.binding import RUN
from afterrun.stores.sql.dialect import Column, Rows
from afterrun.stores.sql.facts import Facts
from afterrun.stores.sql.literals import literal, one_of
from afterrun.stores.sql.missing_parents import MissingParents

MONTH: Final = 30 * DAY
STUCK: Final = "stuck"
PART_ROWS: Final = 20_000
"""Rows that one statement groups."""

KNOWN: Final = "known"
UNKNOWN_END, UNREADABLE_END, FUTURE_END = -1, -2, -3
REASONS: Final = {
    UNKNOWN_END: "unknown-end-time",
    UNREADABLE_END: "unreadable-end-time",
    FUTURE_END: "future-end-time",
}
"""Why an end is not known, by what a statement gives instead of days."""

AGES: Final = ("", "fresh", "stale")
"""Ages of a `Standing`, by what a statement gives for them."""


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
    groups = _Groups()
    fast = MissingParents.usable(facts)
    after: Scalar = None
    most = PART_ROWS if facts.dialect.readers_block else None
    seen = PART_ROWS
    made: dict[object, sa.Select[Any]] = {}
    while seen == PART_ROWS:
        bound = facts.dialect.bind(after)
        kind = (type(after), type(bound))  # to make a statement takes a tenth of the time that it runs
        if kind not in made:
            made[kind] = _grouped(facts, _rows(facts, after, most, joined=not fast), now, placed=bool(most))
        seen, last = groups.add(facts.dialect.execute(made[kind], {"after": bound}))
        after = max(after, last, key=key_order)
        seen = seen if most else 0
    if fast:
        _move_roots(facts, groups, now)
    return groups.standings()


def _move_roots(facts: Facts, groups: _Groups, now: Instant) -> None:
    """Count the runs whose parent is missing as the roots that they are."""
    lookup = MissingParents(facts)
    rows = _run_columns(facts, sa.literal_column("1")).select_from(facts.source)
    found = _grouped(facts, rows.where(facts.dialect.keys_in(lookup.tie)).subquery("rows"), now, placed=False)
    for ties in lookup.rows():
        groups.move(facts.dialect.execute(found, {"keys": facts.dialect.bind_keys(ties)}))


class _Groups:
    """Counts of runs that are alike, as parts of the table are grouped one after another."""

    def __init__(self) -> None:
        """Start empty."""
        self._counts: Counter[Any] = Counter()
        self._oldest: dict[Any, Instant] = {}

    def add(self, rows: Rows) -> tuple[int, Scalar]:
        """Add groups; return how many runs they have, and the greatest place of one."""
        runs, place = 0, None
        for *alike, count, first, last in rows:
            key = _Alike(*alike)
            self._counts[key] += count
            if first is not None:
                self._oldest[key] = min(self._oldest.get(key, first), first)
            runs += count
            place = max(place, last, key=key_order)
        return runs, place

    def move(self, roots: Rows) -> None:
        """Add groups of roots that were counted as children until now."""
        self.add(roots)
        for *alike, count, _, _ in roots:
            self._counts[_Alike(*alike)._replace(root=0)] -= count

    def standings(self) -> list[Standing]:
        """Return them in words."""
        return [
            Standing(
                key.status,
                root=bool(key.root),
                stream=key.stream,
                end=REASONS.get(key.days, KNOWN),
                days=max(key.days, 0),
                age=AGES[key.age],
                count=count,
                oldest=self._oldest.get(key),
            )
            for key, count in self._counts.items()
            if count > 0
        ]


class _Alike(NamedTuple):
    """What the runs of a group have in common, as a statement gives it."""

    days: int
    root: int
    stream: int
    age: int
    status: Scalar


def _grouped(facts: Facts, rows: sa.Subquery, now: Instant, *, placed: bool) -> sa.Select[Any]:
    """Return the statement that groups rows, with the greatest of their places if they are ``placed``.

    What is made of a time stands outside the sub-select, so that each time is worked out once a row. Groups
    are told apart by numbers first, which sort faster than words.
    """
    ends = [rows.c[_name(source)] for source in facts.tree.end]
    seen = [sa.func.coalesce(rows.c[_name(source)], literal(0)) for source in _signs(facts)]
    oldest = _oldest(seen)
    alike = [
        _days(_first(ends), now).label("days"),
        rows.c.root,
        _stream(ends).label("stream"),
        _age(seen, now).label("age"),
        rows.c.status,
    ]
    real = sa.case((oldest > literal(0), oldest), else_=sa.null())
    by: list[Column] = [sa.literal_column(str(place)) for place in range(1, len(alike) + 1)]
    last = sa.func.max(rows.c.tie) if placed else sa.null()  # not every key has a greatest
    return sa.select(*alike, sa.func.count(), sa.func.min(real), last).group_by(*by)


def _rows(facts: Facts, after: Scalar, most: int | None, *, joined: bool) -> sa.Subquery:
    """Return the next rows, in the order in which the table holds them, or all.

    Roots are those whose parent is missing; without ``joined``, for now, only those that have none set.
    """
    tie = facts.dialect.tie(facts.tree.table, RUN, facts.key)
    child = facts.has_parent() if joined else facts.parent.is_not(None)
    part = _run_columns(facts, sa.case((child, literal(0)), else_=literal(1)))
    part = part.select_from(facts.with_parents(facts.source) if joined else facts.source)
    if most:
        part = part.order_by(tie).limit(most)
    if after is not None:
        part = part.where(tie > facts.dialect.parameter("after", after))
    return part.subquery("rows")


def _run_columns(facts: Facts, root: Column) -> sa.Select[Any]:
    """Return status, root or not, all times, and the place of runs."""
    return sa.select(
        facts.dialect.order_key(facts.status).label("status"),
        root.label("root"),
        *(time.label(name) for name, time in _times(facts).items()),
        facts.dialect.tie(facts.tree.table, RUN, facts.key).label("tie"),
    )


def examples(facts: Facts, reason: str, now: Instant, *, limit: int) -> list[str]:
    """Return ids of runs that are stuck, or of roots that this unknown fact of their own blocks."""
    seen = _seen(facts)
    statuses = facts.binding.model.statuses
    live = [word for word, meaning in statuses.items() if meaning is Status.LIVE]
    status = facts.dialect.order_key(facts.status)
    if reason == STUCK:
        where = [_one_of(status, live), _age(seen, now) == literal(AGES.index("stale"))]
    elif reason == "unknown-status":
        known = sa.and_(status.is_not(None), _one_of(status, list(statuses)))
        where = [sa.not_(facts.has_parent()), sa.not_(known)]
    else:
        ended = [word for word in statuses if word not in live]
        days = next(number for number, name in REASONS.items() if name == reason)
        where = [
            sa.not_(facts.has_parent()),
            _one_of(status, ended),
            _days(facts.end, now) == literal(days),
        ]
    statement: sa.Select[Any] = (
        sa.select(facts.key)
        .select_from(facts.with_parents(facts.source))
        .where(*where)
        .order_by(_oldest(seen), facts.key)
        .limit(limit)
    )
    return [key_text(row[0]) for row in facts.dialect.execute(statement)]


def _one_of(status: Column, words: Sequence[Scalar]) -> Column:
    usable = [word for word in words if isinstance(word, str | int)]
    return one_of(status, usable) if usable else sa.false()


def _oldest(seen: Sequence[Column]) -> Column:
    """Return the first of these times that is known, else something that is no time."""
    oldest = seen[0]
    for other in seen[1:]:
        oldest = sa.case((oldest > literal(0), oldest), else_=other)
    return oldest


def _times(facts: Facts) -> Mapping[str, Column]:
    """Return the times of all sources, each once; NULL, too, where an earlier source decides the end."""
    times: dict[str, Column] = {}
    earlier: list[Column] = []
    for source in facts.tree.end:
        time = facts.ends.instant(facts.runs, source)
        times[_name(source)] = sa.case((sa.and_(*earlier), time), else_=sa.null()) if earlier else time
        earlier.append(facts.ends.raw(facts.runs, source).is_(None))
    for source in _signs(facts):
        times[_name(source)] = facts.ends.instant(facts.runs, source)
    return times


def _name(source: EndSource) -> str:
    """Return the name of a source's time in a sub-select; a source for two purposes has one."""
    return f"{source.format} of {source.label}"


def _first(ends: Sequence[Column]) -> Column:
    """Return the end: that of the first source that is not NULL, readable or not."""
    return sa.func.coalesce(*ends) if len(ends) > 1 else ends[0]


def _days(end: Column, now: Instant) -> Column:
    """Return the whole days since an end, or the number of the reason why it is not known."""
    latest = literal(now + micros(CLOCK_SKEW))
    return sa.case(
        (end.is_(None), literal(UNKNOWN_END)),
        (end == literal(UNREADABLE), literal(UNREADABLE_END)),
        (end > latest, literal(FUTURE_END)),
        # what ended within the skew of clocks after now ended today
        (end >= literal(now), literal(0)),
        else_=(literal(now - 1) - end) // literal(DAY),
    )


def _stream(ends: Sequence[Column]) -> Column:
    """Return the place of the source that decides; a time is NULL exactly where its column is."""
    cases = [(end.is_not(None), literal(place)) for place, end in enumerate(ends)]
    return sa.case(*cases, else_=literal(-1))


def _signs(facts: Facts) -> Sequence[EndSource]:
    return facts.tree.seen or facts.tree.end


def _seen(facts: Facts) -> list[Column]:
    """Return the times that tell of a run, the first of which says when it was made; 0 where unknown."""
    return [sa.func.coalesce(facts.ends.instant(facts.runs, source), literal(0)) for source in _signs(facts)]


def _age(seen: Sequence[Column], now: Instant) -> Column:
    """Return the place of the age in `AGES`."""
    since = literal(now - MONTH)
    known = sa.or_(*(moment > literal(0) for moment in seen))
    stale = sa.and_(known, *(moment < since for moment in seen))
    return sa.case(
        (seen[0] >= since, literal(AGES.index("fresh"))),
        (stale, literal(AGES.index("stale"))),
        else_=literal(AGES.index("")),
    )
