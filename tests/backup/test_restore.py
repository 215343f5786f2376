"""Removed, backed up and restored: every value of every row is what it was."""

from __future__ import annotations

import shutil
import sqlite3
import stat
import zipfile
from contextlib import closing
from pathlib import Path

import pytest

from afterrun import Refused, StoreLocked, StoreUnreadable, UnitNotFound, UsageError
from afterrun.core.errors import BackupFailed
from afterrun.state import SweepLock
from backup.backup_kit import HOSTILE, content, ids, prune, restore, script, strange_store
from own_store import OwnStore


@pytest.fixture
def store(tmp_path: Path) -> OwnStore:
    """Make a store with every kind of value."""
    return strange_store(tmp_path)


@pytest.mark.parametrize("journal", ["delete", "wal"])
def test_a_store_is_the_same_after_restore(store: OwnStore, folder: Path, journal: str) -> None:
    """Removed, restored and compared: all rows are equal in value and type, with hostile ids and all."""
    store.run(f"PRAGMA journal_mode = {journal}")
    before = content(store)
    report = prune(store, folder / "b.sqlite")
    assert report.ended == "completed"
    assert ids(store.path) == {"alive"}
    assert report.backup is not None
    assert report.backup["units"] == report.units.removed == 20
    assert report.backup["rows"] == dict(report.rows)
    restored = restore(store, folder / "b.sqlite")
    assert content(store) == before
    assert (restored.units, restored.members, restored.rows) == (20, 22, report.rows)
    with store.retention() as retention:
        assert list(retention.verify()) == []


def test_a_backup_is_one_private_file_with_exactly_what_went(store: OwnStore, folder: Path) -> None:
    """The file is mode 0600, alone in its folder, opens as it is and has the store's own tables."""
    before = content(store)
    prune(store, folder / "b.sqlite")
    assert [path.name for path in folder.iterdir()] == ["b.sqlite"]
    assert stat.S_IMODE((folder / "b.sqlite").stat().st_mode) == 0o600
    kept, left = content(folder / "b.sqlite"), content(store)
    for table in ("runs", "links", "notes", "loose"):
        assert sorted(kept[table] + left[table]) == before[table]
    with (
        closing(sqlite3.connect(folder / "b.sqlite")) as connection,
        closing(sqlite3.connect(store.path)) as live,
    ):
        ask = "SELECT sql FROM sqlite_schema WHERE name = 'runs'"
        assert connection.execute(ask).fetchone() == live.execute(ask).fetchone()


@pytest.mark.parametrize("run", [*HOSTILE, "-7", "run-0", "child", "grandchild"])
def test_one_tree_comes_back_by_the_id_of_any_member(store: OwnStore, folder: Path, run: str) -> None:
    """RUN may be any member; its whole tree comes back and nothing else does."""
    prune(store, folder / "b.sqlite")
    restored = restore(store, folder / "b.sqlite", run)
    expected: set[object] = {"alive", -7 if run == "-7" else run}
    if run in {"run-0", "child", "grandchild"}:
        expected = {"alive", "run-0", "child", "grandchild"}
    assert ids(store.path) == expected
    assert restored.units == 1


def test_restore_is_refused_where_an_id_is_back(store: OwnStore, folder: Path) -> None:
    """A tree of which one run is in the store again stays in the backup; the others come back."""
    prune(store, folder / "b.sqlite")
    store.run("INSERT INTO runs (id, status) VALUES ('child', 'running')")
    before = content(store)
    with pytest.raises(Refused, match="again"):
        restore(store, folder / "b.sqlite", "grandchild")
    assert content(store) == before
    restored = restore(store, folder / "b.sqlite")
    assert (restored.units, sum(restored.refused.values()), restored.named) == (19, 1, ["run-0"])
    assert "run-0" not in ids(store.path)


def test_restore_is_refused_where_a_row_of_the_tree_is_there(store: OwnStore, folder: Path) -> None:
    """Rows that would belong to a restored run, without the run itself, refuse it too."""
    prune(store, folder / "b.sqlite")
    store.run("INSERT INTO loose VALUES ('run-3', 'new')")
    with pytest.raises(Refused, match="again"):
        restore(store, folder / "b.sqlite", "run-3")
    assert "run-3" not in ids(store.path)


def test_a_second_restore_changes_nothing(store: OwnStore, folder: Path) -> None:
    """What is there unchanged is counted as such and is no fault."""
    prune(store, folder / "b.sqlite")
    restore(store, folder / "b.sqlite")
    before = content(store)
    again = restore(store, folder / "b.sqlite")
    assert (again.units, again.present, dict(again.refused)) == (0, 20, {})
    assert content(store) == before


def test_a_unique_row_that_was_taken_refuses_one_tree_alone(tmp_path: Path, folder: Path) -> None:
    """A constraint of the store that a tree would break leaves that tree out, whole."""
    store = strange_store(tmp_path)
    prune(store, folder / "b.sqlite")
    store.run("INSERT INTO links (link, run) VALUES (12, 'alive')")
    restored = restore(store, folder / "b.sqlite")
    assert (restored.units, restored.named) == (19, ["-7"])
    assert -7 not in ids(store.path)


