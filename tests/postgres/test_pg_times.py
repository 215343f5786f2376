"""End columns of every type that PostgreSQL has for a time, each value judged by a computation of our own."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import pytest

from afterrun import Policy, SweepOptions
from afterrun.core.sweep import Budget
from pg_server import Database
from postgres.pg_own_store import MONTH, OwnPgStore

NOW: Final = datetime.now(UTC).replace(microsecond=123_456)
OLD: Final = NOW - timedelta(days=100)
RECENT: Final = NOW - timedelta(days=10)
MILLENNIUM: Final = datetime(2000, 1, 1, tzinfo=UTC)
KATHMANDU: Final = timedelta(hours=5, minutes=45)
SKEW: Final = timedelta(minutes=5)

UNREADABLE: Final = ("blocked", "unreadable-end-time")
UNKNOWN: Final = ("blocked", "unknown-end-time")
FUTURE: Final = ("blocked", "future-end-time")
EXPIRED: Final = ("expired", None)
KEPT: Final = ("recent", "keep-for")


def by(moment: datetime) -> tuple[str, str | None]:
    """Judge a moment by the policy of a month."""
    if moment < MILLENNIUM:
        return UNREADABLE
    if moment > NOW + SKEW:
        return FUTURE
    return EXPIRED if moment < NOW - timedelta(days=30) else KEPT


def number(scale: int, value: str) -> tuple[str, str | None]:
    """Judge a number of so many units a second."""
    if value.lower() == "nan" or float(value) / scale > 1e12:
        return FUTURE  # beyond everything
    if not math.isfinite(float(value)) or float(value) < 0:
        return UNREADABLE
    return by(datetime.fromtimestamp(float(value) / scale, UTC))


def text(value: str) -> tuple[str, str | None]:
    """Judge text: a date and a time of day as ISO 8601 has them, in UTC unless it says otherwise."""
    shape = r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)?"
    if not value.isascii() or not re.fullmatch(shape, value) or value < "2000":
        return UNREADABLE
    try:
        short = re.sub(r"(\.\d{6})\d+", r"\1", value)
        moment = datetime.fromisoformat(short)
    except ValueError:
        return UNREADABLE
    zone = moment.utcoffset()
    if zone is not None and abs(zone) >= timedelta(hours=16):
        return UNREADABLE
    return by(moment if zone is not None else moment.replace(tzinfo=UTC))


def written(moment: datetime, zone: str = "") -> str:
    """Write a moment as PostgreSQL reads it."""
    return moment.strftime("%Y-%m-%d %H:%M:%S.%f") + zone


@dataclass(frozen=True)
class Column:
    """An end column: its type, the profile's format, and values with their verdicts."""

    type: str
    format: str
    values: dict[str | None, tuple[str, str | None]]


def numbers(kind: str, unit: str, *more: str) -> Column:
    """Make a column of numbers."""
    scale = {"epoch_s": 1, "epoch_ms": 1_000, "epoch_us": 1_000_000}[unit]
    moments = [OLD, RECENT, NOW - timedelta(minutes=90), NOW + timedelta(days=3)]
    values = [*(str(round(moment.timestamp() * scale)) for moment in moments), "0", "-5", "1000", *more]
    values += [str(946_684_800 * scale), str(946_684_800 * scale - 1)]
    return Column(kind, unit, {None: UNKNOWN, **{value: number(scale, value) for value in values}})


