"""What the benchmarks share: stores to measure on, workers in processes of their own, and tables."""

from __future__ import annotations

import json
import os
import platform
import shutil
import sqlite3
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))


from engines.stores import clone_store, template  # noqa: E402 - the path above makes it importable

VERSION = "3.4.0"


def expired_store(folder: Path, runs: int, *, shape: str = "flat", expired: float = 1.0) -> Path:
    """Make a store of finished DBOS runs, of which a share is older than 30 days."""
    path = folder / f"{shape}-{runs}-{expired}.sqlite"
    if not path.exists():
        clone_store(template(VERSION), path, runs=runs, version=VERSION, shape=shape, expired=expired)  # type: ignore[arg-type]
    return path


def copy_of(store: Path) -> Path:
    """Copy a store beside itself, as each run removes what it measures."""
    copy = store.with_name(f"copy-{store.name}")
    shutil.copyfile(store, copy)
    return copy


def run_ids(store: Path) -> list[str]:
    """Return the ids of all runs, in the order they ended."""
    with sqlite3.connect(store) as database:
        return [
            row[0]
            for row in database.execute("SELECT workflow_uuid FROM workflow_status ORDER BY completed_at")
        ]


def worker(script: str, *arguments: str) -> dict[str, Any]:
    """Run a benchmark's own worker in a fresh process and return the JSON it prints."""
    done = subprocess.run(
        [sys.executable, script, "--worker", *arguments],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")])},
    )
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def answer(**values: object) -> None:
    """Print a worker's result."""
    sys.stdout.write(json.dumps(values) + "\n")


def say(text: str = "") -> None:
    """Print a line of the report."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def spread(values: Sequence[float]) -> str:
    """Write the median with the least and greatest value."""
    return f"{statistics.median(values):.3f} ({min(values):.3f}-{max(values):.3f})"


def header(title: str) -> None:
    """Print what a reader needs to judge the figures: date and class of machine."""
    cores = os.cpu_count()
    say(f"## {title}")
    say(
        f"{time.strftime('%Y-%m-%d')}, {cores} cores, {platform.machine()}, "
        f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}"
    )
    say()
