"""When a sweep looks again at what it found protected, and how it sets that aside."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

import pytest

from afterrun import Policy
from afterrun.core.aside import FIRST, MISSING, SettingAside, look_again
from afterrun.core.batch import live_pace
from afterrun.core.errors import StoreFailure, UnitFailure
from afterrun.core.facts import Key, Reason, Unit
from afterrun.core.judge import Judgement, Rules, judge
from afterrun.core.times import DAY, Instant
from fakes import NOW, FakeClock

HELD = (Reason("lease"),)
AGED = Policy(keep_for=timedelta(days=30))
RULES = Rules(now=NOW, policy=AGED, cutoff=NOW - 30 * DAY)


def unit(key: Key = "a", *, past: float = 0.5, held: tuple[Reason, ...] = HELD) -> Unit:
    """Return a tree that ended so many days before the policy lets it go."""
    end = NOW - 30 * DAY - int(past * DAY)
    return Unit(key, (key,), end, end, successful=True, protected=held)


class Memory:
    """Sets nothing aside, but remembers what it was given; fails as it is told."""

    def __init__(self, *failures: Exception, held: float = 0.0) -> None:
        self.failures = list(failures)
        self.held = held
        self.parts: list[Mapping[Key, Instant]] = []

    def put(self, until: Mapping[Key, Instant], *, seconds: float) -> float:
        assert seconds > 0
        self.parts.append(until)
        if self.failures:
            raise self.failures.pop(0)
        return self.held


def setting_aside(memory: Memory, *, rules: Rules = RULES) -> SettingAside:
    """Return what a live sweep has."""
    return SettingAside(memory, rules, pace=live_pace(0.02), clock=FakeClock())


def judged(count: int) -> list[tuple[Unit, Judgement]]:
    """Return so many protected trees with their judgements."""
    return [(found, judge(found, RULES)) for found in (unit(f"run {n}") for n in range(count))]


@pytest.mark.parametrize(
    ("past", "days"), [(0.1, 8), (7.9, 8), (8, 16), (23.9, 16), (24, 32), (55.9, 32), (56, 64), (900, 64)]
)
def test_it_looks_again_after_as_long_as_the_tree_has_been_held(past: float, days: int) -> None:
    """In powers of two, so that each look is about twice as far away as the last one."""
    assert look_again(unit(past=past), RULES) == NOW + days * DAY


def test_only_what_the_store_itself_protects_is_set_aside() -> None:
    """Not what goes, what a policy keeps or pins, what is blocked, nor a root that has not ended."""
    memory = Memory()
    pinned = Rules(now=NOW, policy=Policy(keep_for=timedelta(days=30), pins=frozenset("b")), cutoff=NOW)
    some = [
        unit("a"),
        unit("b", held=()),
        unit("c")._replace(blocked=(Reason("cycle"),)),
        unit("d")._replace(root_end=None),
        unit("e", held=()),
    ]
    aside = setting_aside(memory, rules=pinned)
    aside.note((found, judge(found, pinned)) for found in some)
    aside.put(rest=True)
    assert [list(part) for part in memory.parts] == [["a"]]


def test_a_full_transaction_is_made_at_once_and_the_rest_at_the_end() -> None:
    """Few trees of a page wait for those of the next."""
    memory = Memory()
    aside = setting_aside(memory)
    aside.note(judged(FIRST - 1))
    aside.put()
    assert memory.parts == []
    aside.put(rest=True)
    assert [len(part) for part in memory.parts] == [FIRST - 1]


def test_transactions_adapt_to_the_time_that_locks_are_held() -> None:
    """A slow one is followed by half as many trees, a quick one by twice as many."""
    slow, quick = Memory(held=1.0), Memory(held=0.001)
    for memory in (slow, quick):
        aside = setting_aside(memory)
        aside.note(judged(FIRST * 3))
        aside.put(rest=True)
    assert [len(part) for part in slow.parts][:2] == [FIRST, FIRST // 2]
    assert [len(part) for part in quick.parts] == [FIRST, FIRST * 2]


def test_what_cannot_be_locked_is_left_for_the_next_sweep() -> None:
    """It is no failure of the sweep, and the others go on."""
    memory = Memory(UnitFailure("lock", "busy"))
    aside = setting_aside(memory)
    aside.note(judged(FIRST + 1))
    aside.put(rest=True)
    assert sum(len(part) for part in memory.parts) == FIRST + 1
    assert not aside.missing


def test_without_the_right_nothing_more_is_tried_and_the_report_says_so() -> None:
    """Setting aside saves time, and a sweep does without; any other failure of the store ends it."""
    memory = Memory(StoreFailure("permission", "no"))
    aside = setting_aside(memory)
    aside.note(judged(FIRST * 2))
    aside.put(rest=True)
    assert (len(memory.parts), aside.missing) == (1, MISSING)
    broken = setting_aside(Memory(StoreFailure("disk-full", "no")))
    broken.note(judged(1))
    with pytest.raises(StoreFailure):
        broken.put(rest=True)