def test_a_moved_store_is_said_and_taken(store: OwnStore, folder: Path, tmp_path: Path) -> None:
    """With equal tables a store elsewhere is taken for the same one, moved; the report says so."""
    before = content(store)
    prune(store, folder / "b.sqlite")
    moved = OwnStore(tmp_path / "moved.sqlite", store.profile, store.state)
    shutil.move(store.path, moved.path)
    restored = restore(moved, folder / "b.sqlite")
    assert content(moved) == before
    assert "elsewhere" in restored.notices[0]


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ("DELETE FROM loose WHERE rowid = 1", BackupFailed),
        ("UPDATE runs SET n = n + 1 WHERE id = 'run-2'", BackupFailed),
        ("UPDATE loose SET value = '1.0' WHERE value = 1.0", BackupFailed),
        ("DELETE FROM afterrun_members WHERE key = 'run-2'", BackupFailed),
        ("UPDATE afterrun_units SET root = 'run-99' WHERE root = 'run-2'", BackupFailed),
        ("DROP TABLE afterrun_head", Refused),
        ("DELETE FROM afterrun_head", Refused),
        ("UPDATE afterrun_head SET json = '{}'", Refused),
        ("UPDATE afterrun_head SET json = replace(json, '\"own\"', '\"dbos\"')", Refused),
        ("DROP TABLE notes", Refused),
        ("ALTER TABLE loose ADD COLUMN more", Refused),
        ("ALTER TABLE loose RENAME TO was; CREATE VIEW loose AS SELECT * FROM was", Refused),
        ("DROP TABLE loose; CREATE TABLE loose (run, value AS (run))", Refused),
    ],
)
def test_a_changed_backup_is_refused(
    store: OwnStore, folder: Path, change: str, error: type[Exception]
) -> None:
    """A backup is input: rows, lists and tables that are not what it says of itself restore nothing."""
    prune(store, folder / "b.sqlite")
    script(folder / "b.sqlite", change)
    before = content(store)
    with pytest.raises(error):
        restore(store, folder / "b.sqlite")
    assert content(store) == before


def test_nothing_in_a_backup_runs(store: OwnStore, folder: Path) -> None:
    """Triggers and views that were planted in a backup do nothing."""
    before = content(store)
    prune(store, folder / "b.sqlite")
    script(
        folder / "b.sqlite",
        "CREATE TRIGGER t AFTER INSERT ON runs BEGIN DELETE FROM runs; END;"
        "CREATE VIEW evil AS SELECT load_extension('x')",
    )
    restore(store, folder / "b.sqlite")
    assert content(store) == before


def test_a_damaged_file_and_other_files_are_refused(store: OwnStore, folder: Path) -> None:
    """A truncated backup, text, a folder, the store itself and a missing file restore nothing."""
    prune(store, folder / "b.sqlite")
    whole = (folder / "b.sqlite").read_bytes()
    (folder / "cut.sqlite").write_bytes(whole[: len(whole) // 2])
    (folder / "text").write_text("no database, but long enough to be none" * 99)
    (folder / "empty").touch()
    before = content(store)
    for name in ("cut.sqlite", "text", "empty"):
        with pytest.raises((BackupFailed, Refused)):
            restore(store, folder / name)
    for path in (folder, folder / "missing", Path("a\0b")):
        with pytest.raises(StoreUnreadable):
            restore(store, path)
    for path in (store.path, Path(f"{store.path}.afterrun-lock")):
        with pytest.raises(UsageError):
            restore(store, path)
    assert content(store) == before


def test_a_backup_of_another_kind_of_database_is_told_from_a_damaged_one(
    store: OwnStore, folder: Path
) -> None:
    """An archive, as PostgreSQL stores have, is named for no SQLite file, with the store that it is for."""
    with zipfile.ZipFile(folder / "b.zip", "w") as archive:
        archive.writestr("afterrun.json", '{"format": "afterrun-postgresql-backup/1"}' * 99)
    before = content(store)
    with pytest.raises(Refused, match=r"b\.zip is no SQLite file.*goes back into PostgreSQL") as refusal:
        restore(store, folder / "b.zip")
    assert refusal.value.reason == "no-backup"
    assert content(store) == before


def test_an_unknown_run_is_not_found(store: OwnStore, folder: Path) -> None:
    """An id that the backup lacks is an error with its own kind."""
    prune(store, folder / "b.sqlite")
    with pytest.raises(UnitNotFound):
        restore(store, folder / "b.sqlite", "alive")


def test_restore_waits_for_no_other_sweep(store: OwnStore, folder: Path) -> None:
    """Restore takes the sweep lock and leaves at once where another holds it."""
    prune(store, folder / "b.sqlite")
    with SweepLock(store.path), pytest.raises(StoreLocked):
        restore(store, folder / "b.sqlite")


def test_what_was_restored_expires_again(store: OwnStore, folder: Path) -> None:
    """A restored tree is as old as it was: the next removal takes it, into a backup of its own."""
    prune(store, folder / "b.sqlite")
    restore(store, folder / "b.sqlite", "run-0")
    report = prune(store, folder / "c.sqlite")
    assert report.units.removed == 1
    assert ids(folder / "c.sqlite") == {"run-0", "child", "grandchild"}
