"""Follows a how-to as a reader does: its Python is written to a file, its shell lines are run."""

from __future__ import annotations

import hashlib
import os
import re
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from queue import Empty, Queue

from cli.kit import DAY_MS, SCHEMA, add_run
from engines.stores import engine_python
from environments import CACHE, locked

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 60.0
"""Seconds after which what a test waits for counts as never coming."""


def page(name: str) -> str:
    """Return the text of a page of the documentation."""
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def blocks(name: str, language: str) -> list[str]:
    """Return the code of a page in one language, block by block."""
    return re.findall(rf"^```{language}\n(.*?)^```$", page(name), re.DOTALL | re.MULTILINE)


def commands(name: str) -> list[list[str]]:
    """Return the words of each shell line of a page, without those that install something."""
    lines = [line for block in blocks(name, "sh") for line in block.splitlines()]
    return [line.split() for line in lines if not line.startswith("pip ")]


def write_app(name: str, folder: Path) -> None:
    """Write the file that the blocks of Python on a page are."""
    code = blocks(name, "python")
    assert code
    (folder / "app.py").write_text("\n\n".join(code), encoding="utf-8")


def howto_bin(version: str) -> Path:
    """Return the folder of commands of an environment with DBOS and afterrun, made on first use.

    It is made anew when afterrun needs other packages than before.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    digest = hashlib.sha256("".join(project["dependencies"]).encode()).hexdigest()[:8]
    home = CACHE / f"howto-dbos-{version}-{digest}"
    stamp = home / "complete"
    engine_python(version)
    with locked(home.name):
        if not stamp.exists():
            subprocess.run([sys.executable, "-m", "venv", "--clear", home], check=True, timeout=120)
            pip = [str(home / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check"]
            wanted = [f"dbos=={version}", "-e", str(ROOT), "-c", str(ROOT / "constraints.txt")]
            subprocess.run([*pip, *wanted], check=True, timeout=600)
            stamp.touch()
    return home / "bin"


class App:
    """An application that runs; its lines are kept in order."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[str] = []
        self._told: Queue[str] = Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with suppress(ValueError):  # who needs no more has closed it
            for line in self.process.stdout:
                self._told.put(line)
        self._told.put("")

    def hear(self, pattern: str) -> str:
        """Wait for a line that matches, and return it."""
        while True:
            try:
                line = self._told.get(timeout=PATIENCE)
            except Empty:
                raise AssertionError(f"no line {pattern!r} after {self.lines}") from None
            assert line, f"it ended without a line {pattern!r} after {self.lines}"
            self.lines.append(line)
            if re.search(pattern, line):
                return line

    def say(self, line: str) -> None:
        """Type a line."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def end(self) -> None:
        """End its input, and wait until it has ended, by that or by a signal that it got."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(PATIENCE)
        self.lines += iter(lambda: self._told.get(timeout=PATIENCE), "")

    def settle(self, pattern: str) -> float:
        """Send it SIGTERM; return the seconds until a line matches."""
        began = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        self.hear(pattern)
        return time.monotonic() - began


@contextmanager
def running(words: Sequence[str], folder: Path, *, path: Path) -> Iterator[App]:
    """Run a shell line of a page in a folder; it is killed if it is still there at the end."""
    environment = os.environ | {
        "PATH": f"{path}:{os.environ['PATH']}",
        "AFTERRUN_STATE_DIR": str(folder / "state"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    with subprocess.Popen(
        words,
        cwd=folder,
        env=environment,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as process:
        try:
            yield App(process)
        finally:
            process.kill()


def make_aged_store(path: Path, runs: int) -> None:
    """Make a store with runs that ended 40 days ago."""
    ended = time.time_ns() // 1_000_000 - 40 * DAY_MS
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(SCHEMA.read_text(encoding="utf-8"))
        with connection:
            for number in range(runs):
                add_run(connection, f"run-{number}", ended + number)


def await_rows(path: Path, fewer_than: int) -> int:
    """Wait until a store has fewer runs than this, and return how many."""
    end = time.monotonic() + PATIENCE
    with closing(sqlite3.connect(path, timeout=PATIENCE)) as connection:
        while time.monotonic() < end:
            found = int(connection.execute("SELECT count(*) FROM workflow_status").fetchone()[0])
            if found < fewer_than:
                return found
    raise AssertionError(f"there are still {fewer_than} runs")
