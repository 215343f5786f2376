"""Superseded generations: what goes, and for each reason a case in which it alone keeps one."""

from __future__ import annotations

from datetime import timedelta

import pytest

from afterrun import Policy, Refused, UnitNotFound
from generations.loops import WEEK, Loops, Turn, days_ago, fill, left, loop, open_loops, prune, verdicts


def test_old_generations_go_and_the_run_stays(loops: Loops) -> None:
    """What is superseded and old goes with its events; the current one and its run are as they were."""
    fill(loops, loop("a", 6))
    run = loops.rows("SELECT * FROM runs")
    report = prune(loops)
    assert report.units.removed == 5
    assert report.rows == {"events": 10, "turns": 5}
    assert left(loops) == {("a", 6)}
    assert loops.rows("SELECT * FROM runs") == run


def test_a_younger_generation_stays(loops: Loops) -> None:
    """Age counts from its own end, strictly."""
    fill(loops, [Turn("a", 1, days=8), Turn("a", 2, days=6.9), Turn("a", 3, days=None, status="running")])
    assert verdicts(loops, "a/1", "a/2") == {"a/1": "expired", "a/2": "recent keep-for"}
    assert prune(loops).units.removed == 1


def test_a_current_generation_stays_although_it_has_ended(loops: Loops) -> None:
    """Between two generations the last one has ended, and the next is no more than a message."""
    fill(loops, [Turn("a", 1), Turn("a", 2)])
    assert verdicts(loops, "a/2") == {"a/2": "protected current-generation"}
    prune(loops)
    assert left(loops) == {("a", 2)}


HELD = {
    "UPDATE turns SET status = 'running' WHERE turn = 1": "protected live-member",
    "INSERT INTO inbox VALUES (1, 'a', 1, NULL)": "protected pending-message",
    "UPDATE turns SET hold = 'yes' WHERE turn = 1": "protected held",
    "UPDATE turns SET ended = NULL WHERE turn = 1; DELETE FROM events": "blocked unknown-end-time",
    "UPDATE turns SET ended = 5 WHERE turn = 1": "blocked unreadable-end-time",
    "UPDATE turns SET ended = NULL; UPDATE events SET at = 5": "blocked unreadable-end-time",
    f"UPDATE turns SET ended = {days_ago(-1)} WHERE turn = 1": "blocked future-end-time",
    "DELETE FROM runs": "blocked lineage-broken",
    "UPDATE runs SET turn = NULL": "blocked unreadable-generation",
}
"""A change that holds a generation, and the verdict that it brings about."""


@pytest.mark.parametrize(("change", "verdict"), HELD.items(), ids=map(str, range(len(HELD))))
def test_each_reason_alone_keeps_a_generation(loops: Loops, change: str, verdict: str) -> None:
    """With any one of these it stays; without it, it would go."""
    fill(loops, loop("a", 3))
    assert verdicts(loops, "a/1") == {"a/1": "expired"}
    loops.run(change)
    assert verdicts(loops, "a/1") == {"a/1": verdict}
    with open_loops(loops) as retention:
        retention.prune(WEEK)
    assert ("a", 1) in left(loops)


def test_a_message_that_was_taken_holds_nothing(loops: Loops) -> None:
    """A condition of a protection decides which rows count."""
    fill(loops, loop("a", 3))
    loops.run("INSERT INTO inbox VALUES (1, 'a', 1, 7)")
    assert verdicts(loops, "a/1") == {"a/1": "expired"}


def test_the_newest_event_is_the_end_where_the_engine_writes_none(loops: Loops) -> None:
    """The newest of its rows counts, not the oldest."""
    fill(loops, [Turn("a", 1, days=None), Turn("a", 2, days=None), Turn("a", 3, days=None, status="running")])
    loops.run(f"UPDATE events SET at = {days_ago(2)} WHERE turn = 2 AND number = 1")
    assert verdicts(loops, "a/1", "a/2") == {"a/1": "expired", "a/2": "recent keep-for"}
    prune(loops)
    assert left(loops) == {("a", 2), ("a", 3)}


def test_an_unknown_status_forbids_every_removal(loops: Loops) -> None:
    """Such a generation may be alive, and others may need what it needs."""
    fill(loops, loop("a", 3))
    loops.run("UPDATE turns SET status = 'paused' WHERE turn = 1")
    assert verdicts(loops, "a/1") == {"a/1": "blocked unknown-status"}
    with open_loops(loops) as retention, pytest.raises(Refused, match="paused"):
        retention.prune(WEEK)
    assert len(left(loops)) == 3


@pytest.mark.parametrize(("count", "stay"), [(1, {7}), (2, {5, 7}), (3, {4, 5, 7}), (9, {1, 4, 5, 7})])
def test_the_newest_of_each_run_are_counted_with_the_current_one(
    loops: Loops, count: int, stay: set[int]
) -> None:
    """They are counted by what is there, not by their numbers; each run has its own."""
    fill(loops, [*(Turn("a", number) for number in (1, 4, 5)), Turn("a", 7, days=None, status="running")])
    fill(loops, loop("b", 1))
    prune(loops, Policy(generations=Policy(keep_last=count)))
    assert left(loops) == {*(("a", number) for number in stay), ("b", 1)}


