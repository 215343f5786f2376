"""`afterrun scan`: the stores on a machine, found without changing any."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from afterrun.core.errors import Exit
from cli.kit import MARKER, POWERLESS, Answer, change, make_store, run_cli, run_process
from engines.stores import make_store as make_engine_store
from own_store import PLAIN, RUNS, own_store

DOCS = Path(__file__).resolve().parents[2] / "docs"


def paths(answer: Answer) -> list[str]:
    """Return the stores of an answer."""
    return [store["path"] for store in answer.json["stores"]]


def other_database(path: Path) -> Path:
    """Make a SQLite file of something else."""
    change(path, "CREATE TABLE bookmarks (url TEXT)")
    return path


def test_a_store_is_told_with_all_that_a_person_needs(tmp_path: Path) -> None:
    """Path, engine, profile, schema, size, runs and whether it can be swept are said."""
    (tmp_path / "deep").mkdir()
    store = make_store(tmp_path / "deep" / "app.db")
    answer = run_cli("scan", tmp_path, "--json")
    assert answer.code == Exit.DONE
    assert answer.json["stores"] == [
        {
            "path": str(store),
            "profile": "dbos",
            "engine": "DBOS Transact",
            "schema": {"version": "125", "read": True},
            "bytes": store.stat().st_size,
            "runs": 41,
            "runs_exact": True,
            "can_sweep": True,
            "problems": [],
        }
    ]
    shown = run_cli("scan", tmp_path)
    assert shown.code == Exit.DONE
    assert re.search(r" dbos +125 \(read\) +41 +[0-9.]+ KiB +yes", shown.out)


@pytest.mark.engine
@pytest.mark.parametrize("version", ["3.4.0", "2.31.1"])
def test_a_store_that_an_engine_made_is_found(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a real engine left in its folder of work is found from there, without a word."""
    make_engine_store(version, tmp_path / "app.sqlite")
    monkeypatch.chdir(tmp_path)
    answer = run_cli("scan", "--json")
    assert paths(answer) == [str(tmp_path / "app.sqlite")]
    assert answer.json["stores"][0]["can_sweep"] is True


def test_without_a_path_the_places_of_profiles_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder of work is looked at by the profile's pattern, and no folder below it."""
    (tmp_path / "below").mkdir()
    store = make_store(tmp_path / "app.sqlite")
    for name in ("app.other", "below/app.sqlite"):
        make_store(tmp_path / name)
    monkeypatch.chdir(tmp_path)
    answer = run_cli("scan", "--json")
    assert paths(answer) == [str(store)]
    home = tmp_path / "nobody"
    assert {str(tmp_path / "*.sqlite"), str(home / ".prefect" / "prefect.db")} <= set(answer.json["places"])


def test_the_variable_adds_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders of AFTERRUN_SCAN_PATH are walked besides the places of profiles, unless PATHs are given."""
    for name in ("work", "one", "two/deep"):
        (tmp_path / name).mkdir(parents=True)
    stores = [make_store(tmp_path / name) for name in ("one/a.db", "two/deep/b.db", "work/c.sqlite")]
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("AFTERRUN_SCAN_PATH", f"{tmp_path / 'one'}:{tmp_path / 'two'}:")
    assert paths(run_cli("scan", "--json")) == [str(store) for store in stores]
    assert paths(run_cli("scan", tmp_path / "two", "--json")) == [str(stores[1])]


def test_a_profile_of_a_person_brings_its_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user's own profile finds its stores in the home folder that it names, and no others."""
    home, work = tmp_path / "home", tmp_path / "work"
    (home / ".own").mkdir(parents=True)
    work.mkdir()
    own = own_store(home / ".own", RUNS, PLAIN, detect='places = ["~/.own/*.sqlite"]\n')
    change(own.path, "INSERT INTO runs VALUES ('a', 'done', 1, NULL)")
    make_store(home / ".own" / "dbos.sqlite")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(work)
    answer = run_cli("scan", "--profile", own.profile, "--json")
    assert paths(answer) == [str(own.path)]
    assert answer.json["stores"][0]["runs"] == 1
    assert answer.json["unknown"] == 1


