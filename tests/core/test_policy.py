"""A policy is checked when it is made, and says itself in one way."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from afterrun import FOREVER, MatchRule, Policy, Refused, UsageError
from afterrun.core.plan import fingerprint
from afterrun.core.times import micros
from fakes import NOW
from memory import RUNS, MemoryStore

MONTH = timedelta(days=30)
HOUR = timedelta(hours=1)
MOMENT = datetime(2025, 6, 1, tzinfo=UTC)


@pytest.mark.parametrize("rules", [{}, {"grace": timedelta(days=3)}, {"pins": frozenset({"a"})}])
def test_a_policy_that_keeps_nothing_is_refused(rules: dict[str, Any]) -> None:
    """An empty policy would remove everything; the refusal shows what can be said instead."""
    with pytest.raises(Refused, match="--keep-for 30d") as refused:
        Policy(**rules)
    assert refused.value.reason == "empty-policy"


@pytest.mark.parametrize(
    "rules",
    [
        {"keep_for": timedelta()},
        {"keep_for": -MONTH},
        {"keep_last": 0},
        {"keep_last": -1},
        {"keep_for": MONTH, "grace": -HOUR},
        {"keep_for": MONTH, "group_by": ("name",)},
        {"before": datetime(2025, 6, 1)},  # noqa: DTZ001 - no zone is the point
        {"keep_daily": 0},
        {"keep_yearly": 10**12},
        {"cap_units": 0},
        {"cap_bytes": -1},
        {"keep_for": MONTH, "keep_keys": timedelta()},
        {"keep_for": MONTH, "timezone": "Berlin"},
        {"keep_for": MONTH, "generations": Policy(keep_daily=1)},
        {"keep_for": MONTH, "generations": Policy(cap_units=1)},
    ],
)
def test_a_value_without_sense_is_a_mistake_of_usage(rules: dict[str, Any]) -> None:
    """Zero is not for ever, and a moment without a zone is no moment."""
    with pytest.raises(UsageError):
        Policy(**rules)


CUTOFFS: list[tuple[dict[str, Any], timedelta | None]] = [
    ({"keep_for": MONTH}, MONTH),
    ({"keep_for": timedelta(minutes=1)}, HOUR),
    ({"keep_for": timedelta(minutes=1), "grace": timedelta()}, timedelta(minutes=1)),
    ({"keep_last": 3}, HOUR),
    ({"keep_for": MONTH, "keep_last": 3}, MONTH),
    ({"keep_for": FOREVER}, None),
    ({"keep_for": FOREVER, "keep_last": 3, "before": MOMENT}, None),
]


@pytest.mark.parametrize(("rules", "age"), CUTOFFS)
def test_the_cutoff_is_the_oldest_that_any_rule_of_age_asks_for(
    rules: dict[str, Any], age: timedelta | None
) -> None:
    """Rules add up to keep more; for ever has no cutoff."""
    assert Policy(**rules).cutoff(NOW) == (None if age is None else NOW - micros(age))


def test_a_cap_alone_has_no_cutoff_of_age() -> None:
    """What is within it stays for ever; with a rule of age beside it, that decides within."""
    assert Policy(cap_units=10).cutoff(NOW) is None
    assert Policy(cap_bytes=10, keep_for=MONTH).cutoff(NOW) == NOW - micros(MONTH)


def test_a_policy_of_keys_alone_is_empty() -> None:
    """It protects, and lets nothing go by itself."""
    with pytest.raises(Refused, match="--keep-for 30d"):
        Policy(keep_keys=MONTH)


def test_the_order_of_narrower_rules_makes_no_other_policy() -> None:
    """Approvals are of what a policy means: neither order nor spelling is part of it."""
    failed = MatchRule(match={"status": ["b", "a"]}, keep_for=MONTH)
    named = MatchRule(match={"name": ["x"], "status": ["a"]}, keep_for=FOREVER)
    again = MatchRule(match={"status": ["a"], "name": ("x", "x")}, keep_for=FOREVER)
    one, other = Policy(keep_last=1, rules=(failed, named)), Policy(keep_last=1, rules=(again, failed))
    assert one.canonical() == other.canonical()
    assert one.canonical()["rules"] == [
        {"keep_for": "30d", "match": {"status": ["a", "b"]}},
        {"keep_for": "forever", "match": {"name": ["x"], "status": ["a"]}},
    ]


NAMED: list[tuple[dict[str, Any], str]] = [
    ({"keep_for": MONTH}, "31a81cc627d7f381"),
    (
        {"keep_last": 5, "group_by": ("name",), "keep_last_counts": "any", "pins": frozenset({"a"})},
        "0fcadd7c7e2bdd84",
    ),
    (
        {
            "before": datetime(2026, 1, 1, tzinfo=UTC),
            "keep_for": FOREVER,
            "grace": timedelta(),
            "generations": Policy(keep_for=timedelta(days=7), keep_last=2, keep_forks=False),
        },
        "99528177b35edf2c",
    ),
]


@pytest.mark.parametrize(("rules", "name"), NAMED)
def test_a_policy_has_the_name_that_it_was_approved_under(rules: dict[str, Any], name: str) -> None:
    """Approvals on record are of a fingerprint: a rule that is added to the language changes none."""
    store = MemoryStore({RUNS: []}, now=NOW)
    assert fingerprint(store, Policy(**rules)) == name


def test_a_moment_is_a_cutoff_of_its_own() -> None:
    """The earlier of moment and age decides."""
    assert Policy(before=MOMENT).cutoff(NOW) == 1_748_736_000_000_000
    assert Policy(before=MOMENT, keep_for=timedelta(days=400)).cutoff(NOW) == NOW - micros(
        timedelta(days=400)
    )
    assert Policy(before=datetime(2030, 1, 1, tzinfo=UTC)).cutoff(NOW) == NOW - micros(HOUR)


CANONICAL: list[tuple[dict[str, Any], dict[str, object]]] = [
    ({"keep_for": MONTH}, {"keep_for": "30d", "grace": "1h"}),
    ({"keep_for": FOREVER, "grace": timedelta()}, {"keep_for": "forever", "grace": "0s"}),
    ({"before": MOMENT}, {"before": "2025-06-01T00:00:00Z", "grace": "1h"}),
    ({"keep_last": 2}, {"keep_last": 2, "keep_last_counts": "successful", "grace": "1h"}),
    (
        {"keep_last": 2, "group_by": (), "pins": frozenset({"a", "b"})},
        {"keep_last": 2, "keep_last_counts": "successful", "group_by": [], "grace": "1h", "pins": 2},
    ),
    (
        {"keep_daily": 7, "cap_units": 5, "cap_bytes": 5 * 2**30, "keep_keys": FOREVER},
        {
            "keep_daily": 7,
            "keep_last_counts": "successful",
            "timezone": "UTC",
            "grace": "1h",
            "cap_units": 5,
            "cap_bytes": "5GiB",
            "keep_keys": "forever",
        },
    ),
]


@pytest.mark.parametrize(("rules", "words"), CANONICAL)
def test_a_policy_says_itself_in_one_way_and_tells_no_ids(
    rules: dict[str, Any], words: dict[str, object]
) -> None:
    """Promise 12: reports hold the rules that are set, and pins as a count."""
    assert Policy(**rules).canonical() == words
