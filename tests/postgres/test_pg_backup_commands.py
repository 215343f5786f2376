"""`prune --backup` and `restore` on PostgreSQL as a person types them, and what ends them early."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from afterrun.core.errors import Exit
from afterrun.stores.sql.backups import BackupKind
from afterrun.stores.sql.postgres import backup_whole as postgres_backup_whole
from afterrun.stores.sql.postgres import programs as postgres_programs
from afterrun.stores.sql.postgres.backup_file import Writing
from cli.kit import run_cli
from pg_server import Database, Server

from .pg_backup_kit import UNITS, PgStore, strange_store

POLICY = ("--keep-for", "30d")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Make a folder for backups that nobody else can write to."""
    made = tmp_path / "backups"
    made.mkdir(mode=0o700)
    return made


@pytest.fixture
def store(database: Database, tmp_path: Path, postgres: Server, monkeypatch: pytest.MonkeyPatch) -> PgStore:
    """Make a store, and keep the person's own state and programs out of the tests."""
    monkeypatch.setenv("AFTERRUN_PG_DUMP", postgres.binaries.program("pg_dump"))
    monkeypatch.setenv("AFTERRUN_STATE_DIR", str(tmp_path / "state"))
    made = strange_store(database, tmp_path)
    monkeypatch.setenv("AFTERRUN_STORE", made.url)
    return made


def prune(store: PgStore, *words: str | Path) -> tuple[str | Path, ...]:
    """Return the words of a removal."""
    return ("prune", store.url, "--profile", store.profile, *POLICY, *words)


def test_a_prune_with_a_backup_and_its_way_back(store: PgStore, folder: Path) -> None:
    """The report names the backup and its checksum; restore says what came back and that it is old."""
    before = store.content()
    target = folder / "b.zip"
    done = run_cli(*prune(store, "--apply", "--yes", "--backup", target))
    assert done.code == Exit.DONE
    assert f"{target} (removed, {UNITS} units)" in done.out
    assert "verified before the first batch in" in done.out
    one = run_cli("restore", store.url, target, "o'neil", "--profile", store.profile, "--offline")
    assert one.code == Exit.DONE
    assert "next sweep takes it again" in one.out
    rest = run_cli("restore", store.url, target, "--profile", store.profile, "--offline", "--json")
    assert (rest.json["units"], rest.json["present"], rest.json["refused"]) == (UNITS - 1, 1, {})
    assert store.content() == before


@pytest.mark.parametrize("kind", ["removed", "whole"])
def test_json_has_the_facts_of_the_backup(store: PgStore, folder: Path, kind: str) -> None:
    """Scripts find path, kind, size, units, rows and checksum, and never a password."""
    target = folder / "b"
    done = run_cli(*prune(store, "--apply", "--yes", "--backup", target, "--backup-kind", kind, "--json"))
    backup = done.json["backup"]
    assert (backup["path"], backup["kind"], backup["units"]) == (str(target), kind, UNITS)
    assert backup["bytes"] == target.stat().st_size
    assert len(backup["checksum"]) == 64
    assert store.database.server.passwords["app"] not in done.out + done.err


def test_a_dry_run_makes_no_backup_and_says_what_one_holds(store: PgStore, folder: Path) -> None:
    """The plan says that pg_dump holds locks and a snapshot, and nothing is made."""
    answer = run_cli(*prune(store, "--backup", folder / "b", "--backup-kind", "whole"))
    assert answer.code == Exit.DONE
    assert "ACCESS SHARE" in answer.out
    assert list(folder.iterdir()) == []


def test_restore_says_what_it_left_out(store: PgStore, folder: Path) -> None:
    """All trees but those that are back: exit 3. One that is back: exit 4. An unknown one: exit 1."""
    target = folder / "b.zip"
    run_cli(*prune(store, "--apply", "--yes", "--backup", target))
    store.run("INSERT INTO runs (id, status) VALUES ('run-1', 'running')")
    words = ("--profile", store.profile, "--offline", "--json")
    back = run_cli("restore", store.url, target, "run-1", *words)
    assert (back.code, back.json["error"]["reason"]) == (Exit.REFUSED, "id-is-back")
    rest = run_cli("restore", store.url, target, *words)
    assert (rest.code, rest.json["units"], rest.json["named"]) == (Exit.DEFERRED, UNITS - 1, ["run-1"])
    missing = run_cli("restore", store.url, target, "never-was", *words)
    assert (missing.code, missing.json["error"]["kind"]) == (Exit.ERROR, "not-found")


def test_a_whole_backup_is_refused_by_restore(store: PgStore, folder: Path) -> None:
    """It cannot be restored tree by tree, and the message says what reads it."""
    target = folder / "b.dump"
    run_cli(*prune(store, "--apply", "--yes", "--backup", target, "--backup-kind", "whole"))
    answer = run_cli("restore", store.url, target, "--profile", store.profile, "--json")
    assert (answer.code, answer.json["error"]["reason"]) == (Exit.REFUSED, "no-backup")
    assert "pg_restore" in answer.err


@pytest.mark.parametrize("kind", ["removed", "whole"])
def test_ctrl_c_takes_the_unfinished_backup_away(
    store: PgStore, folder: Path, monkeypatch: pytest.MonkeyPatch, kind: BackupKind
) -> None:
    """Interrupted while the backup is made: nothing was removed, no file stays, exit 130."""

    def interrupted(*args: Any, **words: Any) -> Iterator[bytes]:  # noqa: ANN401 - stands for anything
        for chunk in postgres_programs.output(*args, **words):
            yield chunk
            raise KeyboardInterrupt

    def at_once(*_args: object, **_words: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(postgres_backup_whole, "output", interrupted)
    monkeypatch.setattr(Writing, "_write", at_once)
    before = store.content()
    words = ("--apply", "--yes", "--backup", folder / "b", "--backup-kind", kind)
    assert run_cli(*prune(store, *words)).code == Exit.INTERRUPTED
    assert store.content() == before
    assert list(folder.iterdir()) == []


def test_a_connection_over_a_socket_serves_pg_dump_too(store: PgStore, folder: Path) -> None:
    """However the store is reached, pg_dump reaches it the same way."""
    url = store.database.url(over="socket", schema=store.schema, application_name="a b=c")
    words = ("--apply", "--yes", "--backup", folder / "b", "--backup-kind", "whole", "--json")
    done = run_cli("prune", url, "--profile", store.profile, *POLICY, *words)
    assert (done.code, done.json["backup"]["units"]) == (Exit.DONE, UNITS)


def test_an_unsafe_folder_is_refused_with_four(store: PgStore, folder: Path) -> None:
    """A folder that others can write to is refused, and the reason has a stable name."""
    folder.chmod(0o777)
    answer = run_cli(*prune(store, "--apply", "--yes", "--backup", folder / "b", "--json"))
    assert (answer.code, answer.json["error"]["reason"]) == (Exit.REFUSED, "backup-folder")
