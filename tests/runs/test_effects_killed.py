"""A worker that is killed at every point of an effect: it is applied once or in doubt, and never twice.

The outside is a process of its own with a log of its own, which notes whatever comes, as often as it comes.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import pytest

from afterrun.runs import EffectStatus, RunStatus, RunStore
from crash.killing import TESTS, Call, Run, environment, places, traced
from runs.effect_worker import POINTS, Work
from runs.runs_kit import Home

pytestmark = pytest.mark.slow

SOAK: Final = os.environ.get("AFTERRUN_SOAK") == "1"
STRIDE: Final = 1 if SOAK else 8
"""Of statements, and of a row of equal system calls, every how-manieth is killed."""


@dataclass(frozen=True, slots=True)
class Scene:
    """A store, the outside, and the process that forks the workers."""

    location: str
    sink: Path
    log: Path
    workers: subprocess.Popen[str]

    def new_run(self) -> str:
        """Create a run to work on."""
        with RunStore.open(self.location) as store:
            return store.create("pay").run.id

    def work(self, run: str, *, point: str = "", statement: int = 0, fault: str = "") -> int:
        """Let a worker work on a run; return its exit code, negative for a signal."""
        work = Work(
            store=self.location,
            sink=str(self.sink),
            run=run,
            point=point,
            statement=statement,
            fault=fault,
        )
        return int(self.ask(json.dumps(asdict(work))))

    def traced(self, run: str, log: Path, *, kill: Call | None = None) -> Run:
        """Let a worker work under a tracer, killed before the given call or to its end."""
        work = Work(store=self.location, sink=str(self.sink), run=run, traced=True)
        child = int(self.ask(json.dumps(asdict(work))))
        return traced(child, lambda: int(self.ask("go")), log, kill=kill)

    def ask(self, line: str) -> str:
        """Send a line to the process that forks, and return its answer."""
        assert self.workers.stdin is not None
        assert self.workers.stdout is not None
        self.workers.stdin.write(line + "\n")
        self.workers.stdin.flush()
        answer = self.workers.stdout.readline()
        assert answer, "the process that forks the workers is gone"
        return answer

    def noted(self, key: str) -> int:
        """Return how often an effect happened, once the outside has done all that it was asked."""
        with socket.socket(socket.AF_UNIX) as asking:
            asking.connect(str(self.sink))
            asking.sendall(b"\n")
            assert asking.makefile("rb").readline()
        return self.log.read_text("utf-8").split().count(key)


@contextmanager
def _scene(location: str, folder: Path) -> Iterator[Scene]:
    sink, log = folder / "sink", folder / "log"
    python = [sys.executable, "-m"]
    outside = [*python, "runs.effect_sink", str(sink), str(log)]
    with RunStore.open(location) as store:
        first = Work(store=location, sink=str(sink), run=store.create("pay").run.id)
    workers = [*python, "runs.effect_worker", json.dumps(asdict(first))]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "env": environment()}
    with subprocess.Popen(outside, cwd=TESTS, **pipes) as outer:  # type: ignore[call-overload]
        try:
            assert outer.stdout.readline() == "ready\n"
            with subprocess.Popen(workers, cwd=TESTS, **pipes) as inner:  # type: ignore[call-overload]
                try:
                    assert inner.stdout.readline() == '"ready"\n'
                    yield Scene(location, sink, log, inner)
                finally:
                    inner.kill()
        finally:
            outer.kill()


@pytest.fixture
def scene(home: Home, tmp_path: Path) -> Iterator[Scene]:
    """Give a scene with a store on either database."""
    with _scene(home.location, tmp_path) as made:
        yield made


def recover(scene: Scene, run: str) -> str:
    """Let the next worker go on, and a person settle what is in doubt; say what the next worker found.

    In the end the effect happened just once, its receipt is there, and nothing is open.
    """
    assert scene.work(run) == 0
    found = "nothing"
    with RunStore.open(scene.location) as store:
        for effect in store.effects.unsettled():
            assert store.get(run).status is RunStatus.WAITING
            count = scene.noted(effect.key)
            assert count <= 1, "an effect happened twice"
            found = "in doubt, happened" if count else "in doubt, did not happen"
            store.effects.settle(effect, applied=count == 1, by="a person", receipt=b"seen")
    if found != "nothing":
        assert scene.work(run) == 0
    with RunStore.open(scene.location) as store:
        [effect] = store.effects.of(run)
        assert (effect.status, scene.noted(effect.key)) == (EffectStatus.APPLIED, 1)
        assert store.get(run).status is RunStatus.COMPLETED
        assert store.output_of(run) == store.effects.receipt_of(effect)
        assert store.view(run).work == {}
    return found


@pytest.mark.timeout(300)
def test_killed_between_any_two_steps_an_effect_happens_once(scene: Scene) -> None:
    """Where it may have happened and has no receipt, it is in doubt; nowhere else is a person asked."""
    found = {}
    for point in POINTS:
        run = scene.new_run()
        assert scene.work(run, point=point) == -signal.SIGKILL
        found[point] = recover(scene, run) if point != "finished" else "nothing"
    assert found == dict.fromkeys(POINTS, "nothing") | {
        "begun": "in doubt, did not happen",
        "asked": "in doubt, happened",
        "answered": "in doubt, happened",
    }


@pytest.mark.timeout(900)
def test_killed_before_any_statement_an_effect_happens_once(scene: Scene) -> None:
    """In the middle of a transaction as well: what it had changed is undone."""
    found = []
    statement = 1
    while True:
        run = scene.new_run()
        code = scene.work(run, statement=statement)
        if code == 0:
            break
        assert code == -signal.SIGKILL
        found.append(recover(scene, run))
        statement += STRIDE
    assert len(found) * STRIDE > 40, "a worker makes more statements than that"
    assert {"nothing", "in doubt, happened"} <= set(found)


@pytest.mark.parametrize("fault", ["begins late", "believes nobody"])
def test_a_careless_worker_is_found_out(scene: Scene, fault: str) -> None:
    """One that acts before it says so, or does again what is in doubt: the outside has it twice."""
    run = scene.new_run()
    assert scene.work(run, point="answered", fault=fault) == -signal.SIGKILL
    assert scene.work(run, fault=fault) == 0
    with RunStore.open(scene.location) as store:
        [effect] = store.effects.of(run)
    assert scene.noted(effect.key) == 2


@pytest.mark.timeout(900)
def test_killed_at_any_write_of_the_file_an_effect_happens_once(tmp_path: Path) -> None:
    """Before each system call that changes something, from the lease to the end of the run."""
    location = str(tmp_path / "runs.sqlite")
    RunStore.open(location).close()
    with _scene(location, tmp_path) as scene:
        whole = scene.traced(scene.new_run(), tmp_path / "trace")
        assert whole.code == 0
        chosen = [whole.calls[number - 1] for number in places(whole, STRIDE)]
        found = [_killed(scene, call, tmp_path / "trace") for call in chosen]
    assert len(found) > 20
    assert {"nothing", "in doubt, happened", "in doubt, did not happen"} <= set(found)


def _killed(scene: Scene, call: Call, log: Path) -> str:
    run = scene.new_run()
    killed = scene.traced(run, log, kill=call)
    assert killed.code in (-signal.SIGKILL, 0), call
    with RunStore.open(scene.location) as store:
        if store.get(run).status is RunStatus.COMPLETED:
            return "nothing"
    return recover(scene, run)
