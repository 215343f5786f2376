"""Sweeps over generations: their progress, their turn beside trees, and the engine that works meanwhile."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest

from afterrun import Policy, SweepOptions
from afterrun.core.facts import key_text
from afterrun.core.sweep import Budget
from afterrun.stores.sql.generations import GenerationRemoval
from cli.kit import run_cli
from generations.loops import (
    NOW_MS,
    WEEK,
    Loops,
    PostgresLoops,
    SqliteLoops,
    Turn,
    fill,
    left,
    loop,
    open_loops,
    prune,
)

BOTH = Policy(keep_for=timedelta(days=7), generations=Policy(keep_for=timedelta(days=7)))
OFFLINE = SweepOptions(offline=True)

REFUSE = {
    SqliteLoops: (
        "CREATE TRIGGER no BEFORE DELETE ON turns WHEN OLD.run = 'refused' AND OLD.turn = 1"
        " BEGIN SELECT RAISE(ABORT, 'no'); END"
    ),
    PostgresLoops: (
        "CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " IF OLD.run = 'refused' AND OLD.turn = 1 THEN RAISE EXCEPTION 'no'; END IF; RETURN OLD; END $$;"
        "CREATE TRIGGER no BEFORE DELETE ON turns FOR EACH ROW EXECUTE FUNCTION no()"
    ),
}


def test_what_cannot_go_in_front_hides_nothing_behind(loops: Loops) -> None:
    """1,100 runs with a current generation alone, one that a trigger refuses, 1,001 runs of 6 behind."""
    fill(loops, [turn for number in range(1_100) for turn in loop(f"front-{number:04}", 1)])
    fill(loops, [turn for number in range(1_001) for turn in loop(f"loop-{number:04}", 6)])
    fill(loops, loop("refused", 3))
    loops.run(REFUSE[type(loops)])
    profile = loops.folder / "loops.toml"
    known = profile.read_text("utf-8").replace("[units.tree]", 'triggers = ["no"]\n[units.tree]')
    profile.write_text(known, "utf-8")
    with open_loops(loops) as retention:
        report = retention.prune(WEEK)
    assert (report.removed, report.deferred) == (1_001 * 5 + 1, 1)
    assert {key for key in left(loops) if key[0] == "refused"} == {("refused", 1), ("refused", 3)}
    assert len(left(loops)) == 1_100 + 1_001 + 2


def test_a_generation_goes_with_its_tree_and_is_counted_once(loops: Loops) -> None:
    """What the plan counts is what goes, whichever kind takes it; a live tree's go by themselves."""
    fill(loops, [*loop("old", 4)[:3], *loop("alive", 4)], ended=["old"])
    fill(loops, [Turn("child", 1), Turn("child", 2)], ended=["child"])
    loops.run("UPDATE runs SET parent = 'old' WHERE id = 'child'")
    with open_loops(loops) as retention:
        plan = retention.plan(BOTH)
        assert plan.units.expired == 1
        assert plan.others["generation"].expired == 3
        assert plan.others["generation"].protected["goes-with-its-tree"] == 3
    report = prune(loops, BOTH)
    assert (report.units.removed, report.others["generation"].removed) == (1, 3)
    assert left(loops) == {("alive", 4)}


def test_a_finished_child_of_a_live_run_keeps_its_row_and_loses_its_past(loops: Loops) -> None:
    """Its tree stays, since the root lives; only what is superseded goes."""
    fill(loops, [*loop("root", 2), Turn("child", 1), Turn("child", 2)], ended=["child"])
    loops.run("UPDATE runs SET parent = 'root' WHERE id = 'child'")
    with open_loops(loops) as retention:
        told = [notice for notice in retention.plan(BOTH).notices if "several generations" in notice]
    assert [notice.partition(" ")[0] for notice in told] == ["1"]
    prune(loops, BOTH)
    assert left(loops) == {("root", 2), ("child", 2)}


def test_a_budget_of_removals_is_shared_and_the_next_sweep_begins_where_it_ended(loops: Loops) -> None:
    """Trees first; cut off among generations, the next one begins with these."""
    fill(loops, [turn for number in range(3) for turn in loop(f"old-{number}", 2)[:1]], ended=["old-0"])
    loops.run(f"UPDATE runs SET status = 'done', ended = {NOW_MS - 30 * 86_400_000}")
    fill(loops, [turn for number in range(4) for turn in loop(f"loop-{number}", 4)])
    four = SweepOptions(offline=True, budget=Budget(units=4), batch_units=1)
    with open_loops(loops) as retention:
        reports = [retention.sweep(BOTH, options=four, always=True) for _ in range(5)]
    told = [
        (report.ended, {kind: units.removed for kind, units in report.kinds.items()}) for report in reports
    ]
    assert told == [
        ("budget", {"tree": 3, "generation": 1}),
        ("budget", {"generation": 4, "tree": 0}),
        ("budget", {"generation": 4, "tree": 0}),
        ("completed", {"generation": 3, "tree": 0}),
        ("completed", {"tree": 0, "generation": 0}),
    ]
    assert len(left(loops)) == 4


