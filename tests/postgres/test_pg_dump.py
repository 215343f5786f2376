"""The whole backup on PostgreSQL: made by pg_dump, compared with the store, and nothing secret seen."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from afterrun import Refused, SweepOptions
from afterrun.core.errors import BackupFailed
from afterrun.stores.sql.backups import BackupOrder
from afterrun.stores.sql.postgres import backup_whole as postgres_backup_whole
from afterrun.stores.sql.postgres import programs as postgres_programs
from afterrun.stores.sql.postgres.backup_whole import WholeDump, split
from pg_server import OWNER, Database, Server

from .pg_backup_kit import MONTH, SCHEMA, UNITS, PgStore, content, strange_store

SPY = """#!{python}
import json, os, stat, sys
from pathlib import Path
if "--version" not in sys.argv and "pg_dump" in sys.argv[0]:
    files = [Path(os.environ[name]) for name in ("PGPASSFILE", "PGSERVICEFILE")]
    seen = {{
        "arguments": sys.argv,
        "environment": dict(os.environ),
        "modes": [oct(stat.S_IMODE(path.stat().st_mode)) for path in (*files, files[0].parent)],
        "folder": str(files[0].parent),
        "passfile": files[0].read_text("utf-8"),
    }}
    Path({seen!r}).write_text(json.dumps(seen), "utf-8")
os.execv({program!r}, [{program!r}, *sys.argv[1:]])
"""
"""Stands in the place of a program, notes how it was called, and calls it."""


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


@pytest.fixture
def dump(postgres: Server, monkeypatch: pytest.MonkeyPatch) -> str:
    """Use the programs of the server's own version; return the path of pg_dump."""
    monkeypatch.setenv("AFTERRUN_PG_DUMP", postgres.binaries.program("pg_dump"))
    return postgres.binaries.program("pg_dump")


def script(path: Path, text: str) -> None:
    """Write a program."""
    path.write_text(text, "utf-8")
    path.chmod(0o755)


def refused(store: PgStore, folder: Path) -> str:
    """Try a removal with a whole backup; nothing may change. Return the message."""
    before = store.content()
    with pytest.raises(Refused) as caught:
        store.prune(folder / "b.dump", kind="whole")
    assert caught.value.reason == "pg-dump"
    assert store.content() == before
    assert list(folder.iterdir()) == []
    return str(caught.value)


@pytest.mark.usefixtures("dump")
def test_a_whole_backup_has_every_row_of_the_tables(store: PgStore, folder: Path, postgres: Server) -> None:
    """pg_restore puts all rows back into an empty schema, also those that did not go."""
    before = store.content()
    report = store.prune(folder / "b.dump", kind="whole")
    assert report.units.removed == UNITS
    assert store.ids() == {"alive"}
    assert [path.name for path in folder.iterdir()] == ["b.dump"]
    assert stat.S_IMODE((folder / "b.dump").stat().st_mode) == 0o600
    assert report.backup is not None
    assert report.backup["rows"] == {name: len(before[name]) for name in ("notes%", "links", "loose", "runs")}
    other = postgres.create_database()
    try:
        quoted = SCHEMA.replace('"', '""')
        other.run(f'CREATE SCHEMA "{quoted}"')
        other.run(f"""CREATE TYPE "{quoted}".mood AS ENUM ('sad', 'o''k, "so" %')""")
        postgres.tool("pg_restore", "--exit-on-error", "--dbname", other.name, str(folder / "b.dump"))
        assert content(other, SCHEMA) == {name: rows for name, rows in before.items() if name != "version"}
    finally:
        postgres.drop_database(other.name)


@pytest.mark.usefixtures("dump")
def test_odd_settings_of_the_database_change_no_sum(store: PgStore, folder: Path) -> None:
    """However sessions write values by default, what pg_dump wrote is compared with what we read."""
    name = store.database.name
    for setting in ("bytea_output = escape", "extra_float_digits = -5", "timezone = 'America/Caracas'"):
        store.run(f'ALTER DATABASE "{name}" SET {setting}', user="postgres")
    assert store.prune(folder / "b.dump", kind="whole").units.removed == UNITS


