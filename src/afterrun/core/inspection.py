"""What `inspect` says of a store: values, and the look ahead at what some ages would let go.

A look ahead judges by the same facts and rules as a plan. Up to `EXACT_UNITS` candidates it judges all;
beyond that it judges pages spread over each range of age and scales them, and says how far they vary.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Final, NamedTuple

from afterrun.core.facts import Unit
from afterrun.core.judge import Rules, Verdict, judge, page_cutoff
from afterrun.core.plan import Plan, judged_pages
from afterrun.core.space import Room, Space
from afterrun.core.store import Cursor, Page, Schema, Store
from afterrun.core.times import DAY, Instant, iso

HORIZONS: Final = (7, 30, 90)
"""Days of ``keep_for`` that an inspection looks ahead at, and a plan besides what was asked."""

EXACT_UNITS: Final = 20_000
SAMPLED_PAGES: Final = 24
"""Pages read of each range of age, beyond `EXACT_UNITS`."""

PAGE: Final = 50
WALK: Final = 1_000


class TableSize(NamedTuple):
    """Rows of a table, its own bytes, about how many of these are ``content``, and those of its indexes."""

    name: str
    rows: int
    table: int
    indexes: int
    content: int
    rows_estimated: bool

    @property
    def total(self) -> int:
        """Return all its bytes."""
        return self.table + self.indexes


class Ended(NamedTuple):
    """Ended roots of one stream by whole days since their end."""

    stream: int
    days: int
    units: int


@dataclass(slots=True)
class Held:
    """Units that stay for one reason, the oldest known time among them, and ids of a few."""

    count: int = 0
    oldest: Instant | None = None
    ids: list[str] = field(default_factory=list)

    def add(self, count: int, oldest: Instant | None) -> None:
        """Count more of them."""
        self.count += count
        known = [moment for moment in (self.oldest, oldest) if moment is not None]
        self.oldest = min(known, default=None)


@dataclass(slots=True, kw_only=True)
class Ahead:
    """What an age would let go. ``error`` is the part by which bytes may be off, 19 times in 20."""

    days: int
    units: int = 0
    rows: int = 0
    bytes: int = 0
    estimated: bool = False
    error: float = 0.0


@dataclass(slots=True)
class LookAhead:
    """What ages would let go, and what holds units of the ages looked at."""

    ahead: list[Ahead]
    protected: dict[str, Held] = field(default_factory=dict)
    blocked: dict[str, Held] = field(default_factory=dict)
    judged: int = 0


class Measured(NamedTuple):
    """One page of a sample: roots on it, and for each age the units, rows and bytes that would go."""

    roots: int
    going: Sequence[tuple[int, int, int]]


def age_rules(plan: Plan) -> list[Rules]:
    """Return a plan's rules with each of the `HORIZONS` in place of its own rules of age, the widest first.

    All else is as asked: grace, pins, narrower rules, caps and counts, which age has no part in.
    """
    asked = plan.rules
    policies = [
        replace(asked.policy, keep_for=timedelta(days=days), before=None) for days in sorted(HORIZONS)
    ]
    return [
        replace(asked, policy=policy, cutoff=page_cutoff(policy, asked.now, asked.cap)) for policy in policies
    ]


class Looker:
    """Looks ahead on one store, under what `age_rules` make of a plan."""

    def __init__(
        self,
        store: Store,
        plan: Plan,
        *,
        place: Callable[[int, Instant], Cursor],
        bytes_a_row: float,
        ahead: list[Ahead] | None = None,
    ) -> None:
        """Prepare; ``place`` returns the cursor of a stream at an instant.

        ``bytes_a_row`` is what a row takes on disk beside its content: its place in indexes and pages.
        What is found is added to ``ahead``.
        """
        self._store = store
        self._bytes_a_row = bytes_a_row
        self._now = plan.rules.now
        self._place = place
        self._rules = age_rules(plan)
        self._plan = replace(plan, rules=self._rules[0])
        self._found = LookAhead(ahead or [Ahead(days=days) for days in HORIZONS])

    def look(self, ended: Sequence[Ended]) -> LookAhead:
        """Return what would go, given how many roots ended when."""
        old = [part for part in ended if part.days >= HORIZONS[0]]
        if sum(part.units for part in old) <= EXACT_UNITS:
            self._judge_all()
        else:
            self.sample(old)
        return self._found

    def sample(self, ended: Sequence[Ended]) -> None:
        """Estimate what would go of these roots, and how far the estimate may be off."""
        for ages in _ranges(ended).values():
            self._judge_some(ages)
        for ahead in self._found.ahead:
            ahead.estimated = any(part.days >= ahead.days or part.days < min(HORIZONS) for part in ended)
            ahead.error = 2 * math.sqrt(ahead.error) / ahead.bytes if ahead.bytes else 0.0

    def _judge_all(self) -> None:
        for page in judged_pages(self._store, self._plan, limit=WALK):
            measured = self._measure([unit for unit, _ in page.units], scale=1.0)
            for ahead, (units, rows, size) in zip(self._found.ahead, measured.going, strict=True):
                ahead.units += units
                ahead.rows += rows
                ahead.bytes += size

    def _judge_some(self, ages: Sequence[Ended]) -> None:
        """Judge pages spread evenly over the roots of one stream and range of age."""
        stream, total = ages[0].stream, sum(part.units for part in ages)
        cutoff = self._now - min(part.days for part in ages) * DAY
        count = SAMPLED_PAGES if self._store.streams()[stream].indexed else 1
        read = [self._page(ages, total * (2 * i + 1) // (2 * count), cutoff) for i in range(count)]
        roots = sum(len(page.units) for page in read)
        pages = [self._measure(page.units, scale=total / roots) for page in read if page.units]
        self._scale(pages, total)

    def _page(self, ages: Sequence[Ended], rank: int, cutoff: Instant) -> Page:
        """Read a page where about ``rank`` roots of these ages are older."""
        for part in sorted(ages, key=lambda part: -part.days):
            if rank < part.units:
                within = DAY - DAY * rank // part.units
                place = self._place(part.stream, self._now - part.days * DAY - within)
                return self._store.page(place, cutoff=cutoff, limit=PAGE)
            rank -= part.units
        return Page([], 0, None)

    def _scale(self, pages: Sequence[Measured], total: int) -> None:
        """Scale pages to all roots of their range; `error` gathers the variance of the bytes."""
        roots = sum(page.roots for page in pages)
        for place, ahead in enumerate(self._found.ahead):
            parts = [page.going[place] for page in pages]
            units, rows, size = (sum(part[i] for part in parts) for i in range(3))
            if not roots:
                continue
            ahead.units += round(units * total / roots)
            ahead.rows += round(rows * total / roots)
            ahead.bytes += round(size * total / roots)
            mean = size / roots
            off = sum((page.going[place][2] - mean * page.roots) ** 2 for page in pages)
            if len(pages) > 1:
                deviation = off / (len(pages) - 1) * len(pages)
                ahead.error += deviation * (total / roots) ** 2

    def _measure(self, units: Sequence[Unit], *, scale: float) -> Measured:
        """Judge units under every age, and measure what each would let go."""
        self._found.judged += len(units)
        going: list[tuple[int, int, int]] = []
        sizes: dict[int, tuple[int, int]] = {}
        self._note_held(units, scale)
        for rules in self._rules:
            gone = [unit for unit in units if judge(unit, rules).verdict is Verdict.EXPIRED]
            if len(gone) not in sizes:  # a longer age lets go a part of what a shorter one does
                sizes[len(gone)] = self._store.measure(gone) if gone else (0, 0)
            content, rows = sizes[len(gone)]
            going.append((len(gone), rows, round(content + rows * self._bytes_a_row)))
        return Measured(len(units), going)

    def _note_held(self, units: Sequence[Unit], scale: float) -> None:
        counts: Counter[tuple[str, str]] = Counter()
        oldest: dict[tuple[str, str], Instant] = {}
        for unit in units:
            if unit.root_end is None:  # counted apart: no page finds them all
                continue
            judgement = judge(unit, self._rules[0])
            if judgement.verdict in (Verdict.EXPIRED, Verdict.RECENT):
                continue
            # as a plan counts: what is blocked counts there, whatever else holds it
            kind = "blocked" if judgement.blocked else "protected"
            reasons = judgement.blocked or judgement.protected
            for name in {reason.name for reason in reasons}:
                counts[kind, name] += 1
                oldest[kind, name] = min(oldest.get((kind, name), unit.root_end), unit.root_end)
        for (kind, name), count in counts.items():
            held = self._found.blocked if kind == "blocked" else self._found.protected
            held.setdefault(name, Held()).add(round(count * scale), oldest.get((kind, name)))


def _ranges(ended: Sequence[Ended]) -> Mapping[tuple[int, int], list[Ended]]:
    """Group ended roots by stream and range of age."""
    ranges: dict[tuple[int, int], list[Ended]] = {}
    for part in ended:
        age = max((days for days in HORIZONS if days <= part.days), default=0)  # by a narrower rule alone
        ranges.setdefault((part.stream, age), []).append(part)
    return ranges


@dataclass(slots=True, kw_only=True)
class Inspection:
    """What a store holds. Sizes are bytes, ``growth`` is for each day of the last 30."""

    store: str
    profile: str
    engine: str
    schema: Schema
    now: Instant
    exact: bool
    runs: Mapping[str, int]
    stuck: Held
    oldest: Instant | None
    newest: Instant | None
    growth: Mapping[str, float]
    tables: Sequence[TableSize]
    look: LookAhead
    space: Space
    rooms: Sequence[Room]
    seconds: float = 0.0

    def as_json(self) -> dict[str, object]:
        """Return the object that ``--json`` prints."""
        return {
            "store": self.store,
            "profile": self.profile,
            "engine": self.engine,
            "schema": {"version": self.schema.version, "read": self.schema.read},
            "now": iso(self.now),
            "exact": self.exact,
            "runs": dict(self.runs),
            "stuck": _held_json(self.stuck),
            "oldest": iso(self.oldest),
            "newest": iso(self.newest),
            "growth": dict(self.growth),
            "tables": [
                {
                    "name": table.name,
                    "rows": table.rows,
                    "bytes": table.total,
                    "table_bytes": table.table,
                    "index_bytes": table.indexes,
                    "content_bytes": table.content,
                    "rows_estimated": table.rows_estimated,
                }
                for table in self.tables
            ],
            "would_free": [
                {
                    "keep_for": f"{ahead.days}d",
                    "units": ahead.units,
                    "rows": ahead.rows,
                    "bytes": ahead.bytes,
                    "units_estimated": ahead.estimated,
                    "error": round(ahead.error, 4),
                }
                for ahead in self.look.ahead
            ],
            "stays": {
                "blocked": {name: _held_json(held) for name, held in sorted(self.look.blocked.items())},
                "protected": {name: _held_json(held) for name, held in sorted(self.look.protected.items())},
            },
            "space": self.space.as_json(),
            "reclaim": {
                "method": self.space.method,
                "worth": self.space.worth,
                "room": [room.as_json() for room in self.rooms],
            },
            "seconds": round(self.seconds, 6),
        }


def _held_json(held: Held) -> dict[str, object]:
    return {"count": held.count, "oldest": iso(held.oldest)}
