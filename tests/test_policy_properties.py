"""What holds of any policy on any store: rules add up, caps and pins have their place, and age is age."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from hypothesis import given, settings
from hypothesis import strategies as st

from afterrun import FOREVER, MatchRule, Policy
from afterrun.core.facts import Unit, key_text
from afterrun.core.judge import Verdict, judge
from afterrun.core.plan import make_plan
from afterrun.core.policy import COUNTS
from afterrun.core.times import micros, to_datetime
from dumps import Row, Value
from fakes import NOW, survey
from memory import RUNS, STEPS, MemoryStore
from sites import live, run

HOUR: Final = 3_600_000_000
DAY: Final = 24 * HOUR
NAMES: Final = ("import", "report")
STATUSES: Final = ("SUCCESS", "SUCCESS", "SUCCESS", "ERROR", "CANCELLED")
ZONES: Final = ("UTC", "Europe/Berlin", "Asia/Kathmandu", "America/St_Johns")

ages = st.one_of(
    st.integers(0, 40).map(lambda hours: hours * HOUR),
    st.integers(0, 800).map(lambda days: days * DAY),
    st.sampled_from([30 * DAY, 30 * DAY + 1_000, 30 * DAY - 1_000, HOUR, HOUR + 1_000]),
)
"""Of whole milliseconds, as the store has them; some lie on a limit and beside it."""

durations = st.sampled_from([1, 20, 24, 7 * 24, 30 * 24, 90 * 24, 400 * 24]).map(lambda h: timedelta(hours=h))
counts = st.integers(1, 6)


@st.composite
def stores(draw: st.DrawFn) -> MemoryStore:
    """Make a store of trees of up to two runs; some are alive, and some are named by one that is."""
    rows: list[Row] = []
    steps: list[Row] = []
    for number in range(draw(st.integers(1, 14))):
        key, age = f"r{number}", draw(ages)
        ended: Row = {"completed_at": (NOW - age) // 1_000, "name": draw(st.sampled_from(NAMES))}
        rows.append(run(key, **ended, status=draw(st.sampled_from(STATUSES))))
        shape = draw(st.sampled_from(["alone", "alone", "child", "live child", "named"]))
        if shape == "child":
            later = (NOW - draw(st.integers(0, age // HOUR)) * HOUR) // 1_000
            rows.append(run(f"{key}-child", key, completed_at=later))
        elif shape == "live child":
            rows.append(live(f"{key}-child", key))
        elif shape == "named":
            steps.append({"workflow_uuid": "waiter", "function_id": number, "child_workflow_id": key})
    return MemoryStore({RUNS: [*rows, live("waiter")], STEPS: steps}, now=NOW)


@st.composite
def keep_rules(draw: st.DrawFn) -> dict[str, Any]:
    """Make one keep rule, in the words of a policy."""
    kind = draw(st.sampled_from(["keep_for", "before", *COUNTS]))
    if kind == "keep_for":
        return {kind: draw(st.one_of(durations, st.just(FOREVER)))}
    if kind == "before":
        return {kind: to_datetime(NOW - draw(ages))}
    return {kind: draw(counts)}


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    """Make a policy with at least one keep rule."""
    words: dict[str, Any] = draw(keep_rules())
    for _ in range(draw(st.integers(0, 3))):
        words |= draw(keep_rules())
    if any(name in words for name in COUNTS):
        words["group_by"] = draw(st.sampled_from([None, (), ("name",)]))
        words["keep_last_counts"] = draw(st.sampled_from(["successful", "any"]))
        words["timezone"] = draw(st.sampled_from(ZONES))
    if draw(st.booleans()):
        words["cap_units"] = draw(counts)
    if draw(st.booleans()):
        words["rules"] = draw(narrower())
    if draw(st.booleans()):
        words["keep_keys"] = draw(durations)
    return Policy(grace=draw(st.sampled_from([timedelta(), timedelta(hours=1), timedelta(days=2)])), **words)


@st.composite
def narrower(draw: st.DrawFn) -> tuple[MatchRule, ...]:
    """Make narrower rules with different matches."""
    matches: dict[str, dict[str, Sequence[str]]] = {
        "failed": {"status": ["failed"]},
        "import": {"name": ["import"]},
        "both": {"status": ["ERROR"], "name": ["import"]},
    }
    chosen = draw(st.sets(st.sampled_from(sorted(matches)), min_size=1))
    return tuple(MatchRule(match=matches[name], keep_for=draw(durations)) for name in sorted(chosen))


def gone(store: MemoryStore, policy: Policy) -> set[Value]:
    """Return the roots of the units that a policy lets go, as judged one by one."""
    rules = make_plan(store, policy, now=NOW).rules
    return {unit.key for unit in units(store) if judge(unit, rules).verdict is Verdict.EXPIRED}  # type: ignore[misc]


def units(store: MemoryStore) -> list[Unit]:
    """Return all units."""
    roots = [line for line in store.tables[RUNS].values() if store._is_root(line)]
    return [store.find(str(line["workflow_uuid"])) for line in roots]


examples = settings(max_examples=150, deadline=None, derandomize=True, database=None)


@examples
@given(stores(), policies(), keep_rules())
def test_with_a_keep_rule_more_no_more_units_go(
    store: MemoryStore, policy: Policy, more: dict[str, Any]
) -> None:
    """The kept set grows with every keep rule that is added to those that are there."""
    added = {name: value for name, value in more.items() if getattr(policy, name) is None}
    assert gone(store, replace(policy, **added)) <= gone(store, policy)


@examples
@given(stores(), policies(), st.sampled_from(["keep_for", "before", *COUNTS]), st.integers(1, 3))
def test_a_rule_that_keeps_more_lets_no_more_go(
    store: MemoryStore, policy: Policy, name: str, by: int
) -> None:
    """A longer age, an earlier moment and a greater count keep what the shorter, later and smaller kept."""
    value = getattr(policy, name)
    if value is None or value is FOREVER:
        return
    if name == "keep_for":
        wider: Any = value + timedelta(days=by)
    elif name == "before":
        wider = value - timedelta(days=by)
    else:
        wider = value + by
    assert gone(store, replace(policy, **{name: wider})) <= gone(store, policy)


@examples
@given(stores(), policies(), st.integers(0, 14), durations)
def test_a_pin_or_a_kept_key_lets_no_more_go(
    store: MemoryStore, policy: Policy, number: int, longer: timedelta
) -> None:
    """Nor does a longer grace."""
    before = gone(store, policy)
    assert gone(store, replace(policy, pins=frozenset({f"r{number}"}))) == before - {f"r{number}"}
    keys = policy.keep_keys or timedelta()
    assert isinstance(keys, timedelta)
    assert gone(store, replace(policy, keep_keys=keys + longer)) <= before
    assert gone(store, replace(policy, grace=policy.grace + longer)) <= before


@examples
@given(stores(), policies(), counts, counts)
def test_a_lower_cap_lets_no_fewer_go(store: MemoryStore, policy: Policy, one: int, other: int) -> None:
    """And no cap lets the fewest go."""
    low, high = sorted((one, other))
    lower = gone(store, replace(policy, cap_units=low))
    higher = gone(store, replace(policy, cap_units=high))
    assert gone(store, replace(policy, cap_units=None)) <= higher <= lower
    by_size = [gone(store, replace(policy, cap_bytes=size * 150)) for size in (low, high)]
    assert by_size[1] <= by_size[0]


@examples
@given(stores(), policies(), durations)
def test_a_narrower_rule_that_is_longest_of_all_lets_no_more_go(
    store: MemoryStore, policy: Policy, age: timedelta
) -> None:
    """A shorter one may: it is there to let go what the general one would keep."""
    narrow = MatchRule(match={"status": ["failed"], "name": ["import", "report"]}, keep_for=FOREVER)
    assert gone(store, replace(policy, rules=(*policy.rules, narrow))) <= gone(store, policy)
    short = replace(policy, rules=(MatchRule(match={"status": ["failed"]}, keep_for=age),))
    same = {unit.key for unit in units(store) if unit.successful}
    plain = replace(policy, rules=())
    assert gone(store, short) & same == gone(store, plain) & same


@examples
@given(stores(), policies())
def test_protections_pins_keys_and_grace_hold_against_everything(store: MemoryStore, policy: Policy) -> None:
    """Promise 11: nothing that goes is alive, named by a live run, pinned, keyed or younger than grace."""
    pinned = replace(policy, pins=frozenset({"r0", "r3-child"}))
    going = gone(store, pinned)
    for unit in units(store):
        if unit.key in going:
            assert not unit.protected
            assert not unit.blocked
            assert pinned.pins.isdisjoint(map(key_text, unit.members))
            assert unit.end is not None
            assert unit.end + micros(policy.grace) < NOW
            if isinstance(policy.keep_keys, timedelta):
                assert unit.end + micros(policy.keep_keys) < NOW


@examples
@given(stores(), policies())
def test_nothing_newer_than_the_cutoff_goes_by_age(store: MemoryStore, policy: Policy) -> None:
    """B37: without a cap, what goes ended before the moment that its own rules of age say."""
    uncapped = replace(policy, cap_units=None)
    rules = make_plan(store, uncapped, now=NOW).rules
    going = gone(store, uncapped)
    for unit in units(store):
        if unit.key in going:
            limit = uncapped.age_limit(NOW, rules.keep_for(unit)[0])
            assert limit is not None
            assert unit.end is not None
            assert unit.end < limit <= (rules.cutoff or NOW)


@examples
@given(stores(), policies(), st.sampled_from([1, 3, 1000]))
def test_pages_find_all_that_goes(store: MemoryStore, policy: Policy, page: int) -> None:
    """Promise 7: what is judged expired one by one is what a plan counts, however large its pages."""
    report, going = survey(store, policy, page=page)
    assert sorted(going) == sorted(map(str, gone(store, policy)))
    assert report.units.members == len(store.tables[RUNS])


@examples
@given(stores(), policies())
def test_a_rule_that_decided_nothing_can_be_left_out(store: MemoryStore, policy: Policy) -> None:
    """A count of 0 is true: without the rule that it is told of, the same units go."""
    decided = survey(store, policy)[0].units.decided
    before = gone(store, policy)
    for name in policy.counts:
        words: dict[str, Any] = {name: None}
        if len(policy.counts) == 1:
            words["group_by"] = None
        others = {*policy.counts, *(rule for rule in ("keep_for", "before") if getattr(policy, rule))} - {
            name
        }
        if decided[name] == 0 and others:
            assert gone(store, replace(policy, **words)) == before
