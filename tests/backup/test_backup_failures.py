"""A backup that fails, is killed or is overtaken by the engine: the store keeps what is not safely in it."""

from __future__ import annotations

import os
import resource
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from afterrun import Budget, Refused, SweepOptions
from afterrun.core.errors import BackupFailed
from afterrun.core.facts import Unit
from afterrun.stores.new_file import UNFINISHED
from afterrun.stores.sql.backups import BackupKind, BackupOrder
from afterrun.stores.sql.removal import Removal
from afterrun.stores.sql.sqlite.attached import Attached
from afterrun.stores.sql.sqlite.whole_backup import WholeBackup
from backup.backup_kit import MONTH, after_backup, content, ids, prune, restore, script, strange_store
from own_store import OwnStore

KINDS: tuple[BackupKind, ...] = ("removed", "whole")
TESTS = Path(__file__).resolve().parents[1]


@pytest.fixture
def store(tmp_path: Path) -> OwnStore:
    """Make a store with old runs."""
    return strange_store(tmp_path)


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """Let no file of this process grow beyond a size, as a full disk does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("journal", ["delete", "wal"])
@pytest.mark.parametrize("size", [1_024, 4_096, 20_000, 100_000])
def test_a_disk_that_fills_up_in_the_middle(
    store: OwnStore, folder: Path, kind: BackupKind, journal: str, size: int
) -> None:
    """However much could be written, the failure is said, the store is unchanged and no file stays."""
    store.run(f"PRAGMA journal_mode = {journal}")
    store.run("UPDATE loose SET value = zeroblob(20000) WHERE typeof(value) = 'real' AND run <> 'alive'")
    before = content(store)
    order = BackupOrder(path=folder / "b.sqlite", kind=kind)
    failed = pytest.raises(BackupFailed, match="the store is unchanged")
    with store.retention() as opened, largest_file(size), failed:  # a WAL store makes files when it is opened
        opened.prune(MONTH, options=SweepOptions(offline=True), backup=order)
    assert content(store) == before
    assert list(folder.iterdir()) == []
    assert prune(store, folder / "b.sqlite", kind=kind).ended == "completed"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("point", ["copying", "verifying", "publishing"])
def test_a_killed_backup_is_none_and_the_next_one_clears_it(
    store: OwnStore, folder: Path, kind: BackupKind, point: str
) -> None:
    """Killed half way, the store is unchanged and what is left has a name that says so; then it goes."""
    before = content(store)
    command = [sys.executable, str(TESTS / "backup" / "stalled_backup.py")]
    words = [str(store.path), str(store.profile), str(store.state), str(folder / "b.sqlite"), kind, point]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([*filter(None, sys.path), str(TESTS)])}
    with subprocess.Popen([*command, *words], stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "stalled\n"
        process.send_signal(signal.SIGKILL)
    assert content(store) == before
    [left] = folder.iterdir()
    assert left.name.startswith(f".b.sqlite{UNFINISHED}")
    report = prune(store, folder / "b.sqlite", kind=kind)
    assert report.ended == "completed"
    assert report.backup is not None
    assert report.backup["cleared"] == 1
    assert [path.name for path in folder.iterdir()] == ["b.sqlite"]


def test_an_unfinished_backup_restores_nothing(
    store: OwnStore, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A draft without its head is no backup, whatever rows it has."""
    prune(store, folder / "b.sqlite")
    script(folder / "b.sqlite", "DELETE FROM afterrun_head")
    with pytest.raises(Refused, match="finished"):
        restore(store, folder / "b.sqlite")


