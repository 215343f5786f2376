"""A store of pi-subagents made by hand, and what is asked of it in tests."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from afterrun.core.batch import offline_pace
from afterrun.core.judge import judge
from afterrun.core.plan import Survey, make_plan
from afterrun.core.policy import Policy
from afterrun.core.report import Report
from afterrun.core.sweep import Budget, Sweep, SweepRequest
from afterrun.profiles.directory_loader import load_directory
from afterrun.stores.directory.result_units import ResultUnits
from afterrun.stores.directory.run_units import RunUnits
from afterrun.stores.directory.site import Root
from afterrun.stores.directory.store import DirectoryStore

DAY: Final = 86_400
MONTH: Final = Policy(keep_for=timedelta(days=30))
Units = RunUnits | ResultUnits


class PiTree:
    """The folders of one user, `root`; everything that is made is 40 days old unless it says otherwise."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.runs = root / "async-subagent-runs"
        self.results = root / "async-subagent-results"
        self.waits = root / "wait-subscriptions"
        for folder in (self.runs, self.results, self.waits):
            folder.mkdir(parents=True)
        self.old = time.time() - 40 * DAY

    def status(self, run: str, **fields: object) -> dict[str, Any]:
        """Return a status of a finished run; a field that is given as None is left out."""
        old = int(self.old * 1_000)
        made = {
            "runId": run,
            "state": "complete",
            "mode": "single",
            "startedAt": old - 1_000,
            "endedAt": old,
            "lastUpdate": old,
            "steps": [{"agent": "worker", "status": "complete"}],
        } | fields
        return {name: value for name, value in made.items() if value is not None}

    def run(self, run: str, *, under: Path | None = None, files: int = 1, **fields: object) -> Path:
        """Make a run with a status and some output."""
        folder = (under or self.runs) / run
        folder.mkdir(parents=True)
        for number in range(files):
            (folder / f"output-{number}.log").write_text("output\n")
        (folder / "status.json").write_text(json.dumps(self.status(run, **fields)))
        self.age(folder)
        return folder

    def add(self, folder: Path, name: str, content: object) -> Path:
        """Add a file to a run, as old as the rest."""
        path = folder / name
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        self.age(folder)
        return path

    def drop(self, folder: Path, name: str) -> Path:
        """Remove a file of a run, and leave it as old as it was."""
        (folder / name).unlink()
        self.age(folder)
        return folder

    def result(self, path: str, run: str, **fields: object) -> Path:
        """Make a result file below the folder of results."""
        file = self.results / path
        file.parent.mkdir(parents=True, exist_ok=True)
        made = {"runId": run, "success": True, "state": "complete", "endedAt": int(self.old * 1_000)} | fields
        file.write_text(json.dumps({name: value for name, value in made.items() if value is not None}))
        os.utime(file, (self.old, self.old))
        return file

    def raw(self, path: str, content: str) -> Path:
        """Make a result file of this very content."""
        file = self.result(path, "r")
        file.write_text(content)
        os.utime(file, (self.old, self.old))
        return file

    def wait(self, name: str, run: str, *, expires: float) -> Path:
        """Make a wait record that expires so many seconds from now."""
        file = self.waits / name
        file.write_text(json.dumps({"runId": run, "expiresAt": int((time.time() + expires) * 1_000)}))
        return file

    def age(self, folder: Path, when: float | None = None) -> None:
        """Set the times of everything in a folder, and its own."""
        moment = self.old if when is None else when
        for path in [*sorted(folder.rglob("*"), reverse=True), folder]:
            os.utime(path, (moment, moment), follow_symlinks=False)

    def names(self) -> set[str]:
        """Return the names of what lies among the runs and is not hidden."""
        return {path.name for path in self.runs.iterdir() if not path.name.startswith(".")}

    def tombstones(self) -> list[Path]:
        """Return what our removals left anywhere."""
        return list(self.root.rglob(".afterrun-*"))


@contextmanager
def opened(
    root: Path,
    profile: str = "pi-subagents",
    *,
    trash: timedelta | None = None,
    break_token: str | None = None,
) -> Iterator[DirectoryStore]:
    """Open a directory store."""
    place = Root(str(root))
    store = DirectoryStore(place, load_directory(profile), trash=trash, break_token=break_token)
    try:
        yield store
    finally:
        store.close()


def verdicts(root: Path, *, policy: Policy = MONTH, result: bool = False) -> dict[str, set[str]]:
    """Return, for each unit, its verdict and the names of its reasons."""
    with opened(root) as store:
        units: Units = store.runs
        if result:
            assert store.results is not None
            units = store.results
        plan = make_plan(units, policy, now=units.now())
        keys = list(units.index.order) if isinstance(units, RunUnits) else list(units._paths())
        found = {}
        for key in keys:
            unit = units.find(str(key))
            judged = judge(unit, plan.rules)
            found[str(key)] = {judged.verdict.value, *(reason.name for reason in judged.reasons)}
        return found


def planned(units: Units, policy: Policy = MONTH) -> Report:
    """Plan one kind of a store."""
    survey = Survey(units, make_plan(units, policy, now=units.now()))
    for _ in survey.expired(page=1_000):
        pass
    return survey.report


def surroundings() -> dict[str, str]:
    """Return the environment of a process that imports what this one does."""
    paths = os.pathsep.join(path for path in sys.path if path)
    return os.environ | {"PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1"}


class Remember:
    """Failures of units, remembered for as long as the test runs."""

    def __init__(self) -> None:
        self.failed: dict[str, str] = {}

    def any(self) -> bool:
        return bool(self.failed)

    def waiting(self, unit: str) -> bool:
        del unit
        return False

    def defer(self, unit: str, kind: str) -> None:
        self.failed[unit] = kind

    def clear(self, unit: str) -> None:
        self.failed.pop(unit, None)


@dataclass
class Pass:
    """A pass over a directory with the core's one loop. ``gate`` is asked between batches."""

    root: Path
    policy: Policy = MONTH
    budget: Budget = field(default_factory=Budget)
    gate: Callable[[], bool] = lambda: True
    batch_units: int | None = None
    deferrals: Remember = field(default_factory=Remember)
    notices: list[str] = field(default_factory=list)

    def run(self, *, trash: timedelta | None = None) -> list[Report]:
        """Sweep each kind in turn."""
        with opened(self.root, trash=trash) as store:
            return self.over(store)

    def over(self, store: DirectoryStore) -> list[Report]:
        """Sweep each kind of an open store in turn."""
        with store.sweep_lock():
            reports = [self._sweep(units) for units in store.kinds]
            assert store.work.held is not None
            self.notices = list(store.work.held.notices)
        return reports

    def _sweep(self, units: Units) -> Report:
        request = SweepRequest(
            plan=make_plan(units, self.policy, now=units.now()),
            pace=offline_pace(max_units=self.batch_units),
            clock=_Clock(),
            deferrals=self.deferrals,
            budget=self.budget,
            gate=self.gate,
        )
        return Sweep(units, request).run()


class _Clock:
    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)
