"""Periods, caps and narrower rules for threads of LangGraph."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from afterrun import FOREVER, MatchRule, Policy, UsageError
from checkpoints.hostile_kit import Hostile

STEPS = (1, 2, 2, 9, 16, 40)
"""Days after which threads have ended: two on one day, in November and December 2023."""


@pytest.fixture
def store(tmp_path: Path) -> Hostile:
    """Give a store of threads that are done."""
    made = Hostile(tmp_path / "checkpoints.sqlite")
    for number, steps in enumerate(STEPS):
        made.thread(f"t{number}", steps=steps)
    return made


@pytest.mark.parametrize(
    ("rules", "stay"),
    [
        ({"keep_daily": 2}, {"t4", "t5"}),
        ({"keep_daily": 9}, {"t0", "t2", "t3", "t4", "t5"}),
        ({"keep_weekly": 9, "timezone": "Pacific/Chatham"}, {"t2", "t3", "t4", "t5"}),
        ({"keep_monthly": 9}, {"t4", "t5"}),
        ({"keep_yearly": 9}, {"t5"}),
        ({"cap_units": 4}, {"t2", "t3", "t4", "t5"}),
        ({"cap_bytes": 1}, {"t5"}),
        ({"cap_units": 2, "keep_for": FOREVER}, {"t4", "t5"}),
    ],
)
def test_the_newest_threads_stay(store: Hostile, rules: dict[str, Any], stay: set[str]) -> None:
    """All threads are one group, and the end is the time of the newest checkpoint."""
    with store.retention() as retention:
        plan = retention.plan(Policy(**rules))
    assert plan.units.expired == len(STEPS) - len(stay)
    assert store.prune(Policy(**rules)).units.removed == len(STEPS) - len(stay)
    assert set(store.left()) == stay


def test_a_thread_that_is_done_has_ended_well(store: Hostile) -> None:
    """That is its only status; it has no group column and holds no key."""
    rules = (MatchRule(match={"status": ["successful"]}, keep_for=FOREVER),)
    policy = Policy(keep_for=timedelta(days=30), rules=rules, keep_keys=FOREVER)
    with store.retention() as retention:
        plan = retention.plan(policy)
        assert plan.units.expired == 0
        assert plan.units.decided["keep_for[status=successful]"] == len(STEPS)
        assert any("keep_keys decides nothing" in line for line in plan.notices)
        for match in ({"status": ["pending"]}, {"name": ["x"]}):
            strange = (MatchRule(match=match, keep_for=FOREVER),)
            with pytest.raises(UsageError):
                retention.plan(Policy(keep_for=FOREVER, rules=strange))
