"""Whatever is wrong with what a person gives: the right exit code, clear words, and a store left alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from afterrun.core.errors import Exit
from afterrun.profiles.loader import built_in_text
from afterrun.state import SweepLock

from .kit import POWERLESS, Answer, change, count, make_store, run_cli, run_process, unchanged

POLICY = ("--keep-for", "30d")
APPLY = ("--apply", "--no-backup", "--yes")
COMMANDS = (
    ("plan", *POLICY),
    ("prune", *POLICY, *APPLY),
    ("sweep", *POLICY),
    ("verify",),
    ("profile", "check"),
)
each_command = pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])


def refused(path: Path, words: tuple[str, ...], code: Exit, *parts: str) -> Answer:
    """Run a command on a store in both forms; expect an ending without a change."""
    with unchanged(path):
        told = run_cli(*words, path)
        as_json = run_cli(*words, path, "--json")
    assert (told.code, as_json.code) == (code, code)
    assert told.out == ""
    message = as_json.json["error"]["message"]
    assert told.err.startswith("afterrun: ")
    assert "bug" not in told.err
    for part in parts:
        assert part in told.err
        assert part in message
    return as_json


@each_command
def test_a_text_file_is_called_no_database(tmp_path: Path, words: tuple[str, ...]) -> None:
    """A file that is not a database is named as such, and left alone."""
    path = tmp_path / "notes.txt"
    path.write_text("these are only notes, and longer than a header of a database would be\n" * 20)
    refused(path, words, Exit.ERROR, "notes.txt", "is not a SQLite database")


@pytest.mark.parametrize("share", [0.5, 0.999])
@each_command
def test_a_truncated_database_is_called_truncated(store: Path, words: tuple[str, ...], share: float) -> None:
    """A database that was cut off, at a page or within one, is refused before anything is read."""
    os.truncate(store, int(store.stat().st_size * share))
    refused(store, words, Exit.ERROR, "truncated")


@each_command
def test_a_database_with_overwritten_pages_ends_without_a_bug(store: Path, words: tuple[str, ...]) -> None:
    """Pages of garbage end a command with an error or a fault found, and are never called a bug of ours."""
    page = 4096
    whole = store.read_bytes()
    for place in range(page, len(whole), 4 * page):
        store.write_bytes(whole[:place] + b"\xa5" * page + whole[place + page :])
        answer = run_cli(*words, store)
        assert "bug" not in answer.err
        assert answer.code in {Exit.DONE, Exit.ERROR, Exit.REFUSED}


@each_command
def test_a_directory_is_called_a_directory(tmp_path: Path, words: tuple[str, ...]) -> None:
    """One that no known engine has made is no store, and nothing is put into it."""
    folder = tmp_path / "folder"
    folder.mkdir()
    refused(folder, words, Exit.USAGE, "no profile fits this directory")
    assert list(folder.iterdir()) == []


@each_command
def test_a_missing_path_is_not_created(tmp_path: Path, words: tuple[str, ...]) -> None:
    """A path where nothing is stays empty."""
    path = tmp_path / "missing.sqlite"
    refused(path, words, Exit.ERROR, "there is no file", "missing.sqlite")
    assert not path.exists()


@each_command
def test_a_wal_without_its_file_is_pointed_out(tmp_path: Path, words: tuple[str, ...]) -> None:
    """A -wal file alone says that the database was moved without it; it is kept, as it holds commits."""
    wal = tmp_path / "moved.sqlite-wal"
    wal.write_bytes(b"frames" * 100)
    with unchanged(wal):
        refused(tmp_path / "moved.sqlite", words, Exit.ERROR, "-wal")


@each_command
def test_a_file_without_a_byte_is_called_empty(tmp_path: Path, words: tuple[str, ...]) -> None:
    """An empty file is no database yet, and none is made of it."""
    path = tmp_path / "empty.sqlite"
    path.touch()
    refused(path, words, Exit.ERROR, "is empty")


@each_command
def test_a_database_of_no_known_engine_is_refused(tmp_path: Path, words: tuple[str, ...]) -> None:
    """A database without an engine's tables fits no profile."""
    path = tmp_path / "other.sqlite"
    change(path, "CREATE TABLE notes (text)")
    refused(path, words, Exit.USAGE, "no profile fits", "--profile")


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://someone:s3cret@host/db",
        "postgresql+psycopg://someone:s3cret@host:5432/db?sslmode=require",
        "mysql://someone:s3cret@host/db",
        "postgresql:/someone:s3cret@host/db",
        "postgresql://someone:s3cret@host:port/db",
    ],
)
@each_command
def test_a_url_of_another_database_never_shows_its_password(words: tuple[str, ...], url: str) -> None:
    """A password in a URL is not repeated, whatever the error is."""
    for form in ((), ("--json",)):
        answer = run_cli(*words, url, *form)
        assert answer.code in {Exit.USAGE, Exit.ERROR}
        assert "s3cret" not in answer.out + answer.err
    if url.startswith("mysql"):
        assert "not supported" in answer.err
    if url.startswith("postgresql://someone:s3cret@host/"):
        assert "cannot be opened" in answer.err


