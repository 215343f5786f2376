"""Narrower rules: which one is for a unit, and what is said where none can be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

import pytest

from afterrun import FOREVER, MatchRule, Policy, UsageError
from afterrun.core.facts import Scalar, Status, Unit
from afterrun.core.judge import Rules, judge
from afterrun.core.match import matchers
from afterrun.core.policy import Age
from fakes import NOW

DAY = 86_400_000_000
STATUSES: Mapping[Scalar, Status] = {
    "SUCCESS": Status.SUCCESSFUL,
    "ERROR": Status.TERMINAL,
    "CANCELLED": Status.TERMINAL,
    "PENDING": Status.LIVE,
}
COLUMNS = ("name", "queue")


def days(number: int) -> timedelta:
    """Return so many days."""
    return timedelta(days=number)


def rule(keep_for: Age, **match: Sequence[str]) -> MatchRule:
    """Make a narrower rule."""
    return MatchRule(match=match, keep_for=keep_for)


def unit(status: str = "ERROR", *, age: int = 50, group: tuple[Scalar, ...] = ("import", None)) -> Unit:
    """Make a unit that ended so many days ago."""
    end = NOW - age * DAY
    return Unit("a", ("a",), end, end, status == "SUCCESS", group, status=status)


def rules(policy: Policy, statuses: Mapping[Scalar, Status] = STATUSES) -> Rules:
    """Resolve a policy against what a profile knows."""
    found = matchers(policy, statuses=statuses, columns=COLUMNS, profile="it")
    return Rules(NOW, policy, policy.cutoff(NOW), matchers=found)


GENERAL = days(30)
CASES: list[tuple[Unit, list[MatchRule], Age]] = [
    (unit(), [], GENERAL),
    (unit(), [rule(days(90), status=["ERROR"])], days(90)),
    (unit("SUCCESS"), [rule(days(90), status=["ERROR"])], GENERAL),
    (unit("CANCELLED"), [rule(days(90), status=["failed"])], days(90)),
    (unit("SUCCESS"), [rule(days(90), status=["failed"])], GENERAL),
    (unit("SUCCESS"), [rule(days(1), status=["successful"])], days(1)),
    (unit(), [rule(days(7), name=["export", "import"])], days(7)),
    (unit(group=("other", None)), [rule(days(7), name=["export", "import"])], GENERAL),
    (unit(), [rule(days(7), queue=["None"])], GENERAL),
    (unit(group=("import", 3)), [rule(days(7), queue=["3"])], days(7)),
    (unit(), [rule(days(7), status=["ERROR"]), rule(days(8), name=["import"])], days(8)),
    (unit(), [rule(days(9), status=["ERROR"]), rule(days(8), name=["import"])], days(9)),
    (unit(), [rule(FOREVER, status=["ERROR"]), rule(days(8), name=["import"])], FOREVER),
    (unit(), [rule(FOREVER, name=["import"]), rule(days(2), name=["import"], status=["failed"])], days(2)),
]


@pytest.mark.parametrize(("what", "narrower", "age"), CASES)
def test_the_most_specific_rule_decides_and_on_a_tie_the_longest(
    what: Unit, narrower: list[MatchRule], age: Age
) -> None:
    """In whatever order they are written; without a match the general one stands."""
    for order in (narrower, narrower[::-1]):
        policy = Policy(keep_for=GENERAL, rules=tuple(order))
        assert rules(policy).keep_for(what)[0] == age


def test_a_rule_decides_whether_a_unit_goes() -> None:
    """A longer rule keeps, a shorter one lets go what the general one would keep; pages reach that far."""
    policy = Policy(
        keep_for=GENERAL, rules=(rule(days(90), status=["failed"]), rule(days(7), name=["probe"]))
    )
    made = rules(policy)
    assert made.cutoff == NOW - 7 * DAY
    verdicts = [
        judge(what, made).verdict.value
        for what in (
            unit(),
            unit("SUCCESS"),
            unit("SUCCESS", age=10),
            unit("SUCCESS", age=10, group=("probe", 1)),
        )
    ]
    assert verdicts == ["recent", "expired", "recent", "expired"]
    kept = judge(unit(), made)
    assert (kept.kept[0].name, kept.eligible_at) == ("keep-for", NOW + 40 * DAY + 1)
    assert "status=failed" in kept.kept[0].detail


def test_what_has_no_root_matches_no_group() -> None:
    """A cycle is asked about, too, by `explain`."""
    narrow = (rule(days(90), name=["import"]), rule(days(1), status=["ERROR"]))
    made = rules(Policy(keep_for=GENERAL, rules=narrow))
    assert made.keep_for(unit(group=()))[0] == days(1)


def test_an_engines_own_word_comes_before_ours() -> None:
    """Where the engine says `failed` of some runs, the word means those alone."""
    statuses: Mapping[Scalar, Status] = {**STATUSES, "failed": Status.TERMINAL}
    made = rules(Policy(keep_for=GENERAL, rules=(rule(days(90), status=["failed"]),)), statuses)
    assert [made.keep_for(unit(word))[0] for word in ("failed", "ERROR")] == [days(90), GENERAL]


@pytest.mark.parametrize(
    ("match", "says"),
    [
        ({"status": ["EROR"]}, "did you mean 'ERROR'"),
        ({"status": ["error"]}, "did you mean 'ERROR'"),
        ({"status": ["fail"]}, "did you mean 'failed'"),
        ({"status": ["PENDING"]}, "a run that has not ended"),
        ({"nam": ["import"]}, "did you mean 'name'"),
        ({"colour": ["red"]}, "status, name, queue"),
    ],
)
def test_a_word_that_the_profile_does_not_know_is_a_mistake_of_usage(
    match: dict[str, list[str]], says: str
) -> None:
    """A misspelt rule would match nothing, and what it was to keep would go."""
    with pytest.raises(UsageError, match=says):
        rules(Policy(keep_for=GENERAL, rules=(MatchRule(match=match, keep_for=days(1)),)))


@pytest.mark.parametrize(
    "match",
    [{}, {"status": []}, {"status": [""]}, {"status": "ERROR"}],
    ids=["no key", "no word", "empty", "text"],
)
def test_a_rule_that_says_nothing_is_refused(match: dict[str, list[str]]) -> None:
    """Text is no list of words, and a rule for everything is the general one."""
    with pytest.raises(UsageError):
        MatchRule(match=match, keep_for=days(1))


def test_rules_need_a_general_one_beside_them() -> None:
    """What becomes of all other units must be said."""
    narrow = (rule(days(90), status=["failed"]),)
    with pytest.raises(UsageError, match='keep_for = "forever" keeps it'):
        Policy(rules=narrow)
    for general in ({"keep_last": 1}, {"keep_daily": 1}, {"cap_units": 1}, {"keep_for": FOREVER}):
        assert Policy(rules=narrow, **general).has_rules
    with pytest.raises(UsageError, match="same match"):
        Policy(keep_for=GENERAL, rules=(rule(days(1), name=["a", "b"]), rule(days(2), name=["b", "a"])))
