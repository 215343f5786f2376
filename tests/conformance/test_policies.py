"""Periods, caps, narrower rules and keys on every store: what goes, and which rule decided."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from afterrun import FOREVER, MatchRule, Policy, UsageError
from afterrun.core.batch import live_pace
from afterrun.core.plan import make_plan
from afterrun.core.times import to_instant
from dumps import Value
from fakes import survey, sweep
from sites import DAY_MS, HOUR_MS, NOW_MS, OLD_MS, Site, fill, keys, live, run

BERLIN = "Europe/Berlin"


def at(text: str) -> int:
    """Return a moment in UTC in the milliseconds of the store."""
    return to_instant(datetime.fromisoformat(text).replace(tzinfo=UTC)) // 1_000


def ended(text: str, **columns: Value) -> dict[str, Value]:
    """Make a run that ended at a moment in UTC, which is its id."""
    return run(text, completed_at=at(text), **columns)


def left(site: Site, policy: Policy) -> set[Value]:
    """Plan, then remove in small batches; return what is left, which is what the plan said."""
    report, going = survey(site.store, policy)
    before = set(keys(site))
    done = sweep(site.store, policy, pace=live_pace(0.02, max_units=2)).report
    assert (done.ended, done.units.removed) == ("completed", len(going))
    assert +done.rows == +report.rows
    assert before - set(keys(site)) == set(going)
    return set(keys(site))


DAYS = ["2025-10-25T21:59", "2025-10-25T22:00", "2025-10-26T22:59", "2025-10-26T23:00", "2025-10-28T01:00"]
SPRING = ["2025-03-29T22:59", "2025-03-29T23:00", "2025-03-30T21:59", "2025-03-30T22:00"]
AUTUMN_HOURS = ["2025-10-26T00:30", "2025-10-26T00:59", "2025-10-26T01:30", "2025-10-26T02:00"]
PERIODS: list[tuple[list[str], dict[str, Any], set[int]]] = [
    (DAYS, {"keep_daily": 9}, {1, 3, 4}),
    (DAYS, {"keep_daily": 9, "timezone": BERLIN}, {0, 2, 3, 4}),
    (DAYS, {"keep_daily": 2, "timezone": BERLIN}, {3, 4}),
    (SPRING, {"keep_daily": 9, "timezone": BERLIN}, {0, 2, 3}),
    (SPRING, {"keep_weekly": 9, "timezone": BERLIN}, {2, 3}),
    (AUTUMN_HOURS, {"keep_hourly": 9, "timezone": BERLIN}, {1, 2, 3}),
    (AUTUMN_HOURS, {"keep_hourly": 2}, {2, 3}),
    ([*SPRING, *DAYS], {"keep_monthly": 2}, {3, 8}),
    ([*SPRING, *DAYS], {"keep_yearly": 3}, {8}),
    ([*SPRING, *DAYS], {"keep_yearly": 1, "keep_daily": 2, "keep_weekly": 1}, {7, 8}),
]


@pytest.mark.parametrize(("moments", "rules", "stay"), PERIODS)
def test_the_newest_of_each_period_stays(
    site: Site, moments: list[str], rules: dict[str, Any], stay: set[int]
) -> None:
    """In any zone, on days of 23 and 25 hours, and in weeks of the ISO calendar."""
    fill(site, map(ended, moments))
    assert left(site, Policy(**rules)) == {moments[place] for place in stay}


def test_periods_count_by_group_and_only_successes_unless_told_otherwise(site: Site) -> None:
    """A failure later on a day does not take the place of that day's success."""
    day = "2025-06-01T"
    rows = [
        *(ended(f"{day}01:00"), ended(f"{day}02:00", status="ERROR")),
        *(ended(f"{day}03:00", name="report"), ended(f"{day}04:00", name=None)),
        *(ended("2025-05-01T01:00"), run("child", f"{day}01:00", completed_at=at(f"{day}09:00"))),
    ]
    fill(site, rows)
    policy = Policy(keep_daily=1, group_by=("name",))
    _, going = survey(site.store, replace(policy, keep_last_counts="any"))
    assert set(going) == {f"{day}01:00", "2025-05-01T01:00"}
    assert left(site, policy) == {f"{day}01:00", "child", f"{day}03:00", f"{day}04:00"}


