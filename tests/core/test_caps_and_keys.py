"""Caps take the say from keep rules, and from nothing else; keys protect for as long as they are kept."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from afterrun import FOREVER, MatchRule, Policy
from afterrun.core.decided import deciders, names_of, of_the_young, rulings
from afterrun.core.facts import Reason, Unit
from afterrun.core.judge import Cap, Rules, judge, page_cutoff, rank
from afterrun.core.policy import Age
from afterrun.core.times import to_datetime
from fakes import NOW

DAY = 86_400_000_000
HOUR = DAY // 24
LIVE = Reason("live-member")
CAP = Cap("cap_units", 3, rank(NOW - 10 * DAY, "m"))


def unit(age: int = 20 * DAY, **facts: Any) -> Unit:  # noqa: ANN401 - any field of a unit
    """Make a unit of one run that ended ``age`` microseconds ago."""
    end = NOW - age
    given: dict[str, Any] = {"key": "a", "members": ("a",), "end": end, "root_end": end, "successful": True}
    return Unit(**given | facts)


def rules(policy: Policy, cap: Cap | None = CAP, **resolved: Any) -> Rules:  # noqa: ANN401 - as above
    """Resolve a policy by hand."""
    return Rules(NOW, policy, page_cutoff(policy, NOW, cap), cap=cap, **resolved)


def told(what: Unit, made: Rules) -> tuple[str, list[str]]:
    """Judge a unit; return the verdict and the names of the reasons."""
    judgement = judge(what, made)
    return judgement.verdict.value, [reason.name for reason in judgement.reasons]


CAPPED: list[tuple[Unit, dict[str, Any], str, list[str]]] = [
    (unit(), {}, "expired", []),
    (unit(9 * DAY), {}, "recent", ["within-cap"]),
    (unit(10 * DAY, key="m"), {}, "recent", ["within-cap"]),
    (unit(10 * DAY, key="l"), {}, "expired", []),
    (unit(), {"keep_for": FOREVER}, "expired", []),
    (unit(), {"keep_last": 5}, "expired", []),
    (unit(), {"before": to_datetime(NOW - 90 * DAY)}, "expired", []),
    (unit(9 * DAY), {"keep_for": timedelta(days=30)}, "recent", ["keep-for"]),
    (unit(9 * DAY), {"keep_for": timedelta(days=5)}, "expired", []),
    (unit(), {"grace": timedelta(days=25)}, "recent", ["grace"]),
    (unit(), {"pins": frozenset({"a"})}, "protected", ["pinned"]),
    (unit(protected=(LIVE,)), {}, "protected", ["live-member"]),
    (unit(blocked=(LIVE,)), {}, "blocked", ["live-member"]),
    (unit(keyed=True), {"keep_keys": timedelta(days=25)}, "protected", ["idempotency-key"]),
    (unit(root_end=None, settled=False), {}, "recent", ["within-cap"]),
]


@pytest.mark.parametrize(("what", "policy", "verdict", "reasons"), CAPPED)
def test_beyond_the_cap_keep_rules_do_not_count_and_all_else_does(
    what: Unit, policy: dict[str, Any], verdict: str, reasons: list[str]
) -> None:
    """Promise 11: blocked, protections, pins, keys and grace come before a cap."""
    assert told(what, rules(Policy(cap_units=3, **policy))) == (verdict, reasons)


def test_without_a_boundary_a_cap_lets_nothing_go() -> None:
    """Fewer units have ended than the cap leaves."""
    assert told(unit(), rules(Policy(cap_units=3), None)) == ("recent", ["within-cap"])


LIMITS: list[tuple[dict[str, Any], Cap | None, int | None]] = [
    ({}, None, None),
    ({}, CAP, NOW - 10 * DAY + 1),
    ({"keep_for": timedelta(days=30)}, CAP, NOW - 10 * DAY + 1),
    ({"keep_for": timedelta(days=5)}, CAP, NOW - 5 * DAY),
    ({"grace": timedelta(days=12)}, CAP, NOW - 12 * DAY),
    ({"keep_for": timedelta(days=30)}, None, NOW - 30 * DAY),
]


@pytest.mark.parametrize(("policy", "cap", "limit"), LIMITS)
def test_pages_reach_as_far_as_age_or_the_cap_lets_go_but_never_into_grace(
    policy: dict[str, Any], cap: Cap | None, limit: int | None
) -> None:
    """The later of both is where pages end."""
    assert page_cutoff(Policy(cap_units=3, **policy), NOW, cap) == limit


KEYED: list[tuple[Unit, Age, str, int | None]] = [
    (unit(20 * DAY, keyed=True), timedelta(days=20), "protected", NOW + 1),
    (unit(20 * DAY + 1, keyed=True), timedelta(days=20), "expired", None),
    (unit(20 * DAY, keyed=False), timedelta(days=20), "expired", None),
    (unit(900 * DAY, keyed=True), FOREVER, "protected", None),
    (unit(-DAY, keyed=True), timedelta(days=20), "blocked", None),
    (unit(DAY, keyed=True), timedelta(days=20), "protected", NOW + 19 * DAY + 1),
    (unit(DAY, keyed=True, protected=(LIVE,)), timedelta(days=20), "protected", None),
]


@pytest.mark.parametrize(("what", "age", "verdict", "eligible"), KEYED)
def test_a_key_protects_for_as_long_as_it_is_kept(
    what: Unit,
    age: Age,
    verdict: str,
    eligible: int | None,
) -> None:
    """It ends strictly after that time, and then the clock is what says when the unit may go."""
    judgement = judge(what, rules(Policy(keep_for=timedelta(days=2), keep_keys=age), None))
    assert (judgement.verdict.value, judgement.eligible_at) == (verdict, eligible)


def test_what_is_beyond_the_cap_becomes_eligible_with_the_end_of_grace() -> None:
    """A keep rule that does not count has no time."""
    policy = Policy(cap_units=3, keep_for=timedelta(days=300), grace=timedelta(days=25))
    assert judge(unit(), rules(policy)).eligible_at == NOW + 5 * DAY + 1
    assert judge(unit(9 * DAY), rules(policy)).eligible_at == NOW + 291 * DAY + 1


def test_rules_that_decided_are_named() -> None:
    """Each unit is counted under every rule that holds it, and under the cap that lets it go against one."""
    narrow = MatchRule(match={"status": ["ERROR"]}, keep_for=timedelta(days=90))
    policy = Policy(
        cap_units=3,
        keep_for=timedelta(days=15),
        keep_last=1,
        keep_daily=2,
        keep_keys=timedelta(days=1),
        pins=frozenset({"p"}),
        rules=(narrow,),
    )
    assert names_of(policy) == [
        *("pins", "keep_keys", "grace", "cap_units"),
        *("keep_for[status=ERROR]", "keep_for", "keep_last", "keep_daily"),
    ]
    made = rules(policy, periods={"keep_daily": frozenset({"d"})}, newest={(): rank(NOW - DAY, "z")})

    def of(what: Unit) -> list[str]:
        return list(deciders(what, judge(what, made), made))

    assert of(unit(9 * DAY)) == ["keep_for"]
    assert of(unit(9 * DAY, key="d")) == ["keep_for", "keep_daily"]
    assert of(unit(11 * DAY)) == ["cap_units"]
    assert of(unit(20 * DAY)) == []
    assert of(unit(20 * DAY, members=("p",))) == ["pins"]
    assert of(unit(DAY, keyed=True)) == ["keep_keys"]
    assert of(unit(HOUR)) == ["grace", "keep_for", "keep_last"]
    assert of(unit(20 * DAY, blocked=(LIVE,))) == []


YOUNG: list[tuple[dict[str, Any], str | None]] = [
    ({"keep_for": timedelta(days=30)}, "keep_for"),
    ({"keep_for": FOREVER}, "keep_for"),
    ({"keep_last": 3}, "grace"),
    ({"before": to_datetime(NOW - DAY)}, "before"),
    ({"cap_units": 3}, None),
    (
        {
            "keep_for": timedelta(days=30),
            "rules": (MatchRule(match={"status": ["ERROR"]}, keep_for=timedelta(days=90)),),
        },
        "age",
    ),
]


@pytest.mark.parametrize(("policy", "name"), YOUNG)
def test_what_is_too_young_to_be_read_counts_under_the_rule_that_says_so(
    policy: dict[str, Any], name: str | None
) -> None:
    """Pages do not read it; where several ages may be the one, it is said apart."""
    assert of_the_young(rules(Policy(**policy), None)) == name


def test_every_rule_says_what_it_makes_of_a_unit() -> None:
    """With its time, the period, and whether the cap takes its say."""
    policy = Policy(
        cap_units=3, keep_for=timedelta(days=30), keep_daily=2, timezone="Europe/Berlin", keep_keys=FOREVER
    )
    made = rules(policy)
    what = unit(20 * DAY)
    said = {ruling.rule: ruling for ruling in rulings(what, judge(what, made), made)}
    assert {name: ruling.keeps for name, ruling in said.items()} == dict.fromkeys(said, False)
    assert said["keep_for"].until == NOW + 10 * DAY
    assert said["keep_for"].says == "it is beyond the cap"
    assert "beyond the newest 3" in said["cap_units"].says
    assert said["keep_daily"].says == "it ended in 2025-12-12 (Europe/Berlin)"
    assert said["keep_keys"].says == "it holds no idempotency key"
    within = unit(9 * DAY)
    kept = {ruling.rule for ruling in rulings(within, judge(within, made), made) if ruling.keeps}
    assert kept == {"keep_for"}
