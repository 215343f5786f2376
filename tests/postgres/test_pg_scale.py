"""Large stores on PostgreSQL are no special case but for the time they take; nobody has gathered statistics.

The short form takes less than a minute on a machine of its own; AFTERRUN_SOAK=1 asks for the sizes that large
installations have.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from afterrun import Budget, Policy
from afterrun.core import sweep as core_sweep
from afterrun.core.batch import live_pace, offline_pace
from afterrun.core.store import Cursor, Store
from afterrun.stores.sql.candidates import WINDOW
from fakes import FakeClock, sweep
from memory import RUNS, STEPS, Counting
from pg_server import Server
from postgres.statement_tap import dialect_of, driver_of, tapped
from sites import DAY_MS, EVENTS, NOW_MS, OLD_MS, SCHEMA, PostgresSite

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3_600)]

SOAK = os.environ.get("AFTERRUN_SOAK") == "1"
MONTH = Policy(keep_for=timedelta(days=30))
PAGE = 1_000

LONGEST_SECONDS = 5.0
"""What no statement may exceed: the deadline of a whole batch beside a working engine. Most take some
milliseconds; a machine that is shared may be many times slower."""

ADD = f"""
INSERT INTO {SCHEMA}.{RUNS}
    (workflow_uuid, parent_workflow_id, status, name, created_at, updated_at, completed_at, forked_from)
    SELECT {{key}}, {{parent}}, '{{status}}', 'import', 1, {OLD_MS}, {{ended}}, {{base}}
    FROM generate_series(1, %s::bigint) AS n
"""
OWN_ROWS: Mapping[str, str] = {
    STEPS: "(workflow_uuid, function_id, function_name) SELECT workflow_uuid, 1, 'step'",
    EVENTS: "(workflow_uuid, key, value) SELECT workflow_uuid, 'event', 'v'",
}
"""What a run has besides itself."""


def size(short: int, full: int) -> int:
    """Return how many there are."""
    return full if SOAK else short


class Large:
    """A store that is filled by the server itself."""

    def __init__(self, site: PostgresSite) -> None:
        self.site = site

    @property
    def store(self) -> Store:
        return self.site.store

    def add(
        self,
        count: int,
        key: str,
        *,
        parent: str = "NULL",
        status: str = "SUCCESS",
        ended: str = f"{OLD_MS} + n",
        base: str = "NULL",
        rows: bool = False,
    ) -> None:
        """Add runs; key, parent, end and the base of a fork are SQL with `n` in it, ``rows`` are own rows."""
        text = ADD.format(key=f"'{key}' || n", parent=parent, status=status, ended=ended, base=base)
        self.site._back.execute(text.encode(), [count])
        if rows:
            for table, values in OWN_ROWS.items():
                own = (
                    f"INSERT INTO {SCHEMA}.{table} {values} FROM {SCHEMA}.{RUNS} WHERE workflow_uuid LIKE %s"
                )
                self.site._back.execute(own.encode(), [f"{key}%"])

    def one(self, statement: str) -> int:
        """Return the one number that a statement yields."""
        row = self.site._back.execute(statement.encode()).fetchone()
        assert row is not None
        return int(row[0])

    def runs(self, key: str = "") -> int:
        """Count the runs whose keys begin so."""
        return self.one(f"SELECT count(*) FROM {SCHEMA}.{RUNS} WHERE workflow_uuid LIKE '{key}%'")


@pytest.fixture
def large(postgres: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Large]:
    """Give an empty store; a unit that goes alone has more time for each row than on a machine of its own."""
    monkeypatch.setattr(core_sweep, "SECONDS_A_ROW", 8 * core_sweep.SECONDS_A_ROW)
    site = PostgresSite(postgres, state=tmp_path)
    yield Large(site)
    site.close()


@contextmanager
def timed(store: Store) -> Iterator[list[float]]:
    """Collect the seconds that each statement takes."""
    taken: list[float] = []
    with tapped(store) as tap:
        since = [0.0]

        def hear(moment: str, _text: str) -> None:
            if moment == "after":
                taken.append(time.monotonic() - since[0])
            since[0] = time.monotonic()

        tap.hear = hear
        yield taken


@contextmanager
def counted(store: Store) -> Iterator[list[int]]:
    """Count the rows of the engine's tables that the server reads meanwhile."""
    read: list[int] = []
    driver_of(store).execute("SELECT pg_stat_force_next_flush()")  # what was read before counts no more
    with dialect_of(store).snapshot():
        yield read
        row = driver_of(store).execute(
            "SELECT sum(seq_tup_read + idx_tup_fetch)::bigint FROM pg_stat_xact_user_tables"
        )
        read.append(int((row.fetchone() or (0,))[0]))


