"""The runners of an engine: as many as it is told, each started anew when it ends."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from typing import Final, Protocol

from afterrun.core.errors import UsageError
from afterrun.schedule import IdleGate
from afterrun.server.frames import Message
from afterrun.server.settings import EngineSettings
from afterrun.server.supervisor import FIRST_PAUSE, HEALTHY, LONGEST_PAUSE, Runner, environment

log = logging.getLogger("afterrun.server")

START: Final = 60.0
"""Seconds in which a runner has to load its app."""


class Listener(Protocol):
    """Who hears what runners say."""

    def heard(self, runner: Runner, message: Message) -> None:
        """Take a message."""

    def nudge(self) -> None:
        """Look for work: there is room."""

    async def lost(self, runner: Runner) -> None:
        """Take that a runner has ended."""


class Pool:
    """Keeps runners going. All of it happens in the event loop."""

    def __init__(self, settings: EngineSettings, listener: Listener, gate: IdleGate) -> None:
        """Start nothing yet."""
        self._gate = gate
        self._settings = settings
        self._listener = listener
        self._runners: list[Runner] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._first: asyncio.Future[None] | None = None
        self.workflows: Sequence[str] = ()

    async def start(self) -> None:
        """Start the runners, and return when the first one is ready. Raises `UsageError` for a bad app."""
        self._first = asyncio.get_running_loop().create_future()
        self._tasks = [
            asyncio.create_task(self._keep(), name=f"runner {number}")
            for number in range(self._settings.runners)
        ]
        async with asyncio.timeout(START):
            await self._first

    async def close(self) -> None:
        """End all runners."""
        for task in self._tasks:
            task.cancel()
        for runner in self._runners:
            runner.kill()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(runner.process.wait() for runner in self._runners))

    @property
    def processes(self) -> int:
        """Return how many runners are ready."""
        return len(self._ready())

    @property
    def resting(self) -> int:
        """Return how many waiting runs runners remember."""
        return sum(len(runner.resting) for runner in self._runners)

    @property
    def free(self) -> int:
        """Return how many more runs can be executed."""
        return sum(max(0, self._settings.slots - len(runner.busy)) for runner in self._ready())

    def place(self, run: str, epoch: int) -> Runner | None:
        """Return the runner that remembers a run from the lease before, else the one with most room."""
        ready = self._ready()
        for runner in ready:
            if runner.resting.get(run) == epoch - 1:
                return runner
            if runner.resting.pop(run, None) is not None:
                runner.send({"type": "drop", "run": run})
        return min(ready, key=lambda runner: len(runner.busy), default=None)

    def remember(self, runner: Runner, run: str, epoch: int) -> None:
        """Let a runner keep a waiting run in memory, and forget those that wait longest beyond its bound."""
        runner.resting[run] = epoch
        while len(runner.resting) > self._settings.remembered:
            oldest, _ = runner.resting.popitem(last=False)
            runner.send({"type": "drop", "run": oldest})

    def _ready(self) -> list[Runner]:
        return [runner for runner in self._runners if runner.workflows and not runner.lost]

    async def _keep(self) -> None:
        """Keep one runner going. One that ends at once twice is started after a pause, then a longer one."""
        starting, early = self._starting(), 0
        while True:
            began = time.monotonic()
            starting = await self._run(starting)
            early = 0 if time.monotonic() - began > HEALTHY else early + 1
            if early > 1:
                starting.close()
                await asyncio.sleep(min(FIRST_PAUSE * 2**early, LONGEST_PAUSE))

    def _starting(self) -> ExitStack:
        """Register that a runner starts: what it is to go on with waits for it, and a sweep for that."""
        activity = ExitStack()
        activity.enter_context(self._gate.busy("runner"))
        return activity

    async def _run(self, starting: ExitStack) -> ExitStack:
        """Start a runner, and return when it has ended and its runs are handed off."""
        settings = self._settings
        variables = environment(settings.environment, secrets=(settings.store,))
        with starting:
            runner = await Runner.start(settings.app, variables)
            runner.started = starting.pop_all()
        self._runners.append(runner)
        relaying = asyncio.create_task(runner.relay())
        try:
            await runner.listen(self._hear)
        finally:
            again = self._starting()
            runner.started.close()
            await runner.end()
            with suppress(asyncio.CancelledError):
                await relaying
            self._runners.remove(runner)
        log.warning("a runner has ended")
        await self._listener.lost(runner)
        return again

    def _hear(self, runner: Runner, message: Message) -> None:
        if message["type"] == "hello":
            self._greet(runner, message)
        elif message["type"] == "broken":
            self._broken(message["message"])
        else:
            self._listener.heard(runner, message)

    def _greet(self, runner: Runner, message: Message) -> None:
        runner.workflows = frozenset(message["workflows"])
        runner.started.close()
        self.workflows = tuple(sorted(runner.workflows))
        if self._first is not None and not self._first.done():
            self._first.set_result(None)
        self._listener.nudge()

    def _broken(self, message: str) -> None:
        log.error("a runner cannot load its app")
        if self._first is not None and not self._first.done():
            self._first.set_exception(UsageError(message))