CHANGES = {
    "type": "UPDATE runs SET free = 1.0 WHERE id = 'o''neil'",
    "null": "UPDATE runs SET free = NULL WHERE id = 'o''neil'",
    "case": "UPDATE notes SET text = x'32' WHERE link = 1 AND text = x'31'",
    "one more": "INSERT INTO loose VALUES ('o''neil', 'new')",
    "an equal one more": "INSERT INTO loose VALUES ('o''neil', 1.0)",
    "one less": "DELETE FROM loose WHERE rowid = 1",
    "a linked one": "INSERT INTO notes VALUES (1, 'new')",
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_changed_since_the_backup_stays_alone(
    store: OwnStore, folder: Path, monkeypatch: pytest.MonkeyPatch, kind: BackupKind, change: str
) -> None:
    """A unit with any difference in value, type or number of rows stays; all others go."""
    with after_backup(monkeypatch, lambda: store.run(change)):
        report = prune(store, folder / "b.sqlite", kind=kind)
    assert report.units.skipped == {"recheck: changed since the backup": 1}
    assert report.units.removed == 19
    assert ids(store.path) == {"alive", "o'neil"}


@pytest.mark.parametrize("kind", KINDS)
def test_what_expires_after_the_selection_stays(
    store: OwnStore, folder: Path, monkeypatch: pytest.MonkeyPatch, kind: BackupKind
) -> None:
    """A unit that was not selected before the backup stays, though the policy would let it go now."""
    ended = "UPDATE runs SET status = 'done', ended = 1600000000000 WHERE id = 'alive'"
    with after_backup(monkeypatch, lambda: store.run(ended)):
        report = prune(store, folder / "b.sqlite", kind=kind)
    assert report.units.removed == 20
    assert ids(store.path) == {"alive"}


def test_what_lives_again_stays_by_its_own_reason(
    store: OwnStore, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that was resumed after the backup stays as a live one."""
    with after_backup(
        monkeypatch, lambda: store.run("UPDATE runs SET status = 'running' WHERE id = 'child'")
    ):
        report = prune(store, folder / "b.sqlite")
    assert report.units.protected == {"live-member": 1}
    assert report.units.removed == 19
    assert {"run-0", "child", "grandchild"} <= ids(store.path)


def test_a_backup_that_reads_back_otherwise_fails(
    store: OwnStore, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If what is read back is not what was read from the store, nothing goes and no file stays."""
    sums = Attached.sums
    monkeypatch.setattr(Attached, "sums", lambda self: dict(sums(self)) | {"loose": (60, "0" * 64)})
    before = content(store)
    with pytest.raises(BackupFailed, match="loose"):
        prune(store, folder / "b.sqlite")
    assert content(store) == before
    assert list(folder.iterdir()) == []


def test_an_unknown_status_makes_no_backup(store: OwnStore, folder: Path) -> None:
    """What forbids the removal is found before a backup is made in vain."""
    store.run("INSERT INTO runs (id, status) VALUES ('odd', 'odd')")
    with pytest.raises(Refused, match="odd"):
        prune(store, folder / "b.sqlite")
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("kind", KINDS)
def test_with_nothing_to_remove_no_backup_is_made(store: OwnStore, folder: Path, kind: BackupKind) -> None:
    """Where nothing goes there is nothing to fall back on."""
    prune(store, folder / "b.sqlite", kind=kind)
    again = prune(store, folder / "c.sqlite", kind=kind)
    assert (again.units.removed, again.backup) == (0, None)
    assert [path.name for path in folder.iterdir()] == ["b.sqlite"]


def test_a_limit_bounds_the_backup_too(store: OwnStore, folder: Path) -> None:
    """With --limit N the backup has exactly the N units that go."""
    report = prune(store, folder / "b.sqlite", options=SweepOptions(offline=True, budget=Budget(units=3)))
    assert report.units.removed == 3
    assert report.backup is not None
    assert report.backup["units"] == 3
    assert len(ids(folder / "b.sqlite")) + len(ids(store.path)) == 23


@pytest.mark.parametrize("journal", ["delete", "wal"])
def test_a_whole_backup_is_the_database(store: OwnStore, folder: Path, journal: str) -> None:
    """A whole backup has every row of every table, needs no file beside it and is checked like the other."""
    store.run(f"PRAGMA journal_mode = {journal}")
    before = content(store)
    report = prune(store, folder / "b.sqlite", kind="whole")
    assert report.units.removed == 20
    assert content(folder / "b.sqlite") == before
    assert [path.name for path in folder.iterdir()] == ["b.sqlite"]
    assert report.backup is not None
    assert (report.backup["blocked"] == 0) == (journal == "wal")
    assert oct((folder / "b.sqlite").stat().st_mode)[-3:] == "600"


def test_a_busy_engine_does_not_keep_a_whole_backup_from_ending(
    store: OwnStore, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An engine that commits in every pause makes the copy begin again only a few times."""
    monkeypatch.setattr("afterrun.stores.sql.sqlite.whole_backup.STEP_PAGES", 2)
    rest = WholeBackup._rest
    pauses = []

    def busy(self: WholeBackup, status: int, left: int, total: int) -> None:
        rest(self, status, left, total)
        pauses.append(left)
        store.run(f"UPDATE loose SET value = {len(pauses)} WHERE run = 'alive'")

    monkeypatch.setattr(WholeBackup, "_rest", busy)
    report = prune(store, folder / "b.sqlite", kind="whole", options=SweepOptions(rest=0.0))
    assert report.units.removed == 20
    assert len(pauses) < 30
    with closing(sqlite3.connect(folder / "b.sqlite")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("journal", ["delete", "wal"])
def test_the_locks_on_the_store_survive_a_backup(
    store: OwnStore, folder: Path, monkeypatch: pytest.MonkeyPatch, kind: BackupKind, journal: str
) -> None:
    """After a backup was made, read and attached, a batch still keeps every other process from writing."""
    store.run(f"PRAGMA journal_mode = {journal}")
    remove = Removal.remove
    answers: list[str] = []
    program = "import sqlite3, sys; sqlite3.connect(sys.argv[1], timeout=0).execute('BEGIN IMMEDIATE')"

    def beside(self: Removal, units: Sequence[Unit], *, max_rows: int) -> Mapping[str, int]:
        command = [sys.executable, "-c", program, str(store.path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        answers.append(done.stderr.strip().rpartition("\n")[2])
        return remove(self, units, max_rows=max_rows)

    monkeypatch.setattr(Removal, "remove", beside)
    assert prune(store, folder / "b.sqlite", kind=kind).units.removed == 20
    assert set(answers) == {"sqlite3.OperationalError: database is locked"}