def test_a_password_in_a_stray_word_is_masked(store: Path) -> None:
    """A second STORE is an unexpected word, and its password is not repeated."""
    answer = run_cli("verify", store, "postgresql://someone:s3cret@host/db")
    assert answer.code == Exit.USAGE
    assert "someone:***@host" in answer.err
    assert "s3cret" not in answer.err


def test_an_unknown_profile_gets_the_nearest_name(store: Path) -> None:
    """A misspelt profile name answers with the one that may have been meant."""
    refused(store, ("plan", *POLICY, "--profile", "dbso"), Exit.USAGE, "did you mean 'dbos'?")


def write_profile(path: Path, old: str = "", new: str = "") -> Path:
    """Write the built-in profile with one change."""
    text = built_in_text("dbos")
    assert old in text
    path.write_text(text.replace(old, new, 1) if old else text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('name = "dbos"', "name = ", ["not valid TOML"]),
        ("[units.tree]", "[units.tree]\nterminl = []", ["units.tree.terminl", "did you mean 'terminal'?"]),
        ("[units.tree]", '[units.tree]\ndecode = "os:system"', ["units.tree.decode: unknown key"]),
        ('name = "dbos"', 'name = "dbos"\ndecode = "os:system"', ["decode: unknown key"]),
        ('table = "workflow_status"', 'table = "workflow_state"', ["did you mean 'workflow_status'?"]),
        ('key = "workflow_uuid"', 'key = "workflow_id"', ["workflow_status", "no column workflow_id"]),
    ],
)
@pytest.mark.parametrize("command", ["plan", "prune", "sweep"])
def test_a_profile_with_a_fault_names_the_fault(
    store: Path, tmp_path: Path, command: str, old: str, new: str, words: list[str]
) -> None:
    """A malformed or misfitting profile, and one that names code, is refused with the place of the fault."""
    profile = write_profile(tmp_path / "own.toml", old, new)
    refused(store, (command, *POLICY, "--profile", str(profile)), Exit.USAGE, *words)


@pytest.mark.parametrize("kind", ["missing", "directory", "binary", "huge"])
def test_a_profile_that_cannot_be_read_is_named(store: Path, tmp_path: Path, kind: str) -> None:
    """A profile file that is missing, no file, not text or far too large is refused by its name."""
    profile = tmp_path / "own.toml"
    if kind == "directory":
        profile.mkdir()
    elif kind == "binary":
        profile.write_bytes(b"\xff\xfe\x00")
    elif kind == "huge":
        profile.write_text("#" * 300_000)
    refused(store, ("plan", *POLICY, "--profile", str(profile)), Exit.USAGE, "own.toml")


@pytest.fixture
def unread(tmp_path: Path) -> Path:
    """Make a store of a schema version that nobody has read, with a table nobody knows."""
    path = make_store(tmp_path / "unread.sqlite", version="999")
    change(path, "ALTER TABLE workflow_status ADD COLUMN tomorrow TEXT")
    return path


