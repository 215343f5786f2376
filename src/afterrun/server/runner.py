"""A runner: a child process of the engine that executes workflows. ``python -m afterrun.server.runner``.

It has neither the store's location nor a key, and no descriptor but its connection. When the engine is gone,
so is the runner.
"""

from __future__ import annotations

import asyncio
import gc
import signal
import socket
import sys
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from afterrun.core.errors import UsageError
from afterrun.runs.scrub import scrub
from afterrun.server.app import App, load_app
from afterrun.server.calling import Connection
from afterrun.server.context import Context
from afterrun.server.execution import Execution
from afterrun.server.frames import Message, encode

THREADS: Final = 32
"""Steps that are not async and run at a time."""

BROKEN: Final = 70
"""Exit code of a runner that cannot load its app."""


class Runner:
    """Executes runs as the engine says."""

    def __init__(self, app: App, link: socket.socket) -> None:
        """Take an app and a connection, in the event loop."""
        self._app = app
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="step")
        self._runs: dict[str, Execution] = {}
        self._connection = Connection(link, self._receive)
        self._connection.send({"type": "hello", "workflows": sorted(app.workflows)})

    def _receive(self, message: Message) -> None:
        if message["type"] == "run":
            self._start(message)
        elif message["type"] == "resume":
            known = self._runs.get(message["run"])
            if known is not None:
                known.deliver(message["epoch"], message["entries"])
        elif message["type"] == "drop":
            self._drop(message["run"])

    def _start(self, message: Message) -> None:
        self._drop(message["run"])
        workflow = self._app.workflows[message["workflow"]]
        execution = Execution(self._connection, self._threads, workflow, message)
        execution.over = self._over
        self._runs[execution.run] = execution
        execution.start(lambda made: Context(self._app, made))

    def _over(self, execution: Execution) -> None:
        if self._runs.get(execution.run) is execution:
            del self._runs[execution.run]

    def _drop(self, run: str) -> None:
        known = self._runs.pop(run, None)
        if known is not None:
            known.stop()


async def serve(app: App, link: socket.socket) -> None:
    """Execute runs until the engine is gone, which ends the process."""
    runner = Runner(app, link)
    gc.freeze()
    await asyncio.Event().wait()
    del runner


def main(arguments: list[str]) -> int:
    """Run a runner: the number of its descriptor, and its app."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the engine ends it
    descriptor, reference = arguments
    link = socket.socket(fileno=int(descriptor))
    try:
        app = load_app(reference)
    except Exception as error:  # noqa: BLE001 - an app is code of somebody else
        link.sendall(encode({"type": "broken", "message": _why_broken(error)[:1_000]}))
        return BROKEN
    asyncio.run(serve(app, link))
    return 0


def _why_broken(error: Exception) -> str:
    """Say why an app cannot be loaded, and where. Of messages only an import's is told: it names modules."""
    if isinstance(error, UsageError):
        return str(error)
    said = scrub(str(error)) if isinstance(error, ImportError) else type(error).__name__
    frames = traceback.extract_tb(error.__traceback__)
    return f"the app failed: {said} ({Path(frames[-1].filename).name}, line {frames[-1].lineno})"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