def test_later_arrivals_make_no_period_keep_less(site: Site) -> None:
    """Counts are resolved once: what the plan keeps stays, though a newer one has come since."""
    fill(site, [ended("2025-06-01T01:00"), ended("2025-06-01T02:00")])
    rules = make_plan(site.store, Policy(keep_daily=1), now=site.store.now()).rules
    fill(site, [ended("2025-06-01T03:00")])
    assert rules.periods == {"keep_daily": {"2025-06-01T02:00"}}


def capped(count: int) -> list[dict[str, Value]]:
    """Make so many units, one a day, of which every other one failed; the last one ended yesterday."""
    made = (("SUCCESS", "ERROR")[number % 2] for number in range(count))
    return [
        run(f"u{number}", completed_at=NOW_MS - (count - number) * DAY_MS, status=status)
        for number, status in enumerate(made)
    ]


CAPS: list[tuple[dict[str, Any], set[int]]] = [
    ({"cap_units": 3}, {7, 8, 9}),
    ({"cap_units": 3, "keep_for": FOREVER}, {7, 8, 9}),
    ({"cap_units": 3, "keep_for": timedelta(days=2)}, {8, 9}),
    ({"cap_units": 3, "keep_for": timedelta(days=6)}, {7, 8, 9}),
    ({"cap_units": 3, "keep_last": 1, "keep_last_counts": "any"}, {9}),
    ({"cap_units": 3, "keep_last": 4, "keep_last_counts": "any"}, {7, 8, 9}),
    ({"cap_units": 3, "grace": timedelta(days=5)}, {5, 6, 7, 8, 9}),
    ({"cap_units": 3, "pins": frozenset({"u1"})}, {1, 7, 8, 9}),
    ({"cap_units": 3, "keep_keys": timedelta(days=7)}, {3, 4, 5, 6, 7, 8, 9}),
    ({"cap_units": 10}, set(range(10))),
    ({"cap_units": 11}, set(range(10))),
]


@pytest.mark.parametrize(("rules", "stay"), CAPS)
def test_beyond_the_cap_only_pins_keys_and_grace_count(
    site: Site, rules: dict[str, Any], stay: set[int]
) -> None:
    """Promise 11: units of any status count, and a unit within the cap goes by the other rules."""
    fill(site, capped(10))
    assert left(site, Policy(**rules)) == {f"u{number}" for number in stay}


def test_live_runs_and_what_they_need_stay_beyond_any_cap(site: Site) -> None:
    """Promise 11: and they take no place of those that the cap leaves."""
    fill(site, [*capped(4), live("live"), run("old", completed_at=OLD_MS), live("child", "old")])
    assert left(site, Policy(cap_units=1)) == {"u3", "live", "old", "child"}


def test_units_that_ended_at_one_time_are_capped_by_their_ids(site: Site) -> None:
    """Of equal times the greater id is newer, in every database."""
    fill(site, [run(key, completed_at=OLD_MS) for key in ("b", "a", "Z", "10", "9", "\U0001f3c3", "\uffff")])
    assert left(site, Policy(cap_units=3)) == {"b", "\uffff", "\U0001f3c3"}


