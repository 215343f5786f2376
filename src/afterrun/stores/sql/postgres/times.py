"""What PostgreSQL makes of a column's time: microseconds since 1970 in UTC, or `UNREADABLE`, no guess."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Final

import sqlalchemy as sa

from afterrun.core.facts import UNREADABLE
from afterrun.core.times import EASTERNMOST, WESTERNMOST, YEAR_2000, Instant, micros, to_datetime
from afterrun.profiles.registry import EndFormat
from afterrun.stores.sql.dialect import Column
from afterrun.stores.sql.literals import literal
from afterrun.stores.sql.postgres.column_types import Stored, type_of

LATEST: Final[Instant] = 253_402_300_799_000_000
"""Last second of the year 9999; anything later is clamped to it."""

SCALES: Final[Mapping[EndFormat, int]] = {"epoch_s": 1_000_000, "epoch_ms": 1_000, "epoch_us": 1}
MOMENTS: Final = ("timestamp with time zone", "timestamp without time zone")
TEXT_TIME: Final = (
    "^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[ T]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]"
    "([.][0-9]{1,9})?(Z|[+-](0[0-9]|1[0-5]):[0-5][0-9])?$"
)
TEXTS: Final[Sequence[EndFormat]] = ("text_utc", "text_local")
DAYS: Final = 10
"""Characters of a date."""


def instant(column: Column, spelling: EndFormat) -> Column:
    """Return microseconds; what has another type, matches no pattern or is too early, is unreadable."""
    kind = column.type.kind if isinstance(column.type, Stored) else "any"
    if type_of(column) in MOMENTS:  # it says itself what it means, whatever another database needs
        zoned = spelling != "text_local" or type_of(column) == MOMENTS[0]
        read = _from_moment(column) if zoned else _latest(_from_moment(column))
        return _or_unreadable(column, _is_moment(column), read)
    if spelling in TEXTS and kind == "text":
        read = _from_moment(_written(column))
        if spelling == "text_local":
            read = sa.case((_is_zoned(column), read), else_=_latest(read))
        return _or_unreadable(column, _is_written(column), read)
    if spelling in SCALES and kind == "number":
        return _from_number(column, SCALES[spelling])
    return sa.case((column.is_(None), sa.null()), else_=_big(literal(UNREADABLE)))


def newest(column: Column, spelling: EndFormat) -> Column:
    """Return the newest time of a group; of a type of time only that one is read, as it sorts by time."""
    if type_of(column) in MOMENTS:
        return instant(sa.func.max(column, type_=column.type), spelling)
    times = instant(column, spelling)
    unreadable = sa.func.min(times) == literal(UNREADABLE)
    return sa.case((unreadable, _big(literal(UNREADABLE))), else_=sa.func.max(times))


def _big(value: Column) -> Column:
    return sa.cast(value, sa.BigInteger)


def _or_unreadable(column: Column, known: Column, micros: Column) -> Column:
    return sa.case((column.is_(None), sa.null()), (known, _big(micros)), else_=_big(literal(UNREADABLE)))


def _from_number(column: Column, scale: int) -> Column:
    # NaN sorts above every number, so it is clamped like anything too late: never older than it is
    number: Column = sa.cast(column, sa.Numeric) if _is_inexact(column) else column
    latest = literal(LATEST // scale)
    micros = sa.func.least(number, latest) * _big(literal(scale))
    return _or_unreadable(column, column >= literal(YEAR_2000 // scale), micros)


def _is_inexact(column: Column) -> bool:
    return type_of(column) in ("real", "double precision")


def _is_moment(column: Column) -> Column:
    return sa.and_(sa.func.isfinite(column), column >= _fixed("2000-01-01"))


def _from_moment(moment: Column) -> Column:
    """Return microseconds of a moment; one without a zone is meant in UTC, as the profile says."""
    return sa.func.least(sa.extract("epoch", moment) * literal(1_000_000), literal(LATEST))


def _fixed(day: str) -> Column:
    return sa.literal_column(f"'{day}'")


def _latest(read: Column) -> Column:
    """Return the latest instant that a time without a zone may mean, and none later than the clock."""
    latest = read + literal(micros(WESTERNMOST))
    clock = sa.extract("epoch", sa.func.clock_timestamp()) * literal(1_000_000)
    return sa.case(
        (latest <= clock, latest),
        (read - literal(micros(EASTERNMOST)) <= clock, clock),
        else_=read,
    )


def _is_written(column: Column) -> Column:
    """Say whether text is a time: by its pattern, and by its day, as no 31st of February can be cast."""
    month = sa.func.substr(column, 1, 7)
    first = sa.func.to_date(month, literal("YYYY-MM"))
    last = sa.func.date_part(literal("day"), first + sa.literal_column("interval '1 month - 1 day'"))
    day = sa.cast(sa.func.substr(column, 9, 2), sa.Integer)
    late = sa.func.substr(column, 1, 4) >= literal("2000")
    matches = column.op("~")(literal(TEXT_TIME))
    # CASE keeps the order: the day is only looked at where the pattern holds
    return sa.case((matches, sa.and_(late, day <= last)), else_=sa.false())


def _written(column: Column) -> Column:
    zoned = sa.case((_is_zoned(column), column), else_=column.op("||")(literal("Z")))
    return sa.cast(zoned, sa.DateTime(timezone=True))


def _is_zoned(column: Column) -> Column:
    return column.op("~")(literal("(Z|[+-][0-9]{2}:[0-9]{2})$"))


def bound(instant: Instant, column: Column, spelling: EndFormat) -> object:
    """Return the first raw value that is not before; for text, a day so late that no zone reaches it.

    For a column that cannot hold such times, nothing: no value of it compares less.
    """
    kind = column.type.kind if isinstance(column.type, Stored) else "any"
    if type_of(column) in MOMENTS:
        moment = to_datetime(min(instant, LATEST))
        return moment if type_of(column) == MOMENTS[0] else moment.replace(tzinfo=None)
    if kind != ("number" if spelling in SCALES else "text"):
        return None
    if spelling in SCALES:
        return -(-instant // SCALES[spelling])
    return (to_datetime(instant) + timedelta(days=2)).strftime("%Y-%m-%d")
