"""A removal of three trees in one batch, killed with SIGKILL before each of its changing system calls."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from afterrun import Report, Retention, SweepOptions
from afterrun.state import StateDirectory
from crash.aged import MONTH, TREES, Journal, Request, kept, make_aged, sound, standing
from crash.killing import Call, Run, Victims, places, victims
from dumps import Dump, dump_sqlite
from engines.stores import ENGINES, run_engine

pytestmark = [pytest.mark.engine, pytest.mark.slow]

SOAK: Final = os.environ.get("AFTERRUN_SOAK") == "1"
JOURNALS: Final[tuple[Journal, ...]] = ("delete", "wal")
WAYS: Final = [
    (version, journal, offline)
    for version in (ENGINES if SOAK else ENGINES[:1])
    for journal in JOURNALS
    for offline in ((True, False) if SOAK else (True,))
]
OPENED: Final = 1_000 if SOAK else 12
"""Killed stores that the engine opens, spread over the whole run, with the last three always among them."""

STRIDE: Final[dict[Journal, int]] = {"delete": 1, "wal": 1 if SOAK else 4}
"""Of a row of equal calls, such as page after page written to the WAL, every how-manieth is killed."""


@dataclass(frozen=True, slots=True)
class Scene:
    """The store that is copied for each kill, all its rows, and the process that forks the victims."""

    store: Path
    before: Dump
    killer: Victims

    def copy(self, folder: Path) -> Request:
        """Copy the store to a new folder, which will also hold afterrun's state."""
        folder.mkdir()
        store = folder / "store.sqlite"
        shutil.copyfile(self.store, store)
        return Request(store=str(store), state=str(folder / "state"))


def prune(request: Request) -> Report:
    """Run the next removal, in this process."""
    with Retention(request.store, state=Path(request.state)) as retention:
        return retention.prune(MONTH, options=SweepOptions(offline=True))


def names(run: Run) -> list[str]:
    """Return the names of the calls that a run began."""
    return [call.name for call in run.calls]


