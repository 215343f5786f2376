"""Backups of trees and generations together: all that goes is in one file, as it is, and comes back."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from afterrun import Refused, SweepOptions
from afterrun.core.errors import BackupFailed, StoreFailure
from afterrun.core.sweep import Budget
from afterrun.stores import new_file
from afterrun.stores.new_file import UNFINISHED
from afterrun.stores.sql.backed import BackedGenerations
from afterrun.stores.sql.backups import BackupKind, BackupOrder
from afterrun.stores.sql.store import SqlStore
from cli.kit import run_cli
from generations.backed_loops import (
    BOTH,
    GENERATIONS,
    OFFLINE,
    PAST,
    STRANGE,
    TREES,
    content,
    kinds,
    made,
    prune,
    prune_anyhow,
    removed,
    restore,
    then,
)
from generations.loops import Loops, SqliteLoops, fill, left, loop, open_loops

KINDS: tuple[BackupKind, ...] = ("removed", "whole")
TESTS = Path(__file__).resolve().parents[1]


def test_all_that_went_comes_back(loops: Loops, target: Path) -> None:
    """One file has trees and generations; restored, every row of every table is what it was."""
    before = made(loops)
    report = prune(loops, target, BOTH)
    assert removed(report) == kinds(report) == {"tree": TREES, "generation": GENERATIONS}
    assert left(loops) == {("a", 4), ("b", 3), ("single", 1)}
    assert [path.name for path in target.parent.iterdir()] == [target.name]
    restored = restore(loops, target)
    assert content(loops) == before
    assert restored.kinds == {"tree": TREES, "generation": GENERATIONS}
    assert (restored.units, restored.members) == (TREES + GENERATIONS, 3)
    assert restored.rows == report.rows
    with open_loops(loops) as retention:
        assert list(retention.verify()) == []


def test_a_policy_for_generations_alone_backs_up_generations_alone(loops: Loops, target: Path) -> None:
    """The rows in the file are those that went, table by table; no tree is in it."""
    before = made(loops)
    report = prune(loops, target)
    assert kinds(report) == removed(report) == {"generation": PAST}
    assert report.backup is not None
    assert report.backup["rows"] == {"runs": 0, "inbox": 0, **report.rows}
    assert restore(loops, target).kinds == {"generation": PAST}
    assert content(loops) == before


def test_runs_with_strange_ids_keep_their_past_apart(loops: Loops, target: Path) -> None:
    """Whatever the id of a run is, each generation goes, comes back, and comes back alone."""
    fill(loops, [turn for run in STRANGE for turn in loop(run, 3)])
    before = content(loops)
    assert removed(prune(loops, target)) == {"generation": 2 * len(STRANGE)}
    for run in STRANGE:
        assert restore(loops, target, f"{run}/1").units == 1
    assert left(loops) == {(run, number) for run in STRANGE for number in (1, 3)}
    again = restore(loops, target)
    assert (again.units, again.present) == (len(STRANGE), len(STRANGE))
    assert content(loops) == before


def test_one_generation_comes_back_alone(loops: Loops, target: Path) -> None:
    """By the id of its run, a slash and its number; nothing else comes with it."""
    made(loops)
    prune(loops, target, BOTH)
    kept = left(loops)
    restored = restore(loops, target, "a/2")
    assert (restored.units, restored.members, restored.rows) == (1, 0, {"turns": 1, "events": 2})
    assert left(loops) == kept | {("a", 2)}
    assert restore(loops, target, "old").kinds == {"tree": 1}
    assert left(loops) == kept | {("a", 2), ("old", 1), ("old", 2), ("child", 1), ("child", 2)}


def test_where_a_run_has_the_id_of_a_generation_the_run_is_meant(loops: Loops, target: Path) -> None:
    """As in `explain`."""
    fill(loops, [*loop("a", 3), *loop("a/1", 2)[:1]], ended=["a/1"])
    assert removed(prune(loops, target, BOTH)) == {"tree": 1, "generation": 2}
    assert restore(loops, target, "a/1").kinds == {"tree": 1}
    assert left(loops) == {("a", 3), ("a/1", 1)}


def test_a_second_restore_changes_nothing(loops: Loops, target: Path) -> None:
    """What is there unchanged is counted and is no fault."""
    before = made(loops)
    prune(loops, target, BOTH)
    restore(loops, target, "b/1")
    first = restore(loops, target)
    again = restore(loops, target)
    assert (first.units, first.present) == (TREES + GENERATIONS - 1, 1)
    assert (again.units, again.present, again.refused) == (0, TREES + GENERATIONS, {})
    assert content(loops) == before


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "change",
    [
        "UPDATE events SET body = 'late' WHERE run = 'a' AND turn = 2 AND number = 0",
        "INSERT INTO events VALUES ('a', 2, 99, 0, 'new')",
        "DELETE FROM events WHERE run = 'a' AND turn = 2 AND number = 1",
        "UPDATE turns SET hold = 'no' WHERE run = 'a' AND turn = 2",
    ],
)
def test_a_generation_that_changed_since_the_backup_stays(
    loops: Loops, target: Path, kind: BackupKind, change: str
) -> None:
    """Any difference of any of its rows keeps it, alone."""
    made(loops)
    report = prune_anyhow(loops, target, kind=kind, options=then(target, lambda: loops.run(change)))
    assert report.kinds["generation"].skipped == {"recheck: changed since the backup": 1}
    assert removed(report) == {"tree": TREES, "generation": GENERATIONS - 1}
    assert ("a", 2) in left(loops)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_superseded_after_the_backup_stays(loops: Loops, target: Path, kind: BackupKind) -> None:
    """A generation that was the current one when the backup was made is not in it, and does not go."""
    made(loops)
    options = then(
        target,
        lambda: loops.run(
            "UPDATE turns SET status = 'over', ended = 1600000000000 WHERE run = 'a' AND turn = 4",
            "INSERT INTO turns VALUES ('a', 5, 'running', NULL, NULL)",
            "UPDATE runs SET turn = 5 WHERE id = 'a'",
        ),
    )
    report = prune_anyhow(loops, target, kind=kind, options=options)
    assert removed(report) == {"tree": TREES, "generation": GENERATIONS}
    assert left(loops) == {("a", 4), ("a", 5), ("b", 3), ("single", 1)}


@pytest.mark.parametrize("kind", KINDS)
def test_a_generation_that_is_held_after_the_backup_stays(
    loops: Loops, target: Path, kind: BackupKind
) -> None:
    """It is judged again in the transaction that removes, as without a backup."""
    made(loops)
    held = "INSERT INTO inbox VALUES (9, 'a', 1, NULL)"
    report = prune_anyhow(loops, target, kind=kind, options=then(target, lambda: loops.run(held)))
    assert removed(report)["generation"] == GENERATIONS - 1
    assert ("a", 1) in left(loops)


def test_a_limit_bounds_the_backup_over_all_kinds(loops: Loops, target: Path) -> None:
    """With --limit 4 it has the two trees and the first two generations, and exactly these go."""
    before = made(loops)
    report = prune(loops, target, BOTH, options=SweepOptions(offline=True, budget=Budget(units=4)))
    assert removed(report) == kinds(report) == {"tree": TREES, "generation": 2}
    restore(loops, target)
    assert content(loops) == before


def test_a_list_of_ids_bounds_the_backup_too(loops: Loops, target: Path) -> None:
    """What a plan file leaves out is neither in the backup nor removed."""
    before = made(loops)
    with open_loops(loops) as retention:
        order = BackupOrder(path=target)
        report = retention.prune(BOTH, options=OFFLINE, only={"other", "a/1", "b/2"}, backup=order)
    assert removed(report) == kinds(report) == {"tree": 1, "generation": 2}
    assert restore(loops, target).kinds == {"tree": 1, "generation": 2}
    assert content(loops) == before


def test_with_nothing_to_remove_no_backup_is_made(loops: Loops, target: Path) -> None:
    """Where nothing goes there is nothing to fall back on."""
    fill(loops, loop("a", 1))
    report = prune(loops, target, BOTH)
    assert (report.removed, report.backup, list(target.parent.iterdir())) == (0, None, [])


def test_generations_too_large_for_a_batch_are_in_no_backup(loops: Loops, target: Path) -> None:
    """They are deferred and named under their own kind, as a plan says."""
    before = made(loops)
    loops.run(
        "WITH RECURSIVE n(i) AS (SELECT 10 UNION ALL SELECT i + 1 FROM n WHERE i < 200009)"
        " INSERT INTO events SELECT 'a', 1, i, 1600000000000, '' FROM n"
    )
    report = prune(loops, target, BOTH)
    assert (report.kinds["generation"].deferred, report.units.deferred) == (1, 0)
    assert (report.oversized, kinds(report)["generation"]) == (["a/1"], GENERATIONS - 1)
    restore(loops, target)
    loops.run("DELETE FROM events WHERE number >= 10")
    assert content(loops) == before


def test_what_lives_again_while_the_backup_is_made_is_in_it_once(
    loops: Loops, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tree was copied, and then its run seemed to live on, so that its past was selected by itself."""
    before = made(loops)
    monkeypatch.setattr(SqlStore, "units_of", lambda _self, _runs: {})
    report = prune_anyhow(loops, target)
    assert report.kinds["tree"].removed == TREES
    assert restore(loops, target).refused == {}
    assert content(loops) == before


