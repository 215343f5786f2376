"""Cut removals off before any of their steps, in processes of their own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from crash.killing import TESTS, environment
from datasource.severed import Cut

SCRIPT: Final = TESTS / "datasource" / "severed.py"


@dataclass(frozen=True, slots=True)
class Course:
    """What a removal came to: its exit code (negative: a signal), and the names of the steps it began."""

    code: int
    steps: tuple[str, ...]


class Severer:
    """Runs removals one after another, each in a process of its own."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        """Wrap the process that forks them."""
        self._process = process

    def run(self, cut: Cut) -> Course:
        """Run one removal, cut off as asked."""
        self.start(cut)
        return self.end(cut)

    def start(self, cut: Cut) -> int:
        """Start one removal and return its process id."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(asdict(cut)) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def end(self, cut: Cut) -> Course:
        """Wait until the removal that was started is over."""
        return Course(self._answer(), tuple(Path(cut.log).read_text(encoding="utf-8").splitlines()))

    def _answer(self) -> int:
        assert self._process.stdout is not None
        answer = self._process.stdout.readline()
        assert answer, "the process that forks the removals is gone"
        return int(answer)


@contextmanager
def severing() -> Iterator[Severer]:
    """Start the process that forks removals."""
    with subprocess.Popen(
        [sys.executable, str(SCRIPT)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment(),
    ) as process:
        try:
            yield Severer(process)
        finally:
            process.kill()
