"""A backup on PostgreSQL that fails, is killed or is overtaken: nothing goes that is not safely in it."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from afterrun import Budget, Refused, SweepOptions, UsageError
from afterrun.core.errors import BackupFailed
from afterrun.core.facts import Unit
from afterrun.stores import new_file
from afterrun.stores.new_file import UNFINISHED
from afterrun.stores.sql.backups import BackupKind, BackupOrder
from afterrun.stores.sql.postgres import backup_rows as postgres_backup_rows
from afterrun.stores.sql.postgres.backup import PostgresWitness
from afterrun.stores.sql.postgres.backup_file import BackupFile, Writing
from afterrun.stores.sql.postgres.backup_rows import UnitRows, UnitSum
from afterrun.stores.sql.removal import Removal
from pg_server import Database, Server

from .pg_backup_kit import MONTH, UNITS, PgStore, after_backup, head_of, strange_store

KINDS: tuple[BackupKind, ...] = ("removed", "whole")
TESTS = Path(__file__).resolve().parents[1]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Make a folder for backups that nobody else can write to."""
    made = tmp_path / "backups"
    made.mkdir(mode=0o700)
    return made


@pytest.fixture
def store(database: Database, tmp_path: Path) -> PgStore:
    """Make a store with every kind of value."""
    return strange_store(database, tmp_path)


