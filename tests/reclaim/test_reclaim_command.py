"""`afterrun reclaim`: what can be given back, and giving it back in place."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from afterrun import Retention
from afterrun.core.errors import Exit
from afterrun.core.space import MIB, ReclaimOptions
from afterrun.state import SweepLock
from afterrun.stores.sql.sqlite import space as sqlite_space
from cli.kit import run_cli, unchanged
from engines.stores import clone_store, run_engine

from .bloated import Journal, beside, contents, is_sound, make_bloated, pages

JOURNALS: tuple[Journal, ...] = ("delete", "wal")


@pytest.fixture(params=JOURNALS)
def store(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Make a store of which most pages are free."""
    return make_bloated(tmp_path / "store.sqlite", journal=request.param)


def test_without_apply_it_only_says_what_could_be_given_back(store: Path) -> None:
    """A dry run names method, free pages and room in numbers, and changes no byte."""
    total, free = pages(store)
    with unchanged(store):
        answer = run_cli("reclaim", store, "--json")
        told = run_cli("reclaim", store)
    assert answer.code == told.code == Exit.DONE
    report = answer.json
    assert report["dry_run"] is True
    assert report["ended"] == "planned"
    assert (report["method"], report["worth"]) == ("vacuum", True)
    assert report["space"]["free"] == free * 4096
    assert report["bytes"]["file_after"] == report["bytes"]["file_before"] == store.stat().st_size
    live = (total - free) * 4096
    assert all(live < room["needed"] < 2.1 * live + 3 * MIB for room in report["room"])
    assert "VACUUM in place" in told.out
    assert "--apply" in told.out


def test_the_file_shrinks_in_place_and_every_row_stays(store: Path) -> None:
    """The same inode is smaller by what was measured, and holds the same rows."""
    before, rows, inode = store.stat().st_size, contents(store), store.stat().st_ino
    answer = run_cli("reclaim", store, "--apply", "--json")
    assert answer.code == Exit.DONE
    report = answer.json
    assert report["ended"] == "completed"
    assert store.stat().st_ino == inode
    assert report["bytes"]["file_before"] == before
    assert report["bytes"]["file_after"] == store.stat().st_size < before / 3
    assert report["bytes"]["given_back"] == before - store.stat().st_size
    assert report["bytes"]["wal_after"] == 0
    assert contents(store) == rows
    assert is_sound(store)
    assert beside(store) <= {"store.sqlite", "store.sqlite-wal", "store.sqlite-shm"}


def test_an_idle_handle_of_the_engine_goes_on_in_the_same_file(store: Path) -> None:
    """What a connection that was open all the while commits afterwards is there for everybody."""
    with closing(sqlite3.connect(store)) as engine:
        engine.execute("SELECT count(*) FROM workflow_status").fetchall()
        assert run_cli("reclaim", store, "--apply").code == Exit.DONE
        with engine:
            engine.execute("INSERT INTO workflow_status (workflow_uuid, status) VALUES ('new', 'PENDING')")
        with closing(sqlite3.connect(store)) as other:
            found = "SELECT count(*) FROM workflow_status WHERE workflow_uuid = 'new'"
            assert other.execute(found).fetchone() == (1,)
    assert is_sound(store)


def test_nothing_free_is_nothing_to_do(tmp_path: Path) -> None:
    """Without a free page the file is left as it is."""
    store = make_bloated(tmp_path / "store.sqlite", old=10, emptied=False)
    with unchanged(store):
        report = run_cli("reclaim", store, "--apply", "--json").json
    assert (report["method"], report["ended"], report["bytes"]["given_back"]) == ("none", "completed", 0)


def test_a_wal_is_given_back_even_where_no_page_is_free(tmp_path: Path) -> None:
    """A WAL that nobody reads any more is cut to nothing."""
    store = make_bloated(tmp_path / "store.sqlite", old=10, emptied=False, journal="wal")
    with closing(sqlite3.connect(store)) as engine:
        engine.execute("PRAGMA wal_autocheckpoint = 0")
        with engine:
            engine.execute("UPDATE workflow_status SET output = inputs")
        grown = Path(f"{store}-wal").stat().st_size
        assert grown > MIB
        report = run_cli("reclaim", store, "--apply", "--json").json
    assert report["bytes"]["wal_before"] == grown
    assert report["bytes"]["wal_after"] == 0


