"""What a plan says besides what was asked: what other ages would do, what stays and how old it is, and when.

It judges the units that the plan reads anyway under a few more rules, and goes on to the younger ones that
only these rules let go. Of many such it judges a sample, as `inspect` does, and says so. What no page meets
comes from aggregates.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import Final, NamedTuple, Protocol

from afterrun.core.facts import Unit, key_text
from afterrun.core.inspection import EXACT_UNITS, HORIZONS, Ahead, Ended, Held, LookAhead, Looker, age_rules
from afterrun.core.judge import Judgement, Rules, Verdict, judge
from afterrun.core.plan import (
    LARGE_UNIT_ROWS,
    MAX_UNIT_ROWS,
    SAMPLE,
    SAMPLE_A_PAGE,
    Plan,
    Survey,
    Surveyed,
    judged_pages,
)
from afterrun.core.report import Report
from afterrun.core.store import Cursor, Store
from afterrun.core.times import DAY, Instant, iso

NAMED: Final = 5
"""Ids that are named of the units that stay for one reason."""

EPOCH: Final = date(1970, 1, 1)


class Standings(NamedTuple):
    """What one aggregate says of all runs: ended roots by day, those no page meets, and stuck runs."""

    ended: Sequence[Ended]
    outside: LookAhead
    stuck: Held


class Surroundings(Protocol):
    """What a store says of units that pages do not read."""

    def standings(self, now: Instant) -> Standings:
        """Group all runs."""

    def cursor_at(self, stream: int, moment: Instant) -> Cursor:
        """Return the place in a stream where a page up to this instant ends."""

    def examples(self, reason: str, now: Instant, *, limit: int) -> Sequence[str]:
        """Return ids of runs that are ``stuck``, or of roots that an unknown fact of their own blocks."""

    def kept_by_day(self, *, cutoff: Instant | None, now: Instant) -> Mapping[int, int]:
        """Count the ended roots that pages never meet by days since 1970 at their end."""


class OtherKind(Protocol):
    """Counts units of a kind of which an outlook says no more than the plan does."""

    report: Report

    def expired(self, *, page: int) -> Iterator[Unit]:
        """Read all candidates; the report is whole at the end."""


@dataclass(frozen=True, slots=True)
class Day:
    """Units whose root ended on one day in UTC, by what the asked policy does with them."""

    day: date
    kept: int
    expired: int


class Outlook:
    """One plan with its outlook. Read `expired` to its end; then everything here is whole.

    Attributes:
        report: what the asked policy would do, exactly as without an outlook.
        ahead: what 7, 30 and 90 days would do in place of the asked age; bytes are of content.
        blocked: units that stay for ever, by reason.
        protected: units that something holds that can end, by reason.
        stuck: live runs without a sign of life for 30 days.
        days: the calendar, oldest day first, if there is one.
    """

    def __init__(
        self,
        store: Store,
        around: Surroundings,
        plan: Plan,
        *,
        calendar: bool = False,
        others: Sequence[OtherKind] = (),
    ) -> None:
        """Prepare; nothing is read yet. ``others`` count units of other kinds, of which it says no more."""
        self._store = store
        self._around = around
        self._plan = plan
        self._rules = age_rules(plan)
        self._survey = Survey(store, plan, watch=self._note)
        self._others = others
        self._calendar = calendar
        self._by_day: Counter[tuple[int, bool]] = Counter()
        self._asked_rows = [0] * len(self._rules)
        self._sampled: list[tuple[int, int]] = []
        self.ahead = [Ahead(days=days) for days in sorted(HORIZONS)]
        self.blocked: dict[str, Held] = {}
        self.protected: dict[str, Held] = {}
        self.stuck = Held()
        self.days: list[Day] = []

    @property
    def report(self) -> Report:
        """Return what the asked policy would do."""
        return self._survey.report

    def expired(self, *, page: int) -> Iterator[Unit]:
        """Read all candidates once; yield the units that the asked policy lets go."""
        for _, unit in self.going(page=page):
            yield unit

    def going(self, *, page: int) -> Iterator[tuple[str, Unit]]:
        """Yield these units, each after the name of its kind."""
        for unit in self._survey.expired(page=page):
            yield self._plan.kind, unit
        standings = self._around.standings(self._plan.rules.now)
        self._look_further(standings.ended, page=page)
        self._finish_held(standings)
        if self._calendar:
            self._finish_days()
        for survey in self._others:
            for unit in survey.expired(page=page):
                yield survey.report.kind, unit
            self.report.add(survey.report)

    def _note(self, page: Surveyed) -> None:
        asked, gone = _general(self._plan.rules), page.going
        rows = {0: 0, len(gone): page.rows}
        for place, (rules, ahead) in enumerate(zip(self._rules, self.ahead, strict=True)):
            general = _general(rules)
            if asked is None or general is None or general < asked:  # only age tells them apart
                gone = self._gone(gone, rules)
            ahead.units += len(gone)
            self._asked_rows[place] += self._rows(gone, rows)
        self._note_kept([unit for unit, judgement in page.units if judgement.verdict is not Verdict.EXPIRED])
        for unit, judgement in page.units:
            self._note_held(unit, judgement)
        if self._calendar:
            going = {unit.key for unit in page.going}
            self._by_day.update(
                (unit.root_end // DAY, unit.key in going)
                for unit, _ in page.units
                if unit.root_end is not None
            )

    def _note_kept(self, units: Sequence[Unit]) -> None:
        """Judge units that the asked policy keeps under the other ages."""
        gone, rows = self._gone(units, self._rules[0]), {0: 0}
        if self._rows(gone, rows) > LARGE_UNIT_ROWS:
            weights = self._store.weigh(gone)
            gone = [unit for unit, weight in zip(gone, weights, strict=True) if weight <= MAX_UNIT_ROWS]
        if gone and len(self._sampled) * SAMPLE_A_PAGE < SAMPLE:
            self._sampled.append(self._store.measure(gone[:SAMPLE_A_PAGE]))
        for rules, ahead in zip(self._rules, self.ahead, strict=True):
            gone = self._gone(gone, rules)
            ahead.units += len(gone)
            ahead.rows += self._rows(gone, rows)

    @staticmethod
    def _gone(units: Sequence[Unit], rules: Rules) -> Sequence[Unit]:
        return [unit for unit in units if judge(unit, rules).verdict is Verdict.EXPIRED]

    def _rows(self, units: Sequence[Unit], known: dict[int, int]) -> int:
        """Count rows, but of so many units only once: a longer age lets go a part of what a shorter does."""
        if len(units) not in known:
            known[len(units)] = sum(self._store.count(units).values())
        return known[len(units)]

    def _note_held(self, unit: Unit, judgement: Judgement) -> None:
        if judgement.verdict is Verdict.BLOCKED:
            held, reasons = self.blocked, judgement.blocked
        elif judgement.verdict is Verdict.PROTECTED:
            held, reasons = self.protected, judgement.protected
        else:
            return
        for name in {reason.name for reason in reasons}:
            part = held.setdefault(name, Held())
            part.add(1, unit.end if unit.root_end is None else unit.root_end)
            if held is self.blocked and len(part.ids) < NAMED:
                part.ids.append(key_text(unit.key))

    def _look_further(self, ended: Sequence[Ended], *, page: int) -> None:
        """Judge the roots that are too young for the asked policy, but not for every other age."""
        asked, widest = self._plan.rules.cutoff, self._rules[0].cutoff
        younger: list[Ended] = []
        if widest is not None and (asked is None or asked < widest):
            younger = _younger(ended, self._plan.rules.now, asked, widest)
        few = sum(part.units for part in younger) <= EXACT_UNITS
        if few and younger:
            self._judge_all(asked, page=page)
        self._finish_bytes()
        if not few:
            looker = Looker(
                self._store, self._plan, place=self._around.cursor_at, bytes_a_row=0.0, ahead=self.ahead
            )
            looker.sample(younger)

    def _judge_all(self, since: Instant | None, *, page: int) -> None:
        for stream in self._plan.streams:
            plan = replace(self._plan, rules=self._rules[0], streams=(stream,))
            start = None if since is None else self._around.cursor_at(stream, since)
            for judged in judged_pages(self._store, plan, limit=page, start=start):
                self._note_kept([unit for unit, _ in judged.units])

    def _finish_bytes(self) -> None:
        """Estimate bytes: of what the asked policy lets go as in its report, of the rest by a sample."""
        report = self.report
        asked = sum(report.rows.values())
        size, sampled = (sum(part) for part in zip(*self._sampled, strict=True)) if self._sampled else (0, 0)
        for place, ahead in enumerate(self.ahead):
            ahead.bytes = report.logical_bytes * self._asked_rows[place] // asked if asked else 0
            ahead.bytes += size * ahead.rows // sampled if sampled else 0
            ahead.rows += self._asked_rows[place]

    def _finish_held(self, standings: Standings) -> None:
        """Take counts from the report, ages and ids from wherever they are known."""
        units, now = self.report.units, self._plan.rules.now
        parts = (
            (self.blocked, units.blocked, standings.outside.blocked),
            (self.protected, units.protected, standings.outside.protected),
        )
        for held, counts, outside in parts:
            for name, count in counts.items():
                part = held.setdefault(name, Held())
                part.add(0, outside.get(name, Held()).oldest)
                if held is self.blocked and len(part.ids) < min(NAMED, count) and name in outside:
                    more = self._around.examples(name, now, limit=NAMED)
                    part.ids = list(dict.fromkeys([*more, *part.ids]))[:NAMED]
                part.count = count
        self.stuck = standings.stuck
        if self.stuck.count:
            self.stuck.ids = list(self._around.examples("stuck", now, limit=NAMED))

    def _finish_days(self) -> None:
        rules = self._plan.rules
        for day, count in self._around.kept_by_day(cutoff=rules.cutoff, now=rules.now).items():
            self._by_day[day, False] += count
        self.days = [
            Day(EPOCH + timedelta(days=day), self._by_day[day, False], self._by_day[day, True])
            for day in sorted({day for day, _ in self._by_day})
        ]

    def as_json(self) -> dict[str, object]:
        """Return the object that ``plan --json`` prints: the report, then the outlook."""
        return {
            **self.report.as_json(),
            "other_ages": [
                {
                    "keep_for": f"{ahead.days}d",
                    "units": ahead.units,
                    "rows": ahead.rows,
                    "logical_bytes": ahead.bytes,
                    "estimated": ahead.estimated,
                    "error": round(ahead.error, 4),
                }
                for ahead in self.ahead
            ],
            "stays": {
                "blocked": {name: _held_json(held, ids=True) for name, held in sorted(self.blocked.items())},
                "protected": {name: _held_json(held) for name, held in sorted(self.protected.items())},
            },
            "stuck": _held_json(self.stuck, ids=True),
            "calendar": [
                {"day": day.day.isoformat(), "kept": day.kept, "expired": day.expired} for day in self.days
            ]
            if self._calendar
            else None,
        }


def _general(rules: Rules) -> Instant | None:
    """Return the instant before which a unit that no narrower rule matches must have ended."""
    return rules.policy.age_limit(rules.now, rules.policy.general)


def _younger(ended: Sequence[Ended], now: Instant, since: Instant | None, until: Instant) -> list[Ended]:
    """Return about how many roots ended between these moments; a day that is cut is taken in part."""
    age, youngest = math.inf if since is None else (now - since) / DAY, (now - until) // DAY
    return [
        part._replace(units=math.ceil(part.units * min(age - part.days, 1.0)))
        for part in ended
        if youngest <= part.days < age
    ]


def _held_json(held: Held, *, ids: bool = False) -> dict[str, object]:
    return {"count": held.count, "oldest": iso(held.oldest), **({"ids": held.ids} if ids else {})}