@pytest.mark.timeout(1_200)
@pytest.mark.parametrize(("version", "journal", "offline"), WAYS)
def test_killed_at_any_changing_call_a_removal_leaves_whole_trees(
    version: str, journal: Journal, offline: bool, tmp_path: Path
) -> None:
    """Wherever it is killed, the store is sound, its engine opens it, the next one ends it (promise 4)."""
    before = make_aged(version, tmp_path / "aged.sqlite", journal)
    with victims(shutil.copyfile(tmp_path / "aged.sqlite", tmp_path / "warm-up.sqlite")) as killer:
        scene = Scene(tmp_path / "aged.sqlite", before, killer)
        untouched = scene.copy(tmp_path / "untouched")
        whole = killer.run(
            Request(store=untouched.store, state=untouched.state, offline=offline), tmp_path / "log"
        )
        assert whole.code == 0
        assert check(untouched, before) == [False] * 3
        numbers = places(whole, STRIDE[journal])
        there, stores = kill_everywhere(scene, whole, numbers, folder=tmp_path, offline=offline)
    assert there == sorted(there, reverse=True), "a batch came back"
    assert there[0] is True
    assert there[-1] is False
    opened = [*stores[:: len(stores) // OPENED + 1], *stores[-3:]]
    assert run_engine(version, "open", *opened, timeout=900.0)["opened"] == len(opened)
    for store in (opened[len(opened) // 2], opened[-1]):
        recovered = run_engine(version, "recover", store)
        assert recovered["stuck"] == []
        assert recovered["new"] == "SUCCESS"


def kill_everywhere(
    scene: Scene, whole: Run, numbers: Sequence[int], *, folder: Path, offline: bool
) -> tuple[list[bool], list[Path]]:
    """Kill before these calls of the whole run; return whether the trees outlived each, and copies."""
    there: list[bool] = []
    stores: list[Path] = []
    for number in numbers:
        call = whole.calls[number - 1]
        request = scene.copy(folder / f"kill-{number:03}")
        victim = Request(store=request.store, state=request.state, offline=offline)
        killed = scene.killer.run(victim, folder / "log", kill=call)
        assert killed.code == -signal.SIGKILL, call
        assert names(killed) == names(whole)[:number], call
        found = Path(request.store).parent
        left = shutil.copytree(found, folder / f"left-{number:03}")
        stores.append(left / "store.sqlite")
        outlived = check(request, scene.before)
        assert len(set(outlived)) == 1, f"one batch, torn apart by a kill before {call}"
        there.append(outlived[0])
        finish(request, scene.before, expected=3 if outlived[0] else 0)
        shutil.rmtree(found)
    return there, stores


def check(request: Request, before: Dump) -> list[bool]:
    """Check a store as its killer left it; say which of the three trees stand."""
    store, state = Path(request.store), Path(request.state)
    assert sound(store, state)
    after = dump_sqlite(store)
    assert kept(after) == kept(before)
    StateDirectory(state).load(f"sqlite:{store.resolve()}")
    return standing(after, before)


def finish(request: Request, before: Dump, *, expected: int) -> None:
    """Run the next removal: it ends the work, puts itself on record and clears away what the other left."""
    report = prune(request)
    assert (report.ended, report.units.removed, report.units.deferred) == ("completed", expected, 0)
    assert check(request, before) == [False] * len(TREES)
    left = list(Path(request.state).iterdir())
    assert [file.suffix for file in left] == [".json"], left
    memory = StateDirectory(Path(request.state)).load(f"sqlite:{Path(request.store).resolve()}")
    assert memory.records[-1].ended == "completed"


@pytest.mark.parametrize("journal", JOURNALS)
def test_sweep_killed_between_its_commit_and_its_record_is_followed_by_one_that_works(
    journal: Journal, tmp_path: Path
) -> None:
    """What it removed stays removed; its approval is used up, so the next asks, then works (promise 4)."""
    before = make_aged(ENGINES[0], tmp_path / "aged.sqlite", journal)
    with victims(shutil.copyfile(tmp_path / "aged.sqlite", tmp_path / "warm-up.sqlite")) as killer:
        scene = Scene(tmp_path / "aged.sqlite", before, killer)
        whole = killer.run(approved(scene.copy(tmp_path / "untouched")), tmp_path / "log")
        assert whole.code == 0
        saving = last_save(whole, tmp_path / "untouched" / "state")
        assert [call.name for call in saving][-2:] == ["fchmod", "rename"]
        for number, call in enumerate(saving, 1):
            request = approved(scene.copy(tmp_path / f"kill-{number}"))
            killed = killer.run(request, tmp_path / "log", kill=call)
            assert killed.code == -signal.SIGKILL
            assert check(request, before) == [False] * 3
            follow(request, before)


def last_save(run: Run, state: Path) -> list[Call]:
    """Return the calls that put a removal on record: the last ones in a row on the state directory."""
    ours = [str(state) in call.text for call in run.calls]
    end = len(ours) - ours[::-1].index(True)
    start = end - ours[:end][::-1].index(False)
    return list(run.calls[start:end])


def approved(request: Request) -> Request:
    """Let the guard ask, and return the sweep that carries its approval."""
    report = automatic(request)
    assert (report.ended, report.units.expired) == ("guard", 3)
    return Request(store=request.store, state=request.state, command="sweep", approve=report.fingerprint)


def follow(request: Request, before: Dump) -> None:
    """Run the sweeps after the killed one: one that asks, unless the end is on record, then two that work."""
    memory = StateDirectory(Path(request.state)).load(f"sqlite:{Path(request.store).resolve()}")
    known = memory.records[-1].ended == "completed"
    asking = automatic(request)
    assert (asking.ended, asking.units.removed) == ("completed" if known else "guard", 0)
    again = automatic(Request(store=request.store, state=request.state, approve=asking.fingerprint))
    assert (again.ended, again.units.removed) == ("completed", 0)
    free = automatic(Request(store=request.store, state=request.state))
    assert (free.ended, free.units.removed) == ("completed", 0)
    assert check(request, before) == [False] * 3


def automatic(request: Request) -> Report:
    """Run one automatic sweep in this process."""
    with Retention(request.store, state=Path(request.state)) as retention:
        return retention.sweep(MONTH, options=SweepOptions(offline=True), approve=request.approve)