def test_it_says_when_it_is_not_worth_it_and_does_it_all_the_same(tmp_path: Path) -> None:
    """Below the thresholds a person may still reclaim, and is told what an automatic one would do."""
    store = make_bloated(tmp_path / "store.sqlite", old=500)
    before = store.stat().st_size
    report = run_cli("reclaim", store, "--apply", "--json").json
    assert report["worth"] is False
    assert any("not worth it" in notice for notice in report["notices"])
    assert store.stat().st_size < before


def test_an_incremental_store_gives_back_in_bounded_calls(tmp_path: Path) -> None:
    """Each call frees 100 to 200 pages, until none is left; never one page a call, never all at once."""
    store = make_bloated(tmp_path / "store.sqlite", old=2_000, vacuum="incremental", journal="wal")
    rows, (total, free) = contents(store), pages(store)
    asked: list[int] = []

    def gate() -> bool:
        asked.append(1)
        return True

    with Retention(str(store)) as retention:
        assert retention.survey_space().before.method == "incremental"
        report = retention.reclaim(ReclaimOptions(gate=gate, rest=0.0))
    assert report.ended == "completed"
    assert free / 200 <= len(asked) <= free / 100 + 1
    left, still_free = pages(store)
    assert still_free == 0
    assert total - free - 20 < left <= total - free  # pages that map pointers go, too
    assert store.stat().st_size == left * 4096
    assert contents(store) == rows
    assert is_sound(store)


def test_an_interrupted_incremental_reclaim_keeps_what_it_gave_back(tmp_path: Path) -> None:
    """It stops between two calls, and the next one goes on."""
    store = make_bloated(tmp_path / "store.sqlite", old=1_000, vacuum="incremental")
    rows, (total, free) = contents(store), pages(store)
    asked: list[int] = []

    def gate() -> bool:
        asked.append(1)
        return len(asked) <= 3

    with Retention(str(store)) as retention:
        report = retention.reclaim(ReclaimOptions(gate=gate, rest=0.0))
        assert report.ended == "interrupted"
        assert total - free < store.stat().st_size // 4096 <= total - 300
        assert retention.reclaim(ReclaimOptions(rest=0.0)).ended == "completed"
    assert pages(store)[0] <= total - free
    assert pages(store)[1] == 0
    assert contents(store) == rows


def test_a_long_reader_is_named_before_anything_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader that pins the WAL makes a VACUUM useless: refused, and neither file nor WAL grows."""
    monkeypatch.setattr("afterrun.stores.sql.sqlite.dialect.BUSY_MS", 20)
    store = make_bloated(tmp_path / "store.sqlite", old=500, journal="wal")
    with closing(sqlite3.connect(store, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM workflow_status").fetchall()
        with closing(sqlite3.connect(store)) as engine, engine:
            engine.execute("UPDATE workflow_status SET name = 'other'")
        wal = Path(f"{store}-wal").stat().st_size
        with unchanged(store):
            answer = run_cli("reclaim", store, "--apply", "--json")
        assert answer.code == Exit.REFUSED
        assert answer.json["error"]["reason"] == "pinned"
        assert Path(f"{store}-wal").stat().st_size == wal
    assert run_cli("reclaim", store, "--apply").code == Exit.DONE


def test_a_reader_that_comes_meanwhile_keeps_the_file_at_its_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is done and says `pinned`, claims no shrink, and the next reclaim brings the space."""
    monkeypatch.setattr("afterrun.stores.sql.sqlite.dialect.BUSY_MS", 20)
    store = make_bloated(tmp_path / "store.sqlite", old=500, journal="wal")
    before, rows, vacuum = store.stat().st_size, contents(store), sqlite_space._vacuum
    with closing(sqlite3.connect(store, isolation_level=None)) as reader:

        def beside_reader(driver: sqlite3.Connection, **options: Any) -> None:  # noqa: ANN401 - passed on
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM workflow_status").fetchall()
            vacuum(driver, **options)

        monkeypatch.setattr(sqlite_space, "_vacuum", beside_reader)
        answer = run_cli("reclaim", store, "--apply", "--json")
    monkeypatch.setattr(sqlite_space, "_vacuum", vacuum)
    assert answer.code == Exit.DEFERRED
    assert answer.json["ended"] == "pinned"
    assert answer.json["bytes"]["file_after"] == before
    assert answer.json["bytes"]["given_back"] < 0  # the WAL grew
    assert run_cli("reclaim", store, "--apply").code == Exit.DONE
    assert store.stat().st_size < before
    assert contents(store) == rows


