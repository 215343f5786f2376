"""Durations and timestamps are read strictly and written the way they are read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from afterrun import UsageError
from afterrun.core.times import (
    format_duration,
    iso,
    micros,
    parse_duration,
    parse_timestamp,
    to_datetime,
    to_instant,
)

DURATIONS = [
    ("1s", timedelta(seconds=1)),
    ("90s", timedelta(seconds=90)),
    ("30m", timedelta(minutes=30)),
    ("36h", timedelta(hours=36)),
    ("30d", timedelta(days=30)),
    ("2w", timedelta(days=14)),
    (" 7d ", timedelta(days=7)),
    ("0s", timedelta()),
    ("36500d", timedelta(days=36_500)),
]
NO_DURATIONS = (
    *("", "30", "d", "-1d", "+1d", "1.5d", "1 d", "1D", "30days", "1mo", "1y", "1d2h", "1e3s", "forever"),
    *("٣d", "36501d", "999999999999w", "1d\n2", "9" * 400 + "d"),
)


@pytest.mark.parametrize(("text", "duration"), DURATIONS)
def test_a_duration_is_a_whole_number_and_a_unit(text: str, duration: timedelta) -> None:
    """Each unit means what its letter says."""
    assert parse_duration(text) == duration


@pytest.mark.parametrize("text", NO_DURATIONS)
def test_anything_else_is_no_duration(text: str) -> None:
    """Months, signs, fractions, other digits, more than 100 years: refused as a mistake of usage."""
    with pytest.raises(UsageError) as refused:
        parse_duration(text)
    assert len(str(refused.value)) < 200


@pytest.mark.parametrize("text", ["1s", "90s", "30m", "36h", "30d", "1w", "14d", "400d"])
def test_a_duration_is_written_as_it_was_read(text: str) -> None:
    """Reports and fingerprints have one spelling for each duration."""
    assert format_duration(parse_duration(text)) == text


@pytest.mark.parametrize(
    ("text", "spelling"), [("7d", "1w"), ("24h", "1d"), ("60s", "1m"), ("2w", "14d"), ("0d", "0s")]
)
def test_equal_durations_are_written_alike(text: str, spelling: str) -> None:
    """How somebody spelled a duration does not change a fingerprint."""
    assert format_duration(parse_duration(text)) == spelling


TIMESTAMPS = [
    ("2026-11-01T00:00:00Z", datetime(2026, 11, 1, tzinfo=UTC)),
    ("2026-11-01T02:00:00+02:00", datetime(2026, 11, 1, tzinfo=UTC)),
    ("2026-11-01T00:00:00.000001+00:00", datetime(2026, 11, 1, 0, 0, 0, 1, tzinfo=UTC)),
    (" 2026-11-01 00:00Z ", datetime(2026, 11, 1, tzinfo=UTC)),
]


@pytest.mark.parametrize(("text", "moment"), TIMESTAMPS)
def test_a_timestamp_names_its_zone_and_becomes_utc(text: str, moment: datetime) -> None:
    """Two spellings of one moment are one moment."""
    assert parse_timestamp(text) == moment
    assert parse_timestamp(text).utcoffset() == timedelta()


@pytest.mark.parametrize(
    "text",
    ["", "yesterday", "now", "12:00", "2026-11-01", "2026-11-01T00:00:00", "1700000000", "2026-13-01Z"],
)
def test_a_timestamp_without_a_zone_or_sense_is_refused(text: str) -> None:
    """Nobody is left to guess which midnight was meant."""
    with pytest.raises(UsageError, match=r"timestamp|time zone"):
        parse_timestamp(text)


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
def test_a_moment_outside_the_calendar_is_refused(text: str) -> None:
    """An offset that leads out of the years 1 to 9999 is a mistake, not a crash."""
    with pytest.raises(UsageError, match="calendar"):
        parse_timestamp(text)


@pytest.mark.parametrize(
    "instant", [0, 1, -1, 946_684_800_000_000, 1_767_225_600_123_456, 253_402_300_799_999_999]
)
def test_instants_and_moments_are_exact_both_ways(instant: int) -> None:
    """No float comes between, so no microsecond is lost."""
    assert to_instant(to_datetime(instant)) == instant


def test_an_instant_is_the_same_from_any_zone() -> None:
    """Comparison is of instants, not of clocks on walls."""
    moment = datetime(2026, 11, 1, 12, tzinfo=timezone(timedelta(hours=-5)))
    assert to_instant(moment) == to_instant(moment.astimezone(UTC)) == 1_793_552_400_000_000


@pytest.mark.parametrize(
    ("instant", "text"),
    [
        (None, None),
        (0, "1970-01-01T00:00:00Z"),
        (1_767_225_600_000_000, "2026-01-01T00:00:00Z"),
        (1_767_225_600_000_001, "2026-01-01T00:00:00.000001Z"),
    ],
)
def test_instants_are_written_in_utc(instant: int | None, text: str | None) -> None:
    """RFC 3339 with Z; microseconds only where there are any."""
    assert iso(instant) == text


def test_durations_in_microseconds_are_whole() -> None:
    """Large durations stay exact."""
    assert micros(timedelta(days=36_500, microseconds=1)) == 36_500 * 86_400 * 1_000_000 + 1
