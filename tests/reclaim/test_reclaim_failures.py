"""A reclaim that fails on the way: removal and data stay, and the next open is fine."""

from __future__ import annotations

import shutil
import signal
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from afterrun.core.errors import Exit, StoreFailure
from afterrun.stores.sql.sqlite import space as sqlite_space
from cli.kit import count, run_cli, run_process, spawn

from .bloated import Journal, beside, contents, is_sound, make_bloated

LIMIT: int = 4 << 20
"""Largest file that the process may write: less than the copy a VACUUM makes."""

SWEEP = ("--keep-for", "30d", "--offline", "--reclaim", "--json")


def approved(store: Path, *words: str) -> tuple[str | Path, ...]:
    """Return the words of a sweep that the guard admits."""
    shown = run_cli("sweep", store, "--keep-for", "30d", "--json").json["fingerprint"]
    return ("sweep", store, *SWEEP, "--approve", shown, *words)


@pytest.mark.parametrize("journal", ["delete", "wal"])
def test_a_disk_that_fills_up_in_the_middle_changes_nothing(tmp_path: Path, journal: Journal) -> None:
    """The copy cannot be written: exit 1, every row is there, and no file is left behind."""
    store = make_bloated(tmp_path / "store.sqlite", old=500, journal=journal)
    rows, size = contents(store), store.stat().st_size
    answer = run_process("reclaim", store, "--apply", "--json", prefix=["prlimit", f"--fsize={LIMIT}", "--"])
    assert answer.code == Exit.ERROR
    assert answer.json["ended"] == "failed"
    assert answer.json["message"].startswith(("io: ", "disk-full: "))
    assert answer.json["message"].endswith("No row was changed")
    assert answer.json["bytes"]["given_back"] == 0
    assert store.stat().st_size == size
    assert contents(store) == rows
    assert is_sound(store)
    assert beside(store) <= {"store.sqlite", "store.sqlite-wal", "store.sqlite-shm"}
    assert run_cli("reclaim", store, "--apply").code == Exit.DONE
    assert store.stat().st_size < size


@pytest.mark.parametrize(("journal", "growing"), [("delete", "-journal"), ("wal", "-wal")])
def test_a_kill_in_the_middle_changes_nothing(tmp_path: Path, journal: Journal, growing: str) -> None:
    """Killed while the copy is written back: the next to open the file finds every row."""
    store = make_bloated(tmp_path / "store.sqlite", old=500, journal=journal)
    rows, growth = contents(store), Path(f"{store}{growing}")
    with spawn("reclaim", store, "--apply") as process:
        while process.poll() is None:
            try:
                grown = growth.stat().st_size
            except FileNotFoundError:
                continue
            if grown > 1 << 20:
                process.kill()
                break
    assert process.returncode == -signal.SIGKILL
    crashed = tmp_path / "copy" / "store.sqlite"
    crashed.parent.mkdir()
    for name in ("", growing):
        shutil.copyfile(f"{store}{name}", f"{crashed}{name}")
    assert is_sound(crashed)
    assert contents(crashed) == rows
    assert run_cli("reclaim", store, "--apply").code == Exit.DONE
    assert contents(store) == rows
    assert is_sound(store)


def test_a_failed_reclaim_undoes_no_removal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sweep ended completed and stays so; the failure is reported beside it, with exit code 3."""
    store = make_bloated(tmp_path / "store.sqlite", emptied=False)
    words, size = approved(store), store.stat().st_size

    def full(_driver: sqlite3.Connection, **_options: Any) -> None:  # noqa: ANN401 - of no use here
        raise StoreFailure("disk-full", "VACUUM was not done: database or disk is full")

    monkeypatch.setattr(sqlite_space, "_vacuum", full)
    answer = run_cli(*words)
    assert answer.code == Exit.DEFERRED
    assert answer.json["ended"] == "completed"
    assert answer.json["units"]["tree"]["removed"] == 10_000
    assert answer.json["reclaim"]["ended"] == "failed"
    assert "disk-full" in answer.json["reclaim"]["message"]
    assert answer.json["bytes"]["file_after"] == store.stat().st_size == size
    assert count(store) == 1_500


def test_a_sweep_without_room_for_a_reclaim_removes_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No room is reported with the numbers; what was removed is gone."""
    store = make_bloated(tmp_path / "store.sqlite", emptied=False)
    words = approved(store)
    monkeypatch.setattr(sqlite_space, "_free", lambda _folder: 12_345)
    answer = run_cli(*words)
    assert answer.code == Exit.DEFERRED
    assert "12,345 are free" in answer.json["reclaim"]["message"]
    assert count(store) == 1_500


def test_an_offline_sweep_gives_space_back(tmp_path: Path) -> None:
    """Above the thresholds the file is smaller afterwards, and the report has both sizes as measured."""
    store = make_bloated(tmp_path / "store.sqlite", emptied=False)
    before = store.stat().st_size
    answer = run_cli(*approved(store))
    assert answer.code == Exit.DONE
    assert answer.json["reclaim"]["ended"] == "completed"
    assert answer.json["bytes"] == {
        "logical": 0,
        "file_before": before,
        "file_after": store.stat().st_size,
    }
    assert store.stat().st_size < before / 3
    assert is_sound(store)
    assert count(store) == 1_500


def test_below_the_thresholds_an_offline_sweep_leaves_free_pages(tmp_path: Path) -> None:
    """Free pages are used again: the sweep is done, says so, and the file keeps its size."""
    store = make_bloated(tmp_path / "store.sqlite", old=500, emptied=False)
    before = store.stat().st_size
    answer = run_cli(*approved(store))
    assert answer.code == Exit.DONE
    assert answer.json["reclaim"]["ended"] == "skipped"
    assert "not worth it" in answer.json["reclaim"]["message"]
    assert store.stat().st_size == before


def test_a_sweep_beside_an_engine_reclaims_nothing(tmp_path: Path) -> None:
    """Without --offline, --reclaim is a mistake; without --reclaim, a sweep keeps the file at its size."""
    store = make_bloated(tmp_path / "store.sqlite", old=50, emptied=False)
    before = store.stat().st_size
    assert run_cli("sweep", store, "--keep-for", "30d", "--reclaim").code == Exit.USAGE
    assert count(store) == 1_550
    words = [word for word in approved(store) if word != "--reclaim"]
    assert run_cli(*words).json["reclaim"] is None
    assert store.stat().st_size == before
