"""A scan stays within its bounds and its folders, and leaves everything as it was."""

from __future__ import annotations

import hashlib
import itertools
import os
import socket
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from afterrun.core.errors import Exit, ProfileError
from afterrun.profiles import load_profile
from afterrun.profiles.loader import built_in_text
from afterrun.stores import walk
from cli.kit import Answer, make_store, run_cli, run_process

CRASH = """if True:
    import os, sqlite3, sys
    engine = sqlite3.connect(sys.argv[1], isolation_level=None)
    engine.execute(f"PRAGMA journal_mode = {sys.argv[2]}")
    engine.execute("PRAGMA cache_size = 1")
    engine.execute("BEGIN")
    engine.executemany("UPDATE workflow_status SET output = ?", [["x" * 9000]] * 20)
    if sys.argv[2] == "wal":
        engine.execute("COMMIT")
    os._exit(0)
"""


def paths(answer: Answer) -> list[str]:
    """Return the stores of an answer."""
    return [store["path"] for store in answer.json["stores"]]


def digest(folder: Path, *, but: str = "") -> dict[str, str]:
    """Return the content of all files of a folder."""
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.iterdir()
        if path.is_file() and not (but and path.name.endswith(but))
    }


def test_no_link_leads_out(tmp_path: Path) -> None:
    """Links to files, to folders and in a circle are counted and not followed; a PATH may be one."""
    place, outside = tmp_path / "place", tmp_path / "outside"
    for folder in (place, outside):
        folder.mkdir()
    store, other = make_store(place / "app.sqlite"), make_store(outside / "other.sqlite")
    (place / "file").symlink_to(other)
    (place / "folder").symlink_to(outside)
    (place / "circle").symlink_to(place)
    (place / "broken").symlink_to(place / "nothing")
    answer = run_cli("scan", place, "--json")
    assert paths(answer) == [str(store)]
    assert answer.json["left_out"] == {"link": 4}
    assert paths(run_cli("scan", place / "folder", place / "file", "--json")) == [str(other)]


def test_a_folder_that_becomes_a_link_is_not_entered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link that takes a folder's place between listing and opening leads nowhere."""
    place, outside = tmp_path / "place", tmp_path / "outside"
    (place / "below").mkdir(parents=True)
    outside.mkdir()
    make_store(outside / "other.sqlite")
    enter = walk.Walk._may_enter

    def swap(self: walk.Walk, entry: os.DirEntry[str], depth: int, volume: int) -> bool:
        answer = enter(self, entry, depth, volume)
        (place / "below").rename(tmp_path / "moved")
        (place / "below").symlink_to(outside)
        return answer

    monkeypatch.setattr(walk.Walk, "_may_enter", swap)
    answer = run_cli("scan", place, "--json")
    assert answer.json["stores"] == []
    assert [part["path"] for part in answer.json["unreadable"]] == [str(place / "below")]


def test_fifos_sockets_and_devices_are_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What would wait for a partner is passed by, also as the PATH itself."""
    monkeypatch.chdir(tmp_path)
    os.mkfifo("fifo.sqlite")
    with closing(socket.socket(socket.AF_UNIX)) as listener:
        listener.bind("socket.db")
        answer = run_cli("scan", tmp_path, "--json")
    assert answer.json["left_out"] == {"special": 2}
    assert run_cli("scan", "fifo.sqlite").code == Exit.ERROR
    assert run_cli("scan", os.devnull).code == Exit.ERROR


def test_depth_is_bounded(tmp_path: Path) -> None:
    """Folders beyond --depth are not entered, and counted."""
    deep = tmp_path / "1" / "2" / "3"
    deep.mkdir(parents=True)
    store = make_store(deep / "app.sqlite")
    assert run_cli("scan", tmp_path, "--depth", "2", "--json").json["left_out"] == {"too-deep": 1}
    assert paths(run_cli("scan", tmp_path, "--depth", "3", "--json")) == [str(store)]


def test_entries_are_bounded(tmp_path: Path) -> None:
    """A scan that reached --max-entries stops there and says so."""
    for number in range(30):
        (tmp_path / f"{number}").touch()
    answer = run_cli("scan", tmp_path, "--max-entries", "10", "--json")
    assert answer.code == Exit.DONE
    assert (answer.json["stopped"], answer.json["entries"]) == ("entries", 10)
    assert run_cli("scan", tmp_path, "--json").json["stopped"] is None
    assert "Stopped at --max-entries" in run_cli("scan", tmp_path, "--max-entries", "10").out


def test_seconds_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A scan that reached --max-seconds stops there and says so."""
    for number in range(30):
        (tmp_path / f"{number}").touch()
    ticks = itertools.count(time.monotonic())
    monkeypatch.setattr("afterrun.stores.walk.time.monotonic", lambda: next(ticks))
    answer = run_cli("scan", tmp_path, "--max-seconds", "20", "--json")
    assert answer.json["stopped"] == "seconds"
    assert 0 < answer.json["entries"] < 30


