"""Backups of superseded checkpoints: what goes is in the file as it is, and comes back, one by one or all."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from afterrun import Policy, Refused, Report, SweepOptions
from afterrun.core.policy import MatchRule
from afterrun.core.sweep import Budget
from afterrun.stores.sql.backups import BackupKind, BackupOrder, Restored
from checkpoints.hostile_kit import GENERATIONS, Hostile, at
from checkpoints.pg_checkpoints import Site
from cli.kit import run_cli
from pg_server import Database

STEPS = 6
BOTH = Policy(keep_for=timedelta(days=30), generations=Policy(keep_for=timedelta(days=30)))

Rows = dict[str, list[tuple[object, ...]]]


@pytest.fixture
def store(tmp_path: Path) -> Hostile:
    """Give two threads with writes; the second one forked."""
    made = Hostile(tmp_path / "checkpoints.sqlite")
    made.thread("a", STEPS)
    made.thread("b/c", STEPS)
    with made.open() as database:
        database.execute(
            "UPDATE checkpoints SET parent_checkpoint_id = ? WHERE thread_id = 'b/c' AND checkpoint_id = ?",
            (at(1), at(3)),
        )
        database.executemany(
            "INSERT INTO writes VALUES (?, '', ?, 'task', ?, 'said', 'msgpack', ?, '')",
            [
                (name, at(step), number, b"\xa1x")
                for name in ("a", "b/c")
                for step in range(STEPS - 1)
                for number in (0, 1)
            ],
        )
    return made


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """Give a place for a backup."""
    folder = tmp_path / "backups"
    folder.mkdir(mode=0o700)
    return folder / "backup.sqlite"


def rows(store: Hostile) -> Rows:
    """Return all rows, without links."""
    return {
        "checkpoints": store.rows(
            "SELECT thread_id, checkpoint_ns, checkpoint_id, type, checkpoint, metadata FROM checkpoints "
            "ORDER BY 1, 2, 3"
        ),
        "writes": store.rows("SELECT * FROM writes ORDER BY thread_id, checkpoint_id, idx"),
    }


def links(store: Hostile) -> dict[tuple[object, ...], object]:
    """Return what each checkpoint follows."""
    found = store.rows("SELECT thread_id, checkpoint_id, parent_checkpoint_id FROM checkpoints")
    return {row[:2]: row[2] for row in found}


def prune(
    store: Hostile,
    target: Path,
    policy: Policy = GENERATIONS,
    *,
    kind: BackupKind = "removed",
    options: SweepOptions | None = None,
) -> Report:
    """Remove after a backup."""
    with store.retention() as retention:
        chosen = options or SweepOptions(offline=True)
        report = retention.prune(policy, options=chosen, backup=BackupOrder(path=target, kind=kind))
        assert list(retention.verify()) == []
    return report


def restore(store: Hostile, backup: Path, run: str | None = None) -> Restored:
    """Put back what a backup holds."""
    with store.retention() as retention:
        return retention.restore(backup, run, rest=0.0)


@pytest.mark.parametrize("batch", [None, 1, 2])
def test_all_that_went_comes_back(store: Hostile, target: Path, batch: int | None) -> None:
    """In batches of any size, though each leads links of the next on; then each row is what it was."""
    before, followed = rows(store), links(store)
    options = SweepOptions(offline=batch is None, batch_units=batch, sleep=lambda _seconds: None)
    report = prune(store, target, options=options)
    assert (report.units.removed, dict(report.units.skipped)) == (STEPS - 1 + STEPS - 2, {})
    assert report.backup is not None
    assert report.backup["kinds"] == {"generation": STEPS - 1 + STEPS - 2}
    assert store.left() == {"a": 1, "b/c": 2}
    kept = links(store)
    restored = restore(store, target)
    assert restored.kinds == {"generation": STEPS - 1 + STEPS - 2}
    assert restored.rows == report.rows
    assert rows(store) == before
    assert links(store) == followed | kept
    again = restore(store, target)
    assert (again.units, again.present) == (0, STEPS - 1 + STEPS - 2)


def test_one_checkpoint_comes_back_alone(store: Hostile, target: Path) -> None:
    """By its id, which has its thread, its namespace and its own; on the command line, too."""
    prune(store, target)
    done = run_cli("restore", store.path, target, f"b/c//{at(1)}")
    assert done.code == 0, done.err
    assert store.left() == {"a": 1, "b/c": 3}
    assert len(store.rows("SELECT 1 FROM writes")) == 2 + 2


def test_threads_and_checkpoints_are_in_one_file(store: Hostile, target: Path) -> None:
    """What goes with its thread is in it once; a thread comes back whole before checkpoints of others."""
    store.thread("waits", STEPS)
    with store.open() as database:
        written = "INSERT INTO writes VALUES ('waits', '', ?, 'task', 0, 'said', 'msgpack', ?, '')"
        database.execute(written, (at(STEPS - 1), b"\xa1x"))
    before = rows(store)
    report = prune(store, target, BOTH)
    assert {kind: units.removed for kind, units in report.kinds.items()} == {
        "tree": 2,
        "generation": STEPS - 1,
    }
    assert store.left() == {"waits": 1}
    assert restore(store, target, "a").kinds == {"tree": 1}
    restored = restore(store, target)
    assert (restored.kinds, restored.present) == ({"tree": 1, "generation": STEPS - 1}, 1)
    assert rows(store) == before


def _write(store: Hostile) -> None:
    with store.open() as database:
        database.execute(
            "INSERT INTO writes VALUES ('a', '', ?, 'late', 0, 'said', 'msgpack', ?, '')", (at(3), b"\xa1y")
        )


def _save(store: Hostile) -> None:
    with store.open() as database:
        database.execute("UPDATE checkpoints SET metadata = '{}' WHERE checkpoint_id = ?", (at(3),))
        database.execute("UPDATE checkpoints SET metadata = '{}' WHERE checkpoint_id = ?", (at(2),))


@pytest.mark.parametrize("kind", ["removed", "whole"])
@pytest.mark.parametrize(("act", "stay"), [(_write, 1), (_save, 3)])
def test_what_changed_since_the_backup_stays(
    store: Hostile, target: Path, kind: BackupKind, act: Callable[[Hostile], None], stay: int
) -> None:
    """A write that came late, or a row that was written anew, keeps its checkpoint and no other."""
    done: list[bool] = []

    def gate() -> bool:
        if target.exists() and not done:
            done.append(True)
            act(store)
        return True

    report = prune(store, target, kind=kind, options=SweepOptions(offline=True, gate=gate))
    assert report.units.skipped == {"recheck: changed since the backup": stay}
    assert report.units.removed == STEPS - 1 + STEPS - 2 - stay


def test_a_whole_backup_is_one_of_checkpoints_too(store: Hostile, target: Path) -> None:
    """Units go in small batches with a copy of the whole database as their witness."""
    before = rows(store)
    options = SweepOptions(batch_units=1, sleep=lambda _seconds: None)
    report = prune(store, target, kind="whole", options=options)
    assert (report.units.removed, dict(report.units.skipped)) == (STEPS - 1 + STEPS - 2, {})
    with closing(sqlite3.connect(target)) as copy:
        assert copy.execute("SELECT count(*) FROM checkpoints").fetchone() == (len(before["checkpoints"]),)


def test_every_rule_of_a_policy_stands_in_the_file(store: Hostile, target: Path) -> None:
    """Narrower rules, too, for people who look at the backup."""
    rule = MatchRule(match={"status": ("done",)}, keep_for=timedelta(days=20))
    rules = Policy(
        keep_for=timedelta(days=30), rules=(rule,), generations=Policy(keep_last=1, keep_forks=False)
    )
    assert prune(store, target, rules).removed == 2
    with closing(sqlite3.connect(target)) as copy:
        head = json.loads(copy.execute("SELECT json FROM afterrun_head").fetchone()[0])
    assert head["policy"]["rules"] == [{"match": {"status": ["done"]}, "keep_for": "20d"}]
    assert restore(store, target).kinds == {"tree": 2}


def test_a_limit_bounds_what_is_in_the_file_and_what_goes(store: Hostile, target: Path) -> None:
    """The first units alone."""
    report = prune(store, target, options=SweepOptions(offline=True, budget=Budget(units=3)))
    assert report.backup is not None
    assert (report.backup["units"], report.units.removed) == (3, 3)


def test_a_checkpoint_needs_its_thread_and_a_newer_one(store: Hostile, target: Path) -> None:
    """Put back as the newest, it would be what the engine goes on from."""
    prune(store, target)
    with store.open() as database:
        database.execute("DELETE FROM checkpoints WHERE thread_id = 'a'")
    with pytest.raises(Refused) as refusal:
        restore(store, target, f"a//{at(2)}")
    assert refusal.value.reason == "run-is-gone"
    store.thread("a", 2)
    with store.open() as database:
        database.execute("DELETE FROM checkpoints WHERE thread_id = 'a' AND checkpoint_id = ?", (at(0),))
    with pytest.raises(Refused) as refusal:
        restore(store, target, f"a//{at(2)}")
    assert refusal.value.reason == "not-superseded"
    assert restore(store, target, f"a//{at(0)}").units == 1
    assert store.left() == {"a": 2, "b/c": 2}


def test_a_checkpoint_that_is_there_with_other_content_is_left(store: Hostile, target: Path) -> None:
    """Whoever wrote it again meant it."""
    prune(store, target)
    with store.open() as database:
        database.execute(
            "INSERT INTO writes VALUES ('a', '', ?, 'task', 0, 'said', 'msgpack', ?, '')", (at(1), b"\xa1z")
        )
    with pytest.raises(Refused) as refusal:
        restore(store, target, f"a//{at(1)}")
    assert refusal.value.reason == "id-is-back"
    assert restore(store, target).refused.total() == 1


def test_on_postgresql_it_is_refused_with_the_reason(
    database: Database, tmp_path: Path, target: Path
) -> None:
    """There checkpoints share their values. Whole threads have backups."""
    site = Site(database, tmp_path)
    with pytest.raises(Refused, match="shares what it needs with others") as refusal:
        site.retention.prune(GENERATIONS, backup=BackupOrder(path=target))
    assert refusal.value.reason == "backup-kind"
    assert not target.exists()
    whole = Policy(keep_for=timedelta(days=30))
    assert site.retention.prune(whole, backup=BackupOrder(path=target)).units.removed == 3
    assert site.retention.restore(target, "a").units == 1
    site.retention.close()