def test_the_gate_stops_between_the_kinds(loops: Loops) -> None:
    """New work appears after the trees: no generation is touched, and the sweep stays due."""
    fill(loops, [Turn("old", 1), *loop("a", 3)], ended=["old"])
    asked: list[int] = []

    def gate() -> bool:
        asked.append(len(left(loops)))
        return ("old", 1) in left(loops)

    with open_loops(loops) as retention:
        report = retention.sweep(BOTH, options=SweepOptions(offline=True, gate=gate), always=True)
    assert (report.ended, report.units.removed) == ("interrupted", 1)
    assert left(loops) == {("a", 1), ("a", 2), ("a", 3)}


def test_the_first_contact_counts_both_kinds_and_its_approval_admits_both(loops: Loops) -> None:
    """Promise 10: the first sweep removes nothing; what it shows is the sum."""
    fill(loops, [Turn("old", 1), *loop("a", 3)], ended=["old"])
    with open_loops(loops) as retention:
        asked = retention.sweep(BOTH, options=OFFLINE)
        assert (asked.ended, asked.would_go, len(left(loops))) == ("guard", 3, 4)
        report = retention.sweep(BOTH, options=OFFLINE, approve=asked.fingerprint)
    assert (report.ended, report.removed) == ("completed", 3)


def test_later_sweeps_do_not_ask_about_generations(loops: Loops) -> None:
    """Of a busy loop most generations go each time: that is usual, and no reason to stop."""
    fill(loops, loop("a", 2))
    with open_loops(loops) as retention:
        assert retention.sweep(WEEK, options=OFFLINE, always=True).removed == 1
        fill(loops, loop("b", 400))
        report = retention.sweep(WEEK, options=OFFLINE)
    assert (report.ended, report.removed) == ("completed", 399)


def test_a_second_sweep_finds_nothing(loops: Loops) -> None:
    """Nothing new, nothing removed."""
    fill(loops, loop("a", 20))
    assert prune(loops).removed == 19
    assert prune(loops).removed == 0


