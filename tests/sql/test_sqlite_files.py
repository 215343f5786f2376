"""Files as they are found: missing, damaged, left by a crash, without rights, in WAL mode, with payloads."""

from __future__ import annotations

import base64
import os
import pickle
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from afterrun import Policy, Retention, StoreUnreadable, SweepOptions
from afterrun.core.errors import Refused
from afterrun.stores import open_store
from afterrun.stores.sql.sqlite.dialect import SQLite
from own_store import DAY, OLD, PLAIN, RUNS, own_store
from random_stores import VERSIONS, create_store
from sql_kit import make, rows, sqlite

NOBODY = 65_534
ROWS = """
CREATE TABLE t (id INTEGER PRIMARY KEY, x TEXT);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000)
INSERT INTO t SELECT i, hex(randomblob(100)) FROM n;
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Name the database."""
    return tmp_path / "store.sqlite"


def unreadable(path: Path) -> str:
    """Open what cannot be opened; make sure that nothing was made or changed beside it."""
    before = {file.name: file.read_bytes() for file in path.parent.iterdir() if file.is_file()}
    with pytest.raises(StoreUnreadable) as caught:
        SQLite(path, writable=True)
    after = {file.name: file.read_bytes() for file in path.parent.iterdir() if file.is_file()}
    assert after == before
    return str(caught.value)


def test_a_missing_file_is_not_made(path: Path) -> None:
    """A wrong path is told, and leaves no empty database behind."""
    assert "there is no file" in unreadable(path)


def test_a_wal_without_its_database_is_told_and_kept(path: Path) -> None:
    """A database that was moved without its -wal may still be put together again."""
    Path(f"{path}-wal").write_bytes(b"x" * 100)
    assert "its -wal file is there" in unreadable(path)


def test_a_folder_is_no_store(path: Path) -> None:
    """A store is a file."""
    path.mkdir()
    assert "is a directory" in unreadable(path)


@pytest.mark.timeout(10)
def test_a_fifo_is_no_store(path: Path) -> None:
    """It is told without opening it, which would wait for ever."""
    os.mkfifo(path)
    with pytest.raises(StoreUnreadable, match="no regular file"):
        SQLite(path, writable=True)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "is empty"),
        (b"x", "not a SQLite database"),
        (b"SQLite format 3\0" + b"\0" * 10, "not a SQLite database"),
        (b"some text, long enough to be taken for a header " * 100, "not a SQLite database"),
        (bytes(range(256)) * 64, "not a SQLite database"),
    ],
)
def test_a_file_that_is_no_database_is_told(path: Path, content: bytes, told: str) -> None:
    """Empty, noise, another format, encrypted: told in words, and the file is as it was."""
    path.write_bytes(content)
    assert told in unreadable(path)