def test_what_is_no_store_is_counted_or_left(tmp_path: Path) -> None:
    """Databases of others and our own backups are counted; text, short files and journals are none."""
    store = make_store(tmp_path / "app.sqlite")
    backup = tmp_path / "backup.sqlite"
    words = ("--keep-for", "30d", "--apply", "--yes", "--backup", backup)
    assert run_cli("prune", store, *words).code == Exit.DONE
    other_database(tmp_path / "other.db")
    (tmp_path / "text.sqlite").write_text(MARKER * 100, encoding="utf-8")
    (tmp_path / "short.sqlite").write_bytes(b"SQLite format 3\0")
    (tmp_path / "gone.sqlite-journal").write_bytes(store.read_bytes())
    answer = run_cli("scan", tmp_path, "--json")
    assert paths(answer) == [str(store)]
    assert (answer.json["unknown"], answer.json["backups"], answer.json["unreadable"]) == (1, 1, [])


def test_what_cannot_be_read_is_listed_and_stops_nothing(tmp_path: Path) -> None:
    """Damaged, truncated and doubly named files are listed with reasons; a store beside them is found."""
    store = make_store(tmp_path / "app.sqlite")
    whole = store.read_bytes()
    (tmp_path / "damaged.db").write_bytes(whole[:100] + b"\xff" * 8_000)
    (tmp_path / "truncated.db").write_bytes(whole[: len(whole) // 2])
    make_store(tmp_path / "twice.db")
    (tmp_path / "twice-again.db").hardlink_to(tmp_path / "twice.db")
    answer = run_cli("scan", tmp_path, "--json")
    assert answer.code == Exit.DONE
    assert paths(answer) == [str(store)]
    reasons = {Path(part["path"]).name: part["reason"] for part in answer.json["unreadable"]}
    doubled = reasons.keys() & {"twice.db", "twice-again.db"}
    assert reasons.keys() - doubled == {"damaged.db", "truncated.db"}
    assert "hard links" in reasons[doubled.pop()]
    assert "Could not be read:" in run_cli("scan", tmp_path).out


def test_a_misfit_is_listed_with_its_reason(tmp_path: Path) -> None:
    """A database with an engine's tables and other columns is no store, and says why."""
    store = make_store(tmp_path / "app.sqlite")
    change(store, "ALTER TABLE workflow_status RENAME COLUMN status TO state")
    answer = run_cli("scan", tmp_path, "--json")
    assert answer.json["stores"] == []
    assert "status" in answer.json["unreadable"][0]["reason"]


def test_a_schema_never_read_cannot_be_swept(tmp_path: Path) -> None:
    """A version that nobody read is said, with the reason why no sweep may remove."""
    store = make_store(tmp_path / "app.sqlite")
    change(
        store,
        "UPDATE dbos_migrations SET version = 999",
        "ALTER TABLE workflow_events ADD COLUMN brand_new TEXT",
    )
    found = run_cli("scan", tmp_path, "--json").json["stores"][0]
    assert found["schema"] == {"version": "999", "read": False}
    assert found["can_sweep"] is False
    assert any("999 was never read" in problem for problem in found["problems"])
    assert "cannot be swept now" in run_cli("scan", tmp_path).out


def test_the_right_to_read_is_told_from_the_right_to_sweep(tmp_path: Path) -> None:
    """A store that this user may only read is found, and said not to be for sweeping."""
    (tmp_path / "theirs").mkdir()
    store = make_store(tmp_path / "theirs" / "app.sqlite")
    closed = make_store(tmp_path / "theirs" / "closed.db")
    store.chmod(0o444)
    closed.chmod(0)
    store.parent.chmod(0o555)
    try:
        answer = run_process("scan", tmp_path, "--json", prefix=POWERLESS)
    finally:
        store.parent.chmod(0o755)
    found = answer.json["stores"][0]
    assert found["can_sweep"] is False
    assert len(found["problems"]) == 2
    assert answer.json["unreadable"] == [{"path": str(closed), "reason": "Permission denied"}]


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (Path.exists, Exit.ERROR),
        (lambda path: path.write_bytes(b"SQLite format 3\0" + b"\xff" * 4_096), Exit.ERROR),
        (lambda path: path.mkdir(), Exit.DONE),
        (lambda path: path.write_bytes(b"text " * 1_000), Exit.DONE),
        (other_database, Exit.DONE),
    ],
    ids=["missing", "damaged", "empty folder", "text", "another database"],
)
def test_the_exit_code_says_whether_anything_could_be_read(make: object, code: Exit, tmp_path: Path) -> None:
    """No store is no error; something unreadable and nothing readable is one."""
    assert callable(make)
    make(tmp_path / "place.db")
    assert run_cli("scan", tmp_path / "place.db", "--json").code == code
    make_store(tmp_path / "app.sqlite")
    assert run_cli("scan", tmp_path / "place.db", tmp_path / "app.sqlite").code == Exit.DONE


