"""Everything is counted, nothing twice: members and rows, before and after, planned and removed."""

from __future__ import annotations

from datetime import timedelta

import pytest

from afterrun import FOREVER, Policy
from afterrun.core.batch import Pace, live_pace, offline_pace
from afterrun.core.plan import make_plan
from afterrun.core.store import Cursor
from afterrun.core.sweep import Sweep, SweepRequest
from dumps import Row, Value
from fakes import NOW, FakeClock, Memories, survey, sweep
from memory import RUNS, STEPS
from sites import DAY_MS, HOUR_MS, NOW_MS, OLD_MS, Site, counts, event, fill, keys, live, run, step

MONTH = Policy(keep_for=timedelta(days=30))


def everything(site: Site) -> None:
    """Fill a store with one unit of each kind, and rows that belong to none."""
    fill(
        site,
        [
            *(run("old"), run("old-child", "old"), run("old-grandchild", "old-child")),
            run("orphan", "gone"),
            *(live("live"), run("live-child", "live")),
            *(run("half"), live("half-child", "half")),
            run("young", completed_at=NOW_MS - DAY_MS),
            run("timeless", completed_at=None, updated_at=None),
            run("seconds", completed_at=OLD_MS // 1000),
            run("future", completed_at=NOW_MS + DAY_MS),
            *(run("cycle-a", "cycle-b"), run("cycle-b", "cycle-a"), run("tail", "cycle-a")),
            run("named"),
        ],
        steps=[step("live", 2, "named")],
    )
    site.add(STEPS, step("nobody", 1))


EXPECTED: dict[str, object] = {
    "expired": 2,
    "recent": 1,
    "protected": {"live-member": 2, "cross-tree-reference": 1},
    "blocked": {"unknown-end-time": 1, "unreadable-end-time": 1, "future-end-time": 1},
    "members": 13,
    "unrooted": 3,
}


def test_members_of_all_units_and_unrooted_rows_are_the_run_table(site: Site) -> None:
    """Promise 7: each row of the run table is in exactly one unit, or in none and counted so."""
    everything(site)
    report, going = survey(site.store, MONTH)
    told = report.units.as_json()
    assert {name: told[name] for name in EXPECTED} == EXPECTED
    assert report.units.members + report.units.unrooted == len(site.dump()[RUNS])
    assert sorted(going) == ["old", "orphan"]


def test_a_plan_removes_nothing(site: Site) -> None:
    """Promise 7: a plan only looks."""
    everything(site)
    before = site.dump()
    survey(site.store, MONTH)
    assert site.dump() == before


def test_keep_for_ever_counts_everything_and_reads_no_page(site: Site) -> None:
    """A policy that keeps everything still accounts for every row, and lets nothing go."""
    everything(site)
    policy = Policy(keep_for=FOREVER)
    report, going = survey(site.store, policy)
    assert (going, report.units.scanned, report.units.recent) == ([], 0, 5)
    assert report.units.members + report.units.unrooted == len(site.dump()[RUNS])
    assert sweep(site.store, policy).report.units.removed == 0


@pytest.mark.parametrize("pace", [live_pace(0.02), live_pace(0.02, max_units=1), offline_pace()])
def test_rows_before_minus_rows_after_are_the_rows_reported(site: Site, pace: Pace) -> None:
    """Promise 7: in every table, and they are those of the plan."""
    everything(site)
    before = counts(site)
    plan, _ = survey(site.store, MONTH)
    report = sweep(site.store, MONTH, pace=pace).report
    after = counts(site)
    assert {table: before[table] - after[table] for table in before if before[table] != after[table]} == dict(
        +report.rows
    )
    assert (+report.rows, report.units.removed) == (+plan.rows, plan.units.expired)
    assert report.rows[RUNS] == report.keys_forgotten == plan.keys_forgotten == 4


def test_a_plan_of_pages_of_any_size_counts_the_same(site: Site) -> None:
    """Pages cut the work, not the answer."""
    everything(site)
    reports = [survey(site.store, MONTH, page=size)[0].as_json() for size in (1, 2, 3, 1_000)]
    for report in reports:
        report["seconds"] = None
    assert all(report == reports[0] for report in reports)


@pytest.mark.parametrize("key", ["old", "old-child", "old-grandchild"])
def test_any_member_finds_the_whole_unit(site: Site, key: str) -> None:
    """A run's id names its whole tree, with the facts of all members."""
    everything(site)
    unit = site.store.find(key)
    assert (unit.key, set(unit.members)) == ("old", {"old", "old-child", "old-grandchild"})
    assert (unit.end, unit.root_end, unit.successful) == (OLD_MS * 1_000, OLD_MS * 1_000, True)
    assert unit.group == ("import", None)


@pytest.mark.parametrize(
    ("columns", "settled", "end", "root_end"),
    [
        ({"completed_at": OLD_MS + 5}, True, OLD_MS + 5, OLD_MS),
        ({"completed_at": None, "updated_at": OLD_MS + 7}, True, OLD_MS + 7, OLD_MS),
        ({"completed_at": None, "updated_at": None}, False, OLD_MS, OLD_MS),
        ({"completed_at": 12}, False, OLD_MS, OLD_MS),
        ({"status": "PENDING"}, False, OLD_MS, OLD_MS),
        ({"status": "WHAT"}, False, OLD_MS, OLD_MS),
    ],
)
def test_the_end_of_a_unit_is_the_latest_known_of_its_members(
    site: Site, columns: dict[str, Value], settled: bool, end: int, root_end: int
) -> None:
    """Age counts from the last end, and a unit one of whose members has none has not ended."""
    fill(site, [run("root"), run("child", "root", **columns)])
    unit = site.store.find("child")
    assert (unit.settled, unit.end, unit.root_end) == (settled, end * 1_000, root_end * 1_000)


def test_a_live_root_has_no_end_of_its_own(site: Site) -> None:
    """The time a live run was last written is not when it ended."""
    fill(site, [live("root"), run("child", "root")])
    unit = site.store.find("root")
    assert (unit.root_end, unit.end, unit.settled) == (None, OLD_MS * 1_000, False)


def test_a_child_of_a_run_whose_key_cannot_be_bound_is_no_root(site: Site) -> None:
    """Promise 3: a parent that exists makes a child, also where nobody can ask for that parent by its key."""
    if not site.any_text:
        pytest.skip("this store holds no key that cannot be bound")
    fill(site, [run("un\0readable"), run("child", "un\0readable"), run("orphan", "go\0ne")])
    assert {reason.name for reason in site.store.find("child").blocked} & {"not-a-root", "unreadable-key"}
    report, going = survey(site.store, MONTH)
    assert (going, report.units.blocked) == (["orphan"], {"unreadable-key": 1})
    assert report.units.members == 3


def test_the_census_counts_each_status_and_names_the_unknown(site: Site) -> None:
    """Promise 3: words are compared exactly, whatever their type."""
    odd: list[Value] = ["success", "SUCCESS ", "", None]
    site.add(RUNS, run("a"), live("b"), *(run(f"odd{n}", status=word) for n, word in enumerate(odd)))
    census = site.store.census()
    assert census.rows == 6
    assert census.statuses == {"SUCCESS": 1, "PENDING": 1, "success": 1, "SUCCESS ": 1, "": 1, "None": 1}
    assert census.unknown == {"success": 1, "SUCCESS ": 1, "": 1, "None": 1}


def test_what_is_left_to_read_is_counted_from_the_cursor_on(site: Site) -> None:
    """The backlog of a sweep that was cut off is an upper bound: ended roots after the cursor."""
    cutoff = NOW - 30 * DAY_MS * 1_000
    site.add(RUNS, *(run(f"r{n}", completed_at=OLD_MS + n) for n in range(6)), run("child", "r0"))
    streams = range(len(site.store.streams()))
    assert site.store.remaining(Cursor(), cutoff=cutoff, streams=streams) == 6
    page = site.store.page(Cursor(), cutoff=cutoff, limit=3)
    assert page.cursor is not None
    left = site.store.remaining(page.cursor, cutoff=cutoff, streams=streams)
    assert 6 - len(page.units) <= left <= 6 - len(page.units) + 1


GROUPS: list[tuple[Policy, set[str]]] = [
    (Policy(keep_last=1), {"import-3", "mail-2", "failed-mail", "shop-1"}),
    (Policy(keep_last=2), {"import-3", "import-2", "mail-2", "mail-1", "failed-mail", "shop-1"}),
    (Policy(keep_last=1, group_by=()), {"import-3"}),
    (Policy(keep_last=1, group_by=("name",)), {"import-3", "mail-2", "failed-mail"}),
    (Policy(keep_last=1, group_by=("application_name",)), {"import-3", "shop-1"}),
    (Policy(keep_last=1, keep_last_counts="any", group_by=("name",)), {"import-3", "failed-mail"}),
    (Policy(keep_last=9), {"import-1", "import-2", "import-3", "mail-1", "mail-2", "failed-mail", "shop-1"}),
]


@pytest.mark.parametrize(("policy", "kept"), GROUPS)
def test_keep_last_keeps_the_newest_of_each_group(site: Site, policy: Policy, kept: set[str]) -> None:
    """Successful roots count unless told otherwise, NULL is a group of its own, the newest end wins."""
    runs: list[Row] = [run(f"import-{n}", completed_at=OLD_MS + n) for n in (1, 2, 3)]
    runs += [run(f"mail-{n}", name="mail", completed_at=OLD_MS - 10 + n) for n in (1, 2)]
    runs.append(run("failed-mail", name="mail", status="ERROR", completed_at=OLD_MS))
    runs.append(run("shop-1", application_name="shop", completed_at=OLD_MS - 100))
    fill(site, [*runs, run("child", "import-1", completed_at=OLD_MS + 50)])
    report, _ = survey(site.store, policy)
    assert report.units.recent == len(kept)
    sweep(site.store, policy)
    assert keys(site) - {"child"} == kept


def test_later_arrivals_can_only_make_more_stay(site: Site) -> None:
    """The thresholds of keep_last are those of the plan: a run that goes meanwhile lets no other go."""
    fill(site, [run(f"r{n}", completed_at=OLD_MS + n) for n in range(4)])
    store = site.store
    plan = make_plan(store, Policy(keep_last=2), now=NOW)
    site.drop("r3")
    fill(site, [run("new", completed_at=NOW_MS - 2 * HOUR_MS)])
    Sweep(store, SweepRequest(plan=plan, pace=live_pace(0.02), clock=FakeClock(), deferrals=Memories())).run()
    assert keys(site) == {"r2", "new"}


@pytest.mark.parametrize(
    ("age_ms", "grace", "goes"),
    [
        (HOUR_MS, timedelta(hours=1), False),
        (HOUR_MS + 1, timedelta(hours=1), True),
        (1, timedelta(), True),
        (0, timedelta(), False),
        (3 * DAY_MS, timedelta(days=3), False),
    ],
)
@pytest.mark.parametrize("member", ["root", "child"])
def test_grace_holds_up_to_its_last_moment(
    site: Site, age_ms: int, grace: timedelta, goes: bool, member: str
) -> None:
    """What has just ended stays, whatever the other rules say; strictly later it goes."""
    fill(site, [run("root"), run("child", "root")])
    site.change(member, completed_at=NOW_MS - age_ms)
    sweep(site.store, Policy(keep_last=1, grace=grace))
    fill(site, [run("newest", completed_at=NOW_MS)])
    sweep(site.store, Policy(keep_last=1, grace=grace))
    assert ("root" not in keys(site)) is goes


def test_a_pin_of_a_child_keeps_its_whole_tree(site: Site) -> None:
    """Promise 11: a pin names any run."""
    fill(site, [run("root"), run("child", "root"), run("other")])
    policy = Policy(keep_for=timedelta(days=30), pins=frozenset({"child", "nobody"}))
    report, going = survey(site.store, policy)
    assert (going, report.units.protected) == (["other"], {"pinned": 1})
    sweep(site.store, policy)
    assert keys(site) == {"root", "child"}


def test_rows_of_nobody_stay_and_are_named(site: Site) -> None:
    """Rows that belong to no run are not ours to remove; verify names their tables."""
    fill(site, [run("old")])
    site.add("workflow_events", event("nobody"))
    sweep(site.store, MONTH)
    assert (counts(site)["workflow_events"], counts(site)[RUNS]) == (1, 0)