def test_it_needs_the_sweep_lock(tmp_path: Path) -> None:
    """While a sweep holds the store, nothing is given back."""
    store = make_bloated(tmp_path / "store.sqlite", old=10)
    with SweepLock(store), unchanged(store):
        assert run_cli("reclaim", store, "--apply").code == Exit.LOCKED


@pytest.mark.parametrize("full", ["database", "temporary files"])
def test_without_room_on_either_volume_it_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full: str
) -> None:
    """The refusal has the numbers, and the store is as it was."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    store = make_bloated(tmp_path / "store.sqlite", old=500)
    monkeypatch.setenv("SQLITE_TMPDIR", str(temporary))
    monkeypatch.setattr(sqlite_space, "_device", str)
    short = temporary if full == "temporary files" else tmp_path
    monkeypatch.setattr(sqlite_space, "_free", lambda folder: 12_345 if folder == short else 1 << 40)
    with unchanged(store):
        answer = run_cli("reclaim", store, "--apply", "--json")
        dry = run_cli("reclaim", store, "--json").json
    assert answer.code == Exit.REFUSED
    assert answer.json["error"]["reason"] == "no-room"
    assert f"for {full} in {short}, 12,345 are free" in answer.json["error"]["message"]
    assert {room["volume"]: room["enough"] for room in dry["room"]} == {
        volume: volume != full for volume in ("database", "temporary files")
    }


def test_one_volume_needs_room_for_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where temporary files lie beside the database, the two needs add up."""
    store = make_bloated(tmp_path / "store.sqlite", old=500)
    monkeypatch.setenv("SQLITE_TMPDIR", str(tmp_path))
    [room] = run_cli("reclaim", store, "--json").json["room"]
    total, free = pages(store)
    assert room["volume"] == "database and temporary files"
    assert room["needed"] > 2 * (total - free) * 4096


def test_temporary_files_go_where_sqlite_puts_them(tmp_path: Path) -> None:
    """SQLITE_TMPDIR before TMPDIR, and neither if it is no folder."""
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    both = {"SQLITE_TMPDIR": str(one), "TMPDIR": str(two)}
    assert sqlite_space.temporary_folder(both) == one
    assert sqlite_space.temporary_folder({**both, "SQLITE_TMPDIR": str(tmp_path / "none")}) == two
    fallback = sqlite_space.temporary_folder({})
    assert fallback.is_dir()
    assert fallback not in (one, two)


def test_a_cut_off_sweep_begins_anew_after_a_reclaim(tmp_path: Path) -> None:
    """A VACUUM may number rows anew, so no cursor outlives it, and the next sweep misses nothing."""
    store = make_bloated(tmp_path / "store.sqlite", old=60, emptied=False)
    words = ("sweep", store, "--keep-for", "30d", "--json")
    shown = run_cli(*words).json["fingerprint"]
    first = run_cli(*words, "--approve", shown, "--limit", "20", "--batch-units", "20").json
    assert first["units"]["tree"]["removed"] == 20
    with Retention(str(store)) as retention:
        retention.reclaim()
        assert retention._state.load(retention.store.identity)._contents.cursor is None
    assert run_cli(*words).json["units"]["tree"]["removed"] == 40


@pytest.mark.engine
def test_the_engine_uses_a_reclaimed_store(tmp_path: Path) -> None:
    """After removal and reclaim the real engine opens the store and recovers."""
    store = tmp_path / "store.sqlite"
    clone_store(None, store, runs=3_000, version="3.4.0", expired=0.9, journal="wal")
    before = store.stat().st_size
    prune = ("prune", store, "--keep-for", "30d", "--apply", "--no-backup", "--yes", "--offline")
    assert run_cli(*prune).code == Exit.DONE
    rows = contents(store)
    assert run_cli("reclaim", store, "--apply").code == Exit.DONE
    assert store.stat().st_size < before / 3
    assert contents(store) == rows
    run_engine("3.4.0", "recover", store)
    assert is_sound(store)
