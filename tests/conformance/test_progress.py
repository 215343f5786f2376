"""A sweep gets past what cannot go, within its bounds, and goes on where it was cut off."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from afterrun import Budget, Policy
from afterrun.core.batch import Pace, live_pace, offline_pace
from afterrun.core.store import Cursor
from dumps import Row
from fakes import FakeClock, Memories, survey, sweep
from memory import RUNS, Counting, Holding
from sites import DAY_MS, NOW_MS, OLD_MS, Site, fill, keys, live, run

MONTH = Policy(keep_for=timedelta(days=30))


def small_pages(keys: int) -> Pace:
    """Return a live pace that reads a few keys at a time."""
    return replace(live_pace(0.02), page=keys)


def guarded(count: int) -> list[Row]:
    """Make old roots that cannot go: each has a live child."""
    roots = [run(f"p{number}", completed_at=OLD_MS - DAY_MS + number) for number in range(count)]
    return [*roots, *(live(f"c{number}", f"p{number}") for number in range(count))]


def expired(count: int, name: str = "x") -> list[Row]:
    """Make roots that can go, one after another."""
    return [run(f"{name}{number}", completed_at=OLD_MS + number) for number in range(count)]


def test_protected_roots_in_front_hold_nothing_up(site: Site) -> None:
    """Promise 6: 1,500 roots that cannot go lie before ten that can; one sweep gets there."""
    fill(site, [*guarded(1_500), *expired(10)])
    done = sweep(site.store, MONTH)
    assert (done.report.ended, done.report.units.removed, done.cursor) == ("completed", 10, None)
    assert done.report.units.protected == {"live-member": 1_500}
    assert len(keys(site)) == 3_000


def test_finished_children_of_one_live_run_hold_nothing_up(site: Site) -> None:
    """Promise 6: 20,000 finished children of a live run are passed page by page, each page at one cost."""
    children = [run(f"c{number}", "root", completed_at=OLD_MS - DAY_MS + number) for number in range(20_000)]
    site.add(RUNS, live("root", updated_at=NOW_MS), *children, *expired(2))
    counting = Counting(site.store)
    done = sweep(counting, MONTH)
    assert (done.report.ended, done.report.units.removed) == ("completed", 2)
    assert done.report.units.scanned == 20_002
    assert counting.calls["page"] == 20 + len(site.store.streams())
    assert len(keys(site)) == 20_001


def test_the_cursor_grows_with_every_page_and_misses_nobody(site: Site) -> None:
    """Promise 6: equal times are told apart, so pages of one key neither repeat nor leave out a unit."""
    same = [run(f"same{number}") for number in range(7)]
    older = [run(f"s{number}", completed_at=None, updated_at=OLD_MS) for number in range(3)]
    site.add(RUNS, *same, *older, *expired(3))
    counting = Counting(site.store)
    report, going = survey(counting, MONTH, page=1)
    assert len(going) == 13
    assert set(going) == keys(site)
    assert report.units.scanned == 13
    places = [(c.stream, -1 if c.end is None else c.end, c.tie or 0) for c in counting.cursors]
    assert places == sorted(places)
    assert len(set(places)) == len(places)


@pytest.mark.parametrize("limit", [1, 4, 7])
def test_a_limit_of_units_is_kept_exactly_and_the_next_sweep_goes_on(site: Site, limit: int) -> None:
    """Promise 6: sweeps of a few units each, from cursor to cursor, remove everything in the end."""
    fill(site, [*guarded(20), *expired(10)])
    start: Cursor | None = None
    removed = []
    while True:
        done = sweep(site.store, MONTH, budget=Budget(units=limit), start=start)
        removed.append(done.report.units.removed)
        if done.report.ended == "completed":
            break
        assert done.report.ended == "budget"
        assert done.report.backlog_after == 10 - sum(removed)
        start = done.cursor
    assert max(removed) <= limit
    assert sum(removed) == 10
    assert done.cursor is None
    assert len(keys(site)) == 40


@pytest.mark.parametrize(
    ("units", "limit", "ended"), [(0, 0, "completed"), (3, 3, "completed"), (3, 0, "budget")]
)
def test_a_limit_that_leaves_nothing_cuts_nothing_off(site: Site, units: int, limit: int, ended: str) -> None:
    """A sweep that removed all there was has completed, also if that was just its limit."""
    fill(site, [*expired(units), *guarded(2)])
    done = sweep(site.store, MONTH, pace=small_pages(1), budget=Budget(units=limit))
    assert (done.report.ended, done.report.units.removed) == (ended, min(units, limit))


def test_a_budget_of_seconds_ends_a_sweep_that_only_reads(site: Site) -> None:
    """Promise 6: time counts on pages that hold nothing to remove, too, and the next sweep goes on there."""
    site.add(RUNS, *guarded(60), *expired(1))
    start: Cursor | None = None
    ends = []
    for _ in range(60):
        clock = FakeClock(tick=0.3)
        pace = small_pages(5)
        done = sweep(site.store, MONTH, pace=pace, clock=clock, budget=Budget(seconds=1.0), start=start)
        ends.append(done.report.ended)
        assert clock.seconds < 3.0
        start = done.cursor
        if done.report.ended == "completed":
            break
    assert ends[0] == "budget"
    assert ends[-1] == "completed"
    assert "x0" not in keys(site)


def test_a_few_units_far_apart_go_although_time_runs_out(site: Site) -> None:
    """Promise 6: units that fill no batch are not carried along until the time is up, again and again."""
    site.add(RUNS, run("first", completed_at=OLD_MS - 2 * DAY_MS), *guarded(200), *expired(1))
    start: Cursor | None = None
    for _ in range(100):
        clock = FakeClock(tick=0.1)
        done = sweep(
            site.store, MONTH, pace=small_pages(5), clock=clock, budget=Budget(seconds=1.0), start=start
        )
        start = done.cursor
        if done.report.ended == "completed":
            break
    assert done.report.ended == "completed"
    assert {"first", "x0"}.isdisjoint(keys(site))


def test_a_sweep_with_hardly_any_time_still_removes_something(site: Site) -> None:
    """Promise 6: however small the time, each sweep that finds something gets one batch done."""
    site.add(RUNS, *expired(500))
    done = sweep(site.store, MONTH, clock=FakeClock(tick=10.0), budget=Budget(seconds=0.001))
    assert done.report.ended == "budget"
    assert done.report.units.removed > 0


def test_a_closed_gate_interrupts_between_batches(site: Site) -> None:
    """Promise 6: when new work appears, the batch in hand is finished and nothing more is begun."""
    fill(site, expired(10))
    answers = iter([True, True, False])
    done = sweep(site.store, MONTH, pace=live_pace(0.02, max_units=1), gate=lambda: next(answers))
    assert (done.report.ended, done.report.units.removed, done.report.batches) == ("interrupted", 2, 2)
    assert done.report.backlog_after == 8
    again = sweep(site.store, MONTH, start=done.cursor)
    assert (again.report.ended, again.report.units.removed) == ("completed", 8)


@pytest.mark.parametrize("pace", [live_pace(0.02, max_units=1), offline_pace(max_units=1)])
def test_one_unit_a_batch(site: Site, pace: Pace) -> None:
    """With ``batch_units`` 1, every unit has a transaction of its own."""
    fill(site, expired(5))
    report = sweep(site.store, MONTH, pace=pace).report
    assert (report.batches, report.units.removed) == (5, 5)


def test_a_second_sweep_removes_nothing_and_only_reads_its_pages(site: Site) -> None:
    """Promise 6: with nothing new, a sweep takes no lock, no census and no look at what hangs on units."""
    fill(site, [*guarded(30), *expired(10), live("young")])
    assert sweep(site.store, MONTH).report.units.removed == 10
    before = site.dump()
    counting = Counting(site.store)
    again = sweep(counting, MONTH)
    assert (again.report.units.removed, again.report.batches, +again.report.rows) == (0, 0, {})
    assert site.dump() == before
    unasked = {"transaction", "census", "weigh", "count", "forgets", "settle", "outside"}
    assert unasked.isdisjoint(counting.calls)
    assert counting.calls["page"] == len(site.store.streams())


def test_what_came_in_between_is_found(site: Site) -> None:
    """A whole pass ends without a cursor, so the next one sees runs that ended meanwhile, old ones too."""
    fill(site, expired(3))
    assert sweep(site.store, MONTH).cursor is None
    fill(site, [run("late", completed_at=OLD_MS - DAY_MS)])
    assert sweep(site.store, MONTH).report.units.removed == 1


def test_only_narrows_and_never_adds(site: Site) -> None:
    """A list of ids lets fewer units go, never one that the policy keeps."""
    fill(site, [*expired(3), live("young")])
    report = sweep(site.store, MONTH, only={"x1", "young", "gone"}).report
    assert report.units.removed == 1
    assert keys(site) == {"x0", "x2", "young"}


def test_a_unit_that_is_left_alone_for_now_is_counted(site: Site) -> None:
    """A deferred unit that still waits is no candidate, and the report says that it is there."""
    fill(site, expired(3))
    report = sweep(site.store, MONTH, deferrals=Memories("x1")).report
    assert (report.units.removed, report.units.deferred, report.backlog_after) == (2, 1, 1)
    assert keys(site) == {"x1"}


def test_rests_are_as_long_as_the_locks_were_held(site: Site) -> None:
    """Promise 6: after each batch the store is free as long as it was locked, and at least 25 ms."""
    fill(site, expired(4))
    clock = FakeClock()
    holding = Holding(site.store, seconds_a_row=0.02)
    sweep(holding, MONTH, pace=live_pace(0.02, max_units=1), clock=clock)
    assert clock.sleeps == pytest.approx([0.06] * 4)
    fill(site, expired(2, "y"))
    clock = FakeClock()
    sweep(Holding(site.store, seconds_a_row=0.0001), MONTH, clock=clock)
    assert clock.sleeps == [0.025]
    fill(site, expired(2, "z"))
    clock = FakeClock()
    sweep(site.store, MONTH, pace=offline_pace(), clock=clock)
    assert clock.sleeps == []
