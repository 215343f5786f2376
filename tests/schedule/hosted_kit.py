"""Starts hosts as processes, and reads what they tell."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from queue import Empty, Queue
from typing import Any

from afterrun import Retention
from schedule.hosting_process import SHIFT, Settings

TESTS = Path(__file__).resolve().parents[1]
PATIENCE = 30.0
"""Seconds after which what a test waits for counts as never coming."""


class HostProcess:
    """A running host. What it tells is kept in order."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.told: list[dict[str, Any]] = []
        self._lines: Queue[str] = Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with suppress(ValueError):  # who needs no more has closed it
            for line in self.process.stdout:
                self._lines.put(line)
        self._lines.put("")

    def say(self, *words: str) -> None:
        """Tell it what to do."""
        assert self.process.stdin is not None
        self.process.stdin.writelines(f"{word}\n" for word in words)
        self.process.stdin.flush()

    def hear(self, key: str) -> Any:  # noqa: ANN401 - whatever it tells
        """Wait until it tells of this, and return what."""
        while True:
            try:
                line = self._lines.get(timeout=PATIENCE)
            except Empty:
                raise AssertionError(f"nothing of {key}; it told {self.told[-5:]}") from None
            assert line, f"it ended without a word of {key}; it told {self.told[-5:]}"
            self.told.append(json.loads(line))
            if key in self.told[-1]:
                return self.told[-1][key]

    def standing(self) -> dict[str, Any]:
        """Ask how the schedule stands."""
        self.say("standing")
        return dict(self.hear("standing"))

    def removed(self) -> int:
        """Return the units of all batches it told of."""
        return sum(told.get("batch", 0) for told in self.told)

    def shut_down(self) -> float:
        """End its input; return the seconds it took to settle."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        settled = float(self.hear("settled"))
        assert self.process.wait(PATIENCE) == 0
        return settled


@contextmanager
def hosting(settings: Settings, *, shift: float = 0.0) -> Iterator[HostProcess]:
    """Start a host, its time of day shifted by some seconds; it is killed if it is still there at the end."""
    command = [sys.executable, str(TESTS / "schedule" / "hosting_process.py"), json.dumps(asdict(settings))]
    environment = os.environ | {"PYTHONPATH": str(TESTS), "PYTHONDONTWRITEBYTECODE": "1", SHIFT: str(shift)}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        try:
            yield HostProcess(process)
        finally:
            process.kill()


def endings(settings: Settings) -> list[str]:
    """Return how the sweeps on record ended, the oldest first."""
    with closing(Retention(settings.store, state=Path(settings.state), writable=False)) as retention:
        return [record.ended for record in retention.history()]


def faults(settings: Settings) -> list[str]:
    """Return what the checks of the store find."""
    with closing(Retention(settings.store, state=Path(settings.state), writable=False)) as retention:
        return list(retention.verify())
