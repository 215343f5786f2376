"""Generations that are not put back, and why; and backups that are not what they say."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa

from afterrun import Policy, Refused, UnitNotFound
from afterrun.core.errors import BackupFailed
from afterrun.stores.sql.backed_kinds import kinds_of
from afterrun.stores.sql.parts import Part
from afterrun.stores.sql.sqlite.attached import attached
from afterrun.stores.sql.sqlite.attached_units import BACKUP
from afterrun.stores.sql.sqlite.dialect import SQLite
from afterrun.stores.sql.store import SqlStore
from generations.backed_loops import (
    BOTH,
    GENERATIONS,
    TREES,
    content,
    made,
    made_old,
    prune,
    restore,
    rewritten,
)
from generations.loops import Loops, days_ago, fill, left, loop, open_loops

TREES_ALONE = Policy(keep_for=BOTH.keep_for)


def refused(loops: Loops, target: Path, run: str) -> Refused:
    """Try to put one unit back; nothing may change."""
    before = content(loops)
    with pytest.raises(Refused) as caught:
        restore(loops, target, run)
    assert content(loops) == before
    return caught.value


def test_a_generation_whose_run_is_gone_stays_in_the_backup(loops: Loops, target: Path) -> None:
    """It would belong to nothing. All others come back, and it is said which does not, and why."""
    made(loops)
    prune(loops, target, BOTH)
    loops.run(*(f"DELETE FROM {table} WHERE run = 'b'" for table in ("events", "inbox", "turns")))
    loops.run("DELETE FROM runs WHERE id = 'b'")
    error = refused(loops, target, "b/1")
    assert (error.reason, "its run is not in the store" in str(error)) == ("run-is-gone", True)
    restored = restore(loops, target)
    assert (restored.units, restored.named) == (TREES + GENERATIONS - 2, ["b/1", "b/2"])
    assert list(restored.refused.values()) == [2]
    assert "restore the tree of that run first" in next(iter(restored.refused))
    assert not {key for key in left(loops) if key[0] == "b"}


@pytest.mark.parametrize(
    "back",
    [
        "INSERT INTO turns VALUES ('a', 2, 'over', 17, 'another')",
        "INSERT INTO events VALUES ('a', 2, 0, 17, 'another')",
    ],
)
def test_a_generation_whose_id_is_back_stays_in_the_backup(loops: Loops, target: Path, back: str) -> None:
    """With other content, or a row of it without its own; what is there stays as it is."""
    made(loops)
    prune(loops, target, BOTH)
    loops.run(back)
    error = refused(loops, target, "a/2")
    assert (error.reason, "this generation, or rows of it, again" in str(error)) == ("id-is-back", True)
    restored = restore(loops, target)
    assert (restored.units, restored.named) == (TREES + GENERATIONS - 1, ["a/2"])
    assert loops.rows("SELECT count(*) FROM events WHERE run = 'a' AND turn = 2 AND body <> 'another'") == [
        (0,)
    ]


@pytest.mark.parametrize("reached", ["1", "2", "NULL"])
def test_a_generation_that_its_run_has_not_passed_stays_in_the_backup(
    loops: Loops, target: Path, reached: str
) -> None:
    """An id that was used again counts from 1: the engine would come upon what another run did."""
    made(loops)
    prune(loops, target)
    loops.run("DELETE FROM turns WHERE run = 'a'", f"UPDATE runs SET turn = {reached} WHERE id = 'a'")
    assert refused(loops, target, "a/2").reason == "not-superseded"
    restored = restore(loops, target)
    kept = {"1": ["a/1", "a/2", "a/3"], "2": ["a/2", "a/3"], "NULL": ["a/1", "a/2", "a/3"]}[reached]
    assert restored.named == kept


def test_generations_come_back_after_the_tree_that_they_were_of(loops: Loops, target: Path) -> None:
    """They went first, and their run ended and went later: its own backup first, then theirs."""
    fill(loops, loop("a", 4))
    before = content(loops)
    prune(loops, target)
    loops.run(f"UPDATE runs SET status = 'done', ended = {days_ago(20)}")
    loops.run(f"UPDATE turns SET status = 'over', ended = {days_ago(20)}")
    later = target.with_name("later.backup")
    prune(loops, later, BOTH)
    assert refused(loops, target, "a/3").reason == "run-is-gone"
    assert restore(loops, target).units == 0
    assert restore(loops, later).kinds == {"tree": 1}
    assert restore(loops, target).kinds == {"generation": 3}
    loops.run("UPDATE runs SET status = 'running', ended = NULL")
    loops.run("UPDATE turns SET status = 'running', ended = NULL WHERE turn = 4")
    assert content(loops) == before


def test_an_id_that_the_backup_lacks_is_said(loops: Loops, target: Path) -> None:
    """A number that never was, a generation that stayed, and no number at all."""
    made(loops)
    prune(loops, target, BOTH)
    for name in ("a/9", "a/4", "a/x", "a/", "a", f"a/{'9' * 40}", "old/1"):
        with pytest.raises(UnitNotFound, match="has no unit with the id"):
            restore(loops, target, name)


def test_a_profile_that_knows_no_generations_restores_none(loops: Loops, target: Path) -> None:
    """What the backup holds would be of no meaning to it: nothing comes back, and it is said why."""
    made(loops)
    prune(loops, target, BOTH)
    profile = loops.folder / "loops.toml"
    profile.write_text(profile.read_text("utf-8").partition("[units.generation]")[0], "utf-8")
    error = refused(loops, target, "old")
    assert (error.reason, "of the kind generation" in str(error)) == ("other-profile", True)


def spoiled(target: Path, words: str, line: tuple[bytes, bytes]) -> None:
    """Change a backup: a SQLite one by SQL, an archive by what stands in its lists."""
    with target.open("rb") as file:
        is_database = file.read(6) == b"SQLite"
    if is_database:
        with closing(sqlite3.connect(target)) as connection:
            connection.executescript(words)
    else:
        rewritten(target, lambda name, text: text.replace(*line) if name.endswith("units.jsonl") else text)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("UPDATE afterrun_units SET kind = 'tree'", (b'"generation"', b'"tree"')),
        ("UPDATE afterrun_units SET kind = 'other' WHERE unit > 2", (b'"generation"', b'"other"')),
        ("DELETE FROM afterrun_units WHERE kind = 'generation'", (b'"generation"', b"")),
        (
            "UPDATE afterrun_members SET key = '[\"b\",2]' WHERE key LIKE '%\"b\", 2]'",
            (b'["b",2]', b'["b",7]'),
        ),
        ("UPDATE afterrun_members SET key = '[[]]' WHERE key LIKE '%\"b\", 2]'", (b'["b",2]', b"[]")),
        ("UPDATE afterrun_members SET key = 'no' WHERE key LIKE '%\"b\", 2]'", (b'["b",2]', b'["b",2,3]')),
    ],
)
def test_a_changed_backup_restores_nothing(
    loops: Loops, target: Path, words: str, line: tuple[bytes, bytes]
) -> None:
    """Kinds and keys are under its checksums like all else."""
    made(loops)
    prune(loops, target, BOTH)
    before = content(loops)
    spoiled(target, words, line)
    with pytest.raises((BackupFailed, Refused)):
        restore(loops, target)
    assert content(loops) == before


def test_backups_from_before_there_were_kinds_come_back(loops: Loops, target: Path) -> None:
    """The first format, of trees alone: all of them, or one by the id of any member."""
    before = made(loops)
    prune(loops, target, TREES_ALONE)
    made_old(target)
    assert restore(loops, target, "child").kinds == {"tree": 1}
    with pytest.raises(UnitNotFound):
        restore(loops, target, "old/1")
    restored = restore(loops, target)
    assert (restored.units, restored.present) == (1, 1)
    assert content(loops) == before


def test_an_old_backup_that_was_changed_restores_nothing(loops: Loops, target: Path) -> None:
    """Its checksums count as they did."""
    made(loops)
    prune(loops, target, TREES_ALONE)
    made_old(target)
    before = content(loops)
    spoiled(target, "UPDATE afterrun_units SET root = 'x' WHERE root = 'other'", (b'"other"', b'"x"'))
    with pytest.raises((BackupFailed, Refused)):
        restore(loops, target)
    assert content(loops) == before


@pytest.mark.parametrize("loops", ["sqlite"], indirect=True)
def test_rows_are_found_by_the_whole_key_of_a_generation(loops: Loops, target: Path) -> None:
    """By run and number, in the store and in the backup, whatever indexes the store has."""
    loops.run(
        "DROP TABLE events; CREATE TABLE events (run TEXT, turn INTEGER, number INTEGER, at INTEGER, body);"
        "CREATE INDEX events_run ON events (run, turn)"
    )
    fill(loops, loop("a", 200))
    prune(loops, target)
    with open_loops(loops, writable=False) as retention:
        store = retention.store
        assert isinstance(store.dialect, SQLite)
        with attached(store.dialect, target):
            for part in (*parts_of(store, None), *parts_of(store, BACKUP)):
                found: sa.Select[tuple[object]] = (
                    sa.select(sa.literal_column("1")).select_from(part.table).where(part.where)
                )
                assert "(run=? AND turn=?)" in " ".join(store.dialect.explain(found, {"keys": "[]"})), part
    head = read_head_of(target)
    assert (head["format"], head["kinds"]) == ("afterrun-backup/2", {"generation": 199})


def parts_of(store: SqlStore, schema: str | None) -> Sequence[Part]:
    """Return the parts of generations."""
    return kinds_of(store)["generation"].parts(schema=schema)


def read_head_of(target: Path) -> dict[str, object]:
    """Return what a backup says of itself."""
    with closing(sqlite3.connect(target)) as connection:
        found = json.loads(connection.execute("SELECT json FROM afterrun_head").fetchone()[0])
    assert isinstance(found, dict)
    return found
