"""Environments with a real engine in them, made once under `.engines` and kept."""

from __future__ import annotations

import fcntl
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

DEMO = Path(__file__).resolve().parent
ROOT = DEMO.parent
CACHE = ROOT / ".engines"
PINS = ROOT / "constraints.txt"
INSTALL_SECONDS = 600.0
ERROR_LINES = 30
FRESH_SECONDS = 3_600.0
"""Age up to which a kept store is used again: tests take what is in it for new."""


def engine_python(version: str) -> Path:
    """Return the python of an environment that has this version of DBOS, made on first use."""
    return package_python("dbos", version)


def package_python(package: str, version: str) -> Path:
    """Return the python of an environment that has this version of a package, made on first use."""
    return environment_python(f"{package}-{version}", f"{package}=={version}")


def environment_python(name: str, *requirements: str, pins: Path = PINS) -> Path:
    """Return the python of an environment of this name that has these packages, made on first use.

    ``pins`` is a file of constraints, for an engine whose own limits leave no room for ours.
    """
    home = CACHE / name
    python = home / "bin" / "python"
    stamp = home / "complete"
    if stamp.exists():
        return python
    with locked(name):
        if not stamp.exists():
            _install(home, python, requirements, pins)
            stamp.touch()
    return python


def is_fresh(kept: Path) -> bool:
    """Say whether a store that was made once is there, and not too old."""
    return kept.exists() and time.time() - kept.stat().st_mtime < FRESH_SECONDS


def engine_command(version: str, *args: str | Path) -> list[str]:
    """Return the command line that runs a command of `dbos_app.py` on this version."""
    return [str(part) for part in (engine_python(version), "-E", DEMO / "dbos_app.py", *args)]


def run_engine(version: str, *args: str | Path, timeout: float = 120.0) -> dict[str, Any]:
    """Run a command of `dbos_app.py` on this version and return its answer.

    Raise RuntimeError with the end of its error output when it fails.
    """
    return answer_of(engine_command(version, *args), timeout)


def answer_of(command: Sequence[str], timeout: float) -> dict[str, Any]:
    """Run a command and return the JSON object of its last line. Raise RuntimeError when it fails."""
    return dict(json.loads(_checked(command, timeout).splitlines()[-1]))


@contextmanager
def locked(name: str) -> Iterator[None]:
    """Let one process at a time make what has this name."""
    CACHE.mkdir(exist_ok=True)
    with (CACHE / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _install(home: Path, python: Path, requirements: Sequence[str], pins: Path) -> None:
    shutil.rmtree(home, ignore_errors=True)
    _checked([sys.executable, "-m", "venv", str(home)], INSTALL_SECONDS)
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    if pins.exists():
        command += ["-c", str(pins)]
    _checked([*command, *requirements], INSTALL_SECONDS)


def _checked(command: Sequence[str], timeout: float) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    if done.returncode != 0:
        told = "\n".join(done.stderr.splitlines()[-ERROR_LINES:])
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}:\n{told}")
    return done.stdout