def rows_of_pages(store: Store, *, limit: int = PAGE) -> list[int]:
    """Read all pages of the first stream; return the rows that the server read for each."""
    cursor: Cursor | None = Cursor()
    rows: list[int] = []
    while cursor is not None:
        with counted(store) as read:
            cursor = store.page(cursor, cutoff=store.now(), limit=limit).cursor
        rows += read
    return rows


def test_many_expired_units_go_in_sweeps_that_are_cut_off(large: Large) -> None:
    """Each of several sweeps goes on where the one before ended, all that may go goes, and nothing else."""
    count = size(6_000, 70_000)
    large.add(count, "x", rows=True)
    large.add(300, "live", status="PENDING", ended="NULL", rows=True)
    part = count // 4
    start: Cursor | None = None
    removed: list[int] = []
    ended = "budget"
    with timed(large.store) as taken:
        while ended == "budget":
            done = sweep(large.store, MONTH, budget=Budget(units=part), start=start)
            start, ended = done.cursor, done.report.ended
            removed.append(done.report.units.removed)
            if start is not None:
                assert isinstance(start.end, int)
                assert OLD_MS + sum(removed) - 2 * PAGE < start.end <= OLD_MS + sum(removed) + PAGE
    assert (ended, removed) == ("completed", 4 * [part])
    assert (large.runs(), large.runs("live")) == (300, 300)
    assert list(large.site.retention.verify()) == []
    assert max(taken) < LONGEST_SECONDS


def test_many_expired_units_go_offline(large: Large) -> None:
    """The same in large batches, of which the plan said how many units and rows they take."""
    count = size(20_000, 70_000)
    large.add(count, "x", rows=True)
    planned = large.site.retention.plan(MONTH)
    with timed(large.store) as taken:
        report = sweep(large.store, MONTH, pace=offline_pace()).report
    assert (planned.units.expired, report.units.removed, report.units.deferred) == (count, count, 0)
    assert +report.rows == +planned.rows == {RUNS: count, STEPS: count, EVENTS: count}
    assert large.runs() == 0
    assert max(taken) < 60.0, "the deadline of an offline batch"


@pytest.mark.parametrize("offline", [False, True], ids=["live", "offline"])
def test_one_tree_of_very_many_children_goes_whole(large: Large, offline: bool) -> None:
    """A unit beyond the bound of a batch goes alone, in one transaction, and its neighbours in their own."""
    children = size(5_000, 20_000)
    large.add(3, "x", rows=True)
    large.add(children, "child", parent="'x2'", rows=True)
    report = sweep(large.store, MONTH, pace=offline_pace() if offline else live_pace(0.05)).report
    assert (report.ended, report.units.removed, report.units.deferred) == ("completed", 3, 0)
    assert report.rows[RUNS] == children + 3
    assert large.runs() == 0
    assert large.one(f"SELECT count(*) FROM {SCHEMA}.{STEPS}") == 0


def test_one_tree_of_very_many_children_stays_whole(large: Large) -> None:
    """One live member among very many keeps them all, and the reason is found page by page."""
    children = size(5_000, 20_000)
    large.add(3, "x")
    large.add(children, "child", parent="'x2'")
    large.add(1, "live", parent=f"'child{children}'", status="PENDING", ended="NULL")
    report = sweep(large.store, MONTH).report
    assert (report.units.removed, report.units.protected) == (2, {"live-member": 1})
    assert large.runs("child") == children


def test_protected_roots_in_front_are_passed_sweep_by_sweep(large: Large) -> None:
    """However they are protected, roots that stay hold up none of those behind, whatever a sweep's time."""
    count = 500
    for name, days in (("p", 3), ("held", 2), ("base", 1)):
        large.add(count, name, ended=f"{OLD_MS - days * DAY_MS} + n", rows=True)
    large.add(count, "live", parent="'p' || n", status="PENDING", ended="NULL", base="'base' || n")
    large.site._back.execute(
        f"INSERT INTO {SCHEMA}.{STEPS} (workflow_uuid, function_id, function_name, child_workflow_id)"
        f" SELECT 'live1', n, 'wait', 'held' || n FROM generate_series(1, {count}) AS n".encode()
    )
    large.add(100, "x", rows=True)
    pace = replace(live_pace(0.05), page=100)
    start: Cursor | None = None
    removed = passed = 0
    for _ in range(3 * count):
        clock = FakeClock(tick=0.1)
        done = sweep(large.store, MONTH, pace=pace, clock=clock, budget=Budget(seconds=1.0), start=start)
        removed += done.report.units.removed
        passed += sum(done.report.units.protected.values())
        assert start is None or done.cursor is None or done.cursor > start
        start = done.cursor
        if start is None:
            break
    assert (removed, passed) == (100, 3 * count)
    assert large.runs() == 4 * count


