"""Leave nothing of a server behind, however the tests that started it come to their end.

A keeper is a process that waits for the end of its standard input, which comes when whoever started it is
gone, even by SIGKILL. Then it stops the server that lives in a folder, and removes the folder.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil

PROGRAMS = frozenset({"postgres", "initdb", "pg_basebackup", "pgbouncer"})
"""What may be running in the folder."""
PATIENCE_SECONDS = 10.0
"""PostgreSQL itself kills what has not followed an immediate shutdown after 5 s."""
POLL_SECONDS = 0.02


def start_keeper(folder: Path) -> subprocess.Popen[bytes]:
    """Start the keeper of a folder. Signals for our process group, as from a keyboard, do not reach it."""
    command = [sys.executable, str(Path(__file__).resolve()), str(folder)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True)


def clear(folder: Path) -> None:
    """Stop what runs in a folder and remove it, until nothing is left of both."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    told: set[int] = set()
    while (running := list(_running(folder))) or folder.exists():
        late = time.monotonic() > deadline
        for process in running:
            if late or process.pid not in told:
                told.add(process.pid)
                with suppress(psutil.NoSuchProcess):
                    process.send_signal(signal.SIGKILL if late else signal.SIGQUIT)
        if late or not running:
            shutil.rmtree(folder, ignore_errors=True)
        if late:
            return
        time.sleep(POLL_SECONDS)


def _running(folder: Path) -> Iterator[psutil.Process]:
    """Yield the servers and their tools whose command line names the folder; a zombie has none any more."""
    for process in psutil.process_iter(["name", "cmdline"]):
        words = process.info["cmdline"] or []
        if process.info["name"] in PROGRAMS and any(str(folder) in word for word in words):
            yield process


if __name__ == "__main__":
    sys.stdin.buffer.read()
    clear(Path(sys.argv[1]))
