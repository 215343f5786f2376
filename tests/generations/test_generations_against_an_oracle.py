"""Random loops, and a judge in plain Python that imports nothing of afterrun's own."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from afterrun import Policy, SweepOptions
from generations.loops import SqliteLoops, Turn, days_ago, fill, left, make, open_loops

RUNS = "abcd"
AGES = st.sampled_from([None, 0.01, 0.5, 2.0, 6.9, 7.1, 30.0])
TURNS = st.builds(
    Turn,
    run=st.sampled_from(RUNS),
    turn=st.integers(1, 6),
    days=AGES,
    status=st.sampled_from(["over", "over", "over", "running"]),
    hold=st.sampled_from([None, None, None, "yes"]),
    events=st.integers(0, 2),
    event_days=st.sampled_from([0.5, 30.0]),
)


def expected(
    turns: Iterable[Turn], current: dict[str, int], *, keep_days: float | None, keep_last: int | None
) -> set[tuple[str, int]]:
    """Return the keys that must be left."""
    by_run: dict[str, list[Turn]] = defaultdict(list)
    for turn in turns:
        by_run[turn.run].append(turn)
    stay = set()
    for run, some in by_run.items():
        numbers = sorted((turn.turn for turn in some), reverse=True)
        for turn in some:
            age = turn.days if turn.days is not None else (turn.event_days if turn.events else None)
            newest = numbers if keep_last is None else numbers[:keep_last]
            goes = (
                run in current
                and turn.turn < current[run]
                and turn.status == "over"
                and turn.hold != "yes"
                and age is not None
                and age > 1 / 24
                and (keep_days is None or age > keep_days)
                and (keep_last is None or turn.turn not in newest)
            )
            if not goes:
                stay.add((run, turn.turn))
    return stay


@settings(max_examples=60, deadline=None)
@given(
    turns=st.lists(TURNS, max_size=20, unique_by=lambda turn: (turn.run, turn.turn)),
    lost=st.sets(st.sampled_from(RUNS), max_size=1),
    keep_days=st.sampled_from([None, 1.0, 7.0]),
    keep_last=st.sampled_from([None, 1, 2, 4]),
    batch=st.sampled_from([None, 1, 2]),
)
def test_exactly_what_an_independent_judge_lets_go_goes(
    turns: list[Turn],
    lost: set[str],
    keep_days: float | None,
    keep_last: int | None,
    batch: int | None,
) -> None:
    """Any generations under any rules: plan, prune and what is left agree with a few lines of Python."""
    if keep_days is None and keep_last is None:
        keep_last = 3
    with tempfile.TemporaryDirectory() as folder:
        store = SqliteLoops(Path(folder))
        make(store)
        if turns:
            fill(store, turns)
            store.run(*(f"DELETE FROM runs WHERE id = '{run}'" for run in lost))
        current = {row[0]: row[1] for row in store.rows("SELECT id, turn FROM runs")}
        age = None if keep_days is None else timedelta(days=keep_days)
        rules = Policy(generations=Policy(keep_for=age, keep_last=keep_last))
        stay = expected(turns, current, keep_days=keep_days, keep_last=keep_last)
        with open_loops(store) as retention:
            planned = retention.plan(rules)
            report = retention.prune(rules, options=SweepOptions(offline=True, batch_units=batch))
        assert left(store) == stay
        assert planned.kinds["generation"].expired == report.removed == len(turns) - len(stay)
        kept = {(row[0], row[1]) for row in store.rows("SELECT run, turn FROM events")}
        assert kept == {key for key in stay if any(t.events for t in turns if (t.run, t.turn) == key)}


def test_the_judge_knows_a_store_by_hand() -> None:
    """The judge itself: one loop of four, of which the second is held."""
    assert days_ago(0) is not None
    turns = [Turn("a", 1), Turn("a", 2, hold="yes"), Turn("a", 3, days=2), Turn("a", 4, status="running")]
    assert expected(turns, {"a": 4}, keep_days=7, keep_last=None) == {("a", 2), ("a", 3), ("a", 4)}
    assert expected(turns, {"a": 4}, keep_days=None, keep_last=3) == {("a", 2), ("a", 3), ("a", 4)}
    assert expected(turns, {"a": 4}, keep_days=None, keep_last=1) == {("a", 2), ("a", 4)}
    assert expected(turns, {}, keep_days=7, keep_last=None) == {("a", 1), ("a", 2), ("a", 3), ("a", 4)}