def test_very_many_finished_children_of_a_live_run_are_passed_at_one_cost(large: Large) -> None:
    """A page of children that cannot go reads as many rows at the end as at the beginning."""
    count = size(50_000, 1_000_000)
    large.add(1, "live", status="PENDING", ended="NULL")
    large.add(count, "c", parent="'live1'", ended=f"{OLD_MS - DAY_MS} + n")
    large.add(2, "x", rows=True)
    rows = rows_of_pages(large.store)
    assert len(rows) == count // PAGE + 1
    assert max(rows) <= 5 * PAGE
    counting = Counting(large.store)
    with timed(large.store) as taken:
        done = sweep(counting, MONTH)
    assert (done.report.ended, done.report.units.removed) == ("completed", 2)
    assert done.report.units.scanned == count + 2
    assert counting.calls["page"] == count // PAGE + len(large.store.streams())
    assert large.runs() == count + 1
    assert max(taken) < LONGEST_SECONDS


@pytest.mark.parametrize("spread", [1, 5_000], ids=["one time", "several times"])
def test_runs_that_ended_at_the_very_same_time_are_read_at_one_cost(large: Large, spread: int) -> None:
    """Cancelled all at once, however many: no page sorts them all again, and each run is met once."""
    count = size(50_000, 400_000)
    large.add(count, "x", ended=f"{OLD_MS} + n * {spread} / {count}" if spread > 1 else str(OLD_MS))
    met: set[object] = set()
    cursor: Cursor | None = Cursor()
    read: list[int] = []
    while cursor is not None:
        with counted(large.store) as rows:
            page = large.store.page(cursor, cutoff=large.store.now(), limit=PAGE)
        assert page.scanned <= PAGE
        met.update(unit.key for unit in page.units)
        cursor, read = page.cursor, read + rows
    assert len(met) == count
    sorts = sum(rows > 10 * PAGE for rows in read)
    assert sorts <= 1 + count // WINDOW
    assert sum(read) <= count * (6 + count // WINDOW)


@pytest.mark.parametrize("ties", [99, 100, 101, 250, 1_000])
def test_runs_that_ended_at_the_very_same_time_all_go(large: Large, ties: int) -> None:
    """Groups of equal times as large as a page, larger and smaller: all go, also where sweeps are cut off."""
    count = 2_000
    large.add(count, "x", ended=f"{OLD_MS} + n / {ties}", rows=True)
    large.add(200, "p", ended=f"{OLD_MS} + n / {ties}")
    large.add(200, "live", parent="'p' || n", status="PENDING", ended="NULL")
    pace = replace(live_pace(0.05), page=100)
    start: Cursor | None = None
    removed: list[int] = []
    ended = "budget"
    while ended == "budget":
        done = sweep(large.store, MONTH, pace=pace, budget=Budget(units=700), start=start)
        start, ended = done.cursor, done.report.ended
        removed.append(done.report.units.removed)
    assert (removed, ended) == ([700, 700, 600], "completed")
    assert (large.runs("x"), large.runs("p")) == (0, 200)


def test_a_run_that_ends_anew_while_its_time_is_read_is_met_at_its_new_place(large: Large) -> None:
    """Keys that were read ahead are only keys: whoever was resumed meanwhile is not met as ended."""
    large.add(500, "x", ended=str(OLD_MS))
    pages = []
    cursor: Cursor | None = Cursor()
    while cursor is not None:
        page = large.store.page(cursor, cutoff=large.store.now(), limit=100)
        pages.append({unit.key for unit in page.units})
        if len(pages) == 1:
            assert "x99" not in pages[0]
            large.site.change("x99", status="PENDING", completed_at=None)
            large.site.change("x98", completed_at=NOW_MS - 40 * DAY_MS)
            large.site.drop("x97")
        cursor = page.cursor
    met = [key for page in pages for key in page]
    assert len(met) == len(set(met)) == 498
    assert not {"x99", "x97"} & set(met)
    assert "x98" in pages[-1]