def test_both_rules_must_let_a_generation_go(loops: Loops) -> None:
    """Each rule that is set keeps more."""
    turns = [Turn("a", 1, days=9), Turn("a", 2, days=3), Turn("a", 3, days=1)]
    fill(loops, [*turns, Turn("a", 4, days=None, status="running")])
    rules = Policy(generations=Policy(keep_for=timedelta(days=2), keep_last=3))
    assert verdicts(loops, "a/1", "a/2", "a/3", policy=rules) == {
        "a/1": "expired",
        "a/2": "recent keep-last",
        "a/3": "recent keep-for keep-last",
    }


def test_grace_is_that_of_the_whole_policy(loops: Loops) -> None:
    """A generation that has just ended stays, whatever its rules say."""
    fill(loops, [Turn("a", 1, days=0.02), Turn("a", 2, days=None, status="running")])
    rules = Policy(keep_for=timedelta(days=90), grace=timedelta(hours=1), generations=Policy(keep_last=1))
    assert verdicts(loops, "a/1", policy=rules) == {"a/1": "recent grace"}


def test_pins_hold_all_generations_of_a_run_or_one_of_them(loops: Loops) -> None:
    """A pin is the id of a run, or of a single generation; any other is told of."""
    fill(loops, [*loop("a", 3), *loop("b", 4)])
    rules = Policy(pins=frozenset({"a", "b/2", "c", "b/9"}), generations=WEEK.generations)
    with open_loops(loops) as retention:
        told = [notice for notice in retention.plan(rules).notices if "pins" in notice]
    assert any("'b/9', 'c'" in notice for notice in told)
    prune(loops, rules)
    assert left(loops) == {("a", 1), ("a", 2), ("a", 3), ("b", 2), ("b", 4)}


def test_a_table_that_the_profile_does_not_know_blocks_what_it_refers_to(loops: Loops) -> None:
    """By a foreign key to a generation or to its rows, or by columns of the same names; nothing else."""
    fill(loops, loop("a", 6))
    loops.run(
        "CREATE TABLE notes (run TEXT, turn BIGINT, FOREIGN KEY (run, turn) REFERENCES turns (run, turn));"
        "INSERT INTO notes VALUES ('a', 1);"
        "CREATE TABLE marks (a TEXT, b BIGINT, c BIGINT,"
        " FOREIGN KEY (a, b, c) REFERENCES events (run, turn, number));"
        "INSERT INTO marks VALUES ('a', 2, 1)"
    )
    with open_loops(loops) as retention:
        report = retention.prune(WEEK)
    assert report.units.blocked == {"unknown-reference:notes": 1, "unknown-reference:marks": 1}
    assert left(loops) == {("a", 1), ("a", 2), ("a", 6)}


def test_an_id_names_a_run_before_a_generation(loops: Loops) -> None:
    """`a/1` is a run where there is one, else the first generation of `a`; anything else is not found."""
    fill(loops, loop("a", 3))
    fill(loops, loop("a/2", 2))
    with open_loops(loops, writable=False) as retention:
        assert retention.explain("a/1", WEEK).kind == "generation"
        assert retention.explain("a/2", WEEK).kind == "tree"
        assert retention.explain("a/2/1", WEEK).unit == "a/2/1"
        for name in ("a/4", "a/x", "a/", "/1", "b/1", "a/" + "9" * 30):
            with pytest.raises(UnitNotFound):
                retention.explain(name, WEEK)


def test_a_profile_without_generations_refuses_rules_for_them_alone(loops: Loops) -> None:
    """Beside other rules they are told to decide nothing."""
    fill(loops, loop("a", 3), ended=["a"])
    profile = loops.folder / "loops.toml"
    profile.write_text(profile.read_text("utf-8").partition("[units.generation]")[0], "utf-8")
    with open_loops(loops) as retention:
        with pytest.raises(Refused, match="knows none"):
            retention.plan(WEEK)
        both = Policy(keep_for=timedelta(days=90), generations=WEEK.generations)
        assert any("decide nothing" in notice for notice in retention.plan(both).notices)


def test_rules_for_generations_alone_touch_no_run(loops: Loops) -> None:
    """Not even one that ended long ago; its superseded generations go."""
    fill(loops, [Turn("a", 1), Turn("a", 2)], ended=["a"])
    report = prune(loops)
    assert set(report.kinds) == {"generation"}
    assert loops.rows("SELECT id FROM runs") == [("a",)]
    assert left(loops) == {("a", 2)}


def test_hostile_keys_are_found_again(loops: Loops) -> None:
    """Quotes, commas, brackets, other scripts and what looks like a number."""
    names = ["a'b", 'a"b', "a,b", "[1]", "\\", "Ω\n", "7", "a/1", " ", "{}"]
    fill(loops, [turn for name in names for turn in loop(name, 3)])
    assert prune(loops).units.removed == 2 * len(names)
    assert left(loops) == {(name, 3) for name in names}