def test_a_schema_never_read_can_be_planned(unread: Path) -> None:
    """Plan, explain and a dry run work on an unknown schema, and say that it is one."""
    with unchanged(unread):
        plan = run_cli("plan", unread, *POLICY, "--json")
        explain = run_cli("explain", unread, "run-39", *POLICY)
        dry = run_cli("prune", unread, *POLICY)
    assert (plan.code, explain.code, dry.code) == (Exit.DONE, Exit.DONE, Exit.DONE)
    assert plan.json["schema"] == {"version": "999", "read": False}
    assert any("999 was never read" in notice for notice in plan.json["notices"])
    assert "999 was never read" in dry.out


@pytest.mark.parametrize("words", [("prune", *POLICY, *APPLY), ("sweep", *POLICY)])
def test_a_schema_never_read_is_not_written_to(unread: Path, words: tuple[str, ...]) -> None:
    """Promise 3: removal from an unknown schema is refused."""
    answer = refused(unread, words, Exit.REFUSED, "999", "--schema-unverified")
    assert answer.json["error"]["kind"] == "refused"
    assert answer.json["error"]["reason"] == "schema"


def test_a_schema_never_read_is_admitted_by_word(unread: Path) -> None:
    """A person may admit an unknown schema with --schema-unverified."""
    answer = run_cli("prune", unread, *POLICY, *APPLY, "--schema-unverified", "--json")
    assert answer.code == Exit.DONE
    assert answer.json["units"]["tree"]["removed"] == 40 - 30 + 1
    assert count(unread) == 41 - 11


def test_an_unknown_status_forbids_every_removal(store: Path) -> None:
    """Promise 3: a run in a state that nobody knows may be alive and need any other."""
    change(store, "UPDATE workflow_status SET status = 'HIBERNATED' WHERE workflow_uuid = 'run-3'")
    with unchanged(store):
        plan = run_cli("plan", store, *POLICY)
    assert plan.code == Exit.DONE
    answer = refused(store, ("prune", *POLICY, *APPLY), Exit.REFUSED, "HIBERNATED (1)", "--profile FILE")
    assert answer.json["error"]["reason"] == "unknown-status"


@pytest.mark.parametrize(
    "words",
    [
        ("--keep-for", "0d"),
        ("--keep-for", "-1d"),
        ("--keep-for", "30"),
        ("--keep-for", "3mo"),
        ("--keep-for", "999999999w"),
        ("--keep-for", "1.5d"),
        ("--keep-for", ""),
        ("--keep-for", "\u0663d"),
        ("--keep-for", "30d", "--grace", "-1h"),
        ("--keep-for", "30d", "--grace", "soon"),
        ("--before", "2026-11-01"),
        ("--before", "2026-11-01T00:00:00"),
        ("--before", "yesterday"),
        ("--before", "0001-01-01T00:00:00+14:00"),
        ("--keep-last", "0"),
        ("--keep-last", "-3"),
        ("--keep-last", "many"),
        ("--keep-for", "30d", "--group-by", "name"),
        ("--keep-last", "3", "--group-by", "nmae"),
        ("--keep-last", "3", "--keep-last-counts", "all"),
        ("--keep-for", "30d", "--policy", "missing.toml"),
    ],
)
@pytest.mark.parametrize("command", ["plan", "prune", "sweep"])
def test_a_policy_that_makes_no_sense_is_a_mistake_of_use(
    store: Path, command: str, words: tuple[str, ...]
) -> None:
    """Absurd durations, times without a zone and impossible counts leave the store untouched."""
    refused(store, (command, *words), Exit.USAGE)


@pytest.mark.parametrize("words", [("--keep-for", "1s"), ("--keep-for", "36500d"), ("--keep-for", "forever")])
def test_the_shortest_and_longest_durations_are_fine(store: Path, words: tuple[str, ...]) -> None:
    """A second, a century and for ever are durations."""
    assert run_cli("plan", store, *words).code == Exit.DONE


