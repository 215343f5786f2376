"""A sweep beside an engine that works, beside another sweep, and cut down in the middle."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Literal

import pytest

from afterrun import StoreLocked
from afterrun.core.events import BatchDone, Event

from .clones import CloneOptions
from .retained import (
    KINDS,
    LIVE_TREES,
    MONTH,
    OLD_DAYS,
    WATCHED,
    EngineStore,
    Kind,
    counts,
    prune,
    query,
    retention,
    run_ids,
)
from .stores import ENGINES, engine_command, engine_python, run_engine

pytestmark = pytest.mark.engine

KILLED_IN_A_BATCH = """
import os, signal, sys
from pathlib import Path
from afterrun import Retention, SweepOptions
sys.path.append(sys.argv[3])
from engines.retained import MONTH

class KilledHere:
    def __init__(self, statement): self.left, self.statement = int(sys.argv[2]), statement
    def __call__(self, *given):
        if not self.left: os.kill(os.getpid(), signal.SIGKILL)
        self.left -= 1
        return self.statement(*given)

with Retention(sys.argv[1], state=Path(sys.argv[4])) as opened:
    opened.store.dialect.change = KilledHere(opened.store.dialect.change)
    opened.prune(MONTH, options=SweepOptions(offline=True))
"""


both_kinds = pytest.mark.parametrize("kind", KINDS)
Journal = Literal["delete", "wal"]


@pytest.mark.parametrize(("kind", "journal"), [("sqlite", "delete"), ("sqlite", "wal"), ("postgres", None)])
@pytest.mark.parametrize("version", ENGINES)
def test_engine_works_undisturbed_during_a_live_sweep(
    version: str, store: EngineStore, journal: Journal | None
) -> None:
    """New runs begin and end while batches go, none fails, none is lost, and all that is old goes."""
    engine_python(version)
    options: CloneOptions = {} if journal is None else {"journal": journal}
    cloned = store.clone(version, runs=20_000, **options)
    batches: list[int] = []

    def note(event: Event) -> None:
        if isinstance(event, BatchDone):
            batches.append(time.time_ns())

    with subprocess.Popen(
        engine_command(version, "work", store.place, "3"), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as engine:
        report = prune(store, offline=False, observer=note, gate=lambda: engine.poll() is None)
        told, errors = engine.communicate(timeout=60)
    assert engine.returncode == 0, errors.decode()
    answer = json.loads(told.splitlines()[-1])
    assert answer["errors"] == answer["lost"] == []
    begun = [int(run.removeprefix("work-")) for run in run_ids(store) if run.startswith("work-")]
    assert len(begun) == answer["finished"]
    assert sum(batches[0] < moment < batches[-1] for moment in begun) > 1
    assert report.units.deferred == 0
    rest = prune(store)
    assert report.units.removed + rest.units.removed == cloned.expired_units
    assert len(run_ids(store)) == answer["finished"]
    if journal is not None:
        assert query(store, "PRAGMA journal_mode") == [(journal,)]
    assert run_engine(version, "work", store.place, "0.1")["errors"] == []


@both_kinds
@pytest.mark.parametrize("version", ENGINES)
def test_second_sweep_of_a_store_leaves_at_once(version: str, store: EngineStore) -> None:
    """While one sweep holds the store, another raises and removes nothing; the first goes on (promise 9)."""
    store.make(version)
    store.age(OLD_DAYS)
    refused: list[str] = []

    def interfere() -> bool:
        rows = counts(store)
        with retention(store) as second, pytest.raises(StoreLocked) as caught:
            second.prune(MONTH)
        assert counts(store) == rows
        refused.append(str(caught.value))
        return True

    report = prune(store, batch_units=5, gate=interfere)
    assert report.ended == "completed"
    assert len(refused) >= report.batches > 1
    assert run_ids(store) == LIVE_TREES | WATCHED


@both_kinds
@pytest.mark.parametrize("arguments", [["prune", "--apply", "--no-backup", "--yes"], ["sweep"]])
def test_second_command_exits_with_its_own_code(store: EngineStore, arguments: list[str]) -> None:
    """A command that meets another process's sweep ends with exit code 5 (promise 9)."""
    store.make(ENGINES[0])
    store.age(OLD_DAYS)
    afterrun = str(Path(sys.executable).with_name("afterrun"))
    command = [afterrun, *arguments, "--keep-for", "30d"]
    environment = os.environ | {
        "AFTERRUN_STORE": store.place,
        "AFTERRUN_STATE_DIR": str(store.folder / "other"),
    }
    codes: list[int] = []

    def interfere() -> bool:
        done = subprocess.run(command, env=environment, capture_output=True, check=False, timeout=60)
        codes.append(done.returncode)
        return True

    report = prune(store, gate=interfere)
    assert set(codes) == {5}
    assert report.units.removed == report.units.expired > 0


@pytest.mark.parametrize("version", ENGINES)
@pytest.mark.parametrize(
    ("kind", "deletes"), [("sqlite", 1), ("sqlite", 2), ("sqlite", 4), ("postgres", 1), ("postgres", 4)]
)
def test_sweep_killed_between_two_deletes_leaves_no_poison(
    version: str, store: EngineStore, kind: Kind, deletes: int
) -> None:
    """Killed in a batch, nothing of it is gone; the next sweep finishes and ids run anew (promise 4)."""
    store.make(version)
    store.age(OLD_DAYS)
    rows = counts(store)
    tests = str(Path(__file__).parents[1])
    command = [sys.executable, "-c", KILLED_IN_A_BATCH, store.place, str(deletes), tests]
    killed = subprocess.run([*command, store.folder / "state"], check=False, timeout=60)
    assert killed.returncode == -signal.SIGKILL
    if kind == "sqlite":
        assert query(store, "PRAGMA integrity_check") == [("ok",)]
    assert counts(store) == rows
    assert run_engine(version, "open", store.place)["ok"]
    assert prune(store).units.removed > 0
    assert run_ids(store) == LIVE_TREES | WATCHED
    assert run_engine(version, "rerun", store.place, "simple-2")["executed"] is True


@pytest.mark.parametrize("kind", ["sqlite"])
@pytest.mark.parametrize("version", ENGINES)
def test_freed_pages_are_used_again(version: str, store: EngineStore) -> None:
    """The file is as large after a prune as before, and new work fills the freed pages instead of it."""
    file = Path(store.place)
    cloned = store.clone(version, runs=3_000)
    report = prune(store)
    assert report.units.removed == cloned.expired_units
    assert report.file_before == report.file_after == file.stat().st_size == cloned.bytes
    free = query(store, "PRAGMA freelist_count")[0][0]
    assert free > query(store, "PRAGMA page_count")[0][0] / 2
    worked = run_engine(version, "work", store.place, "1")
    assert worked["finished"] > 0
    assert file.stat().st_size == cloned.bytes
    assert query(store, "PRAGMA freelist_count")[0][0] < free
