"""The judge: a pure function of facts, policy and one ``now``."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from afterrun import FOREVER, Policy
from afterrun.core.facts import Key, Reason, Unit, key_order, key_text, readable
from afterrun.core.judge import Rules, Verdict, judge, rank
from afterrun.core.times import micros, to_datetime
from fakes import NOW

DAY = 86_400_000_000
HOUR = DAY // 24
MONTH = Policy(keep_for=timedelta(days=30))
LIVE = Reason("live-member")
BROKEN = Reason("unknown-status")


def unit(age: int | None = 100 * DAY, **facts: Any) -> Unit:  # noqa: ANN401 - any field of a unit
    """Make a unit of one run that ended ``age`` microseconds ago."""
    end = None if age is None else NOW - age
    given: dict[str, Any] = {"key": "a", "members": ("a",), "end": end, "root_end": end, "successful": True}
    return Unit(**given | facts)


def told(what: Unit, policy: Policy = MONTH, **rules: Any) -> tuple[str, list[str]]:  # noqa: ANN401 - as above
    """Judge a unit; return the verdict and the names of the reasons."""
    judgement = judge(what, Rules(NOW, policy, policy.cutoff(NOW), **rules))
    return judgement.verdict.value, [reason.name for reason in judgement.reasons]


AGES = [
    (30 * DAY + 1, MONTH, "expired", []),
    (30 * DAY, MONTH, "recent", ["keep-for"]),
    (HOUR, MONTH, "recent", ["grace", "keep-for"]),
    (HOUR + 1, Policy(keep_for=timedelta(hours=1)), "expired", []),
    (HOUR, Policy(keep_for=timedelta(minutes=1)), "recent", ["grace"]),
    (0, Policy(keep_for=timedelta(microseconds=1), grace=timedelta()), "recent", ["grace", "keep-for"]),
    (5 * DAY, Policy(before=to_datetime(NOW - 5 * DAY)), "recent", ["before"]),
    (5 * DAY + 1, Policy(before=to_datetime(NOW - 5 * DAY)), "expired", []),
    (10_000 * DAY, Policy(keep_for=FOREVER), "recent", ["keep-for"]),
    (-5 * 60_000_000, MONTH, "recent", ["grace", "keep-for"]),
    (-5 * 60_000_000 - 1, MONTH, "blocked", ["future-end-time"]),
]


@pytest.mark.parametrize(("age", "policy", "verdict", "reasons"), AGES)
def test_every_rule_of_age_keeps_up_to_and_on_its_limit(
    age: int, policy: Policy, verdict: str, reasons: list[str]
) -> None:
    """Promise 1: a unit goes strictly after its limit."""
    assert told(unit(age), policy) == (verdict, reasons)


ORDER = [
    (
        {"blocked": (BROKEN,), "protected": (LIVE,), "age": DAY},
        "blocked",
        ["unknown-status", "live-member", "keep-for"],
    ),
    ({"protected": (LIVE,), "age": DAY}, "protected", ["live-member", "keep-for"]),
    ({"protected": (LIVE,)}, "protected", ["live-member"]),
    ({"blocked": (BROKEN,), "age": None}, "blocked", ["unknown-status"]),
]


@pytest.mark.parametrize(("facts", "verdict", "reasons"), ORDER)
def test_blocked_beats_protected_beats_recent_and_all_reasons_are_carried(
    facts: dict[str, Any], verdict: str, reasons: list[str]
) -> None:
    """Promise 11: the strongest verdict stands, and nothing is hidden."""
    assert told(unit(**facts)) == (verdict, reasons)


@pytest.mark.parametrize("facts", [{"settled": False}, {"end": None}])
def test_a_unit_that_has_not_ended_is_not_called_young(facts: dict[str, Any]) -> None:
    """Rules of age say nothing of a unit without an end of its own."""
    assert told(unit(DAY, protected=(LIVE,), **facts)) == ("protected", ["live-member"])


def test_keep_last_keeps_from_its_threshold_on() -> None:
    """A unit at the rank of the last one kept stays, one before it goes; a small group stays whole."""
    policy = Policy(keep_last=2)
    newest = {("x",): rank(NOW - 50 * DAY, "m")}
    rules: dict[str, Any] = {"places": (0,), "newest": newest}
    assert told(unit(50 * DAY, key="m", group=("x",)), policy, **rules) == ("recent", ["keep-last"])
    assert told(unit(50 * DAY, key="n", group=("x",)), policy, **rules) == ("recent", ["keep-last"])
    assert told(unit(50 * DAY, key="l", group=("x",)), policy, **rules) == ("expired", [])
    assert told(unit(51 * DAY, key="z", group=("x",)), policy, **rules) == ("expired", [])
    assert told(unit(99 * DAY, group=(None,)), policy, **rules) == ("recent", ["keep-last"])


def test_keep_last_says_nothing_of_a_root_without_an_end() -> None:
    """A live root is not among the newest that ended."""
    facts = unit(DAY, protected=(LIVE,), root_end=None, settled=False)
    assert told(facts, Policy(keep_last=1)) == ("protected", ["live-member"])


@pytest.mark.parametrize(("pin", "verdict"), [("child", "protected"), ("a", "protected"), ("A", "expired")])
def test_a_pin_of_any_member_protects(pin: str, verdict: str) -> None:
    """Promise 11: pins are compared exactly."""
    policy = Policy(keep_for=timedelta(days=30), pins=frozenset({pin}))
    assert told(unit(members=("a", "child")), policy)[0] == verdict


ELIGIBLE: list[tuple[Policy, int | None]] = [
    (MONTH, NOW - DAY + 30 * DAY + 1),
    (Policy(keep_for=timedelta(days=30), grace=timedelta(days=40)), NOW - DAY + 40 * DAY + 1),
    (Policy(keep_for=FOREVER), None),
    (Policy(keep_last=1), None),
    (Policy(before=to_datetime(NOW - 3 * DAY)), None),
]


@pytest.mark.parametrize(("policy", "at"), ELIGIBLE)
def test_a_recent_unit_says_when_it_becomes_eligible_if_a_clock_decides(
    policy: Policy, at: int | None
) -> None:
    """At that instant it is expired, one microsecond earlier it is not; a count has no date."""
    what = unit(DAY)
    judgement = judge(what, Rules(NOW, policy, policy.cutoff(NOW)))
    assert (judgement.verdict, judgement.eligible_at) == (Verdict.RECENT, at)
    if at is not None:
        later = [judge(what, Rules(now, policy, policy.cutoff(now))).verdict for now in (at - 1, at)]
        assert later == [Verdict.RECENT, Verdict.EXPIRED]


def test_more_rules_only_keep_more() -> None:
    """The kept set grows with every rule that is added."""
    units = [unit(age * DAY, key=str(age)) for age in range(1, 60, 7)]
    single: list[dict[str, Any]] = [
        {"keep_for": timedelta(days=20)},
        {"before": to_datetime(NOW - 40 * DAY)},
        {"keep_last": 5},
    ]
    newest = {(): rank(NOW - 29 * DAY, "29")}
    for one in single:
        for other in single:
            kept = [
                {what.key for what in units if told(what, Policy(**rules), newest=newest)[0] == "recent"}
                for rules in (one, one | other)
            ]
            assert kept[0] <= kept[1]


@pytest.mark.parametrize(
    ("key", "text", "is_readable"),
    [
        ("a", "a", True),
        ("", "", True),
        (7, "7", True),
        ("走\U0001f3c3\n", "走\U0001f3c3\n", True),
        (("a", 1), "a/1", True),
        (None, "", False),
        (b"\x01", "x'01'", False),
        (1.5, "1.5", False),
        ("a\0b", "a\0b", False),
        ("\udcff", "\udcff", False),
        (("a", None), "a/", False),
    ],
)
def test_keys_are_readable_if_they_can_be_bound_and_found_again(
    key: Key, text: str, is_readable: bool
) -> None:
    """Promise 3: NULL, bytes, NUL characters and broken UTF-8 cannot be asked for."""
    assert (key_text(key), readable(key)) == (text, is_readable)


def _in_order(keys: list[Key]) -> list[Key]:
    return sorted(keys, key=key_order)


def test_keys_are_ordered_as_a_database_orders_them() -> None:
    """NULL, numbers, text by its bytes, bytes."""
    keys: list[Key] = [b"a", "\U0001f3c3", "b", "", "\uffff", 10, 9, None]
    assert _in_order(keys) == [
        None,
        9,
        10,
        "",
        "b",
        "\uffff",
        "\U0001f3c3",
        b"a",
    ]
    assert micros(timedelta(days=1)) == DAY