@pytest.mark.parametrize("mode", ["delete", "wal"])
@pytest.mark.parametrize("loops", ["sqlite"], indirect=True)
def test_a_backup_beside_a_working_engine_is_made_in_pieces(loops: Loops, target: Path, mode: str) -> None:
    """Live batches of one unit, a piece of some rows at a time: the same comes back."""
    loops.run(f"PRAGMA journal_mode = {mode}")
    fill(loops, [turn for number in range(30) for turn in loop(f"loop-{number}", 12)])
    before = content(loops)
    report = prune(loops, target, options=SweepOptions(rest=0.0, batch_units=7))
    assert (report.removed, report.batches > 40) == (30 * 11, True)
    restore(loops, target)
    assert content(loops) == before


def test_a_whole_backup_is_made_before_generations_go(loops: Loops, target: Path) -> None:
    """It holds what the tables held, and only what was selected before goes."""
    before = made(loops)
    report = prune(loops, target, BOTH, kind="whole")
    assert removed(report) == kinds(report) == {"tree": TREES, "generation": GENERATIONS}
    assert report.backup is not None
    assert report.backup["rows"] == {table: len(rows) for table, rows in before.items()}
    if isinstance(loops, SqliteLoops):
        with closing(sqlite3.connect(target)) as connection:
            assert connection.execute("SELECT count(*) FROM turns").fetchone()[0] == len(before["turns"])
    with pytest.raises(Refused) as caught:
        restore(loops, target)
    assert caught.value.reason == "no-backup"


