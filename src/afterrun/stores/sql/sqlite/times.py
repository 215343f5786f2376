"""What SQLite makes of a column's time: microseconds since 1970 in UTC, or `UNREADABLE`, never a guess."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Final

import sqlalchemy as sa

from afterrun.core.facts import UNREADABLE
from afterrun.core.times import EASTERNMOST, WESTERNMOST, YEAR_2000, Instant, micros, to_datetime
from afterrun.profiles.registry import EndFormat
from afterrun.stores.sql.dialect import Column
from afterrun.stores.sql.literals import literal

LATEST: Final[Instant] = 253_402_300_799_000_000
"""Last second of the year 9999; anything later is clamped to it."""

SCALES: Final[Mapping[EndFormat, int]] = {"epoch_s": 1_000_000, "epoch_ms": 1_000, "epoch_us": 1}
TEXT_TIME: Final = "[0-9][0-9][0-9][0-9]-[0-1][0-9]-[0-3][0-9][ T][0-2][0-9]:[0-5][0-9]:[0-6][0-9]*"
JULIAN_1970: Final = 2_440_587.5
DAY_MS: Final = 86_400_000.0


def instant(column: Column, spelling: EndFormat) -> Column:
    """Return microseconds; text that matches no known pattern, or an early number, is unreadable."""
    if spelling == "text_utc":
        return _text_instant(column)
    if spelling == "text_local":
        return _local_instant(column)
    scale = SCALES[spelling]
    number = sa.func.typeof(column).in_([literal("integer"), literal("real")])
    micros = sa.cast(sa.func.min(column * literal(scale), literal(LATEST)), sa.Integer)
    return sa.case(
        (column.is_(None), sa.null()),
        (sa.and_(number, column >= literal(YEAR_2000 // scale)), micros),
        else_=literal(UNREADABLE),
    )


def _text_instant(column: Column) -> Column:
    # SQLite reads milliseconds; a part of one is rounded up, so that nothing seems older than it is.
    day = sa.func.substr(column, 1, 10)
    known = sa.and_(
        sa.func.typeof(column) == literal("text"),
        column.op("GLOB")(literal(TEXT_TIME)),
        sa.func.date(day, literal("+0 days")) == day,  # no 31st of February
    )
    days = sa.func.julianday(column) - literal(JULIAN_1970)
    millis = sa.cast(sa.func.round(days * literal(DAY_MS)), sa.Integer)
    micros = millis * literal(1_000) + literal(999)
    return sa.case(
        (column.is_(None), sa.null()),
        (sa.and_(known, millis >= literal(YEAR_2000 // 1_000)), micros),
        else_=literal(UNREADABLE),
    )


def _local_instant(column: Column) -> Column:
    """Return the latest instant that text without a zone may mean, and none later than the clock."""
    read = _text_instant(column)
    zoned = sa.func.substr(column, len("2026-01-01 ")).op("GLOB")(literal("*[-+Zz]*"))
    latest = read + literal(micros(WESTERNMOST))
    clock = sa.cast(sa.func.strftime(literal("%s"), literal("now")), sa.Integer) * literal(1_000_000)
    return sa.case(
        (column.is_(None), sa.null()),
        (sa.or_(read == literal(UNREADABLE), zoned), read),
        (latest <= clock, latest),
        (read - literal(micros(EASTERNMOST)) <= clock, clock),
        else_=read,
    )


def newest(column: Column, spelling: EndFormat) -> Column:
    """Return the newest time of a group; one that makes no sense makes the group's unreadable."""
    times = instant(column, spelling)
    unreadable = sa.func.min(times) == literal(UNREADABLE)
    return sa.case((unreadable, literal(UNREADABLE)), else_=sa.func.max(times))


def bound(instant: Instant, spelling: EndFormat) -> object:
    """Return the first number that is not before; for text, a day so late that no zone reaches it."""
    if spelling in ("text_utc", "text_local"):
        return (to_datetime(instant) + timedelta(days=2)).strftime("%Y-%m-%d")
    return -(-instant // SCALES[spelling])