@pytest.mark.parametrize("kept", [0.5, 0.99])
def test_a_truncated_database_is_told(path: Path, kept: float) -> None:
    """A copy that was cut off is not swept."""
    make(path, ROWS)
    os.truncate(path, int(path.stat().st_size * kept) // 4096 * 4096)
    assert "truncated" in unreadable(path)


def test_a_symbolic_link_is_the_file_it_points_to(path: Path, tmp_path: Path) -> None:
    """Two names of one store have one identity, so one lock."""
    make(path, ROWS)
    link = tmp_path / "link.sqlite"
    link.symlink_to(path)
    first, second = SQLite(path, writable=False), SQLite(link, writable=False)
    assert (first.identity, first.path) == (second.identity, second.path)
    first.close()
    second.close()


@pytest.mark.parametrize(
    "name", ["with space.sqlite", "100%41?mode=memory#x.sqlite", "l\u00e4uft'\".sqlite", ":memory:"]
)
def test_any_file_name_is_only_a_name(tmp_path: Path, name: str) -> None:
    """Nothing of a path is read as a part of a URL."""
    dialect = SQLite(make(tmp_path / name, ROWS), writable=True)
    with dialect.locked(5):
        assert dialect.change(sa.text("DELETE FROM t WHERE id <= 10"), {}) == 10
    dialect.close()
    assert rows(tmp_path / name, "SELECT count(*) FROM t") == [(990,)]
    assert [file.name for file in tmp_path.iterdir()] == [name]


# After a crash

CRASH = """
import os, signal, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("PRAGMA cache_size = 1")
connection.execute("BEGIN IMMEDIATE")
connection.execute("UPDATE t SET x = 'half'")
os.kill(os.getpid(), signal.SIGKILL)
"""


def crash(path: Path) -> None:
    """Let a writer die in the middle of a transaction that already reached the file."""
    done = subprocess.run([sys.executable, "-c", CRASH, str(path)], check=False)
    assert done.returncode == -signal.SIGKILL


@pytest.mark.parametrize("writable", [True, False])
def test_a_journal_left_by_a_killed_writer_is_rolled_back(path: Path, writable: bool) -> None:
    """Half a transaction is in the file; whoever opens it next sees the state before."""
    make(path, ROWS)
    crash(path)
    assert Path(f"{path}-journal").stat().st_size > 0
    assert b"half" in path.read_bytes()
    dialect = SQLite(path, writable=writable)
    assert dialect.execute(sa.text("SELECT count(*) FROM t WHERE x = 'half'"))[0][0] == 0
    assert list(dialect.problems()) == []
    dialect.close()


def test_a_wal_left_by_a_killed_writer_is_read(path: Path) -> None:
    """What was committed into the -wal counts, what was not does not."""
    make(path, f"PRAGMA journal_mode = WAL; {ROWS}")
    keeper = sqlite3.connect(path)  # keeps the -wal from being written back
    keeper.execute("SELECT count(*) FROM t").fetchone()
    crash(path)
    assert Path(f"{path}-wal").stat().st_size > 0
    dialect = SQLite(path, writable=True)
    assert dialect.execute(sa.text("SELECT count(*), sum(x = 'half') FROM t"))[0] == (1000, 0)
    dialect.close()
    keeper.close()


# Rights


@pytest.fixture
def shared() -> Iterator[Path]:
    """Give a folder that every user can reach."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)
        Path(folder).chmod(0o755)


@contextmanager
def ordinary_user() -> Iterator[None]:
    """Have no more rights than the file modes give: root would pass them by."""
    if os.geteuid() != 0:
        yield
        return
    os.setresuid(NOBODY, NOBODY, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)


def closed(path: Path, mode: int, folder: int = 0o555) -> None:
    """Take rights from a file and its folder."""
    path.chmod(mode)
    path.parent.chmod(folder)


def refused(path: Path, *, writable: bool) -> str:
    """Open a file as an ordinary user, who may not, and return what is told."""
    with ordinary_user(), pytest.raises(Refused) as caught:
        SQLite(path, writable=writable)
    assert caught.value.reason == "rights"
    return str(caught.value)


def test_a_file_without_write_access_can_be_looked_at(shared: Path) -> None:
    """A plan needs no rights to write; a removal is refused before anything."""
    path = make(shared / "store.sqlite", ROWS)
    closed(path, 0o444)
    with ordinary_user():
        dialect = SQLite(path, writable=False)
        assert dialect.execute(sa.text("SELECT count(*) FROM t"))[0][0] == 1000
        assert list(dialect.problems()) == []
        dialect.close()
    assert "may not write" in refused(path, writable=True)


def test_a_file_without_read_access_is_refused(shared: Path) -> None:
    """What may not be read is told as a matter of rights."""
    path = make(shared / "store.sqlite", ROWS)
    closed(path, 0o000)
    assert "may not read" in refused(path, writable=False)


def test_a_folder_without_access_cannot_be_reached(shared: Path) -> None:
    """Without the right to enter the folder, nobody knows whether the file exists."""
    path = make(shared / "store.sqlite", ROWS)
    closed(path, 0o444, 0o000)
    with ordinary_user(), pytest.raises(StoreUnreadable, match="cannot be reached"):
        SQLite(path, writable=False)


def test_a_wal_database_in_a_folder_without_write_access_is_refused(shared: Path) -> None:
    """WAL needs a shared-memory file beside the database: the message says which rights are wanted."""
    path = make(shared / "store.sqlite", f"PRAGMA journal_mode = WAL; {ROWS}")
    closed(path, 0o444)
    assert "WAL mode" in refused(path, writable=False)


def test_a_journal_left_by_a_crash_needs_write_access(shared: Path) -> None:
    """A half-written database is never read as it is."""
    path = make(shared / "store.sqlite", ROWS)
    crash(path)
    Path(f"{path}-journal").chmod(0o444)
    closed(path, 0o444)
    assert "left by a crash" in refused(path, writable=False)


# WAL and sizes


def test_wal_mode_stays_and_is_written_back_outside_the_lock(path: Path) -> None:
    """Commits go to the -wal, and `settle` moves them into the database."""
    make(path, f"PRAGMA journal_mode = WAL; {ROWS}")
    dialect = SQLite(path, writable=True)
    with dialect.locked(5):
        dialect.change(sa.text("DELETE FROM t WHERE id > 10"), {})
    wal = Path(f"{path}-wal")
    assert wal.stat().st_size > 10_000
    with closing(sqlite3.connect(f"{path.as_uri()}?immutable=1", uri=True)) as main:  # the main file alone
        assert main.execute("SELECT count(*) FROM t").fetchone() == (1000,)
    dialect.settle()
    with closing(sqlite3.connect(f"{path.as_uri()}?immutable=1", uri=True)) as main:
        assert main.execute("SELECT count(*) FROM t").fetchone() == (10,)
    dialect.close()
    assert rows(path, "PRAGMA journal_mode") == [("wal",)]


def test_settling_waits_for_no_reader(path: Path) -> None:
    """A reader of an old state keeps pages in the -wal; that is no error."""
    make(path, f"PRAGMA journal_mode = WAL; {ROWS}")
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM t").fetchone()
        dialect = SQLite(path, writable=True)
        with dialect.locked(5):
            dialect.change(sa.text("DELETE FROM t"), {})
        dialect.settle()
        assert reader.execute("SELECT count(*) FROM t").fetchone() == (1000,)
        dialect.close()


@pytest.mark.parametrize("mode", ["DELETE", "WAL"])
def test_sizes_are_those_of_the_file(path: Path, mode: str) -> None:
    """Removal makes free pages, and the file keeps its size."""
    make(path, f"PRAGMA journal_mode = {mode}; {ROWS}")
    dialect = SQLite(path, writable=True)
    before = dialect.sizes()
    assert (before.total, before.free) == (path.stat().st_size, 0)
    with dialect.locked(5):
        dialect.change(sa.text("DELETE FROM t"), {})
    after = dialect.sizes()
    dialect.close()
    assert after.total == before.total
    assert after.free > before.total * 0.9


@pytest.mark.parametrize("secure", [True, False])
def test_secure_delete_overwrites_what_was_removed(path: Path, secure: bool) -> None:
    """When asked for, removed content is nowhere in the file."""
    secret = "hunter2-sk-4711" * 400
    make(path, f"CREATE TABLE t (x TEXT); INSERT INTO t VALUES ('{secret}'), ('{secret}x'), ('short');")
    dialect = SQLite(path, writable=True)
    if secure:
        dialect.secure_delete()
    with dialect.locked(5):
        dialect.change(sa.text("DELETE FROM t WHERE length(x) > 10"), {})
    dialect.close()
    assert (b"hunter2" in path.read_bytes()) != secure


# Verify


def test_a_sound_store_has_no_problems(tmp_path: Path) -> None:
    """Nothing is told of a store without a fault."""
    for version in VERSIONS:
        path = tmp_path / f"{version}.sqlite"
        create_store(path, version)
        store = open_store(str(path))
        assert list(store.problems()) == []
        store.close()


def test_each_kind_of_fault_is_found(tmp_path: Path) -> None:
    """Damage, broken foreign keys and rows of no run: one line each, with the table and the number."""
    script = (
        RUNS
        + f"""
    INSERT INTO runs VALUES ('a', 'done', {OLD}, NULL);
    CREATE TABLE steps (id INTEGER PRIMARY KEY, run TEXT); CREATE INDEX steps_run ON steps (run);
    CREATE TABLE parts (step INTEGER REFERENCES steps(id));
    INSERT INTO steps VALUES (1, 'a'), (2, 'gone'), (3, 'gone'), (4, NULL);
    INSERT INTO parts VALUES (1), (7), (NULL);
    """
    )
    owned = """owned = [
      { table = "parts", column = "step", via = { table = "steps", key = "id", owner = "run" } },
      { table = "steps", column = "run" },
    ]"""
    own = own_store(tmp_path, script, PLAIN + owned)
    store = own.open()
    assert list(store.problems()) == [
        "foreign keys: 1 rows of parts refer to rows of steps that are gone",
        "orphans: 1 rows of parts belong to no run",
        "orphans: 2 rows of steps belong to no run",
    ]
    store.close()
    own.run(
        "PRAGMA writable_schema = ON;"
        "UPDATE sqlite_schema SET sql = replace(sql, '(run)', '(id)') WHERE name = 'steps_run'"
    )
    store = own.open()
    assert any(line.startswith("integrity: ") for line in store.problems())
    store.close()


# Payloads and odd text


class _Bomb:
    """Creates a file when it is unpickled."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[object, tuple[str, int]]:
        return os.open, (str(self.target), os.O_CREAT | os.O_WRONLY)


@pytest.mark.parametrize("version", VERSIONS)
def test_no_payload_is_ever_decoded(
    tmp_path: Path, path: Path, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pickle that would create a file lies in every column that takes one; no file comes."""
    marker = tmp_path / "decoded"
    payload = pickle.dumps(_Bomb(marker))
    os.close(pickle.loads(payload))  # noqa: S301 - shows that it would
    assert marker.exists()
    marker.unlink()
    create_store(path, version)
    texts = (base64.b64encode(payload).decode(), payload)
    with closing(sqlite3.connect(path)) as connection, connection:
        for number, text in enumerate(texts):
            run = f"run-{number}"
            plant(
                connection,
                "workflow_status",
                text,
                workflow_uuid=run,
                status="SUCCESS",
                completed_at=OLD,
                updated_at=OLD,
            )
            for table in (
                "operation_outputs",
                "workflow_events",
                "streams",
                "workflow_input",
                "workflow_output",
            ):
                plant(connection, table, text, workflow_uuid=run)
            plant(connection, "notifications", text, destination_uuid=run)
    monkeypatch.setattr(pickle, "loads", fail)
    monkeypatch.setattr(pickle, "load", fail)
    with Retention(str(path), state=tmp_path / "state") as retention:
        report = retention.plan(DAY)
        assert (report.units.expired, report.logical_bytes > len(payload)) == (2, True)
        assert "run-0" in str(retention.explain("run-0", DAY))
        assert list(retention.verify()) == []
        removed = retention.prune(Policy(keep_for=timedelta(days=1)), options=SweepOptions(offline=True))
    assert removed.units.removed == 2
    assert not marker.exists()


def fail(*_arguments: object, **_named: object) -> None:
    """Stand for a decoder that must not be called."""
    raise AssertionError("a payload was decoded")


def plant(connection: sqlite3.Connection, table: str, payload: object, **fixed: object) -> None:
    """Insert a row whose free columns all hold the payload."""
    columns = connection.execute(f"SELECT name, type FROM pragma_table_info('{table}')").fetchall()
    kept = {"parent_workflow_id", "name", "application_name", "child_workflow_id", "message_uuid", "key"}
    numbers = {name: 1 for name, kind in columns if kind != "TEXT"}
    texts = {name: payload for name, kind in columns if kind == "TEXT" and name not in kept}
    values = {
        **numbers,
        **texts,
        **({"key": "k"} if any(name == "key" for name, _ in columns) else {}),
        **fixed,
    }
    names = ", ".join(f'"{name}"' for name in values)
    if columns:
        marks = ", ".join("?" * len(values))
        connection.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", list(values.values()))


def test_ids_and_words_that_are_no_text_are_kept_and_told(tmp_path: Path) -> None:
    """Promise 3: bytes that are no UTF-8 in id, status, parent or group crash nothing; such ids stay."""
    bad = "CAST(x'62ff' AS TEXT)"
    script = (
        RUNS
        + f"""
    ALTER TABLE runs ADD COLUMN name TEXT;
    INSERT INTO runs VALUES ('good', 'done', {OLD}, NULL, {bad}), ({bad}, 'done', {OLD}, NULL, 'n'),
        ('orphan', 'done', {OLD}, {bad} || 'x', 'n'), ('child', 'done', {OLD}, {bad}, 'n');
    """
    )
    tree = PLAIN + 'edges = [{ column = "parent" }]\ngroup = ["name"]\nmissing = "root"\n'
    own = own_store(tmp_path, script, tree)
    assert own.verdicts("good", "orphan") == {"good": "expired", "orphan": "expired"}
    assert own.verdicts("child")["child"].split(":")[-1].strip().startswith("blocked")
    own.plan()
    own.prune(Policy(keep_for=timedelta(days=1), keep_last=5))
    own.prune()
    assert rows(own.path, "SELECT count(*) FROM runs") == [(2,)]
    own.run(f"UPDATE runs SET status = {bad}")
    with own.retention(writable=False) as retention:
        assert list(retention.store.census().unknown.values()) == [2]
        assert sqlite(retention.store).name == "sqlite"