@pytest.mark.parametrize("kind", KINDS)
def test_too_little_room_is_refused_before_anything_goes(
    loops: Loops, target: Path, monkeypatch: pytest.MonkeyPatch, kind: BackupKind
) -> None:
    """Asked for all kinds at once; no file stays."""
    before = made(loops)
    monkeypatch.setattr(new_file, "SPARE", 1 << 60)
    with pytest.raises(Refused, match="free") as caught:
        prune(loops, target, BOTH, kind=kind)
    assert caught.value.reason == "no-room"
    assert (content(loops), list(target.parent.iterdir())) == (before, [])


def test_a_status_that_nobody_knows_makes_no_backup(loops: Loops, target: Path) -> None:
    """Neither of a run nor of a generation: it is found before a backup is made in vain."""
    made(loops)
    loops.run("UPDATE turns SET status = 'odd' WHERE run = 'b' AND turn = 1")
    before = content(loops)
    with pytest.raises(Refused, match="odd"):
        prune(loops, target, BOTH)
    assert (content(loops), list(target.parent.iterdir())) == (before, [])


@contextmanager
def stalled(loops: Loops, target: Path, point: str) -> Iterator[None]:
    """Let a removal stand still in the middle of its backup; it is killed at the end."""
    command = [sys.executable, str(TESTS / "generations" / "stalled_loops.py")]
    words = [loops.location, str(loops.folder), str(target), point]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([*filter(None, sys.path), str(TESTS)])}
    with subprocess.Popen([*command, *words], stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "stalled\n"
        try:
            yield
        finally:
            process.send_signal(signal.SIGKILL)


@pytest.mark.parametrize("point", ["between the kinds", "verifying", "publishing"])
def test_a_backup_that_was_killed_is_none(loops: Loops, target: Path, point: str) -> None:
    """Killed with trees copied and generations not: nothing went, and the next one takes the rest away."""
    before = made(loops)
    with stalled(loops, target, point):
        pass
    assert content(loops) == before
    [draft] = target.parent.iterdir()
    assert draft.name.startswith(f".{target.name}{UNFINISHED}")
    report = prune(loops, target, BOTH)
    assert report.backup is not None
    assert report.backup["cleared"] == 1
    assert [path.name for path in target.parent.iterdir()] == [target.name]


def test_a_disk_that_fails_leaves_nothing(
    loops: Loops, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If generations cannot be copied after trees were, no tree goes either."""
    before = made(loops)

    def fail(*_args: object) -> object:
        raise StoreFailure("io", "the disk failed")

    monkeypatch.setattr(BackedGenerations, "bind", fail)
    with pytest.raises(BackupFailed, match="the store is unchanged"):
        prune(loops, target, BOTH)
    assert (content(loops), list(target.parent.iterdir())) == (before, [])


def test_the_reference_names_every_fact_of_a_backup_and_of_a_restore(loops: Loops, target: Path) -> None:
    """`docs/cli.md` lists the keys that a report has under `backup`, and those of `restore --json`."""
    made(loops)
    report = prune(loops, target, BOTH)
    page = (TESTS.parent / "docs" / "cli.md").read_text("utf-8")
    assert report.backup is not None
    listed = page.partition("`backup` is what was written before a removal:\n`{")[2].partition("}`")[0]
    assert {key.strip('" ') for key in listed.split(",")} == report.backup.keys()
    profile = ("--profile", loops.folder / "loops.toml", "--offline")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AFTERRUN_STATE_DIR", str(loops.folder / "state"))
        answer = run_cli("restore", loops.location, target, *profile, "--json")
        again = run_cli("restore", loops.location, target, "a/1", *profile)
    listed = page.partition("## afterrun restore")[2].partition("print `{")[2].partition("}`")[0]
    assert {key.strip('" ') for key in listed.split(",")} == answer.json.keys()
    assert answer.json["kinds"] == {"tree": TREES, "generation": GENERATIONS}
    assert (answer.code, again.code) == (0, 0)
    assert "there already, unchanged" in again.out
