"""Calendar periods: whose newest unit stays. A store tells the newest of short slots; here they are joined.

A *slot* is a stretch of time that lies in one period of every kind: all days in UTC are made of whole days,
hours of whole hours, and any other zone's of quarters of an hour.
"""

from __future__ import annotations

import zoneinfo
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo

from afterrun.core.errors import UsageError, did_you_mean
from afterrun.core.facts import Key, Newest, Scalar, key_order
from afterrun.core.times import DAY, Instant, Micros, to_datetime

Period = tuple[object, ...]

HOUR: Final[Micros] = DAY // 24
QUARTER: Final[Micros] = HOUR // 4
"""The offset of every zone since 2000 is a multiple of it, and so is the time of nearly every change: only
St John's, until 2011, and Gaza changed clocks a minute after midnight."""

PERIODS: Final[Mapping[str, Callable[[datetime], Period]]] = {
    "keep_hourly": lambda local: (local.date(), local.hour, local.utcoffset()),  # 25 on the day with 25
    "keep_daily": lambda local: (local.date(),),
    "keep_weekly": lambda local: tuple(local.isocalendar()[:2]),
    "keep_monthly": lambda local: (local.year, local.month),
    "keep_yearly": lambda local: (local.year,),
}
"""What tells the period of a moment, by the rule that counts such periods; the shortest first."""


@lru_cache(maxsize=64)
def zone_of(name: str) -> ZoneInfo:
    """Return a zone by its IANA name. Raises `UsageError`."""
    try:
        return ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        hint = did_you_mean(name, zoneinfo.available_timezones())
        raise UsageError(
            f"{name[:40]!r} is no time zone{hint}: write an IANA name such as UTC or Europe/Berlin"
        ) from None


def slot_of(rules: Collection[str], zone: str) -> Micros:
    """Return the longest slot from which all these rules can tell their periods."""
    if zone not in ("UTC", "Etc/UTC"):
        return QUARTER
    return HOUR if "keep_hourly" in rules else DAY


def period_of(rule: str, end: Instant, zone: str) -> Period:
    """Return the period of a rule in which a unit ended."""
    return PERIODS[rule](to_datetime(end).astimezone(zone_of(zone)))


def period_text(rule: str, end: Instant, zone: str) -> str:
    """Name that period and its zone for people."""
    local = to_datetime(end).astimezone(zone_of(zone))
    formats = {"keep_hourly": "%Y-%m-%d %H:00", "keep_weekly": "%G-W%V", "keep_monthly": "%Y-%m"}
    return f"{local.strftime({**formats, 'keep_yearly': '%Y'}.get(rule, '%Y-%m-%d'))} ({zone})"


class _Best:
    """The newest units of the newest periods of one group under one rule."""

    __slots__ = ("_count", "_found")

    def __init__(self, count: int) -> None:
        self._count = count
        self._found: dict[Period, tuple[Instant, object, Key]] = {}

    def add(self, period: Period, unit: Newest) -> None:
        place = (unit.end, key_order(unit.key), unit.key)
        known = self._found.get(period)
        if known is None or place[:2] > known[:2]:
            self._found[period] = place
        if len(self._found) > 2 * self._count:  # an older period never comes back among the newest
            self._found = dict(self._newest())

    def keys(self) -> Iterable[Key]:
        return (place[2] for _, place in self._newest())

    def _newest(self) -> list[tuple[Period, tuple[Instant, object, Key]]]:
        ordered = sorted(self._found.items(), key=lambda item: item[1][:2], reverse=True)
        return ordered[: self._count]


def kept_by_period(
    found: Iterable[Newest], *, rules: Mapping[str, int], zone: str
) -> Mapping[str, frozenset[Key]]:
    """Return the keys of the units that each rule keeps, given the newest of each slot in any order."""
    best: dict[tuple[str, tuple[Scalar, ...]], _Best] = {}
    place = UTC if zone == "UTC" else zone_of(zone)
    for unit in found:
        local = to_datetime(unit.end).astimezone(place)
        for rule, count in rules.items():
            one = best.get((rule, unit.group))
            if one is None:
                one = best[rule, unit.group] = _Best(count)
            one.add(PERIODS[rule](local), unit)
    kept: dict[str, set[Key]] = {rule: set() for rule in rules}
    for (rule, _), one in best.items():
        kept[rule].update(one.keys())
    return {rule: frozenset(keys) for rule, keys in kept.items()}
