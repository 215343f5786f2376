"""The first automatic sweep of a store asks, an unusually large one too, and an answer serves once."""

from __future__ import annotations

from datetime import timedelta

import pytest

from afterrun import Budget, Policy, SweepOptions
from afterrun.core.errors import StoreFailure
from dumps import Row
from fakes import NOW, stand_still
from memory import Failing
from sites import NOW_MS, OLD_MS, SqliteSite, fill, keys, live, run

MONTH = Policy(keep_for=timedelta(days=30))
DAY = 86_400_000_000
ONE_BY_ONE = SweepOptions(batch_units=1)


def expired(count: int, name: str = "x") -> list[Row]:
    """Make roots that can go."""
    return [run(f"{name}{number}", completed_at=OLD_MS + number) for number in range(count)]


def in_use(site: SqliteSite) -> None:
    """Let an engine have written to the store just now."""
    fill(site, [live("now", created_at=NOW_MS)])


def settled(site: SqliteSite) -> None:
    """Make a store whose sweeps are trusted: one was approved and has finished."""
    in_use(site)
    fill(site, expired(1, "first"))
    site.retention.sweep(MONTH, always=True)


def test_the_first_sweep_removes_nothing_and_asks(sqlite_site: SqliteSite) -> None:
    """Promise 10: it plans, shows the fingerprint and ends ``guard``, as often as it is run."""
    fill(sqlite_site, expired(3))
    for _ in range(3):
        report = sqlite_site.retention.sweep(MONTH)
        assert (report.ended, report.units.expired, report.units.removed) == ("guard", 3, 0)
        assert report.fingerprint in report.message
    assert len(keys(sqlite_site)) == 3


def test_an_empty_first_sweep_asks_too(sqlite_site: SqliteSite) -> None:
    """Promise 10: that there is nothing to remove today does not approve what there is tomorrow."""
    assert sqlite_site.retention.sweep(MONTH).ended == "guard"
    fill(sqlite_site, expired(1))
    assert sqlite_site.retention.sweep(MONTH).ended == "guard"


def test_an_approval_admits_the_sweep_and_ends_first_contact(sqlite_site: SqliteSite) -> None:
    """Promise 10: once a sweep has finished, later ones of usual size run by themselves."""
    in_use(sqlite_site)
    fill(sqlite_site, expired(3))
    shown = sqlite_site.retention.sweep(MONTH).fingerprint
    report = sqlite_site.retention.sweep(MONTH, approve=shown)
    assert (report.ended, report.units.removed) == ("completed", 3)
    fill(sqlite_site, expired(2, "y"))
    assert sqlite_site.retention.sweep(MONTH).units.removed == 2


def test_a_manual_prune_ends_first_contact(sqlite_site: SqliteSite) -> None:
    """Promise 10: a person who pruned has looked."""
    in_use(sqlite_site)
    fill(sqlite_site, expired(3))
    sqlite_site.retention.prune(MONTH)
    fill(sqlite_site, expired(2, "y"))
    assert sqlite_site.retention.sweep(MONTH).units.removed == 2


def test_an_approval_of_something_that_was_not_shown_is_none(sqlite_site: SqliteSite) -> None:
    """Promise 10: a fingerprint that was guessed, or of another policy, lets nothing go."""
    fill(sqlite_site, expired(3))
    other = Policy(keep_for=timedelta(days=60))
    unseen = sqlite_site.retention.plan(MONTH).fingerprint
    assert sqlite_site.retention.sweep(MONTH, approve=unseen).ended == "guard"
    assert sqlite_site.retention.sweep(other, approve=unseen).ended == "guard"
    assert sqlite_site.retention.sweep(MONTH, approve="0" * 16).ended == "guard"
    assert len(keys(sqlite_site)) == 3


@pytest.mark.parametrize(("more", "removed"), [(2, 12), (3, 0)])
def test_an_approval_reaches_a_fifth_beyond_what_it_was_shown(
    sqlite_site: SqliteSite, more: int, removed: int
) -> None:
    """Promise 10: the store went on while a person thought, but not too far."""
    fill(sqlite_site, expired(10))
    shown = sqlite_site.retention.sweep(MONTH).fingerprint
    fill(sqlite_site, expired(more, "y"))
    assert sqlite_site.retention.sweep(MONTH, approve=shown).units.removed == removed