@pytest.mark.parametrize(
    "words",
    [
        ("--max-seconds", "0"),
        ("--max-seconds", "nan"),
        ("--max-seconds", "inf"),
        ("--limit", "0"),
        ("--limit", "1.5"),
        ("--batch-units", "0"),
        ("--pause", "-1"),
        ("--pause", "nan"),
        ("--offline", "--pause", "1"),
    ],
)
@pytest.mark.parametrize("command", ["prune", "sweep"])
def test_a_budget_that_makes_no_sense_is_a_mistake_of_use(
    store: Path, command: str, words: tuple[str, ...]
) -> None:
    """Budgets are positive and finite, and agree with each other."""
    refused(store, (command, *POLICY, *words), Exit.USAGE)


@pytest.mark.parametrize("command", ["plan", "prune", "sweep"])
def test_an_empty_policy_is_refused(store: Path, command: str) -> None:
    """A policy that keeps nothing is refused, with the rules that could be meant."""
    answer = refused(store, (command,), Exit.REFUSED, "--keep-for 30d")
    assert answer.json["error"]["reason"] == "empty-policy"


@pytest.mark.parametrize("words", [("prune", *POLICY, *APPLY), ("sweep", *POLICY)])
def test_a_file_that_may_not_be_written_is_refused(store: Path, words: tuple[str, ...]) -> None:
    """Without the right to write the file, removal is refused and a plan works."""
    store.chmod(0o444)
    with unchanged(store):
        plan = run_process("plan", store, *POLICY, prefix=POWERLESS)
        removal = run_process(*words, store, "--json", prefix=POWERLESS)
    assert plan.code == Exit.DONE
    assert removal.code == Exit.REFUSED
    assert removal.json["error"]["reason"] == "rights"
    assert "may not write" in removal.err


@pytest.mark.parametrize("words", [("prune", *POLICY, *APPLY), ("sweep", *POLICY)])
def test_a_directory_that_may_not_be_written_is_refused(tmp_path: Path, words: tuple[str, ...]) -> None:
    """Without the right to write the folder there is no lock and no journal, so removal is refused."""
    folder = tmp_path / "closed"
    folder.mkdir()
    path = make_store(folder / "store.sqlite")
    folder.chmod(0o555)
    with unchanged(path):
        plan = run_process("plan", path, *POLICY, prefix=POWERLESS)
        removal = run_process(*words, path, "--json", prefix=POWERLESS)
    folder.chmod(0o755)
    assert plan.code == Exit.DONE
    assert removal.code == Exit.REFUSED
    assert removal.json["error"]["reason"] == "rights"
    assert [entry.name for entry in folder.iterdir()] == ["store.sqlite"]


@pytest.mark.parametrize("words", [("prune", *POLICY, *APPLY), ("sweep", *POLICY)])
def test_a_lock_that_is_a_symbolic_link_is_refused(
    store: Path, tmp_path: Path, words: tuple[str, ...]
) -> None:
    """A lock file that leads elsewhere is not followed."""
    target = tmp_path / "elsewhere"
    Path(f"{store}.afterrun-lock").symlink_to(target)
    refused(store, words, Exit.REFUSED, "symbolic link")
    assert not target.exists()


@pytest.mark.parametrize("words", [("prune", *POLICY, *APPLY), ("sweep", *POLICY)])
def test_a_second_sweep_leaves_at_once(store: Path, words: tuple[str, ...]) -> None:
    """Promise 9: while one sweep holds the store, another one ends with 5 and says so."""
    with SweepLock(store.resolve()):
        answer = refused(store, words, Exit.LOCKED, "another sweep holds this store")
        assert answer.json["ended"] == "locked"
        assert answer.json["error"]["kind"] == "locked"
        assert run_cli("plan", store, *POLICY).code == Exit.DONE


def test_a_run_that_is_not_there_is_an_error(store: Path) -> None:
    """An id that no run has is told as such."""
    with unchanged(store):
        answer = run_cli("explain", store, "no-such-run", *POLICY, "--json")
    assert answer.code == Exit.ERROR
    assert answer.json["error"]["kind"] == "not-found"
    assert "no-such-run" in answer.err
