"""Periods, caps and narrower rules for run folders and result files."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta

import pytest

from afterrun import MatchRule, Policy, UsageError
from directory.pi_tree import DAY, Pass, PiTree, opened, planned, verdicts

NOON = datetime(2025, 6, 2, 12, tzinfo=UTC).timestamp()  # a Monday


def run_at(tree: PiTree, name: str, when: float, *, state: str) -> None:
    """Make a run of which all times are this moment."""
    moment = int(when * 1_000)
    tree.run(name, startedAt=moment - 1, endedAt=moment, lastUpdate=moment, state=state)
    tree.age(tree.runs / name, when)


def result_at(tree: PiTree, name: str, when: float) -> None:
    """Make a result of which all times are this moment."""
    file = tree.result(name, name, endedAt=int(when * 1_000))
    os.utime(file, (when, when))


def week(tree: PiTree) -> None:
    """Make two runs a day on three days, of which the later one failed on the last day."""
    for day in range(3):
        for clock in (1, 2):
            state = "failed" if (day, clock) == (2, 2) else "complete"
            run_at(tree, f"d{day}-{clock}", NOON + day * DAY + clock * 3_600, state=state)


@pytest.mark.parametrize(
    ("rules", "stay"),
    [
        ({"keep_daily": 9}, {"d0-2", "d1-2", "d2-1"}),
        ({"keep_daily": 9, "keep_last_counts": "any"}, {"d0-2", "d1-2", "d2-2"}),
        ({"keep_hourly": 2}, {"d1-2", "d2-1"}),
        ({"keep_weekly": 1}, {"d2-1"}),
        ({"cap_units": 2}, {"d2-1", "d2-2"}),
        ({"cap_units": 2, "pins": frozenset({"d0-1"})}, {"d0-1", "d2-1", "d2-2"}),
    ],
)
def test_periods_and_caps_hold_folders(tree: PiTree, rules: dict[str, object], stay: set[str]) -> None:
    """As they do rows: what is planned goes, and only that."""
    week(tree)
    policy = Policy(**rules)  # type: ignore[arg-type]
    with opened(tree.root) as store:
        assert planned(store.runs, policy).units.expired == 6 - len(stay)
    reports = Pass(tree.root, policy).run()
    assert reports[0].units.removed == 6 - len(stay)
    assert tree.names() == stay


def test_narrower_rules_hold_failed_runs(tree: PiTree) -> None:
    """By the engine's own words, or by what they mean."""
    week(tree)
    forever = timedelta(days=30_000)
    for words in (["failed"], ["failed", "complete"]):
        rules = (MatchRule(match={"status": words}, keep_for=forever),)
        found = verdicts(tree.root, policy=Policy(keep_for=timedelta(days=30), rules=rules))
        kept = {name for name, told in found.items() if told == {"recent", "keep-for"}}
        assert kept == ({"d2-2"} if len(words) == 1 else set(found))
    strange = (MatchRule(match={"status": ["faild"]}, keep_for=forever),)
    with pytest.raises(UsageError, match="did you mean 'failed'"):
        verdicts(tree.root, policy=Policy(keep_for=timedelta(days=30), rules=strange))


def test_results_have_periods_and_caps_of_their_own(tree: PiTree) -> None:
    """They make one group, have no status, and are counted apart from runs."""
    for day in range(3):
        for clock in (1, 2):
            result_at(tree, f"d{day}-{clock}.json", NOON + day * DAY + clock * 3_600)
    daily = verdicts(tree.root, policy=Policy(keep_daily=2), result=True)
    assert {name.rpartition("/")[2] for name, told in daily.items() if "keep-daily" in told} == {
        *("d1-2.json", "d2-2.json")
    }
    rules = (MatchRule(match={"status": ["failed", "successful"]}, keep_for=timedelta(days=30_000)),)
    capped = Policy(cap_units=2, keep_for=timedelta(days=30), rules=rules)
    assert all(told == {"expired"} for told in verdicts(tree.root, policy=capped, result=True).values())
    assert Pass(tree.root, Policy(cap_units=2)).run()[1].units.removed == 4
    assert {path.name for path in tree.results.rglob("*.json")} == {"d2-1.json", "d2-2.json"}


def test_a_cap_in_bytes_is_measured_on_a_sample_of_folders(tree: PiTree) -> None:
    """What runs take on disk, and how many runs that is."""
    week(tree)
    result_at(tree, "r.json", NOON)
    with opened(tree.root) as store:
        size, units = store.runs.content()
        assert (units, size % 6) == (6, 0)
        assert size >= sum(file.stat().st_size for file in tree.runs.rglob("*") if file.is_file())
        assert store.results is not None
        assert store.results.content()[1] == 1
        report = planned(store.runs, Policy(cap_bytes=size // 2))
        assert report.units.expired == 3
        assert any("cap_bytes" in line and "~3 units" in line for line in report.notices)
    assert Pass(tree.root, Policy(cap_bytes=1)).run()[0].units.removed == 5
    assert json.loads((tree.runs / "d2-2" / "status.json").read_text())["state"] == "failed"
