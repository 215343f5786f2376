"""A removal of three run folders, killed with SIGKILL before each of its changing system calls."""

from __future__ import annotations

import os
import shutil
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from afterrun import SweepOptions, open_retention
from crash.aged import MONTH, Request
from crash.killing import Call, Run, Victims, victims
from directory.pi_tree import PiTree

pytestmark = [pytest.mark.slow]

SOAK: Final = os.environ.get("AFTERRUN_SOAK") == "1"
STRIDE: Final = 1 if SOAK else 5
"""Every how-manieth of the calls is killed; those that rename, and the first of each kind, always are."""

GOING: Final = ("a", "b", "c")
Files = dict[str, bytes]


@dataclass(frozen=True, slots=True)
class Scene:
    """The store that is copied for each kill, what is in it, and the process that forks the victims."""

    store: Path
    before: dict[str, Files]
    killer: Victims

    def copy(self, folder: Path) -> Request:
        """Copy the store to a new folder, which will also hold afterrun's state."""
        folder.mkdir()
        shutil.copytree(self.store, folder / "store", symlinks=True)
        return Request(store=str(folder / "store"), state=str(folder / "state"))


def make(root: Path) -> PiTree:
    """Make a store with three old runs of some files, one with a child, and three that stay."""
    tree = PiTree(root)
    for name in GOING:
        folder = tree.run(name, files=2)
        (folder / "deep" / "er").mkdir(parents=True)
        (folder / "deep" / "er" / "file").write_text(name)
        tree.age(folder)
    tree.run("lives", state="running")
    tree.run("waited")
    tree.wait("w.json", "waited", expires=86_400)
    tree.add(tree.run("handed"), "handoff.json", {"version": 1, "groups": [{"cleanup": {"state": "no"}}]})
    return tree


def content(root: Path) -> dict[str, Files]:
    """Return all files of all runs that are in their place."""
    runs = root / "async-subagent-runs"
    return {
        run.name: {str(p.relative_to(run)): p.read_bytes() for p in run.rglob("*") if p.is_file()}
        for run in runs.iterdir()
        if not run.name.startswith(".")
    }


def check(request: Request, before: dict[str, Files]) -> list[bool]:
    """Check a store as its killer left it; say which of the three runs are in their place."""
    now = content(Path(request.store))
    for name in before.keys() - set(GOING):
        assert now.get(name) == before[name], f"{name}, which stays, has changed"
    for name in now.keys() & set(GOING):
        assert now[name] == before[name], f"{name} is half removed"
    assert not now.keys() - before.keys()
    return [name in now for name in GOING]


def finish(request: Request, before: dict[str, Files]) -> None:
    """Run the next removal: it ends the work and leaves nothing behind."""
    with open_retention(request.store, state=Path(request.state)) as retention:
        report = retention.prune(MONTH, options=SweepOptions(offline=True))
        assert (report.ended, report.deferred) == ("completed", 0)
        assert list(retention.verify()) == []
    assert check(request, before) == [False] * 3
    root = Path(request.store)
    left = [str(path.relative_to(root)) for path in root.rglob(".afterrun*")]
    assert left == [".afterrun"]
    assert sorted(path.name for path in (root / ".afterrun").iterdir() if path.name[:5] != "lock-") == [
        "journal",
        "log.jsonl",
    ]
    assert list((root / ".afterrun" / "journal").iterdir()) == []
    assert not (root / ".async-retention.lock").exists()


def places(run: Run) -> list[int]:
    """Return which calls, counted from 1, are killed."""
    seen: set[str] = set()
    numbers = []
    for number, call in enumerate(run.calls, 1):
        if number % STRIDE == 0 or call.name not in seen or call.name.startswith("rename"):
            numbers.append(number)
        seen.add(call.name)
    return numbers


@pytest.mark.timeout(1_800)
def test_killed_at_any_changing_call_a_removal_of_folders_leaves_whole_runs(tmp_path: Path) -> None:
    """Wherever it is killed: what stays is as it was, no run is half there, and the next pass finishes."""
    tree = make(tmp_path / "made")
    before = content(tree.root)
    with victims(make(tmp_path / "warm-up").root) as killer:
        scene = Scene(tree.root, before, killer)
        untouched = scene.copy(tmp_path / "untouched")
        whole = killer.run(untouched, tmp_path / "log")
        assert whole.code == 0
        assert check(untouched, before) == [False] * 3
        finish(untouched, before)
        there = [
            kill(scene, whole.calls[number - 1], tmp_path / f"kill-{number:03}") for number in places(whole)
        ]
    assert there[0] == [True] * 3
    assert there[-1] == [False] * 3


def kill(scene: Scene, call: Call, folder: Path) -> list[bool]:
    """Kill before this call; check what is left, twice: by itself, and after the next removal."""
    request = scene.copy(folder)
    killed = scene.killer.run(request, folder / "log", kill=call)
    assert killed.code == -signal.SIGKILL, call
    there = check(request, scene.before)
    finish(request, scene.before)
    shutil.rmtree(folder)
    return there
