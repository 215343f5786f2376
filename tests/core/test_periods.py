"""Periods of the calendar: whose newest unit stays, in any zone, on days of any length."""

from __future__ import annotations

import zoneinfo
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from random import Random
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afterrun import UsageError
from afterrun.core.facts import Newest
from afterrun.core.periods import (
    HOUR,
    PERIODS,
    QUARTER,
    kept_by_period,
    period_of,
    period_text,
    slot_of,
    zone_of,
)
from afterrun.core.times import DAY, micros, to_datetime, to_instant

BERLIN = "Europe/Berlin"


def kept(moments: Iterable[str], rule: str, count: int, zone: str = "UTC") -> set[str]:
    """Return which of these moments stay under one rule; each is the key of a unit that ended then."""
    units = [Newest((), to_instant(datetime.fromisoformat(text)), text) for text in moments]
    return {str(key) for key in kept_by_period(units, rules={rule: count}, zone=zone)[rule]}


NEWEST = [
    (
        "keep_daily",
        2,
        ["2026-01-05T23:59Z", "2026-01-05T00:00Z", "2026-01-03T12:00Z", "2026-01-01T01:00Z"],
        {0, 2},
    ),
    (
        "keep_hourly",
        2,
        ["2026-01-05T10:59Z", "2026-01-05T10:00Z", "2026-01-05T09:59Z", "2026-01-05T08:00Z"],
        {0, 2},
    ),
    ("keep_weekly", 2, ["2026-01-04T23:00Z", "2025-12-29T00:00Z", "2025-12-28T23:00Z"], {0, 2}),
    ("keep_monthly", 1, ["2026-02-01T00:00Z", "2026-01-31T23:59Z"], {0}),
    ("keep_yearly", 5, ["2026-01-01T00:00Z", "2025-12-31T23:59Z", "2025-01-01T00:00Z"], {0, 1}),
]


@pytest.mark.parametrize(("rule", "count", "moments", "stay"), NEWEST)
def test_the_newest_of_each_period_that_has_one_stays(
    rule: str, count: int, moments: list[str], stay: set[int]
) -> None:
    """Periods without a unit do not count, weeks begin on Monday, and the order is of no matter."""
    for seed in range(5):
        shuffled = Random(seed).sample(moments, len(moments))
        assert kept(shuffled, rule, count) == {moments[place] for place in stay}


def test_groups_count_apart_and_equal_ends_are_told_by_key() -> None:
    """Each group has its own days; of two units that ended at once, the one with the greater key is newer."""
    units = [Newest(("a",), 40 * DAY, "x"), Newest(("a",), 40 * DAY, "y"), Newest(("b",), 30 * DAY, "z")]
    for found in (units, units[::-1]):
        assert kept_by_period(found, rules={"keep_daily": 1}, zone="UTC") == {"keep_daily": {"y", "z"}}


def test_a_day_of_23_hours_and_one_of_25_are_a_day_each() -> None:
    """On the day that clocks go forward and on the day they go back, midnight is where the zone has it."""
    spring = ["2026-03-28T22:59Z", "2026-03-28T23:00Z", "2026-03-29T21:59Z", "2026-03-29T22:00Z"]
    assert kept(spring, "keep_daily", 9, BERLIN) == {spring[0], spring[2], spring[3]}
    autumn = ["2026-10-24T21:59Z", "2026-10-24T22:00Z", "2026-10-25T22:59Z", "2026-10-25T23:00Z"]
    assert kept(autumn, "keep_daily", 9, BERLIN) == {autumn[0], autumn[2], autumn[3]}
    assert len(kept(autumn, "keep_daily", 9)) == 2


@pytest.mark.parametrize(("day", "hours"), [("2026-03-29", 23), ("2026-10-25", 25), ("2026-06-01", 24)])
def test_a_day_has_as_many_hours_as_it_has(day: str, hours: int) -> None:
    """The hour that comes twice is two, and the one that is left out is none."""
    start = datetime.fromisoformat(f"{day}T00:00").replace(tzinfo=ZoneInfo(BERLIN))
    quarters = [to_instant(start) + number * QUARTER for number in range(4 * hours)]
    assert len({period_of("keep_daily", moment, BERLIN) for moment in quarters}) == 1
    assert len({period_of("keep_hourly", moment, BERLIN) for moment in quarters}) == hours
    assert period_of("keep_daily", quarters[-1] + QUARTER, BERLIN) != period_of(
        "keep_daily", quarters[-1], BERLIN
    )


@pytest.mark.parametrize("zone", ["UTC", BERLIN, "Asia/Kathmandu", "Australia/Lord_Howe", "Pacific/Chatham"])
@given(moments=st.lists(st.integers(0, 400 * 96), min_size=1, max_size=60), count=st.integers(1, 4))
def test_slots_lose_no_unit_that_stays(zone: str, moments: list[int], count: int) -> None:
    """The newest of each slot is enough: what stays is what stays if every unit is looked at."""
    begin = to_instant(datetime(2025, 9, 1, tzinfo=UTC))
    units = [Newest((), begin + place * QUARTER + number, number) for number, place in enumerate(moments)]
    rules = dict.fromkeys(PERIODS, count)
    slot = slot_of(rules, zone)
    slots = {unit.end // slot: unit for unit in sorted(units, key=lambda unit: unit.end)}
    assert kept_by_period(slots.values(), rules=rules, zone=zone) == kept_by_period(
        units, rules=rules, zone=zone
    )


def test_every_zone_is_a_whole_number_of_quarters_off() -> None:
    """A slot lies in one period of any zone: offsets since 2000 are multiples of 15 minutes."""
    quarter = timedelta(microseconds=QUARTER)
    for name in sorted(zoneinfo.available_timezones()):
        zone = ZoneInfo(name)
        for month in range(12 * 38):
            moment = to_datetime(946_684_800_000_000 + month * 31 * DAY)
            offset = moment.astimezone(zone).utcoffset()
            assert offset is not None
            assert offset % quarter == timedelta(), (name, moment)


@pytest.mark.parametrize(
    ("rules", "zone", "slot"),
    [
        (["keep_daily", "keep_yearly"], "UTC", DAY),
        (["keep_hourly"], "UTC", HOUR),
        (["keep_daily"], BERLIN, QUARTER),
    ],
)
def test_slots_are_as_long_as_they_may_be(rules: list[str], zone: str, slot: int) -> None:
    """A database tells fewer units where days are those of UTC."""
    assert slot_of(rules, zone) == slot


@pytest.mark.parametrize("name", ["Berlin", "", "../etc/passwd", "Europe", "europe/berlin\0"])
def test_what_is_no_zone_is_a_mistake_of_usage(name: str) -> None:
    """A zone is an IANA name; a near one is offered."""
    with pytest.raises(UsageError, match="no time zone"):
        zone_of(name)
    with pytest.raises(UsageError, match="did you mean 'Europe/Berlin'"):
        zone_of("Europe/Berln")


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ("keep_hourly", "2027-01-01 00:00"),
        ("keep_daily", "2027-01-01"),
        ("keep_weekly", "2026-W53"),
        ("keep_monthly", "2027-01"),
        ("keep_yearly", "2027"),
    ],
)
def test_periods_have_names(rule: str, text: str) -> None:
    """People are told which period it is, in its zone."""
    end = to_instant(datetime(2026, 12, 31, 23, 30, tzinfo=UTC))
    assert period_text(rule, end, BERLIN) == f"{text} (Europe/Berlin)"
    assert micros(timedelta(hours=1)) == HOUR
