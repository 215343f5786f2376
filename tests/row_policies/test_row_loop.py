"""The loop over row tables, on rows in memory and a clock that stands still: sizes, ends and fair shares."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from afterrun.core.batch import live_pace, offline_pace
from afterrun.core.errors import StoreFailure
from afterrun.core.events import BatchFailed, Event, UnitDeferred
from afterrun.core.row_rules import RowRules
from afterrun.core.rows import (
    FIRST_ROWS,
    LEAST_ROWS,
    MOST_ROWS,
    RowBudget,
    RowRequest,
    RowSizer,
    RowSweep,
    fair_turns,
    row_pace,
    turned,
)
from afterrun.core.times import DAY
from row_policies.memory_rows import NOW, Busy, FakeClock, Line, MemoryRows, Poisoned

WEEK = RowRules(keep_for=timedelta(days=7))
LIVE = live_pace(0.02)
PACE = row_pace(MemoryRows({}, WEEK), LIVE, offline=False)


def old(count: int, *, start: int = 0, held: str = "") -> dict[int, Line]:
    """Return rows that ended a month ago, in order."""
    return {start + n: Line(NOW - 30 * DAY + start + n, held=held) for n in range(count)}


def swept(
    rows: MemoryRows,
    budget: RowBudget | None = None,
    *,
    gate: Callable[[], bool] = lambda: True,
    observer: Callable[[Event], None] = lambda _: None,
) -> RowSweep:
    """Give a table one turn."""
    sweep = RowSweep(rows, RowRequest(clock=rows.clock, gate=gate, observer=observer), PACE)
    sweep.turn(budget or RowBudget())
    return sweep


def test_all_old_rows_go_and_the_table_is_drained() -> None:
    """What may go goes, what is held stays, and nothing else is left."""
    rows = MemoryRows({**old(3_000), **old(50, start=5_000, held="wait"), 9_000: Line(NOW - DAY)}, WEEK)
    sweep = swept(rows)
    assert len(rows.lines) == 51
    assert sweep.outcome == "drained"
    units, figures = sweep.result.units, sweep.result.figures
    assert (units.removed, units.expired, units.protected) == (3_000, 3_000, {"wait": 50})
    assert (figures.rows, figures.batches, figures.backlog) == (3_000, len(rows.batches), 0)


def test_drained_means_that_a_look_found_nothing() -> None:
    """After the last batch there is one more walk, and it finds what came behind the first one."""

    class Growing(MemoryRows):
        """A row with an old time comes in while the last batch goes."""

        def settle(self) -> None:
            if self.pages == 1:
                self.lines[-1] = Line(NOW - 90 * DAY)

    rows = Growing(old(10), WEEK)
    assert swept(rows).outcome == "drained"
    assert rows.lines == {}
    assert rows.batches == [10, 1]


def test_nothing_to_do_takes_one_walk() -> None:
    """A table with nothing old is looked at once and has no batch."""
    rows = MemoryRows({1: Line(NOW)}, WEEK)
    assert swept(rows).outcome == "drained"
    assert (rows.pages, rows.batches) == (1, [])


def test_locked_rows_are_no_end() -> None:
    """Rows that others hold all the time are left, and the table does not count as drained."""
    rows = Busy(old(10), WEEK)
    rows.locked = frozenset({3, 4})
    sweep = swept(rows)
    assert sorted(rows.lines) == [3, 4]
    assert sweep.outcome == "failed"
    assert sweep.result.figures.backlog == 2
    assert sweep.result.units.skipped.total() >= 2


def test_a_row_that_fails_alone_stops_no_other() -> None:
    """A batch that fails is halved until one row is left alone; the others go, and the table is not done."""
    rows = Poisoned(old(700), WEEK)
    rows.poison = frozenset({13, 600})
    told: list[Event] = []
    sweep = swept(rows, observer=told.append)
    assert sorted(rows.lines) == [13, 600]
    assert sweep.result.units.deferred == 2
    assert (sweep.outcome, sweep.result.figures.backlog) == ("failed", 2)
    assert sum(isinstance(event, UnitDeferred) for event in told) == 2
    assert any(isinstance(event, BatchFailed) for event in told)


def test_many_failures_are_the_tables() -> None:
    """Ten rows that fail one after another end the work on the table."""
    rows = Poisoned(old(700), WEEK)
    rows.poison = frozenset(range(700))
    sweep = swept(rows)
    assert (sweep.outcome, sweep.result.units.deferred, len(rows.lines)) == ("failed", 10, 700)


@pytest.mark.parametrize(("kind", "ends"), [("permission", False), ("disk-full", True)])
def test_a_fault_of_the_store_ends_all_and_one_of_the_table_does_not(kind: str, *, ends: bool) -> None:
    """What may be of one table alone ends its turn; a full disk is told to whoever runs the sweep."""

    class Failing(MemoryRows):
        """Fails at its first batch."""

        def before(self, keys: object) -> None:  # noqa: ARG002 - any will do
            raise StoreFailure(kind, "no")

    rows = Failing(old(10), WEEK)
    sweep = RowSweep(rows, RowRequest(clock=rows.clock), PACE)
    if ends:
        with pytest.raises(StoreFailure, match=kind):
            sweep.turn(RowBudget())
    else:
        sweep.turn(RowBudget())
    assert sweep.outcome == "failed"


def test_batches_grow_while_they_are_quick() -> None:
    """The first batch has 500 rows and none more than 2,000."""
    rows = MemoryRows(old(20_000), WEEK)
    rows.a_row = lambda: 0.00001
    swept(rows)
    assert rows.batches[0] == FIRST_ROWS
    assert max(rows.batches) <= MOST_ROWS
    assert rows.batches[1] > FIRST_ROWS


def test_slow_batches_shrink_but_not_to_nothing() -> None:
    """A batch that takes too long makes the next smaller, at least 50 rows."""
    rows = MemoryRows(old(2_000), WEEK)
    rows.a_row = lambda: 0.01
    sweep = swept(rows)
    assert rows.batches[:2] == [FIRST_ROWS, LEAST_ROWS]
    assert sweep.result.figures.slowest == pytest.approx(FIRST_ROWS * 0.01)


def test_the_size_settles_where_the_time_is_right() -> None:
    """Between half and one and a half of the time aimed at, the size stays as it is."""
    sizer = RowSizer(PACE)
    sizer.learn(rows=500, seconds=0.1, full=True)
    assert sizer.rows == FIRST_ROWS
    sizer.learn(rows=500, seconds=0.01, full=False)
    assert sizer.rows == FIRST_ROWS
    sizer.learn(rows=500, seconds=0.01, full=True)
    assert sizer.rows > FIRST_ROWS
    sizer.learn(rows=sizer.rows, seconds=0.2, full=True)
    assert LEAST_ROWS < sizer.rows < FIRST_ROWS


def test_the_lock_stays_free_as_long_as_it_was_held() -> None:
    """After each batch beside an engine there is a pause, and offline none."""
    rows = MemoryRows(old(1_200), WEEK)
    swept(rows)
    assert len(rows.clock.pauses) == len(rows.batches)
    assert rows.clock.pauses[0] == pytest.approx(FIRST_ROWS * 0.0002)
    rows = MemoryRows(old(1_200), WEEK)
    pace = row_pace(rows, offline_pace(), offline=True)
    RowSweep(rows, RowRequest(clock=rows.clock), pace).turn(RowBudget())
    assert (rows.clock.pauses, rows.batches) == ([], [1_200])


def test_one_unit_a_transaction_is_heeded() -> None:
    """A bound on the units of a batch bounds rows, too."""
    rows = MemoryRows(old(5), WEEK)
    pace = row_pace(rows, live_pace(0.02, max_units=2), offline=False)
    RowSweep(rows, RowRequest(clock=rows.clock), pace).turn(RowBudget())
    assert rows.batches == [2, 2, 1]


def test_a_budget_of_rows_is_kept() -> None:
    """No more rows go than the budget says, and the next turn goes on."""
    rows = MemoryRows(old(2_000), WEEK)
    sweep = swept(rows, RowBudget(rows=750))
    assert (sweep.outcome, len(rows.lines), sweep.result.figures.backlog) == ("budget", 1_250, 1_250)
    sweep.turn(RowBudget())
    assert (sweep.outcome, len(rows.lines)) == ("drained", 0)
    assert sweep.result.units.removed == 2_000


@pytest.mark.parametrize("seconds", [0.0, 0.000001])
def test_however_short_its_time_a_turn_makes_one_batch(seconds: float) -> None:
    """A budget that is over before it begins still lets one batch go: every sweep comes to something."""
    rows = MemoryRows(old(2_000), WEEK)
    sweep = swept(rows, RowBudget(seconds=seconds))
    assert (sweep.outcome, rows.batches) == ("budget", [FIRST_ROWS])


def test_a_gate_interrupts_between_batches() -> None:
    """When the host has work, the turn ends after a whole batch."""
    rows = MemoryRows(old(2_000), WEEK)
    sweep = swept(rows, gate=lambda: len(rows.batches) < 2)
    assert (sweep.outcome, len(rows.batches)) == ("interrupted", 2)


def test_a_sweep_goes_on_where_the_last_was_cut_off_and_then_looks_at_all() -> None:
    """The place of a cut-off turn is kept; from there on first, and then whatever stands before it."""
    rows = MemoryRows({**old(5_000, held="wait"), **old(3_000, start=10_000)}, WEEK)
    first = swept(rows, RowBudget(rows=400))
    assert first.place is not None
    rows.pages = 0
    rows.lines[1] = Line(rows.lines[1].end)  # no longer held
    second = RowSweep(rows, RowRequest(clock=rows.clock), PACE, start=first.place)
    second.turn(RowBudget(rows=100))
    assert rows.pages == 1
    second.turn(RowBudget())
    assert second.outcome == "drained"
    assert 1 not in rows.lines
    assert second.place is None


def tables(clock: FakeClock, *sizes: int, a_row: float = 0.001) -> list[RowSweep]:
    """Return tables of these sizes under one clock."""
    made = []
    for n, size in enumerate(sizes):
        rows = MemoryRows(old(size), WEEK, name=f"t{n}", clock=clock)
        rows.a_row = lambda: a_row
        made.append(RowSweep(rows, RowRequest(clock=clock), PACE))
    return made


def test_each_table_gets_an_equal_share_of_the_time() -> None:
    """With others waiting, tables leave them their share and divide theirs evenly."""
    clock = FakeClock()
    made = tables(clock, 100_000, 100_000, 100_000)
    fair_turns(made, RowBudget(seconds=40.0), others=1, gate=lambda: True)
    assert [sweep.outcome for sweep in made] == ["budget"] * 3
    assert [round(sweep.seconds) for sweep in made] == [10, 10, 10]


def test_what_a_table_leaves_goes_to_those_after_it() -> None:
    """A table that is drained early leaves its time to the others."""
    clock = FakeClock()
    made = tables(clock, 10, 100_000, 100_000)
    fair_turns(made, RowBudget(seconds=40.0), others=1, gate=lambda: True)
    assert [sweep.outcome for sweep in made] == ["drained", "budget", "budget"]
    assert [round(sweep.seconds) for sweep in made] == [0, 15, 15]


def test_a_second_round_goes_to_those_that_go_on() -> None:
    """Time that runs leave goes to the tables that are not drained yet, and to no other."""
    clock = FakeClock()
    made = tables(clock, 10, 20_000)
    fair_turns(made, RowBudget(seconds=30.0), others=1, gate=lambda: True)
    assert [sweep.outcome for sweep in made] == ["drained", "budget"]
    fair_turns(made, RowBudget(seconds=1_000.0), others=0, gate=lambda: True)
    assert [sweep.outcome for sweep in made] == ["drained", "drained"]


def test_a_bound_of_removals_is_shared_too() -> None:
    """So many removals and no more, and no table takes them all."""
    clock = FakeClock()
    made = tables(clock, 1_000, 1_000, 1_000)
    fair_turns(made, RowBudget(rows=120), others=1, gate=lambda: True)
    assert [sweep.result.units.removed for sweep in made] == [30, 30, 30]
    one = tables(clock, 10)
    fair_turns(one, RowBudget(rows=1), others=1, gate=lambda: True)
    assert one[0].result.units.removed == 1


def test_a_closed_gate_begins_no_further_table() -> None:
    """Once the host has work, tables that had no turn are interrupted, too."""
    clock = FakeClock()
    made = tables(clock, 1_000, 1_000)
    fair_turns(made, RowBudget(), others=1, gate=lambda: False)
    assert [sweep.outcome for sweep in made] == ["interrupted", "interrupted"]
    assert all(sweep.result.units.removed == 0 for sweep in made)


def test_the_order_rotates_and_owners_wait() -> None:
    """Each sweep begins with another table, but rows that another table takes along go before it."""
    names = ["a", "b", "c"]
    assert [turned(names, by=n)[0] for n in range(4)] == ["a", "b", "c", "a"]
    assert sorted(turned(names, by=1)) == names
    assert turned(names, by=0, first=["c"]) == ["c", "a", "b"]
    assert turned([], by=3) == ()
