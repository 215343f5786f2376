"""`afterrun serve` as a process, and the command line beside it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import chdir
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self
from unittest.mock import patch

import psutil

from afterrun.runs.keys import VARIABLE
from afterrun.server.client import Client
from cli.kit import run_cli
from runs.runs_kit import KEYS

APP: Final = f"{Path(__file__).parent / 'flows.py'}:app"
PATIENCE: Final = 60.0


@dataclass
class Serving:
    """A server process over the store of a folder."""

    folder: Path
    words: tuple[str, ...] = ()
    app: str | None = APP
    log: list[str] = field(default_factory=list)
    process: subprocess.Popen[str] | None = None

    @property
    def store(self) -> Path:
        return self.folder / "runs.sqlite"

    @property
    def state(self) -> Path:
        return self.folder / "state"

    def start(self) -> Self:
        """Start it, and return when it is ready."""
        app = [] if self.app is None else ["--app", self.app]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "afterrun", "serve", str(self.store), *app, *self.words],
            stderr=subprocess.PIPE,
            text=True,
            env=self.environment,
            cwd=self.folder,
        )
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.log.append(line)
            if "server-ready" in line:
                break
        else:
            raise AssertionError("".join(self.log))
        self._reader = threading.Thread(target=lambda: self.log.extend(self._errors()), daemon=True)
        self._reader.start()
        return self

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables of its commands."""
        hidden = {name for name in os.environ if name.startswith("AFTERRUN_")}
        kept = {name: value for name, value in os.environ.items() if name not in hidden}
        own = {"AFTERRUN_STATE_DIR": str(self.state), "AFTERRUN_STORE": str(self.store)}
        return kept | own | {VARIABLE: KEYS.text()}

    def stop(self) -> int:
        """Ask it to end; return its exit code."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self._reaped()

    def kill(self) -> None:
        """End it and its runners at once."""
        assert self.process is not None
        runners = psutil.Process(self.process.pid).children()
        self.process.kill()
        self._reaped()
        psutil.wait_procs(runners, timeout=PATIENCE)

    def client(self) -> Client:
        """Return a client of it."""
        return Client(str(self.store), state=self.state)

    def run(self, *words: str, code: int = 0) -> str:
        """Run a command line beside it, in this process; return what it prints, errors too if it fails."""
        with patch.dict(os.environ, self.environment, clear=True), chdir(self.folder):
            done = run_cli(*words)
        assert done.code == code, (done.code, done.out, done.err)
        return done.out if code == 0 else done.out + done.err

    def json(self, *words: str) -> Any:  # noqa: ANN401 - whatever it says
        """Run a command line beside it; return the object that it prints."""
        return json.loads(self.run(*words, "--json"))

    def _errors(self) -> list[str]:
        assert self.process is not None
        assert self.process.stderr is not None
        return list(self.process.stderr)

    def _reaped(self) -> int:
        assert self.process is not None
        code = self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        assert self.process.stderr is not None
        self.process.stderr.close()
        return code

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        if self.process is not None and self.process.poll() is None:
            self.kill()
