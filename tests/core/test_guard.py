"""The guard: an automatic sweep asks before its first removal, and before an unusually large one."""

from __future__ import annotations

import pytest

from afterrun.core.guard import Count, History, counting_limit, decide, is_first_contact
from fakes import NOW

DAY = 86_400_000_000
SWEPT = History(swept=True, runs=1_000)

CONTACTS = [
    (False, NOW, True),
    (True, NOW - 30 * DAY, False),
    (True, NOW - 30 * DAY - 1, True),
    (True, NOW + 400 * DAY, False),
    (True, None, False),
]


@pytest.mark.parametrize(("swept", "newest", "first"), CONTACTS)
def test_first_contact_is_a_store_not_swept_or_long_silent(
    swept: bool, newest: int | None, first: bool
) -> None:
    """Promise 10: a clock 30 days after everything in the store is more likely wrong."""
    assert is_first_contact(History(swept=swept), now=NOW, newest=newest) is first


DECISIONS = [
    (SWEPT, False, 500, False, True, None),
    (SWEPT, False, 501, False, False, None),
    (SWEPT, False, 0, False, True, None),
    (History(swept=True, runs=10), False, 100, False, True, None),
    (History(swept=True, runs=10), False, 101, False, False, None),
    (History(swept=True), False, 101, False, False, None),
    (History(swept=True), False, 100, False, True, None),
    (History(swept=False), True, 0, False, False, None),
    (History(swept=False), True, 1, True, False, None),
    (History(swept=False, shown=10), True, 12, True, True, 12),
    (History(swept=False, shown=10), True, 13, True, False, None),
    (History(swept=False, shown=10), True, 5, False, False, None),
    (History(swept=False, shown=0), True, 0, True, True, 0),
    (History(swept=False, allowance=7), True, 7, False, True, 7),
    (History(swept=False, allowance=7), True, 8, False, False, None),
    (History(swept=True, runs=1_000, shown=600), False, 720, True, True, 720),
    (History(swept=True, runs=1_000, shown=600), False, 721, True, False, None),
]


@pytest.mark.parametrize(("history", "first", "expired", "approved", "allowed", "allowance"), DECISIONS)
def test_the_guard_decides(
    history: History, first: bool, expired: int, approved: bool, allowed: bool, allowance: int | None
) -> None:
    """Promise 10: over half and over 100, or the first time, it asks; a yes admits 1.2 times what it saw."""
    decision = decide(history, first=first, expired=Count(expired, expired), approved=approved)
    assert (decision.allowed, decision.allowance) == (allowed, allowance)
    assert bool(decision.why) is not allowed


def test_the_share_is_taken_of_runs_since_trees_differ_in_size() -> None:
    """Promise 10: 300 trees of four runs are nearly all of a store of 1,201 runs."""
    history = History(swept=True, runs=1_201)
    assert not decide(history, first=False, expired=Count(300, 1_200), approved=False).allowed
    assert decide(history, first=False, expired=Count(300, 300), approved=False).allowed


@pytest.mark.parametrize(
    ("history", "limit"),
    [
        (History(swept=True), Count(100, 0)),
        (History(swept=True, runs=10), Count(100, 5)),
        (History(swept=True, runs=1_000), Count(100, 500)),
        (History(swept=False, runs=1_000, shown=5_000), Count(6_000, 500)),
        (History(swept=False, allowance=900), Count(900, 0)),
    ],
)
def test_counting_stops_where_more_would_change_nothing(history: History, limit: Count) -> None:
    """One more of both than the limit decides as any number beyond it does."""
    assert counting_limit(history) == limit
    for first in (True, False):
        for approved in (True, False):
            beyond = [
                decide(
                    history,
                    first=first,
                    expired=Count(limit.units + more, max(limit.runs, limit.units) + more),
                    approved=approved,
                ).allowed
                for more in (1, 2, 10_000_000)
            ]
            assert len(set(beyond)) == 1
