"""Backups of stores that real engines made: restored runs are the engine's own again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from afterrun import Report, SweepOptions
from afterrun.stores.sql.backups import BackupKind, BackupOrder
from engines.retained import MONTH, OLD_DAYS, change, query, retention, run_ids
from engines.stores import ENGINES, age_runs, clone_store, make_store, run_engine

from .backup_kit import content

pytestmark = pytest.mark.engine

SIZES = (20_000, 100_000) if os.environ.get("AFTERRUN_SOAK") == "1" else (12_000, 36_000)
MOST_MIB = 48 if SIZES[1] == 100_000 else 24  # what grows are lists of ids
MEASURED = """if True:
    import json, sys
    from datetime import timedelta
    from pathlib import Path
    import afterrun
    from afterrun.stores.sql.backups import BackupOrder
    store, target, kind = sys.argv[1:]
    path = Path(store)
    with afterrun.Retention(store, state=path.parent / "state") as retention:
        order = BackupOrder(path=Path(target), kind=kind)
        options = afterrun.SweepOptions(offline=True)
        report = retention.prune(afterrun.Policy(keep_for=timedelta(days=30)), options=options, backup=order)
    lines = Path("/proc/self/status").read_text("ascii").splitlines()
    peak = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))
    print(json.dumps({"peak": peak, "units": report.units.removed}))
"""
"""Removes with a backup and prints the peak of this process's memory in KiB."""


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Name the store a test works on."""
    return tmp_path / "store.sqlite"


def prune(store: Path, target: Path, *, kind: BackupKind = "removed") -> Report:
    """Remove what is old after a backup."""
    with retention(store) as opened:
        order = BackupOrder(path=target, kind=kind)
        return opened.prune(MONTH, options=SweepOptions(offline=True), backup=order)


@pytest.mark.parametrize("version", ENGINES)
@pytest.mark.parametrize("journal", ["delete", "wal"])
def test_an_engine_reads_what_was_restored(version: str, journal: str, store: Path, folder: Path) -> None:
    """Every row is what it was, and the engine answers for a restored run with its stored result."""
    make_store(version, store)
    query(store, f"PRAGMA journal_mode = {journal}")
    age_runs(store, OLD_DAYS)
    before, ids = content(store), run_ids(store)
    report = prune(store, folder / "b.sqlite")
    assert report.units.removed > 0
    assert run_ids(store) < ids
    with retention(store) as opened:
        restored = opened.restore(folder / "b.sqlite")
        assert list(opened.verify()) == []
    assert restored.units == report.units.removed
    assert content(store) == before
    assert run_engine(version, "open", store)["ok"]
    assert run_engine(version, "rerun", store, "simple-2")["executed"] is False


@pytest.mark.parametrize("version", ENGINES)
def test_one_tree_of_an_engine_comes_back(version: str, store: Path, folder: Path) -> None:
    """One restored tree is known to the engine, one that was left out runs anew."""
    make_store(version, store)
    age_runs(store, OLD_DAYS)
    prune(store, folder / "b.sqlite")
    with retention(store) as opened:
        restored = opened.restore(folder / "b.sqlite", "simple-2")
    assert (restored.units, restored.members) == (1, 1)
    assert run_engine(version, "rerun", store, "simple-2")["executed"] is False
    assert run_engine(version, "rerun", store, "simple-3")["executed"] is True
    with retention(store) as opened:  # simple-3 is another run of the same id now
        again = opened.restore(folder / "b.sqlite")
    assert "simple-3" in again.named
    assert again.present + len(again.named) == 2  # 2.31 writes to a run's row when it is asked for again


@pytest.mark.parametrize("version", ENGINES)
def test_an_engine_opens_a_whole_backup(version: str, store: Path, folder: Path) -> None:
    """A whole backup is a store that the engine opens, with everything that was removed."""
    make_store(version, store)
    age_runs(store, OLD_DAYS)
    before = content(store)
    prune(store, folder / "b.sqlite", kind="whole")
    assert content(folder / "b.sqlite") == before
    assert run_engine(version, "open", folder / "b.sqlite")["ok"]
    assert run_engine(version, "rerun", folder / "b.sqlite", "simple-2")["executed"] is False


def test_a_backup_of_another_schema_is_refused_by_its_columns(
    store: Path, folder: Path, tmp_path: Path
) -> None:
    """A backup of an older engine's store, whose tables have other columns, restores nothing."""
    make_store("2.31.1", store)
    age_runs(store, OLD_DAYS)
    prune(store, folder / "b.sqlite")
    newer = tmp_path / "newer.sqlite"
    make_store("3.4.0", newer)
    before = content(newer)
    with retention(newer) as opened, pytest.raises(Exception, match="backup"):
        opened.restore(folder / "b.sqlite")
    assert content(newer) == before


def test_another_version_with_the_same_columns_is_said_and_taken(store: Path, folder: Path) -> None:
    """After an upgrade that changed no column, restore goes on and says so."""
    make_store("3.4.0", store)
    age_runs(store, OLD_DAYS)
    prune(store, folder / "b.sqlite")
    change(store, "UPDATE dbos_migrations SET version = 123")
    with retention(store) as opened:
        restored = opened.restore(folder / "b.sqlite")
    assert restored.units > 0
    assert "schema version 125" in " ".join(restored.notices)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", ["removed", "whole"])
def test_a_large_backup_stays_within_bounded_memory(tmp_path: Path, folder: Path, kind: str) -> None:
    """Five times the runs take no five times the memory: what grows are lists of ids, not rows."""
    peaks = {}
    for runs in SIZES:
        store = tmp_path / f"{runs}.sqlite"
        cloned = clone_store(None, store, runs=runs, version="3.4.0")
        command = [sys.executable, "-c", MEASURED, str(store), str(folder / f"{runs}.sqlite"), kind]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
        found = json.loads(done.stdout)
        assert found["units"] == cloned.expired_units
        peaks[runs] = found["peak"] / 1024
        store.unlink()
    assert peaks[SIZES[1]] - peaks[SIZES[0]] < MOST_MIB
