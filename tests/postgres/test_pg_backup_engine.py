"""Backups of PostgreSQL stores that real engines made: restored runs are the engine's own again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from afterrun import Report, Retention, SweepOptions
from afterrun.stores.sql.backups import BackupKind, BackupOrder
from engines.pg_stores import SCHEMA, age_pg_runs, clone_pg_store, make_pg_store
from engines.retained import MONTH, OLD_DAYS
from engines.stores import ENGINES, run_engine
from pg_server import Database, Server

from .pg_backup_kit import content

pytestmark = pytest.mark.engine

SIZES = (20_000, 100_000) if os.environ.get("AFTERRUN_SOAK") == "1" else (6_000, 18_000)
MOST_MIB = 48 if SIZES[1] == 100_000 else 24  # what grows are the units of a page and of a batch
MEASURED = """if True:
    import json, sys
    from datetime import timedelta
    from pathlib import Path
    import afterrun
    from afterrun.stores.sql.backups import BackupOrder
    store, state, target, kind = sys.argv[1:]
    with afterrun.Retention(store, state=Path(state)) as retention:
        if kind == "restore":
            units = retention.restore(Path(target), rest=0.0).units
        else:
            order = BackupOrder(path=Path(target), kind=kind)
            options = afterrun.SweepOptions(offline=True)
            month = afterrun.Policy(keep_for=timedelta(days=30))
            units = retention.prune(month, options=options, backup=order).units.removed
    lines = Path("/proc/self/status").read_text("ascii").splitlines()
    peak = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))
    print(json.dumps({"peak": peak, "units": units}))
"""
"""Removes with a backup, or restores, and prints the peak of this process's memory in KiB."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Make a folder for backups that nobody else can write to."""
    made = tmp_path / "backups"
    made.mkdir(mode=0o700)
    return made


@pytest.fixture(autouse=True)
def _programs(postgres: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the programs of the server's own version."""
    monkeypatch.setenv("AFTERRUN_PG_DUMP", postgres.binaries.program("pg_dump"))


def retention(database: Database, folder: Path) -> Retention:
    """Open a store, with afterrun's own state beside its backups."""
    return Retention(database.url(), state=folder.parent / "state")


def prune(database: Database, target: Path, *, kind: BackupKind = "removed") -> Report:
    """Remove what is old after a backup."""
    with retention(database, target.parent) as opened:
        order = BackupOrder(path=target, kind=kind)
        return opened.prune(MONTH, options=SweepOptions(offline=True), backup=order)


@pytest.mark.parametrize("version", ENGINES)
def test_an_engine_reads_what_was_restored(version: str, database: Database, folder: Path) -> None:
    """Every row is what it was, and the engine answers for a restored run with its stored result."""
    make_pg_store(version, database)
    age_pg_runs(database, OLD_DAYS)
    before = content(database, SCHEMA)
    report = prune(database, folder / "b.zip")
    assert report.units.removed > 0
    assert content(database, SCHEMA) != before
    with retention(database, folder) as opened:
        restored = opened.restore(folder / "b.zip", rest=0.0)
        assert list(opened.verify()) == []
    assert restored.units == report.units.removed
    assert content(database, SCHEMA) == before
    assert run_engine(version, "open", database.url())["ok"]
    assert run_engine(version, "rerun", database.url(), "simple-2")["executed"] is False


@pytest.mark.parametrize("version", ENGINES)
def test_one_tree_of_an_engine_comes_back(version: str, database: Database, folder: Path) -> None:
    """One restored tree is known to the engine, one that was left out runs anew and then stays out."""
    make_pg_store(version, database)
    age_pg_runs(database, OLD_DAYS)
    prune(database, folder / "b.zip")
    with retention(database, folder) as opened:
        restored = opened.restore(folder / "b.zip", "simple-2", rest=0.0)
    assert (restored.units, restored.members) == (1, 1)
    assert run_engine(version, "rerun", database.url(), "simple-2")["executed"] is False
    assert run_engine(version, "rerun", database.url(), "simple-3")["executed"] is True
    with retention(database, folder) as opened:  # simple-3 is another run of the same id now
        again = opened.restore(folder / "b.zip", rest=0.0)
    assert "simple-3" in again.named


def test_a_backup_of_another_schema_is_refused_by_its_columns(
    database: Database, folder: Path, postgres: Server
) -> None:
    """A backup of an older engine's store, whose tables have other columns, restores nothing."""
    make_pg_store("2.31.1", database)
    age_pg_runs(database, OLD_DAYS)
    prune(database, folder / "b.zip")
    make_pg_store("3.4.0", database)
    before = content(database, SCHEMA)
    with retention(database, folder) as opened, pytest.raises(Exception, match="backup"):
        opened.restore(folder / "b.zip", rest=0.0)
    assert content(database, SCHEMA) == before


def test_another_version_with_the_same_columns_is_said_and_taken(database: Database, folder: Path) -> None:
    """After an upgrade that changed no column, restore goes on and says so."""
    make_pg_store("3.4.0", database)
    age_pg_runs(database, OLD_DAYS)
    prune(database, folder / "b.zip")
    database.run(f"UPDATE {SCHEMA}.dbos_migrations SET version = 123")
    with retention(database, folder) as opened:
        restored = opened.restore(folder / "b.zip", rest=0.0)
    assert restored.units > 0
    assert "schema version 125" in " ".join(restored.notices)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_large_backup_stays_within_bounded_memory(database: Database, tmp_path: Path, folder: Path) -> None:
    """Three times the runs take no three times the memory, for either kind and on the way back."""
    peaks: dict[str, list[float]] = {}
    for runs in SIZES:
        for kind in ("whole", "removed", "restore"):
            if kind != "restore":
                cloned = clone_pg_store(database, runs=runs, version="3.4.0")
            target = folder / f"{runs}-{'whole' if kind == 'whole' else 'removed'}"
            command = [
                sys.executable,
                "-c",
                MEASURED,
                database.url(),
                str(tmp_path / "state"),
                str(target),
                kind,
            ]
            environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
            done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
            found = json.loads(done.stdout)
            assert found["units"] == cloned.expired_units
            peaks.setdefault(kind, []).append(found["peak"] / 1024)
    assert all(large - small < MOST_MIB for small, large in peaks.values()), peaks