def test_an_approval_is_carried_over_sweeps_that_a_budget_ends(sqlite_site: SqliteSite) -> None:
    """Promise 10: it serves until its units are gone, without being given again, and then no more."""
    settled(sqlite_site)
    fill(sqlite_site, [*expired(200), *(live(f"live{n}") for n in range(20))])
    few = SweepOptions(budget=Budget(units=60))
    shown = sqlite_site.retention.sweep(MONTH, options=few)
    assert (shown.ended, shown.units.expired) == ("guard", 200)
    first = sqlite_site.retention.sweep(MONTH, options=few, approve=shown.fingerprint)
    assert (first.ended, first.units.removed) == ("budget", 60)
    removed = [sqlite_site.retention.sweep(MONTH, options=few).units.removed for _ in range(3)]
    assert removed == [60, 60, 20]
    fill(sqlite_site, expired(200, "y"))
    assert sqlite_site.retention.sweep(MONTH, options=few).ended == "guard"


def test_an_approval_of_a_first_sweep_is_carried_over_a_failure(sqlite_site: SqliteSite) -> None:
    """Promise 10: a sweep that failed used up what it removed, and what is left of the approval stands."""
    fill(sqlite_site, expired(10))
    shown = sqlite_site.retention.sweep(MONTH).fingerprint
    whole = sqlite_site.retention.store
    sqlite_site.retention.store = Failing(whole, StoreFailure("io", "broken"), at=4)  # type: ignore[assignment]
    report = sqlite_site.retention.sweep(MONTH, options=ONE_BY_ONE, approve=shown)
    assert (report.ended, report.units.removed) == ("failed", 3)
    sqlite_site.retention.store = whole
    fill(sqlite_site, expired(3, "y"))
    assert sqlite_site.retention.sweep(MONTH).ended == "guard"
    sqlite_site.drop("y0")
    shown = sqlite_site.retention.sweep(MONTH).fingerprint
    assert sqlite_site.retention.sweep(MONTH, approve=shown).units.removed == 9


@pytest.mark.parametrize(
    ("count", "stay", "ended"), [(100, 0, "completed"), (101, 0, "guard"), (101, 250, "completed")]
)
def test_over_half_and_over_a_hundred_asks(
    sqlite_site: SqliteSite, count: int, stay: int, ended: str
) -> None:
    """Promise 10: the share is of the rows at the last census, the number is of units."""
    in_use(sqlite_site)
    fill(sqlite_site, [*expired(1, "first"), *(live(f"live{n}") for n in range(stay))])
    sqlite_site.retention.sweep(MONTH, always=True)
    fill(sqlite_site, expired(count))
    assert sqlite_site.retention.sweep(MONTH).ended == ended


@pytest.mark.parametrize(("ahead", "ended"), [(30 * DAY, "completed"), (30 * DAY + 1, "guard")])
def test_a_clock_far_ahead_of_the_store_asks(sqlite_site: SqliteSite, ahead: int, ended: str) -> None:
    """Promise 10: a clock 30 days after everything in the store makes it a store of first contact."""
    settled(sqlite_site)
    sqlite_site.drop("now")
    fill(sqlite_site, [*expired(1), run("newest", created_at=NOW_MS, updated_at=NOW_MS, completed_at=NOW_MS)])
    stand_still(sqlite_site.retention, NOW + ahead)
    assert sqlite_site.retention.sweep(Policy(keep_for=timedelta(days=60))).ended == ended


def test_every_ending_leaves_a_record_without_ids(sqlite_site: SqliteSite) -> None:
    """Promise 12: guard, sweep and prune are on record, with counts and times alone."""
    fill(sqlite_site, expired(3, "secret-id-"))
    shown = sqlite_site.retention.sweep(MONTH).fingerprint
    sqlite_site.retention.sweep(MONTH, approve=shown)
    sqlite_site.retention.prune(MONTH)
    state = sqlite_site.retention._state.load(sqlite_site.store.identity)
    assert [(record.command, record.ended, record.removed) for record in state.records] == [
        ("sweep", "guard", 0),
        ("sweep", "completed", 3),
        ("prune", "completed", 0),
    ]
    (file,) = sqlite_site.path.with_suffix(".state").iterdir()
    assert "secret-id" not in file.read_text(encoding="utf-8")
