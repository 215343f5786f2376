"""Instants and durations.

Inside, an instant is an ``int``: microseconds since 1970-01-01T00:00:00 UTC. It is exact, compares fast and
fits every format a store uses. At the edges it is an aware ``datetime``.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from afterrun.core.errors import UsageError

Instant = int
Micros = int

SECOND: Final[Micros] = 1_000_000
DAY: Final[Micros] = 86_400 * SECOND
YEAR_2000: Final[Instant] = 946_684_800 * SECOND
"""Numbers below it are no times of ours: most often seconds in a column of milliseconds."""

CLOCK_SKEW: Final = timedelta(minutes=5)
"""How far an end may lie after ``now`` before it counts as unknown."""

WESTERNMOST: Final = timedelta(hours=12)
"""How far the clocks of the westernmost zone are behind UTC."""
EASTERNMOST: Final = timedelta(hours=14)
"""How far those of the easternmost zone are ahead."""

MAX_DURATION: Final = timedelta(days=36_500)
_UNITS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_DURATION: Final = re.compile(r"([0-9]{1,12})([smhdw])", re.ASCII)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def to_instant(moment: datetime) -> Instant:
    """Turn an aware ``datetime`` into microseconds since the epoch, without going through a float."""
    return micros(moment - _EPOCH)


def micros(duration: timedelta) -> Micros:
    """Turn a duration into whole microseconds."""
    return (duration.days * 86_400 + duration.seconds) * SECOND + duration.microseconds


def to_datetime(instant: Instant) -> datetime:
    """Turn microseconds since the epoch into an aware UTC ``datetime``."""
    return _EPOCH + timedelta(microseconds=instant)


def iso(instant: Instant | None) -> str | None:
    """Write an instant as RFC 3339 in UTC, with ``Z``; ``None`` stays ``None``."""
    if instant is None:
        return None
    moment = to_datetime(instant)
    timespec = "microseconds" if moment.microsecond else "seconds"
    return moment.isoformat(timespec=timespec).replace("+00:00", "Z")


def parse_duration(text: str) -> timedelta:
    """Read ``30d``: one whole number and one of s, m, h, d, w.

    Months and years are refused since they have no fixed length, and so is anything over 100 years.
    Raises `UsageError`.
    """
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise UsageError(
            f"{text[:40]!r} is no duration: write a whole number and one of s, m, h, d, w, such as 30d"
        )
    seconds = int(match[1]) * _UNITS[match[2]]
    if seconds > MAX_DURATION.total_seconds():
        raise UsageError(f"{text[:40]!r} is longer than 100 years: write forever to keep everything")
    return timedelta(seconds=seconds)


def format_duration(duration: timedelta) -> str:
    """Write a duration the way `parse_duration` reads it, in the largest unit that is exact."""
    seconds = int(duration.total_seconds())
    for unit in ("w", "d", "h", "m"):
        if seconds and seconds % _UNITS[unit] == 0 and (unit != "w" or seconds == _UNITS["w"]):
            return f"{seconds // _UNITS[unit]}{unit}"
    return f"{seconds}s"


def parse_timestamp(text: str) -> datetime:
    """Read an ISO 8601 timestamp that names its zone; without a zone it is refused. Raises `UsageError`."""
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise UsageError(f"{text[:40]!r} is no timestamp: write it like 2026-11-01T00:00:00Z") from None
    return utc(moment)


def utc(moment: datetime) -> datetime:
    """Turn a moment that names its zone into UTC. Raises `UsageError` without a zone."""
    if moment.tzinfo is None:
        raise UsageError(f"{str(moment)!r} has no time zone: add Z for UTC, or an offset like +02:00")
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise UsageError(f"{str(moment)!r} is outside the calendar") from None
