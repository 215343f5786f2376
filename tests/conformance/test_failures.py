"""What fails and what changes under way: units alone, whole stores, and engines that are quicker."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from afterrun import Budget, Policy, Refused
from afterrun.core import batch, plan, sweep
from afterrun.core.batch import Pace, live_pace, offline_pace
from afterrun.core.errors import StoreFailure, UnitFailure
from afterrun.core.events import BatchDone, BatchFailed, Event, PageRead, SweepEnded, UnitDeferred
from afterrun.core.store import Cursor, Page
from afterrun.core.times import Instant
from dumps import Row
from fakes import Memories, survey
from fakes import sweep as sweep_once
from memory import RUNS, STEPS, Counting, Failing, Holding, Poisoned, Racing
from sites import NOW_MS, OLD_MS, Site, counts, event, fill, keys, live, run, step

MONTH = Policy(keep_for=timedelta(days=30))


def expired(count: int) -> list[Row]:
    """Make roots that can go, one after another."""
    return [run(f"x{number}", completed_at=OLD_MS + number) for number in range(count)]


CHANGES: list[tuple[str, Callable[[Site], None]]] = [
    ("live-member", lambda site: site.change("root", status="PENDING", completed_at=None)),
    ("live-member", lambda site: site.change("child", status="ENQUEUED")),
    ("grace", lambda site: site.change("child", completed_at=NOW_MS - 1)),
    ("unknown-end-time", lambda site: site.change("child", completed_at=None, updated_at=None)),
    ("members changed", lambda site: site.add(RUNS, run("new", "child"))),
    ("live-member", lambda site: site.add(RUNS, live("new", "root"))),
    ("cross-tree-reference", lambda site: site.add(STEPS, step("waiter", 7, "child"))),
    ("not-a-root", lambda site: site.add(RUNS, live("missing"))),
    ("members changed", lambda site: site.drop("child")),
]


@pytest.mark.parametrize(("why", "change"), CHANGES, ids=[f"{n}-{why}" for n, (why, _) in enumerate(CHANGES)])
def test_a_unit_that_changed_since_its_page_is_skipped_alone(
    site: Site, why: str, change: Callable[[Site], None]
) -> None:
    """Promise 2: the recheck sees the change; everything else in the batch goes."""
    fill(site, [run("root", "missing"), run("child", "root"), live("waiter"), *expired(5)])
    before = counts(site)
    racing = Racing(site.store, "root", lambda: change(site))
    report = sweep_once(racing, MONTH).report
    assert racing.raced
    assert report.units.skipped == {f"recheck: {why}": 1}
    assert (report.ended, report.units.removed, report.rows[RUNS]) == ("completed", 5, 5)
    assert "root" in keys(site)
    assert before["workflow_events"] - counts(site)["workflow_events"] - 5 in {0, 1}  # 1: dropped by the race


def test_a_unit_that_is_gone_is_skipped_alone(site: Site) -> None:
    """Promise 2: somebody else removed it first, and it is not counted as ours."""
    fill(site, [run("root"), *expired(5)])
    report = sweep_once(Racing(site.store, "root", lambda: site.drop("root")), MONTH).report
    assert (report.units.skipped, report.units.removed, report.rows[RUNS]) == ({"recheck: gone": 1}, 5, 5)


def test_rows_added_to_a_unit_after_its_page_go_with_it(site: Site) -> None:
    """Promise 4: what is removed is what hangs on the unit under the lock, so no orphan stays behind."""
    fill(site, expired(3))
    racing = Racing(site.store, "x0", lambda: site.add("workflow_events", event("x0", "late")))
    report = sweep_once(racing, MONTH).report
    assert report.rows["workflow_events"] == 4
    assert counts(site)["workflow_events"] == 0


@pytest.mark.parametrize("place", [0, 17, 39])
@pytest.mark.parametrize("pace", [live_pace(0.02), offline_pace()], ids=["live", "offline"])
def test_one_poisoned_unit_is_deferred_alone(site: Site, place: int, pace: Pace) -> None:
    """Promise 4: a batch that fails is rolled back whole, halved, and only the one unit waits."""
    fill(site, expired(40))
    poisoned = Poisoned(site.store, {f"x{place}"})
    memories, events = Memories(), list[Event]()
    report = sweep_once(poisoned, MONTH, pace=pace, deferrals=memories, observer=events.append).report
    assert (report.ended, report.units.removed, report.units.deferred) == ("completed", 39, 1)
    assert (memories.failed, memories.kinds) == ({f"x{place}": 1}, {f"x{place}": "constraint"})
    assert keys(site) == {f"x{place}"}
    assert counts(site)["workflow_events"] == 1
    assert len(poisoned.attempts) <= 25
    assert [type(event) for event in events].count(UnitDeferred) == 1
    assert any(isinstance(event, BatchFailed) and event.kind == "constraint" for event in events)
    assert sorted(memories.cleared) == sorted({f"x{n}" for n in range(40)} - {f"x{place}"})


def test_batches_grow_back_after_a_failure_that_passes(site: Site) -> None:
    """Promise 6: a lock that was busy once does not make the rest of the sweep go one by one."""
    fill(site, expired(400))
    busy = Failing(site.store, UnitFailure("lock", "busy"), at=1)
    quick = Holding(busy, seconds_a_row=0.000_001)
    report = sweep_once(quick, MONTH, pace=live_pace(0.02, max_units=40)).report
    assert (report.ended, report.units.removed, report.units.deferred) == ("completed", 400, 0)
    assert report.batches <= 12


def test_nine_failures_in_a_row_are_borne_and_ten_are_the_stores(site: Site) -> None:
    """Ten deferrals one after another say that the store is at fault; what was committed stays."""
    fill(site, expired(30))
    poisoned = Poisoned(site.store, {f"x{n}" for n in range(5, 14)}, kind="timeout")
    report = sweep_once(poisoned, MONTH, pace=live_pace(0.02, max_units=1)).report
    assert (report.ended, report.units.removed, report.units.deferred) == ("completed", 21, 9)

    fill(site, [run(f"y{n}", completed_at=OLD_MS + 100 + n) for n in range(10)])
    poisoned.keys |= {"y0"}
    report = sweep_once(poisoned, MONTH, pace=live_pace(0.02, max_units=1)).report
    assert (report.ended, report.units.deferred, report.units.removed) == ("failed", 10, 0)
    assert report.message.startswith("deferrals: 10 units failed one after another; last: timeout")


def test_failures_that_are_not_in_a_row_are_borne(site: Site) -> None:
    """A unit that goes between two that fail shows that the store itself is well."""
    fill(site, expired(30))
    poisoned = Poisoned(site.store, {f"x{n}" for n in range(0, 30, 2)})
    report = sweep_once(poisoned, MONTH, pace=live_pace(0.02, max_units=1)).report
    assert (report.ended, report.units.removed, report.units.deferred) == ("completed", 15, 15)


@pytest.mark.parametrize("kind", ["disk-full", "lost-connection", "read-only"])
def test_a_store_that_fails_keeps_what_was_committed(site: Site, kind: str) -> None:
    """Promise 4: the batch in progress is rolled back whole, the ones before it stay, the report says so."""
    fill(site, expired(10))
    failing = Failing(site.store, StoreFailure(kind, "it broke"), at=4)
    memories = Memories()
    done = sweep_once(failing, MONTH, pace=live_pace(0.02, max_units=2), deferrals=memories)
    assert (done.report.ended, done.report.message) == ("failed", f"{kind}: it broke")
    assert (done.report.units.removed, done.report.rows[RUNS], memories.failed) == (6, 6, {})
    assert keys(site) == {"x6", "x7", "x8", "x9"}
    assert counts(site)["workflow_events"] == counts(site)[STEPS] == 4
    assert sweep_once(site.store, MONTH, start=done.cursor).report.units.removed == 4


def test_an_error_nobody_foresaw_rolls_back_and_comes_out(site: Site) -> None:
    """Promise 4: even a defect leaves no unit half removed."""
    fill(site, expired(4))
    before = site.dump()
    with pytest.raises(ZeroDivisionError):
        sweep_once(Failing(site.store, ZeroDivisionError(), at=1), MONTH)
    assert site.dump() == before
    assert sweep_once(site.store, MONTH).report.units.removed == 4


@pytest.mark.parametrize("pace", [live_pace(0.02), offline_pace()], ids=["live", "offline"])
def test_an_oversized_unit_is_deferred_and_the_plan_names_it(
    site: Site, monkeypatch: pytest.MonkeyPatch, pace: Pace
) -> None:
    """Promise 6: a unit that no batch may take is named by the plan, waits in a sweep, and holds up none."""
    monkeypatch.setattr(plan, "LARGE_UNIT_ROWS", 20)
    for module in (plan, sweep):
        monkeypatch.setattr(module, "MAX_UNIT_ROWS", 30)
    fill(site, [*expired(5), run("huge"), *(run(f"part{n}", "huge") for n in range(10))])
    fill(site, [run("large"), *(run(f"piece{n}", "large") for n in range(7))])
    planned, going = survey(site.store, MONTH)
    assert (planned.oversized, planned.units.expired, planned.units.deferred) == (["huge"], 6, 1)
    assert planned.large == ["large"]
    assert sorted(going) == ["large", *(f"x{n}" for n in range(5))]
    memories = Memories()
    report = sweep_once(site.store, MONTH, pace=pace, deferrals=memories).report
    assert (report.ended, report.units.removed, report.units.deferred) == ("completed", 6, 1)
    assert (report.oversized, memories.kinds) == (["huge"], {"huge": "oversized"})
    assert +report.rows == +planned.rows
    assert len(keys(site)) == 11


def test_offline_no_batch_is_tried_in_vain_for_its_rows(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """What units weigh is guessed from some of them: a batch with too many rows would be done twice."""
    monkeypatch.setattr(batch, "PART_ROWS", 300)
    monkeypatch.setattr(sweep, "MAX_UNIT_ROWS", 400)
    fill(site, expired(60))
    for number in range(60):
        for place in range(20):
            site.add("workflow_events", event(f"x{number}", f"more{place}"))
    events = list[Event]()
    report = sweep_once(site.store, MONTH, pace=offline_pace(), observer=events.append).report
    assert (report.ended, report.units.removed) == ("completed", 60)
    assert not [told for told in events if isinstance(told, BatchFailed)]


def test_a_unit_larger_than_a_batch_goes_alone(site: Site) -> None:
    """Promise 6: its bound gives way to whole units: a large one has a transaction of its own."""
    parts = [run(f"part{n}", "large") for n in range(100)]
    fill(site, [run("large", completed_at=OLD_MS + 2), *parts, *expired(8)])
    events = list[Event]()
    report = sweep_once(site.store, MONTH, observer=events.append).report
    batches = [(event.units, event.members, event.rows) for event in events if isinstance(event, BatchDone)]
    assert (1, 101, 303) in batches
    assert report.units.removed == 9


def test_batches_adapt_to_the_time_they_hold_the_lock(site: Site) -> None:
    """Promise 6: slow rows make batches small, fast ones let them grow, and growth follows full batches."""
    fill(site, expired(1_000))
    slow = Holding(site.store, seconds_a_row=0.001)
    sweep_once(slow, MONTH, budget=Budget(units=300))
    assert slow.batches[0] > 100
    aim = site.store.hold / 0.001
    assert max(slow.batches[4:]) <= 1.5 * aim  # at 1 ms a row, and the largest unit beyond it
    fast = Holding(site.store, seconds_a_row=0.000_001)
    sweep_once(fast, MONTH)
    assert fast.batches[0] <= 200
    assert fast.batches == sorted(fast.batches[:-1]) + fast.batches[-1:]
    assert fast.batches[1] >= 1.3 * fast.batches[0]


def test_an_unknown_status_refuses_before_anything_goes(site: Site) -> None:
    """Promise 3: the census looks at every run, also at those that no page meets."""
    fill(site, [*expired(3), run("strange", status="ARCHIVED", completed_at=NOW_MS)])
    before = site.dump()
    with pytest.raises(Refused, match="ARCHIVED") as refused:
        sweep_once(site.store, MONTH)
    assert refused.value.reason == "unknown-status"
    assert site.dump() == before
    report, going = survey(site.store, MONTH)
    assert (len(going), report.units.blocked) == (3, {"unknown-status": 1})


def test_the_census_is_taken_once_and_only_if_something_goes(site: Site) -> None:
    """Counting all runs is dear: a sweep that removes nothing does without."""
    fill(site, [live("a")])
    counting = Counting(site.store)
    assert sweep_once(counting, MONTH).census is None
    fill(site, expired(10))
    done = sweep_once(counting, MONTH, pace=live_pace(0.02, max_units=1))
    assert counting.calls["census"] == 1
    assert done.census is not None
    assert done.census.rows == 11


def test_a_store_whose_cursor_stands_still_fails_instead_of_turning_round(site: Site) -> None:
    """Promise 6: the loop ends whatever a store does."""
    fill(site, expired(3))
    store = site.store

    class Stuck(Counting):
        def page(self, cursor: Cursor, *, cutoff: Instant, limit: int) -> Page:
            return store.page(Cursor(), cutoff=cutoff, limit=limit)._replace(cursor=cursor)

    report = sweep_once(Stuck(store), MONTH).report
    assert (report.ended, report.message.partition(":")[0]) == ("failed", "cursor")


def test_events_tell_counts_in_order(site: Site) -> None:
    """Promise 12: an observer learns of every page and batch, and of the end, and of nothing else."""
    fill(site, [*expired(3), live("a")])
    events = list[Event]()
    sweep_once(site.store, MONTH, observer=events.append)
    assert [type(event) for event in events if not isinstance(event, PageRead)] == [BatchDone, SweepEnded]
    assert sum(event.expired for event in events if isinstance(event, PageRead)) == 3
    ended = events[-1]
    assert isinstance(ended, SweepEnded)
    assert (ended.ended, ended.removed) == ("completed", 3)