@pytest.mark.usefixtures("dump")
@pytest.mark.parametrize("place", ["value", "row"])
def test_a_dump_that_reads_back_otherwise_fails(
    store: PgStore, folder: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """If one value or row in the file is not what the store had, nothing goes and no file stays."""
    sums = WholeDump.sums

    def other(self: WholeDump) -> postgres_backup_whole.Sums:
        found = dict(sums(self))
        table = next(name for name in found if name[1] == b"loose")
        rows, total = found[table]
        found[table] = (rows + (place == "row"), total + (place == "value"))
        return found

    monkeypatch.setattr(WholeDump, "sums", other)
    before = store.content()
    with pytest.raises(BackupFailed, match="not those"):
        store.prune(folder / "b.dump", kind="whole")
    assert store.content() == before
    assert list(folder.iterdir()) == []


def test_no_secret_is_an_argument_or_a_variable(
    store: PgStore, folder: Path, tmp_path: Path, dump: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The password is in a file for its owner alone, which is gone afterwards, and nowhere else."""
    seen = tmp_path / "seen.json"
    spies = tmp_path / "spies"
    spies.mkdir()
    for name in ("pg_dump", "pg_restore"):
        program = str(Path(dump).with_name(name))
        script(spies / name, SPY.format(python=sys.executable, seen=str(seen), program=program))
    monkeypatch.setenv("AFTERRUN_PG_DUMP", str(spies / "pg_dump"))
    monkeypatch.setenv("PGPASSWORD", "wrong")
    assert store.prune(folder / "b.dump", kind="whole").units.removed == UNITS
    told = json.loads(seen.read_text("utf-8"))
    password = store.database.server.passwords[OWNER]
    secret = password[:16]
    assert secret not in json.dumps([told["arguments"], told["environment"]])
    assert "PGPASSWORD" not in told["environment"]
    assert store.database.name not in json.dumps(told["arguments"])
    assert told["modes"] == ["0o600", "0o600", "0o700"]
    assert secret in told["passfile"]
    assert not Path(told["folder"]).exists()


def test_the_files_are_gone_before_the_rows_come(
    store: PgStore, folder: Path, tmp_path: Path, dump: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As soon as pg_dump is connected nothing of the password is left, whatever happens to us later."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    left: list[list[str]] = []
    write = postgres_programs.output

    def watched(*args: object, **words: object) -> object:
        for chunk in write(*args, **words):  # type: ignore[arg-type]
            yield chunk
            left.append([path.name for path in (tmp_path / "temporary").glob("afterrun-*")])

    monkeypatch.setattr(postgres_backup_whole, "output", watched)
    store.prune(folder / "b.dump", kind="whole")
    assert left
    assert all(not names for names in left)


def test_a_missing_pg_dump_is_said(
    store: PgStore, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without pg_dump on the PATH, or where the variable names nothing, it is said what to do."""
    monkeypatch.delenv("AFTERRUN_PG_DUMP", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "AFTERRUN_PG_DUMP" in refused(store, folder)
    monkeypatch.setenv("AFTERRUN_PG_DUMP", str(tmp_path / "nothing"))
    assert "no program" in refused(store, folder)


@pytest.mark.parametrize(
    ("says", "message"),
    [
        ("echo 'pg_dump (PostgreSQL) 9.6.24'", "cannot dump a server of version"),
        ("echo hello", "does not say"),
        ("exit 3", "does not say"),
    ],
)
def test_an_unfit_pg_dump_is_said(
    store: PgStore,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    says: str,
    message: str,
) -> None:
    """A pg_dump older than the server, or none at all, is refused before anything is done."""
    for name in ("pg_dump", "pg_restore"):
        script(tmp_path / name, f"#!/bin/sh\n{says}\n")
    monkeypatch.setenv("AFTERRUN_PG_DUMP", str(tmp_path / "pg_dump"))
    assert message in refused(store, folder)


def test_a_pg_dump_without_pg_restore_is_said(
    store: PgStore, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What cannot be verified is not made."""
    script(tmp_path / "pg_dump", "#!/bin/sh\necho 'pg_dump (PostgreSQL) 99.1'\n")
    monkeypatch.setenv("AFTERRUN_PG_DUMP", str(tmp_path / "pg_dump"))
    assert "pg_restore" in refused(store, folder)


@pytest.mark.usefixtures("dump")
def test_a_table_that_somebody_is_changing_fails_the_backup(
    store: PgStore, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pg_dump waits for a lock for some time, and then its own words are told; nothing was removed."""
    monkeypatch.setattr(postgres_backup_whole, "LOCK_WAIT", "100ms")
    before = store.content()
    with store.database.connect(autocommit=False) as other:
        write = WholeDump.write

        def locked(self: WholeDump, draft: Path) -> str:
            quoted = SCHEMA.replace('"', '""')
            other.execute(f'LOCK TABLE "{quoted}".loose'.encode())
            return write(self, draft)

        monkeypatch.setattr(WholeDump, "write", locked)
        with pytest.raises(BackupFailed, match="pg_dump failed"):
            store.prune(folder / "b.dump", kind="whole")
    assert store.content() == before
    assert list(folder.iterdir()) == []


@pytest.mark.usefixtures("dump")
@pytest.mark.timeout(60)
def test_a_host_that_ends_does_not_wait_for_pg_dump(
    store: PgStore, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While pg_dump waits for a lock, the end of our host ends it at once; nothing was removed."""
    monkeypatch.setattr(postgres_backup_whole, "LOCK_WAIT", "100s")
    waiting = "SELECT count(*) FROM pg_locks l JOIN pg_class c ON c.oid = l.relation WHERE NOT l.granted"
    before = store.content()
    quoted = SCHEMA.replace('"', '""')
    write = WholeDump.write
    with store.database.connect(autocommit=False) as other, store.retention() as retention:

        def locked(self: WholeDump, draft: Path) -> str:
            other.execute(f'LOCK TABLE "{quoted}".loose'.encode())
            self._dialect.halt = lambda: store.database.rows(waiting) == [(1,)]
            return write(self, draft)

        monkeypatch.setattr(WholeDump, "write", locked)
        order = BackupOrder(path=folder / "b.dump", kind="whole")
        with pytest.raises(BackupFailed) as caught:
            retention.prune(MONTH, options=SweepOptions(offline=True), backup=order)
    assert caught.value.kind == "halted"
    assert store.content() == before
    assert list(folder.iterdir()) == []


@pytest.mark.usefixtures("dump")
def test_partitions_are_in_the_backup(store: PgStore, folder: Path) -> None:
    """A table in parts is dumped with all of them, and counted as one."""
    store.run(
        "ALTER TABLE loose RENAME TO was;"
        "CREATE TABLE loose (run text, value text) PARTITION BY HASH (run);"
        "CREATE TABLE part_a PARTITION OF loose FOR VALUES WITH (MODULUS 2, REMAINDER 0);"
        "CREATE TABLE part_b PARTITION OF loose FOR VALUES WITH (MODULUS 2, REMAINDER 1);"
        "CREATE INDEX ON loose (run); INSERT INTO loose SELECT * FROM was; DROP TABLE was"
    )
    before = store.content()
    report = store.prune(folder / "b.dump", kind="whole")
    assert report.backup is not None
    assert report.backup["rows"]["loose"] == 5 * UNITS + 2  # type: ignore[index]
    listed = subprocess.run(
        [str(Path(os.environ["AFTERRUN_PG_DUMP"]).with_name("pg_restore")), "--list", folder / "b.dump"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "part_a" in listed
    assert "part_b" in listed
    assert {name: len(rows) for name, rows in before.items()}["part_a"] > 0


def test_a_plan_says_what_a_backup_holds_meanwhile(store: PgStore) -> None:
    """The dry run names the locks and the snapshot, for both kinds."""
    with store.retention() as retention:
        for kind, words in (("removed", "copies the rows"), ("whole", "pg_dump")):
            [notice] = retention.backup_notices("removed" if kind == "removed" else "whole")
            assert words in notice
            assert "ACCESS SHARE" in notice
            assert "snapshot" in notice


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_lines_are_cut_wherever_the_chunks_end(size: int) -> None:
    """What a program writes is cut into lines, however it arrives."""
    text = b"a\n\nbc\n\n\nlonger line\nlast"
    chunks = [text[start : start + size] for start in range(0, len(text), size)]
    assert list(split(chunks)) == text.splitlines(keepends=True)