def test_a_cap_in_bytes_is_turned_into_units(site: Site) -> None:
    """By what a unit takes on the whole; the plan says what it came to, as an estimate."""
    fill(site, capped(10))
    size, units = site.store.content()
    assert units == 10
    assert size > 0
    policy = Policy(cap_bytes=size * 4 // 10 + 1)
    report, going = survey(site.store, policy)
    assert len(going) == 6
    assert [line for line in report.notices if "cap_bytes" in line and "~4 units" in line]
    assert survey(site.store, Policy(cap_bytes=1))[1] != []
    assert left(site, Policy(cap_bytes=1, cap_units=5)) == {"u9"}


def test_narrower_rules_by_status_and_group(site: Site) -> None:
    """Failures stay for longer, probes for less, and the most specific rule decides."""
    fill(
        site,
        [
            *(
                run(f"{age}-{status}", completed_at=NOW_MS - age * DAY_MS, status=status)
                for age in (5, 50, 500)
                for status in ("SUCCESS", "ERROR", "CANCELLED")
            ),
            *(
                run(f"{age}-probe", completed_at=NOW_MS - age * DAY_MS, status="ERROR", name="probe")
                for age in (5, 50)
            ),
        ],
    )
    rules = (
        MatchRule(match={"status": ["failed"]}, keep_for=timedelta(days=90)),
        MatchRule(match={"status": ["ERROR"], "name": ["import"]}, keep_for=FOREVER),
        MatchRule(match={"status": ["failed"], "name": ["probe"]}, keep_for=timedelta(hours=4)),
    )
    policy = Policy(keep_for=timedelta(days=30), rules=rules)
    report, _ = survey(site.store, policy)
    assert report.units.decided == {
        "grace": 0,
        "keep_for[name=import, status=ERROR]": 3,
        "keep_for[name=probe, status=failed]": 0,
        "keep_for[status=failed]": 2,
        "keep_for": 1,
    }
    assert left(site, policy) == {
        *("5-SUCCESS", "5-ERROR", "50-ERROR", "500-ERROR", "5-CANCELLED", "50-CANCELLED"),
    }


@pytest.mark.parametrize("match", [{"status": ["EROR"]}, {"nme": ["import"]}, {"status": ["PENDING"]}])
def test_a_rule_that_the_profile_does_not_know_is_refused(site: Site, match: dict[str, list[str]]) -> None:
    """Before anything is read."""
    policy = Policy(keep_for=FOREVER, rules=(MatchRule(match=match, keep_for=timedelta(days=1)),))
    with pytest.raises(UsageError):
        survey(site.store, policy)


def test_keys_protect_for_their_time(site: Site) -> None:
    """A run's id is its key here, so each unit is held until that long after its end."""
    fill(site, [*capped(10), run("late", "u2", completed_at=NOW_MS - 3 * DAY_MS)])
    policy = Policy(keep_for=timedelta(days=1), keep_keys=timedelta(days=4))
    report, _ = survey(site.store, policy)
    assert report.units.protected == {"idempotency-key": 4}
    assert left(site, policy) == {"u2", "late", "u7", "u8", "u6", "u9"}


def test_a_plan_says_what_each_rule_decided(site: Site) -> None:
    """Each unit under every rule that keeps it; the cap by what it lets go; nothing is left out."""
    fill(site, [*capped(10), run("new", completed_at=NOW_MS - HOUR_MS // 2)])
    pins = frozenset({"u0", "u9"})
    policy = Policy(keep_for=timedelta(hours=2), keep_last=6, keep_yearly=3, cap_units=9, pins=pins)
    report, going = survey(site.store, policy)
    decided = report.units.decided
    assert going == ["u1"]
    assert decided == {
        "pins": 2,
        "grace": 0,
        "cap_units": 1,
        "keep_for": 1,
        "keep_last": 7,
        "keep_yearly": 0,
    }
    assert list(decided) == ["pins", "grace", "cap_units", "keep_for", "keep_last", "keep_yearly"]
    assert any(line.startswith("keep_yearly decided nothing") for line in report.notices)
    notices = survey(site.store, replace(policy, cap_units=11))[0].notices
    assert any(line.startswith("cap_units decided nothing") for line in notices)