def test_a_bad_path_is_a_mistake() -> None:
    """An empty path, or one with a NUL character, is answered with 2."""
    for path in ("", "a\0b"):
        assert run_cli("scan", path).code == Exit.USAGE


def test_names_do_nothing_to_a_terminal(tmp_path: Path) -> None:
    """A file name with escape sequences and line ends is shown and does nothing."""
    make_store(tmp_path / "\x1b[31mred\nline[bold].sqlite")
    (tmp_path / "\x1bbad.db").write_bytes(b"SQLite format 3\0" + b"\xff" * 4_096)
    shown = run_cli("scan", tmp_path)
    assert "\x1b" not in shown.out
    assert "\\x1bbad.db: " in shown.out
    assert "line[bold]" in shown.out
    assert "red\n" not in shown.out
    assert run_cli("scan", tmp_path, "--json").code == Exit.DONE


def test_many_runs_are_counted_to_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the bound, only that there are more is said."""
    make_store(tmp_path / "app.sqlite")
    for bound, exact in ((41, True), (40, False)):
        monkeypatch.setattr("afterrun.stores.scan.MOST_RUNS", bound)
        found = run_cli("scan", tmp_path, "--json").json["stores"][0]
        assert (found["runs"], found["runs_exact"]) == (bound, exact)
    assert "more than 40" in run_cli("scan", tmp_path).out


def test_the_scan_on_the_page_has_the_words_of_a_real_one(tmp_path: Path) -> None:
    """The example has exactly the keys that --json prints."""
    section = (DOCS / "cli.md").read_text("utf-8").partition("## JSON of a scan\n")[2]
    example = json.loads(re.findall(r"```json\n(.*?)```", section, re.DOTALL)[0])
    make_store(tmp_path / "app.sqlite")
    real = run_cli("scan", tmp_path, "--json").json
    assert list(example) == list(real)
    assert list(example["stores"][0]) == list(real["stores"][0])


def test_a_store_with_a_live_engine_is_read(tmp_path: Path) -> None:
    """A WAL that is in use by another connection is read and stays as it is."""
    store = make_store(tmp_path / "app.sqlite")
    with closing(sqlite3.connect(store, isolation_level=None)) as engine:
        engine.execute("PRAGMA journal_mode = wal")
        engine.execute("DELETE FROM workflow_status WHERE status = 'PENDING'")
        wal = (tmp_path / "app.sqlite-wal").read_bytes()
        answer = run_process("scan", tmp_path, "--json")
        assert answer.json["stores"][0]["runs"] == 40
        assert (tmp_path / "app.sqlite-wal").read_bytes() == wal
