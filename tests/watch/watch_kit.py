"""Runs `afterrun watch` as a process of its own and listens to its log."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from afterrun.state.attempts import Attempts
from afterrun.state.files import Record
from cli.kit import MARKER

DEADLINE = 60.0
"""Seconds after which a test gives up on what it waits for; nothing takes so long."""

Line = dict[str, Any]
ENTRY = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a test runner may have turned it off
{before}
from afterrun.cli import main
sys.exit(main())
"""
SLOW = "import afterrun.core.batch as b; b.Pace.pause = lambda *_a, **_o: 3600.0"
"""Pauses of an hour after each batch: who settles must not wait for them."""


class Process:
    """One `afterrun watch`, and everything it has logged so far."""

    def __init__(self, popen: subprocess.Popen[str]) -> None:
        self.popen = popen
        self.lines: list[Line] = []
        self.rest: list[str] = []
        self._changed = threading.Condition()
        self._over = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.popen.stderr is not None
        for text in self.popen.stderr:
            with self._changed:
                if text.startswith("{"):
                    self.lines.append(json.loads(text))
                else:
                    self.rest.append(text)
                self._changed.notify_all()
        with self._changed:
            self._over = True
            self._changed.notify_all()

    def found(self, event: str, **fields: object) -> list[Line]:
        """Return the lines of an event, with these fields, that came so far."""
        return [
            line
            for line in self.lines
            if line["event"] == event and all(line.get(name) == value for name, value in fields.items())
        ]

    def until(self, event: str, *, times: int = 1, **fields: object) -> Line:
        """Wait until an event with these fields has come so often; return the last one."""

        def come() -> bool:
            return self._over or len(self.found(event, **fields)) >= times

        with self._changed:
            assert self._changed.wait_for(come, DEADLINE), f"no {event} {fields} in {self.lines} {self.rest}"
        assert len(self.found(event, **fields)) >= times, f"no {event} {fields} in {self.lines} {self.rest}"
        return self.found(event, **fields)[times - 1]

    def end(self, number: signal.Signals | None = signal.SIGTERM) -> tuple[int, float]:
        """Send a signal and wait for the end; return the exit code and the seconds it took."""
        began = time.monotonic()
        if number is not None:
            self.popen.send_signal(number)
        code = self.popen.wait(DEADLINE)
        took = time.monotonic() - began
        self._reader.join(DEADLINE)
        return code, took

    @property
    def text(self) -> str:
        """Return all that was logged."""
        return f"{self.lines}{self.rest}"


@contextmanager
def watching(
    config: Path, *words: str, before: str = "", prefix: Sequence[str] = (), verbose: bool = True
) -> Iterator[Process]:
    """Start a watch; end it by force if the test did not. ``before`` is code that runs first in it."""
    command = [*prefix, sys.executable, "-c", ENTRY.format(before=before), "watch", "--config", str(config)]
    surroundings = os.environ | {"AFTERRUN_TELEMETRY_LOG_FORMAT": "json"}
    with subprocess.Popen(
        [*command, *(["-v"] if verbose else []), *words],
        env=surroundings,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as popen:
        process = Process(popen)
        try:
            yield process
            assert MARKER not in process.text
            assert "Traceback" not in process.text, process.text
        finally:
            if popen.poll() is None:
                popen.kill()


def once(config: Path, *words: str, before: str = "", prefix: Sequence[str] = ()) -> tuple[int, Process]:
    """Run `afterrun watch --once` to its end; return the exit code and what it logged."""
    with watching(config, "--once", *words, before=before, prefix=prefix) as process:
        code, _ = process.end(None)
    return code, process


def records(store: Path) -> list[Record]:
    """Return what is on record of a store."""
    return list(Attempts(str(store)).records())


def ends(store: Path) -> list[str]:
    """Return how the sweeps of a store ended, the newest last."""
    return [record.ended for record in records(store)]


def settings(folder: Path, *stores: Path, more: str = "", **keys: str) -> Path:
    """Write settings in which each of these stores is approved, and has these keys; return the file."""
    tables = [f'[stores.{path.stem}]\nstore = "{path.name}"\n' for path in stores]
    own = "".join(f"{name} = {value}\n" for name, value in ({"approve": "true"} | keys).items())
    text = "".join(f"{table}{own}" for table in tables)
    path = folder / "afterrun.toml"
    path.write_text(f'[policy]\nkeep_for = "30d"\n{text}\n{more}', encoding="utf-8")
    return path