def test_pages_go_on_within_one_run_and_across_runs(loops: Loops, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cursor stands on both parts of a key: 100 raw keys a page, runs of 70."""
    monkeypatch.setattr("afterrun.service.asking.PLAN_PAGE", 100)
    fill(loops, [turn for run in "abcdefg" for turn in loop(run, 70)])
    with open_loops(loops) as retention:
        seen = retention.survey(WEEK)
        found = [key_text(unit.key) for unit in seen.expired(page=100)]
    assert sorted(found) == sorted(f"{run}/{turn}" for run in "abcdefg" for turn in range(1, 70))
    assert seen.report.others["generation"].scanned == 7 * 70


def test_a_generation_that_changes_after_its_page_is_skipped_alone(loops: Loops) -> None:
    """Promise 2: the decision is made again in the transaction that removes."""
    fill(loops, loop("a", 4))
    changed: list[bool] = []

    def gate() -> bool:
        if not changed:
            changed.append(True)
            loops.run("UPDATE turns SET hold = 'yes' WHERE turn = 2")
        return True

    with open_loops(loops) as retention:
        report = retention.prune(WEEK, options=SweepOptions(offline=True, gate=gate))
    assert report.units.skipped == {"recheck: held": 1}
    assert left(loops) == {("a", 2), ("a", 4)}


@contextmanager
def holding(loops: Loops, statement: str) -> Iterator[None]:
    """Keep a transaction of an engine open that has run a statement."""
    assert isinstance(loops, PostgresLoops)
    with loops.database.connect(autocommit=False) as connection:
        connection.execute(statement.encode())
        yield
        connection.rollback()


@pytest.mark.parametrize("loops", ["postgres"], indirect=True)
def test_a_row_that_another_transaction_holds_is_passed_by(loops: Loops) -> None:
    """A superseded row that somebody locked is skipped, not waited for; the others go."""
    fill(loops, loop("a", 4))
    with holding(loops, "SELECT 1 FROM turns WHERE turn = 2 FOR UPDATE"), open_loops(loops) as retention:
        report = retention.prune(WEEK, options=OFFLINE)
    assert report.units.skipped == {"recheck: locked": 1}
    assert left(loops) == {("a", 2), ("a", 4)}


@pytest.mark.parametrize("loops", ["postgres"], indirect=True)
def test_an_engine_that_holds_the_run_and_its_current_generation_holds_up_nothing(loops: Loops) -> None:
    """Only superseded rows are locked: neither waits for the other."""
    fill(loops, loop("a", 4))
    held = "SELECT 1 FROM runs FOR UPDATE; SELECT 1 FROM turns WHERE turn = 4 FOR UPDATE"
    with holding(loops, held), open_loops(loops) as retention:
        report = retention.prune(WEEK, options=OFFLINE)
    assert report.removed == 3
    assert left(loops) == {("a", 4)}


@pytest.mark.parametrize("loops", ["postgres"], indirect=True)
def test_a_reference_that_comes_during_a_batch_stops_it(
    loops: Loops, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Committed by another transaction after the recheck, before our commit: the batch is undone."""
    fill(loops, loop("a", 2))
    with open_loops(loops) as retention:
        remove = GenerationRemoval.remove

        def slowly(self: GenerationRemoval, units: object, *, max_rows: int) -> object:
            loops.run("INSERT INTO inbox VALUES (1, 'a', 1, NULL)")
            return remove(self, units, max_rows=max_rows)  # type: ignore[arg-type]

        monkeypatch.setattr(GenerationRemoval, "remove", slowly)
        report = retention.prune(WEEK, options=OFFLINE)
    assert (report.removed, report.deferred) == (0, 1)
    assert left(loops) == {("a", 1), ("a", 2)}


def test_a_wide_generation_is_bounded_by_its_rows(loops: Loops) -> None:
    """Promise 6: one with more rows than a batch takes is deferred, named, and holds up no other."""
    fill(loops, loop("a", 3))
    loops.run(
        "WITH RECURSIVE n(i) AS (SELECT 10 UNION ALL SELECT i + 1 FROM n WHERE i < 200009)"
        f" INSERT INTO events SELECT 'a', 1, i, {NOW_MS - 30 * 86_400_000}, '' FROM n"
    )
    with open_loops(loops) as retention:
        planned = retention.plan(WEEK)
        report = retention.prune(WEEK)
    assert planned.oversized == report.oversized == ["a/1"]
    assert (report.removed, report.deferred) == (1, 1)
    assert left(loops) == {("a", 1), ("a", 3)}


def test_the_plan_shows_the_statements_for_generations(loops: Loops) -> None:
    """`plan --show-sql` hides nothing of what would run."""
    with open_loops(loops, writable=False) as retention:
        names = retention.statements(WEEK).keys()
    assert {"generations, first page", "generations, removal from turns"} <= names


@pytest.mark.parametrize("loops", ["sqlite"], indirect=True)
def test_a_key_that_is_no_plain_text_blocks_its_own_generation_alone(loops: Loops) -> None:
    """Bytes, and text that is no UTF-8: what cannot be asked for again stays, and all else goes."""
    for key in ("x'ff00'", "CAST(x'ff41' AS TEXT)"):
        loops.run(
            f"INSERT INTO runs VALUES ({key}, 'running', NULL, NULL, 3);"
            f"INSERT INTO turns VALUES ({key}, 1, 'over', 1600000000000, NULL)"
        )
    fill(loops, loop("a", 3))
    with open_loops(loops) as retention:
        planned = retention.plan(WEEK)
        report = retention.prune(WEEK, options=OFFLINE)
    assert planned.others["generation"].blocked["unreadable-key"] == 2
    assert (planned.would_go, report.removed) == (2, 2)
    assert loops.rows("SELECT count(*) FROM turns") == [(3,)]


def test_people_read_the_rules_of_the_unit_that_they_ask_about(loops: Loops) -> None:
    """`explain` judges a generation by the rules for generations, and shows no others; a plan names both."""
    fill(loops, [Turn("a", 1, days=3), Turn("a", 2, days=None, status="running")])
    profile = ("--profile", str(loops.folder / "loops.toml"))
    ages = ("--keep-for", "1d", "--generations-keep-for", "7d")
    told = run_cli("explain", loops.location, "a/1", *profile, *ages)
    assert re.search(r"keep_for +1w +keeps it", told.out), told.out
    assert "generations  " not in told.out
    tree = run_cli("explain", loops.location, "a", *profile, *ages)
    assert re.search(r"keep_for +1d ", tree.out), tree.out
    plan = run_cli("plan", loops.location, *profile, *ages)
    assert "generations (keep_for 1w)" in plan.out
