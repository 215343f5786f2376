"""Ways around the question that a sweep asks: none of them lets anything go."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from afterrun import AfterrunError, Budget, Policy, Report, Retention, SweepOptions
from dumps import Row
from fakes import NOW, retention_at
from sites import DAY_MS, NOW_MS, OLD_MS, SqliteSite, fill, keys, live, run

MONTH = Policy(keep_for=timedelta(days=30))

KILLED = f"""
import os, signal, sys
from datetime import timedelta
from itertools import count
from pathlib import Path
from afterrun import Policy, SweepOptions
from fakes import retention_at

asked = count(1)

def gate():
    if next(asked) == 4:
        os.kill(os.getpid(), signal.SIGKILL)
    return True

with retention_at({NOW}, Path(sys.argv[1])) as retention:
    options = SweepOptions(batch_units=1, gate=gate)
    retention.sweep(Policy(keep_for=timedelta(days=30)), options=options, approve=sys.argv[2])
"""
"""An approved sweep that is killed after its third batch."""


def expired(count: int, name: str = "x") -> list[Row]:
    """Make roots that can go."""
    return [run(f"{name}{number:04}", completed_at=OLD_MS + number) for number in range(count)]


def settled(site: SqliteSite, *others: Row) -> None:
    """Make a store in use whose sweeps are trusted: one has removed one unit and counted the others."""
    fill(site, [live("now", created_at=NOW_MS), *expired(1, "first"), *others])
    assert site.retention.sweep(Policy(keep_for=timedelta(days=99)), always=True).units.removed == 1


def trees(count: int, *, size: int) -> list[Row]:
    """Make trees that ended 60 days ago."""
    ended = NOW_MS - 60 * DAY_MS
    roots = [run(f"t{number}", completed_at=ended) for number in range(count)]
    members = [
        run(f"t{number}-{place}", f"t{number}", completed_at=ended)
        for number in range(count)
        for place in range(1, size)
    ]
    return [*roots, *members]


def test_large_is_a_share_of_runs_and_not_of_trees(sqlite_site: SqliteSite) -> None:
    """Promise 10: 300 trees of 4 are nearly all of 1,201 rows, so the sweep asks."""
    settled(sqlite_site, *trees(300, size=4))
    assert len(keys(sqlite_site)) == 1_201
    report = sqlite_site.retention.sweep(MONTH)
    assert (report.ended, report.units.expired, report.units.removed) == ("guard", 300, 0)
    assert "300 units with 1200 runs" in report.message


@pytest.fixture
def nowhere(tmp_path: Path) -> Path:
    """Give a state folder that cannot be made."""
    place = tmp_path / "nowhere"
    place.symlink_to(tmp_path / "missing" / "folder")
    return place


REMOVALS: dict[str, Callable[[Retention], Report]] = {
    "prune": lambda retention: retention.prune(MONTH),
    "sweep": lambda retention: retention.sweep(MONTH),
    "sweep, approved by its settings": lambda retention: retention.sweep(MONTH, always=True),
}


@pytest.mark.parametrize("removal", REMOVALS.values(), ids=REMOVALS)
def test_what_cannot_be_put_on_record_is_not_done(
    sqlite_site: SqliteSite, nowhere: Path, removal: Callable[[Retention], Report]
) -> None:
    """Promise 12: without a state folder nothing is removed, by no command."""
    fill(sqlite_site, expired(5))
    with (
        Retention(str(sqlite_site.path), state=nowhere) as retention,
        pytest.raises(AfterrunError, match="cannot be written"),
    ):
        removal(retention)
    assert len(keys(sqlite_site)) == 5


@pytest.fixture
def killed(sqlite_site: SqliteSite) -> SqliteSite:
    """Let an approved first sweep be killed after three of ten units."""
    fill(sqlite_site, [live("now", created_at=NOW_MS), *expired(10)])
    shown = sqlite_site.retention.sweep(MONTH).fingerprint
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(sqlite_site.path), shown],
        check=False,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == -signal.SIGKILL
    assert len(keys(sqlite_site)) == 1 + 7
    return sqlite_site


def test_a_sweep_after_a_killed_one_asks_again(killed: SqliteSite) -> None:
    """Promise 10: nobody knows how much of its approval a killed sweep used up, so all of it is."""
    report = killed.retention.sweep(MONTH)
    assert (report.ended, report.units.expired, report.units.removed) == ("guard", 7, 0)


def test_the_approval_of_a_killed_sweep_serves_no_second_time(killed: SqliteSite) -> None:
    """Promise 10: it is given again only for what a new question has shown."""
    fingerprint = killed.retention.plan(MONTH).fingerprint
    assert killed.retention.sweep(MONTH, approve=fingerprint).ended == "guard"
    assert killed.retention.sweep(MONTH, approve=fingerprint).units.removed == 7


def test_an_approval_that_is_brought_along_again_answers_no_later_question(sqlite_site: SqliteSite) -> None:
    """Promise 10: a timer with the fingerprint in its command is stopped until somebody looks."""
    fill(sqlite_site, [live("now", created_at=NOW_MS), *expired(20)])
    given = sqlite_site.retention.sweep(MONTH).fingerprint
    assert sqlite_site.retention.sweep(MONTH, approve=given).units.removed == 20
    fill(sqlite_site, expired(3, "y"))
    assert sqlite_site.retention.sweep(MONTH, approve=given).units.removed == 3  # of usual size
    fill(sqlite_site, expired(150, "z"))
    for _ in range(3):
        report = sqlite_site.retention.sweep(MONTH, approve=given)
        assert (report.ended, report.units.removed) == ("guard", 0)
        assert "Run it once without" in report.message
    assert "Run it once without" not in sqlite_site.retention.sweep(MONTH).message  # somebody looks
    assert sqlite_site.retention.sweep(MONTH, approve=given).units.removed == 150
    fill(sqlite_site, expired(150, "w"))
    assert sqlite_site.retention.sweep(MONTH, approve=given).ended == "guard"
    assert sqlite_site.retention.sweep(MONTH, approve=given).ended == "guard"


def test_what_is_left_of_an_approval_is_not_added_to_by_bringing_it_along(sqlite_site: SqliteSite) -> None:
    """Promise 10: a sweep that a budget ended leaves some of it, which serves, and nothing beyond."""
    fill(sqlite_site, [live("now", created_at=NOW_MS), *expired(10)])
    given = sqlite_site.retention.sweep(MONTH).fingerprint
    six = SweepOptions(budget=Budget(units=6))
    removed = [sqlite_site.retention.sweep(MONTH, options=six, approve=given).units.removed for _ in range(2)]
    assert removed == [6, 4]
    fill(sqlite_site, expired(150, "y"))
    ends = [sqlite_site.retention.sweep(MONTH, options=six, approve=given).ended for _ in range(2)]
    assert ends == ["guard", "guard"]


def test_a_killed_sweep_is_on_record_as_started(killed: SqliteSite) -> None:
    """Promise 12: one that came to no end leaves a record, too."""
    records = killed.retention._state.load(killed.store.identity).records
    assert [(record.command, record.ended) for record in records] == [
        ("sweep", "guard"),
        ("sweep", "started"),
    ]


@pytest.mark.parametrize("odd", [[], [live("odd", created_at=9_999_999_999_999)]], ids=["plain", "odd"])
def test_one_time_in_the_far_future_says_nothing_of_the_clock(tmp_path: Path, odd: list[Row]) -> None:
    """Promise 10: a clock 31 days after all credible times makes the sweep ask, whatever else is there."""
    site = SqliteSite(tmp_path / "app.sqlite")
    settled(site, *trees(3, size=1), *odd)
    site.retention.close()
    with retention_at(NOW + 31 * DAY_MS * 1_000, site.path) as retention:
        report = retention.sweep(MONTH)
    assert (report.ended, report.units.removed) == ("guard", 0)
    assert "the clock may be wrong" in report.message


def test_an_approval_with_pins_is_none_without_them(sqlite_site: SqliteSite) -> None:
    """Promise 11: a plan that spared some runs is not the plan that takes them."""
    fill(sqlite_site, expired(10))
    pinned = Policy(keep_for=timedelta(days=30), pins=frozenset({"x0000", "x0001"}))
    shown = sqlite_site.retention.sweep(pinned)
    assert shown.units.expired == 8
    assert shown.fingerprint != sqlite_site.retention.plan(MONTH).fingerprint
    assert sqlite_site.retention.sweep(MONTH, approve=shown.fingerprint).ended == "guard"
    assert len(keys(sqlite_site)) == 10


def test_what_is_remembered_of_one_store_serves_no_other(sqlite_site: SqliteSite, tmp_path: Path) -> None:
    """Promise 10: a state file that was copied to another store's place is refused, and nothing goes."""
    settled(sqlite_site)
    fill(sqlite_site, expired(5))
    other = SqliteSite(shutil.copyfile(sqlite_site.path, tmp_path / "other.sqlite"))
    (known,) = sqlite_site.retention._state.path.glob("*.json")
    shutil.copytree(known.parent, other.retention._state.path)
    place = other.retention._state.file_of(other.store.identity)
    (other.retention._state.path / known.name).rename(place)
    with other.retention as retention, pytest.raises(AfterrunError, match="another store"):
        retention.sweep(MONTH)
    assert len(keys(other)) == 6


