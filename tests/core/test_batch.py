"""Batches: how many units one transaction takes, and how their size adapts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from afterrun.core.batch import PART_MEMBERS, Pending, Sizer, Weights, live_pace, offline_pace, parts
from afterrun.core.facts import Unit

PACE = replace(live_pace(0.020), rows=200)


def unit(name: str, members: int = 1) -> Unit:
    """Make a unit that has this many members."""
    return Unit(name, tuple(f"{name}{n}" for n in range(members)), None, None, successful=True)


def pending(*weights: int) -> Pending:
    """Make units that wait, of these many rows each."""
    waiting = Pending()
    waiting.push([unit(str(number)) for number in range(len(weights))], weights)
    return waiting


def taken(waiting: Pending, rows: int, max_units: int | None = None) -> tuple[list[str], bool]:
    """Take a batch; return the names of its units, and whether it was full."""
    batch = waiting.take(rows=rows, max_units=max_units)
    return [str(unit.key) for unit in batch.units], batch.full


LEARNING = [
    ({"rows": 200, "held": 0.010, "full": True}, 300),
    ({"rows": 200, "held": 0.010, "full": False}, 200),
    ({"rows": 200, "held": 0.0001, "full": True}, 300),
    ({"rows": 200, "held": 0.018, "full": True}, 222),
    ({"rows": 200, "held": 0.020, "full": True}, 200),
    ({"rows": 200, "held": 0.040, "full": True}, 100),
    ({"rows": 200, "held": 0.040, "full": False}, 100),
    ({"rows": 200, "held": 4.0, "full": True}, 50),
    ({"rows": 20, "held": 0.001, "full": False}, 200),
    ({"rows": 0, "held": 9.0, "full": True}, 200),
    ({"rows": 200, "held": 0.0, "full": True}, 200),
    ({"rows": 5_000, "held": 0.5, "full": True}, 200),
]


@pytest.mark.parametrize(("cost", "rows"), LEARNING)
def test_a_batch_grows_only_after_a_full_one_and_shrinks_after_a_slow_one(
    cost: dict[str, float], rows: int
) -> None:
    """Promise 6: half as much again at most, a quarter at least, and never beyond what fits the target."""
    sizer = Sizer(PACE, most=100_000)
    sizer.learn(rows=int(cost["rows"]), held=cost["held"], full=bool(cost["full"]))
    assert sizer.rows == rows


def test_a_batch_stays_between_one_row_and_the_most() -> None:
    """Promise 6: bounds hold however often it is fast or slow."""
    sizer = Sizer(PACE, most=1_000)
    for _ in range(50):
        sizer.learn(rows=sizer.rows, held=1e-6, full=True)
    assert sizer.rows == 1_000
    for _ in range(50):
        sizer.learn(rows=sizer.rows, held=10.0 * sizer.rows, full=True)
    assert sizer.rows == 1
    sizer.learn(rows=1, held=1e-6, full=True)
    sizer.learn(rows=1, held=1e-6, full=True)
    assert sizer.rows >= 1
    assert Sizer(offline_pace(), most=10).rows == 10


def test_a_batch_stops_shrinking_where_its_rows_are_not_what_takes_the_time() -> None:
    """A cost that each batch has, however small, would else make batches of one unit and pay it for each."""
    sizer = Sizer(PACE, most=1_000)
    sizer.rows = 1_000
    for _ in range(50):
        sizer.learn(rows=sizer.rows, held=0.5 + sizer.rows * 1e-5, full=True)
    assert sizer.rows == 1_000


def test_a_pause_is_never_longer_than_a_minute() -> None:
    """Whatever a person asks for, a sweep comes back to see its gate."""
    pace = replace(PACE, rest=1e30)
    assert pace.pause(held=1.0, waited=0.0) == 60.0


def test_a_batch_that_shrank_to_one_row_can_grow_again() -> None:
    """Promise 6: a slow moment does not make the rest of the sweep slow."""
    sizer = Sizer(PACE, most=1_000)
    for _ in range(20):
        sizer.learn(rows=sizer.rows, held=10.0, full=True)
    for _ in range(20):
        sizer.learn(rows=sizer.rows, held=0.001, full=True)
    assert sizer.rows > 10


@pytest.mark.parametrize(
    ("weights", "rows", "max_units", "names", "full"),
    [
        ((10, 10, 10), 25, None, ["0", "1"], True),
        ((10, 10, 10), 30, None, ["0", "1", "2"], True),
        ((10, 10, 10), 31, None, ["0", "1", "2"], False),
        ((99, 1), 10, None, ["0"], True),
        ((1, 99), 10, None, ["0"], True),
        ((1, 1, 1), 10, 2, ["0", "1"], True),
        ((1,), 10, 1, ["0"], False),
        ((), 10, None, [], False),
    ],
)
def test_a_batch_takes_whole_units_in_order_up_to_its_bound(
    weights: tuple[int, ...], rows: int, max_units: int | None, names: list[str], full: bool
) -> None:
    """Promise 6: a unit beyond the bound goes alone, and a batch that ran out of units was not full."""
    assert taken(pending(*weights), rows, max_units) == (names, full)


def test_members_bound_a_batch_too() -> None:
    """Promise 6: light units are bounded by their number of runs."""
    waiting = Pending(most_members=5)
    waiting.push([unit("a", 3), unit("b", 3), unit("c", 9)], [1, 1, 1])
    assert [taken(waiting, 1_000) for _ in range(3)] == [(["a"], True), (["b"], True), (["c"], False)]


@pytest.mark.parametrize(
    ("weights", "rows", "max_units", "fills"),
    [((10, 10), 20, None, True), ((10, 10), 21, None, False), ((1, 1), 99, 2, True), ((1,), 99, 2, False)],
)
def test_units_wait_until_they_fill_a_batch(
    weights: tuple[int, ...], rows: int, max_units: int | None, fills: bool
) -> None:
    """A page's last units wait for the next page's."""
    assert pending(*weights).fills(rows=rows, max_units=max_units) is fills


def test_a_batch_that_failed_is_put_back_in_its_place() -> None:
    """Promise 4: nothing is lost or reordered by a failure."""
    waiting = pending(5, 5, 5, 5)
    batch = waiting.take(rows=10, max_units=None)
    waiting.put_back(batch)
    assert len(waiting) == 4
    assert waiting.fills(rows=20, max_units=None)
    assert taken(waiting, 1_000)[0] == ["0", "1", "2", "3"]
    assert not waiting


def test_weights_are_the_average_of_what_went() -> None:
    """Offline, a unit is expected to have as many rows a member as those before it."""
    weights = Weights()
    assert weights.guess(unit("a", 3)) == 3
    weights.learn(rows=40, members=10)
    assert weights.guess(unit("a", 3)) == 12
    weights.learn(rows=0, members=1_000)
    assert weights.guess(unit("a", 1)) == 1


def test_a_large_batch_is_removed_in_parts_that_show_a_heavy_unit() -> None:
    """A unit with too many rows cannot hide in a batch whose bound is higher: its part exceeds the part's."""
    light = [unit(f"light{number}", 1) for number in range(4)]
    heavy = unit("heavy", 1)
    weights = {one.key: 100_000 for one in light} | {"heavy": 900_000}
    cut = [[part.key for part in found] for found in parts([*light[:2], heavy, *light[2:]], weights)]
    assert cut == [["light0"], ["light1"], ["heavy"], ["light2"], ["light3"]]
    many = [unit(f"u{number}", PART_MEMBERS * 2 // 5) for number in range(5)]
    assert [len(found) for found in parts(many, {one.key: 1 for one in many})] == [2, 2, 1]