@pytest.fixture(autouse=True)
def _programs(postgres: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the programs of the server's own version."""
    monkeypatch.setenv("AFTERRUN_PG_DUMP", postgres.binaries.program("pg_dump"))


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
@pytest.mark.parametrize("size", [2_000, 4_096, 100_000])
def test_a_disk_that_fills_up_in_the_middle(
    store: PgStore, folder: Path, kind: BackupKind, size: int
) -> None:
    """However much could be written, the failure is said, the store is unchanged and no file stays."""
    store.run(
        "INSERT INTO loose SELECT 'run-1', sha512(n::text::bytea)::text FROM generate_series(1, 5000) n"
    )
    before = store.content()
    order = BackupOrder(path=folder / "b", kind=kind)
    with store.retention() as opened:
        options = SweepOptions(offline=True)
        with largest_file(size), pytest.raises(BackupFailed, match="the store is unchanged") as caught:
            opened.prune(MONTH, options=options, backup=order)
    assert caught.value.kind == "disk-full"
    assert store.content() == before
    assert list(folder.iterdir()) == []
    assert store.prune(folder / "b", kind=kind).ended == "completed"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("point", ["copying", "verifying", "publishing"])
def test_a_killed_backup_is_none_and_the_next_one_clears_it(
    store: PgStore, folder: Path, kind: BackupKind, point: str
) -> None:
    """Killed half way: the store is unchanged, pg_dump goes too, what is left has a name that says so."""
    store.run("INSERT INTO loose SELECT 'alive', md5(n::text) FROM generate_series(1, 60000) AS n")
    before = store.content()
    command = [sys.executable, str(TESTS / "postgres" / "pg_stalled_backup.py"), store.url, store.profile]
    words = [str(store.state), str(folder / "b.zip"), kind, point]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([*filter(None, sys.path), str(TESTS)])}
    with subprocess.Popen([*command, *words], stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        stalled, *helpers = process.stdout.readline().split()
        assert stalled == "stalled"
        working = [psutil.Process(int(helper)) for helper in helpers]
        assert [helper.name() for helper in working] == ["pg_dump"] * (kind == "whole" and point == "copying")
        process.send_signal(signal.SIGKILL)
    gone, alive = psutil.wait_procs(working, timeout=30)
    assert (len(gone), alive) == (len(working), [])
    assert store.content() == before
    [left] = folder.iterdir()
    assert left.name.startswith(f".b.zip{UNFINISHED}")
    if point == "copying":
        with pytest.raises(Refused, match="finished"):
            store.restore(left)
    report = store.prune(folder / "b.zip", kind=kind)
    assert report.ended == "completed"
    assert report.backup is not None
    assert report.backup["cleared"] == 1
    assert [path.name for path in folder.iterdir()] == ["b.zip"]


def test_all_rows_are_of_one_moment(store: PgStore, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What changes while the backup is made is in it as it was, and then differs and stays."""
    monkeypatch.setattr(postgres_backup_rows, "PIECE_UNITS", 1)
    add, pieces = Writing.add, list[Unit]()

    def busy(self: Writing, kind: str, units: Sequence[Unit]) -> Sequence[UnitSum]:
        found = add(self, kind, units)
        if not pieces:
            store.run(
                "UPDATE loose SET value = 'late' WHERE run = 'run-7'; DELETE FROM loose WHERE run = 'run-6'"
            )
        pieces.extend(units)
        return found

    monkeypatch.setattr(Writing, "add", busy)
    report = store.prune(folder / "b.zip")
    assert report.units.skipped == {"recheck: changed since the backup": 2}
    assert report.units.removed == UNITS - 2
    assert head_of(folder / "b.zip")["tables"]["loose"]["rows"] == 5 * UNITS + 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_connection_that_is_lost_on_the_way(
    store: PgStore, folder: Path, monkeypatch: pytest.MonkeyPatch, kind: BackupKind
) -> None:
    """If the server ends our session, the snapshot is gone: no backup, no file, and nothing was removed."""
    ended = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = 'afterrun'"
    lines = UnitRows.lines

    def cut(self: UnitRows, *args: Any) -> Generator[bytes]:  # noqa: ANN401 - passed on as they are
        store.database.rows(ended, user="postgres")
        return lines(self, *args)

    monkeypatch.setattr(UnitRows, "lines", cut)
    before = store.content()
    with pytest.raises(BackupFailed) as caught:
        store.prune(folder / "b", kind=kind)
    assert caught.value.kind == "lost-connection"
    assert store.content() == before
    assert list(folder.iterdir()) == []


CHANGES = {
    "a value": "UPDATE runs SET f = 0 WHERE id = 'o''neil'",
    "a zero's sign": "UPDATE runs SET d = '0.00' WHERE id = 'o''neil'",
    "null": "UPDATE runs SET b = NULL WHERE id = 'o''neil'",
    "a key in JSON": """UPDATE runs SET j = '{"b" : 1.0, "a": "\\u00e9\\\\n"}' WHERE id = 'o''neil'""",
    "one more": "INSERT INTO loose VALUES ('o''neil', 'new')",
    "an equal one more": "INSERT INTO loose VALUES ('o''neil', 'same')",
    "one less": "DELETE FROM loose WHERE run = 'o''neil' AND value = ''",
    "a linked one": "INSERT INTO \"notes%\" SELECT link, 'new' FROM links WHERE run = 'o''neil'",
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_changed_since_the_backup_stays_alone(
    store: PgStore, folder: Path, monkeypatch: pytest.MonkeyPatch, kind: BackupKind, change: str
) -> None:
    """A unit with any difference in value or number of rows stays; all others go."""
    with after_backup(monkeypatch, lambda: store.run(change)):
        report = store.prune(folder / "b.zip", kind=kind)
    assert report.units.skipped == {"recheck: changed since the backup": 1}
    assert report.units.removed == UNITS - 1
    assert store.ids() == {"alive", "o'neil"}


@pytest.mark.parametrize("kind", KINDS)
def test_what_expires_after_the_selection_stays(
    store: PgStore, folder: Path, monkeypatch: pytest.MonkeyPatch, kind: BackupKind
) -> None:
    """A unit that was not selected before the backup stays, though the policy would let it go now."""
    ended = "UPDATE runs SET status = 'done', ended = 1600000000000 WHERE id = 'alive'"
    with after_backup(monkeypatch, lambda: store.run(ended)):
        report = store.prune(folder / "b.zip", kind=kind)
    assert report.units.removed == UNITS
    assert store.ids() == {"alive"}


def test_no_timeout_of_the_database_ends_a_snapshot(
    store: PgStore, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However short statements, pauses and transactions are by default, a backup takes the time it takes."""
    names = ("statement_timeout", "idle_in_transaction_session_timeout", "transaction_timeout")
    for (name,) in store.rows("SELECT name FROM pg_settings WHERE name = ANY (%s)", list(names)):
        store.run(f'ALTER DATABASE "{store.database.name}" SET {name} = 200', user="postgres")
    add = Writing.add

    def slow(self: Writing, kind: str, units: Sequence[Unit]) -> Sequence[UnitSum]:
        self._kinds["tree"].dialect.driver.execute("SELECT pg_sleep(0.3)")
        with store.database.server.connect() as elsewhere:
            elsewhere.execute("SELECT pg_sleep(0.3)")
        return add(self, kind, units)

    monkeypatch.setattr(Writing, "add", slow)
    assert store.prune(folder / "b.zip").units.removed == UNITS


def test_what_lives_again_stays_by_its_own_reason(
    store: PgStore, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that was resumed after the backup stays as a live one."""
    alive = "UPDATE runs SET status = 'running' WHERE id = 'child'"
    with after_backup(monkeypatch, lambda: store.run(alive)):
        report = store.prune(folder / "b.zip")
    assert report.units.protected == {"live-member": 1}
    assert report.units.removed == UNITS - 1
    assert {"run-0", "child", "grandchild"} <= store.ids()


@pytest.mark.parametrize(
    "change",
    [
        "INSERT INTO loose VALUES ('run-3', 'late')",
        "DELETE FROM loose WHERE run = 'run-3' AND value = ''",
    ],
)
def test_a_row_that_comes_or_goes_after_the_comparison_is_noticed(
    store: PgStore, folder: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    """Between the comparison and the removal, no lock keeps others from a table without a foreign key."""
    differing = PostgresWitness.differing
    done: list[str] = []

    def overtaken(self: PostgresWitness, units: Sequence[Unit]) -> object:
        found = differing(self, units)
        if not done:
            done.append(change)
            store.run(change)
        return found

    monkeypatch.setattr(PostgresWitness, "differing", overtaken)
    report = store.prune(folder / "b.zip")
    assert report.ended == "completed"
    assert (report.units.removed, sum(report.units.skipped.values())) == (UNITS - 1, 1)
    assert store.ids() == {"alive", "run-3"}


def test_a_backup_that_reads_back_otherwise_fails(
    store: PgStore, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If what is read back is not what was read from the store, nothing goes and no file stays."""
    write = Writing._write

    def spoiled(self: Writing, name: str, lines: Iterable[bytes]) -> None:
        spoilt = (line.replace(b"same", b"some") for line in lines)
        write(self, name, spoilt if "loose" in name else lines)

    monkeypatch.setattr(Writing, "_write", spoiled)
    before = store.content()
    with pytest.raises(BackupFailed, match="not those"):
        store.prune(folder / "b.zip")
    assert store.content() == before
    assert list(folder.iterdir()) == []


def left_alone(store: PgStore, target: Path, error: type[Exception]) -> str:
    """Try a removal with a backup there; nothing may change anywhere. Return the message."""
    before, beside = store.content(), set(target.parent.iterdir()) if target.parent.is_dir() else set()
    with pytest.raises(error) as caught:
        store.prune(target)
    assert store.content() == before
    assert beside == (set(target.parent.iterdir()) if target.parent.is_dir() else set())
    return str(caught.value)


def test_a_wrong_place_is_refused(store: PgStore, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative path, a taken name, a missing folder and one that others can write to change nothing."""
    monkeypatch.chdir(folder)
    assert "absolute" in left_alone(store, Path("b.zip"), UsageError)
    (folder / "taken").write_text("precious")
    assert "exists already" in left_alone(store, folder / "taken", UsageError)
    (folder / "link").symlink_to(folder / "nowhere")
    assert "exists already" in left_alone(store, folder / "link", UsageError)
    left_alone(store, folder / "missing" / "b.zip", UsageError)
    folder.chmod(0o777)
    assert "others can write" in left_alone(store, folder / "b.zip", Refused)
    assert (folder / "taken").read_text() == "precious"


@pytest.mark.parametrize("kind", KINDS)
def test_too_little_room_is_refused(
    store: PgStore, folder: Path, monkeypatch: pytest.MonkeyPatch, kind: BackupKind
) -> None:
    """The room on the backup's volume is asked before anything is written, whatever the kind."""
    monkeypatch.setattr(new_file, "SPARE", 1 << 60)
    before = store.content()
    with pytest.raises(Refused, match="free") as caught:
        store.prune(folder / "b.zip", kind=kind)
    assert caught.value.reason == "no-room"
    assert store.content() == before
    assert list(folder.iterdir()) == []


def test_an_unknown_status_makes_no_backup(store: PgStore, folder: Path) -> None:
    """What forbids the removal is found before a backup is made in vain."""
    store.run("INSERT INTO runs (id, status) VALUES ('odd', 'odd')")
    with pytest.raises(Refused, match="odd"):
        store.prune(folder / "b.zip")
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("kind", KINDS)
def test_with_nothing_to_remove_no_backup_is_made(store: PgStore, folder: Path, kind: BackupKind) -> None:
    """Where nothing goes there is nothing to fall back on."""
    store.prune(folder / "b.zip", kind=kind)
    again = store.prune(folder / "c.zip", kind=kind)
    assert (again.units.removed, again.backup) == (0, None)
    assert [path.name for path in folder.iterdir()] == ["b.zip"]


def test_a_limit_bounds_the_backup_too(store: PgStore, folder: Path) -> None:
    """With --limit N the backup has exactly the N units that go."""
    report = store.prune(folder / "b.zip", options=SweepOptions(offline=True, budget=Budget(units=3)))
    assert report.units.removed == 3
    assert report.backup is not None
    assert report.backup["units"] == 3
    assert head_of(folder / "b.zip")["units"][0] == 3


def test_removal_beside_a_working_engine_is_compared_too(
    store: PgStore, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Live batches of one unit each compare and remove as large ones do."""
    removed: list[int] = []
    remove = Removal.remove

    def counted(self: Removal, units: Sequence[Unit], *, max_rows: int) -> Mapping[str, int]:
        removed.append(len(list(units)))
        return remove(self, units, max_rows=max_rows)

    monkeypatch.setattr(Removal, "remove", counted)
    report = store.prune(folder / "b.zip", options=SweepOptions(batch_units=1, rest=0.0))
    assert removed == [1] * UNITS
    assert report.units.removed == UNITS


def test_a_finished_draft_says_of_itself_what_was_written(store: PgStore, folder: Path) -> None:
    """The head names the server, the store without its password, its profile and how values are typed."""
    store.prune(folder / "b.zip")
    head = head_of(folder / "b.zip")
    assert head["profile"] == "own"
    assert "***" in head["store"]
    assert store.database.server.passwords["app"] not in str(head)
    assert head["tables"]["runs"]["columns"]["z"] == "timestamp with time zone"
    assert "twice" not in head["tables"]["runs"]["columns"]
    with BackupFile(folder / "b.zip") as backup:
        backup.verify()