@pytest.mark.parametrize(
    "policy",
    [
        Policy(keep_for=timedelta(days=30), pins=frozenset({"x1040"})),
        Policy(keep_for=timedelta(days=20)),
    ],
    ids=["other pins", "other age"],
)
def test_a_sweep_that_was_cut_off_is_resumed_by_the_same_policy_alone(
    sqlite_site: SqliteSite, policy: Policy
) -> None:
    """Promise 6: what another policy or other pins left behind the cursor goes, and is not called done."""
    pins = frozenset(f"x{number:04}" for number in range(1_000))
    first = Policy(keep_for=timedelta(days=30), pins=pins)
    sqlite_site.add("workflow_status", *expired(1_050))
    cut = sqlite_site.retention.sweep(first, options=SweepOptions(budget=Budget(units=10)), always=True)
    assert (cut.ended, cut.units.removed) == ("budget", 10)
    assert sqlite_site.retention.sweep(policy, always=True).ended == "completed"
    assert keys(sqlite_site) == policy.pins


def test_a_pin_that_holds_no_run_is_told(sqlite_site: SqliteSite) -> None:
    """Promise 11: a misspelt pin is noticed before its run is gone, and a right one is not mentioned."""
    fill(sqlite_site, expired(2))
    policy = Policy(keep_for=timedelta(days=30), pins=frozenset({"x0000", " x0001", "X0001"}))
    notices = [notice for notice in sqlite_site.retention.plan(policy).notices if "pins" in notice]
    assert notices == ["2 pins are the id of no run in this store: ' x0001', 'X0001'"]
    assert not any("pins" in notice for notice in sqlite_site.retention.plan(MONTH).notices)