def test_another_volume_is_not_entered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder on another volume than the PATH is counted and not entered."""
    (tmp_path / "below").mkdir()
    make_store(tmp_path / "below" / "app.sqlite")
    below = walk.Walk._below
    monkeypatch.setattr(walk.Walk, "_below", lambda self, root, volume: below(self, root, volume + 1))
    answer = run_cli("scan", tmp_path, "--json")
    assert answer.json["left_out"] == {"other-volume": 1}
    assert answer.json["stores"] == []


def test_places_that_overlap_are_looked_at_once(tmp_path: Path) -> None:
    """A store below two PATHs is told once."""
    (tmp_path / "below").mkdir()
    store = make_store(tmp_path / "below" / "app.sqlite")
    words = (tmp_path, tmp_path / "below", store)
    assert paths(run_cli("scan", *words, "--json")) == [str(store)]
    assert paths(run_cli("scan", *reversed(words), "--json")) == [str(store)]


@pytest.mark.parametrize("mode", ["wal", "delete"])
def test_what_a_crash_left_stays_as_it_is(mode: str, tmp_path: Path) -> None:
    """A journal left by a killed engine is neither put into the database nor removed by a scan."""
    store = make_store(tmp_path / "app.sqlite")
    subprocess.run([sys.executable, "-c", CRASH, str(store), mode], check=True)
    before = digest(tmp_path, but="-shm")
    assert set(before) == {"app.sqlite", f"app.sqlite-{'wal' if mode == 'wal' else 'journal'}"}
    answer = run_process("scan", tmp_path, "--json")
    assert digest(tmp_path, but="-shm") == before
    if mode == "wal":
        assert paths(answer) == [str(store)]
    else:
        assert "left by a crash" in answer.json["unreadable"][0]["reason"]


@pytest.mark.parametrize("mode", ["wal", "delete"])
def test_nothing_is_changed_and_nothing_appears(mode: str, tmp_path: Path) -> None:
    """Every byte of a folder is as before, and no new file is in it."""
    store = make_store(tmp_path / "app.sqlite")
    with closing(sqlite3.connect(store)) as connection:
        connection.execute(f"PRAGMA journal_mode = {mode}")
    before = digest(tmp_path)
    assert paths(run_process("scan", tmp_path, "--json")) == [str(store)]
    assert digest(tmp_path) == before
    assert set(before) == {"app.sqlite"}


def test_a_scan_keeps_the_locks_of_its_process(tmp_path: Path) -> None:
    """While this process holds a store's write lock, a scan here lets no other process write."""
    store = make_store(tmp_path / "app.sqlite")
    write = (
        "import sqlite3, sys\n"
        "try: sqlite3.connect(sys.argv[1], timeout=0).execute('DELETE FROM workflow_status')\n"
        "except sqlite3.OperationalError as error: print(error)\n"
    )
    with closing(sqlite3.connect(store, isolation_level=None)) as engine:
        engine.execute("BEGIN IMMEDIATE")
        assert paths(run_cli("scan", tmp_path, "--json")) == [str(store)]
        command = [sys.executable, "-c", write, str(store)]
        answer = subprocess.run(command, capture_output=True, text=True, check=True)
        assert answer.stdout == "database is locked\n"
        engine.execute("ROLLBACK")


@pytest.mark.parametrize(
    ("place", "told"),
    [
        ("../app.sqlite", "never goes up"),
        ("/srv/", "ends in the name of a file"),
        ("/srv/*/app.sqlite", "only the last part"),
        ("~other/app.sqlite", "only this user's home"),
        ("", "at least 1 character"),
    ],
)
def test_a_place_of_a_profile_is_checked(place: str, told: str) -> None:
    """A place that goes up, names no file, or spans folders is a fault of the profile."""
    text = built_in_text("dbos")
    assert 'places = ["*.sqlite"]' in text
    with pytest.raises(ProfileError, match=told) as caught:
        load_profile(text.replace('places = ["*.sqlite"]', f'places = ["{place}"]'), source="mine.toml")
    assert caught.value.problems[0].startswith("detect.places.0: ")