MOMENTS: Final = {
    None: UNKNOWN,
    "infinity": UNREADABLE,
    "-infinity": UNREADABLE,
    "1999-12-31 23:59:59.999999": UNREADABLE,
    "2000-01-01 00:00:00": EXPIRED,
    "0044-03-15 12:00:00 BC": UNREADABLE,
    "9999-12-31 23:59:59": FUTURE,
    "290000-01-01 00:00:00": FUTURE,
}
TEXTS: Final = (
    *(written(OLD), written(OLD, "Z"), written(OLD).replace(" ", "T") + "+05:45", written(RECENT, "-12:00")),
    *("2020-01-01T00:00:00Z", "2020-01-01T00:00:00.123456789Z", "2020-02-29 00:00:00", "2020-12-31T23:59:59"),
    *("2021-02-29T00:00:00Z", "2020-02-31T00:00:00Z", "2020-04-31T00:00:00Z", "2020-13-01T00:00:00Z"),
    *("2020-01-01T24:00:00Z", "2020-01-01T00:00:60Z", "2020-01-01T00:60:00Z", "2020-01-01T00:00:00+16:00"),
    *("now", "today", "yesterday", "12:00", "infinity", "epoch", "", " ", "2020-01-01", "20200101T000000Z"),
    *(" 2020-01-01T00:00:00Z", "2020-01-01T00:00:00Z ", "2020-01-01T00:00:00Z\n", "2020-01-01T00:00:00 UTC"),
    *("1577836800", "1577836800000", "1999-12-31T23:59:59Z", "9999-12-31T23:59:59Z", "0000-00-00 00:00:00"),
    *(
        "\uff12\uff10\uff12\uff10-01-01T00:00:00Z",
        "2020-01-01T00:00:00Z'; SELECT 1 --",
        "2020-01-01t00:00:00z",
        "NaN",
    ),
)
COLUMNS: Final = [
    numbers("bigint", "epoch_ms", str(2**63 - 1), str(-(2**63))),
    numbers("bigint", "epoch_us", str(2**63 - 1)),
    numbers("integer", "epoch_s", str(2**31 - 1)),
    numbers("double precision", "epoch_s", "NaN", "Infinity", "-Infinity", "1e300", "-1e300", "1e-300"),
    numbers("double precision", "epoch_ms", "NaN", "Infinity", f"{OLD.timestamp() * 1_000 + 0.5}"),
    numbers("numeric", "epoch_ms", "NaN", "Infinity", "-Infinity", "1e100", "-1e100"),
    Column(
        "timestamp with time zone",
        "text_utc",
        {
            **MOMENTS,
            **{written(moment, "+05:45"): by(moment - KATHMANDU) for moment in (OLD, RECENT)},
        },
    ),
    Column(
        "timestamp without time zone",
        "epoch_ms",
        {**MOMENTS, **{written(moment): by(moment) for moment in (OLD, RECENT)}},
    ),
    Column("text", "text_utc", {None: UNKNOWN, **{value: text(value) for value in TEXTS}}),
    Column("text", "epoch_ms", {None: UNKNOWN, "1577836800000": UNREADABLE, "x": UNREADABLE}),
    Column("bigint", "text_utc", {None: UNKNOWN, "1577836800000": UNREADABLE}),
    Column("date", "text_utc", {None: UNKNOWN, "2020-01-01": UNREADABLE, "infinity": UNREADABLE}),
    Column("boolean", "epoch_s", {None: UNKNOWN, "true": UNREADABLE}),
    Column("jsonb", "epoch_s", {None: UNKNOWN, "1577836800": UNREADABLE, '"now"': UNREADABLE}),
]


@pytest.mark.parametrize("column", COLUMNS, ids=[f"{column.type} {column.format}" for column in COLUMNS])
def test_a_time_of_any_type_is_understood_or_keeps_its_run(
    floor: Database, tmp_path: Path, column: Column
) -> None:
    """What is read is right to the policy's own moment; all else is blocked, and nothing is an error."""
    store = OwnPgStore(database=floor, folder=tmp_path, time=column.type, format=column.format)
    runs = {f"run-{place}": value for place, value in enumerate(column.values)}
    store.add(*((run, "done", value, None) for run, value in runs.items()))
    with store.open() as retention:
        for run, value in runs.items():
            found = retention.explain(run, MONTH)
            reasons = [reason.name for reason in found.reasons]
            verdict, reason = column.values[value]
            assert found.verdict.value == verdict, (value, found)
            assert reason is None or reason in reasons, (value, found)
        planned = retention.plan(MONTH)
    expired = sorted(run for run, value in runs.items() if column.values[value] == EXPIRED)
    blocked = [value for value in column.values.values() if value[0] == "blocked"]
    assert planned.units.expired == len(expired)
    assert planned.units.blocked.total() == len(blocked)
    assert planned.units.members == len(runs)
    report = store.prune()
    assert report.units.removed == len(expired)
    assert store.left() == sorted(set(runs) - set(expired))
    with store.open() as retention:
        assert retention.inspect()


@pytest.mark.parametrize("column", COLUMNS, ids=[f"{column.type} {column.format}" for column in COLUMNS])
def test_sweeps_that_are_cut_off_go_on_where_they_stopped(
    floor: Database, tmp_path: Path, column: Column
) -> None:
    """Whatever stands in the column, its value serves as the place where the next sweep begins."""
    store = OwnPgStore(database=floor, folder=tmp_path, time=column.type, format=column.format)
    old = [value for value, verdict in column.values.items() if verdict == EXPIRED]
    odd = [value for value, verdict in column.values.items() if verdict != EXPIRED]
    store.add(*((f"odd-{place}", "done", value, None) for place, value in enumerate(odd)))
    copies = [(value, copy) for value in old for copy in range(7)]
    store.add(*((f"old-{place}-{copy}", "done", value, None) for place, (value, copy) in enumerate(copies)))
    policy = Policy(keep_for=MONTH.keep_for)
    removed = 0
    for _ in range(len(copies) + 2):
        with store.open() as retention:
            options = SweepOptions(budget=Budget(units=5), batch_units=2, rest=0.0)
            report = retention.sweep(policy, options=options, always=True)
        removed += report.units.removed
        assert report.ended in {"completed", "budget"}, report.message
        if report.ended == "completed" and not report.units.removed:
            break
    assert removed == len(copies)
    assert store.left() == sorted(f"odd-{place}" for place in range(len(odd)))
