"""Servers of the tests: in this process, or as processes that can be killed."""

from __future__ import annotations

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

from afterrun.runs import Run, RunStore

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


def lines(folder: Path) -> list[str]:
    """Return what workflows noted, without who did."""
    log = folder / "log"
    return [line.split()[0] for line in log.read_text().splitlines()] if log.exists() else []


@dataclass
class Server:
    """A server process. Its store may be opened beside it."""

    store: str
    folder: Path
    settings: dict[str, Any] = field(default_factory=dict)
    process: subprocess.Popen[str] | None = None

    def start(self) -> Self:
        """Start it, and return when it is ready."""
        given = {
            "app": APP,
            "store": self.store,
            "state": str(self.folder / "state"),
            "runners": 1,
            "lease": 1,
            **self.settings,
        }
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "serve.py"), json.dumps(given)],
            stdout=subprocess.PIPE,
            text=True,
            env=dict(os.environ) | {"AFTERRUN_TEST_SECRET": "hidden"},
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
