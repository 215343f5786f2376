"""What every row table must do under the loop, on rows in memory, SQLite and PostgreSQL alike."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

from afterrun.core.batch import live_pace
from afterrun.core.policy import DEFAULT_GRACE
from afterrun.core.row_rules import RowRules
from afterrun.core.row_tables import RowCounts, RowSource
from afterrun.core.rows import RowBudget, RowRequest, RowSweep, row_pace
from afterrun.core.times import DAY
from afterrun.stores.sql.rows import SqlRows
from generations.loops import Loops, PostgresLoops, SqliteLoops
from row_policies.memory_rows import NOW, FakeClock, Line, MemoryRows
from row_policies.tables import Shop, make

WEEK = timedelta(days=7)
RULES = [
    RowRules(keep_for=WEEK),
    RowRules(keep_latest=2),
    RowRules(keep_for=WEEK, keep_latest=3),
    RowRules(keep_for=timedelta(days=400)),
]
SEEDS = range(6)


def random_lines(seed: int) -> dict[int, Line]:
    """Return rows of which each column varies alone: ends around the cutoff, ties, unknown and odd ones."""
    draw = random.Random(seed)
    ends = [None, 5, NOW - 7 * DAY, NOW - 7 * DAY - 1_000, NOW - 7 * DAY + 1_000, NOW, NOW + DAY]
    ends += [NOW - n * DAY for n in (1, 6, 8, 30, 30, 30, 90)]
    count = draw.choice([0, 1, 20, 300])
    return {
        key: Line(draw.choice(ends), draw.choice(["", "a", "b"]), draw.choice(["", "", "", "head"]))
        for key in draw.sample(range(10_000), count)
    }


@dataclass
class Table:
    """A place for rows: in memory, or in the table of results of a shop."""

    shop: Shop | None
    stack: ExitStack
    memory: MemoryRows | None = None

    def open(self, lines: Mapping[int, Line], rules: RowRules) -> RowSource:
        """Fill the table and resolve rules against it."""
        if self.shop is None:
            self.memory = MemoryRows(lines, rules)
            return self.memory
        rows = [
            (key, line.part or None, None if line.end is None else line.end // 1_000)
            for key, line in lines.items()
        ]
        heads = [(str(key), key) for key, line in lines.items() if line.held]
        self.shop.store.run("DELETE FROM results", "DELETE FROM heads")
        for table, found in (("results", rows), ("heads", heads)):
            if found:
                self.shop.store.insert(table, found)
        return self.resolved(rules)

    def resolved(self, rules: RowRules) -> RowSource:
        """Resolve rules against what is there."""
        if self.shop is None:
            assert self.memory is not None
            return MemoryRows(self.memory.lines, rules)
        store = self.stack.enter_context(self.shop.open()).store
        profile = store.profile.units.rows["results"]
        return SqlRows(store, "results", profile, rules, now=NOW, grace=DEFAULT_GRACE)

    def left(self) -> set[int]:
        """Return the keys that are left."""
        if self.shop is not None:
            return {int(row[0]) for row in self.shop.store.rows("SELECT id FROM results")}
        assert self.memory is not None
        return set(self.memory.lines)


@pytest.fixture(params=["memory", "sqlite", "sqlite indexed", "postgres", "postgres indexed"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Table]:
    """Give an empty table of each kind, with an index by time and without."""
    kind, _, indexed = request.param.partition(" ")
    with ExitStack() as stack:
        if kind == "memory":
            yield Table(None, stack)
            return
        store: Loops = (
            SqliteLoops(tmp_path)
            if kind == "sqlite"
            else PostgresLoops(tmp_path, request.getfixturevalue("database"))
        )
        make(store)
        if indexed:
            store.run("CREATE INDEX results_made ON results (made)")
        yield Table(Shop(store), stack)


def expected(lines: Mapping[int, Line], rules: RowRules) -> tuple[set[int], RowCounts]:
    """Judge rows as plainly as the page on row policies says it: what goes, and what keeps the others."""
    known = {key: line for key, line in lines.items() if line.end not in (None, 5, NOW + DAY)}
    latest: set[int] = set()
    for part in {line.part for line in known.values()}:
        of_part = sorted(
            ((line.end or 0, key) for key, line in known.items() if line.part == part), reverse=True
        )
        latest.update(key for _, key in of_part[: rules.keep_latest or 0])
    wait = max(timedelta(hours=1), rules.keep_for if isinstance(rules.keep_for, timedelta) else timedelta())
    goes, counts = set(), RowCounts()
    for key, line in lines.items():
        if line.end is None:
            counts.blocked["unknown-end-time"] += 1
        elif key not in known:
            counts.blocked["future-end-time" if line.end > NOW else "unreadable-end-time"] += 1
        elif NOW - line.end <= wait / timedelta(microseconds=1):
            counts.recent += 1
        elif line.held:
            counts.protected["head"] += 1
        elif key in latest:
            counts.recent += 1
        else:
            goes.add(key)
    return goes, counts


def planned(source: RowSource) -> tuple[set[object], RowCounts]:
    """Return what a plan finds: what goes, and what keeps all others."""
    going: set[object] = set()
    counts, place = source.beyond(), None
    while True:
        page = source.page(place, limit=7)
        going.update(page.going)
        counts.recent += page.kept.recent
        counts.protected.update(page.kept.protected)
        counts.blocked.update(page.kept.blocked)
        place = page.place
        if place is None:
            return going, counts


def swept(source: RowSource, budget: RowBudget | None = None) -> RowSweep:
    """Give it one turn, on a clock that stands still."""
    pace = row_pace(source, live_pace(0.02), offline=False)
    sweep = RowSweep(source, RowRequest(clock=FakeClock()), pace)
    sweep.turn(budget or RowBudget())
    return sweep


@pytest.mark.parametrize("seed", SEEDS)
def test_plan_and_sweep_agree_with_the_page(table: Table, seed: int) -> None:
    """On random rows and under each kind of rules: the plan counts what goes, and exactly that goes."""
    lines = random_lines(seed)
    for rules in RULES:
        source = table.open(lines, rules)
        goes, counts = expected(lines, rules)
        assert planned(source) == (goes, counts)
        sweep = swept(source)
        assert table.left() == lines.keys() - goes
        assert (sweep.outcome, sweep.result.units.removed) == ("drained", len(goes))


def test_a_bounded_turn_leaves_the_rest(table: Table) -> None:
    """So many rows and no more; another turn takes the rest, and the oldest went first with an index."""
    lines = {n: Line(NOW - 30 * DAY + n * 1_000) for n in range(50)}
    source = table.open(lines, RowRules(keep_for=WEEK))
    sweep = swept(source, RowBudget(rows=20))
    assert (sweep.outcome, len(table.left())) == ("budget", 30)
    assert sweep.result.figures.backlog == 30
    sweep.turn(RowBudget())
    assert (sweep.outcome, table.left()) == ("drained", set())


def test_a_page_goes_on_after_rows_of_one_moment(table: Table) -> None:
    """Rows that tie are met once each, however small the pages."""
    lines = {n: Line(NOW - 30 * DAY) for n in range(40)}
    source = table.open(lines, RowRules(keep_for=WEEK))
    seen: list[object] = []
    place = None
    for _ in range(50):
        page = source.page(place, limit=3)
        seen += page.going
        place = page.place
        if place is None:
            break
    assert sorted(map(int, map(str, seen))) == list(range(40))


def test_removing_what_is_gone_or_young_removes_nothing(table: Table) -> None:
    """A batch takes only rows that may go by its own look, whatever it is asked."""
    lines = {1: Line(NOW), 2: Line(NOW - 30 * DAY, held="head"), 3: Line(None), 4: Line(NOW - 30 * DAY)}
    source = table.open(lines, RowRules(keep_for=WEEK))
    done = source.remove([1, 2, 3, 4, 99], seconds=5.0)
    assert (done.units, table.left()) == (1, {1, 2, 3})


def test_the_kept_set_grows_with_rules(table: Table) -> None:
    """An added rule never lets a row go that stayed without it."""
    lines = random_lines(3)
    one, _ = planned(table.open(lines, RowRules(keep_for=WEEK)))
    both, _ = planned(table.resolved(RowRules(keep_for=WEEK, keep_latest=2)))
    longer, _ = planned(table.resolved(RowRules(keep_for=WEEK * 2)))
    assert both <= one
    assert longer <= one
