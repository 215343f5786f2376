"""Servers of the tests: in this process, or as processes that can be killed."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import psutil

from afterrun.runs import Run, RunStatus, RunStore
from afterrun.schedule import Standing
from afterrun.server.engine import Engine
from afterrun.server.settings import EngineSettings

HERE = Path(__file__).parent
APP = f"{HERE / 'workflows.py'}:app"
PATIENCE = 60.0
POLL = 0.01


def eventually(found: Callable[[], Any], *, seconds: float = PATIENCE) -> Any:  # noqa: ANN401 - whatever is found
    """Return what is found once it is true."""
    until = time.monotonic() + seconds
    while True:
        answer = found()
        if answer:
            return answer
        assert time.monotonic() < until, "it did not come to that in time"
        time.sleep(POLL)


def ended(store: RunStore, run: str) -> Run:
    """Return a run once it has ended."""
    found: Run = eventually(lambda: (now := store.get(run)).ended_at and now)
    return found


def start(store: RunStore, workflow: str, value: object = None) -> str:
    """Queue a workflow; return the run's id."""
    return store.create(workflow, content=json.dumps(value).encode()).run.id


def output(store: RunStore, run: str) -> object:
    """Return what a run ended with, once it has completed."""
    found = ended(store, run)
    assert found.status is RunStatus.COMPLETED, found.reason
    return json.loads(store.output_of(run) or b"null")


def lines(folder: Path) -> list[str]:
    """Return what workflows noted, without who did."""
    log = folder / "log"
    return [line.split()[0] for line in log.read_text().splitlines()] if log.exists() else []


class Hosted:
    """A server in a thread of this process; its runners are processes all the same."""

    def __init__(self, store: str, folder: Path, **settings: Any) -> None:  # noqa: ANN401 - of any kind
        """Open the store."""
        given: dict[str, Any] = {
            "app": APP,
            "store": store,
            "state": folder / "state",
            "runners": 1,
            "approve": True,
        }
        self.engine = Engine.open(EngineSettings(**given | settings))
        self.failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        """Start it, and return when it is ready."""
        self._thread.start()
        eventually(lambda: self.engine.ready or not self._thread.is_alive())
        assert self.failure is None
        return self

    def __exit__(self, *_: object) -> None:
        """Stop it."""
        self.stop()

    def stop(self) -> None:
        """Stop it, and wait until it has settled."""
        self.engine.stop()
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()

    @property
    def runners(self) -> list[psutil.Process]:
        """Return its runner processes."""
        return [child for child in psutil.Process().children() if "afterrun.server.runner" in child.cmdline()]

    @property
    def sweeps(self) -> Standing:
        """Return where its sweeps stand."""
        return self.engine._upkeep.standing

    def _run(self) -> None:
        try:
            asyncio.run(self.engine.run_until_stopped())
        except BaseException as error:  # noqa: BLE001 - the test is told
            self.failure = error


@dataclass
class Server:
    """A server process. Its store may be opened beside it."""

    store: str
    folder: Path
    settings: dict[str, Any] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    process: subprocess.Popen[str] | None = None

    def start(self) -> Self:
        """Start it, and return when it is ready."""
        given = {
            "app": APP,
            "store": self.store,
            "state": str(self.folder / "state"),
            "runners": 1,
            "lease": 2,
            **self.settings,
        }
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "serve.py"), json.dumps(given)],
            stdout=subprocess.PIPE,
            text=True,
            env=dict(os.environ) | self.variables,
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n"
        self._reader = threading.Thread(target=self.process.stdout.read, daemon=True)
        self._reader.start()
        return self

    def _reaped(self) -> int:
        """Wait for the end of the process and of its output; return its exit code."""
        assert self.process is not None
        assert self.process.stdout is not None
        code = self.process.wait(PATIENCE)
        self._reader.join()
        self.process.stdout.close()
        return code

    @property
    def runners(self) -> list[psutil.Process]:
        """Return its runner processes."""
        assert self.process is not None
        return list(psutil.Process(self.process.pid).children())

    def kill(self) -> None:
        """End it at once, and wait until its runners have noticed."""
        assert self.process is not None
        runners = self.runners
        self.process.kill()
        self._reaped()
        _, alive = psutil.wait_procs(runners, timeout=PATIENCE)
        assert not alive

    def stop(self) -> int:
        """Ask it to end; return its exit code."""
        if self.process is None or self.process.poll() is not None:
            return -1
        self.process.send_signal(signal.SIGTERM)
        return self._reaped()

    def __enter__(self) -> Self:
        """Start it."""
        return self.start()

    def __exit__(self, *_: object) -> None:
        """End it."""
        if self.process is not None and self.process.poll() is None:
            try:
                self.stop()
            finally:
                if self.process.poll() is None:
                    self.kill()
