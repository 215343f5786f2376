"""What a workflow calls. Each call is recorded under the next number, and a replay finds it there.

Numbers are given when a call is made, not when it is awaited, so ``asyncio.gather`` of several calls is as
good as one after another. Branches that make several calls each belong into child workflows.
"""

from __future__ import annotations

import random
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final, NoReturn

from afterrun.server.app import App, Workflow
from afterrun.server.execution import Again, ChildFailed, Entry, Execution, StepFailed
from afterrun.server.payload import JsonValue, dump, load

GROWTH: Final = 2
"""How much longer each wait for another try is."""

LONGEST_BACKOFF: Final = 3_600.0
"""Seconds between two tries at most."""


class NotApplied(Exception):
    """Raised by the function of an effect: it is known that nothing has happened."""


class Context:
    """What a workflow calls. One for each generation."""

    def __init__(self, app: App, execution: Execution) -> None:
        """Take the run's execution."""
        self._app = app
        self._execution = execution
        self._random = random.Random(f"{execution.run}/{execution.generation}")  # noqa: S311 - guards no secret

    @property
    def run_id(self) -> str:
        """Return the id of the run."""
        return self._execution.run

    @property
    def generation(self) -> int:
        """Return the number of the generation; continue-as-new makes the next one."""
        return self._execution.generation

    def step(
        self,
        name: str,
        function: Callable[..., Any],
        *arguments: object,
        retries: int = 0,
        backoff: float = 1.0,
        timeout: float | None = None,
    ) -> Awaitable[Any]:
        """Do a piece of work once it is not recorded yet, and return its value, which is JSON.

        What it does may happen again after a crash; what changes the world is an `effect`. It is tried
        ``retries`` times more, after ``backoff`` seconds and twice as long each time. ``timeout`` seconds end
        a try; a function that is not async goes on in its thread then. Raises `StepFailed`.
        """
        number = self._execution.number()
        return self._step(number, name, partial(function, *arguments), retries, backoff, timeout)

    def effect(
        self,
        name: str,
        function: Callable[..., Any],
        *arguments: object,
        retries: int = 0,
        backoff: float = 1.0,
        timeout: float | None = None,
    ) -> Awaitable[Any]:
        """Change something outside, once, and return the receipt: what the function returns, which is JSON.

        The function gets an ``idempotency_key``, the same at every try, to hand to the outside. If it raises
        `NotApplied`, nothing has happened, and it is tried again as a step is. Whatever else ends it leaves
        the effect in doubt, and the run waits until a person has settled it.
        """
        number = self._execution.number()
        return self._effect(number, name, partial(function, *arguments), retries, backoff, timeout)

    def child(self, workflow: str | Workflow, value: JsonValue = None) -> Awaitable[Any]:
        """Run another workflow of the app as a child, and return its output. Raises `ChildFailed`."""
        number = self._execution.number()
        name = self._app.name_of(workflow)
        content = dump("input of a child", value)
        return self._waited(number, "child", name, lambda: {"content": self._execution.put(content)})

    def decide(self, subject: str, choices: Sequence[str] = ()) -> Awaitable[str]:
        """Ask somebody, and return the choice. ``subject`` says what about, in words that may be shown."""
        number = self._execution.number()
        return self._waited(number, "decide", subject, lambda: {"choices": list(choices)})

    def sleep(self, seconds: float) -> Awaitable[None]:
        """Wait for so long, over restarts."""
        number = self._execution.number()
        return self._waited(number, "sleep", "sleep", lambda: {"seconds": max(0.0, float(seconds))})

    def receive(self, timeout: float | None = None) -> Awaitable[Any]:
        """Wait for the next message to the run, and return it; ``None`` after so many seconds."""
        number = self._execution.number()
        return self._waited(number, "receive", "receive", lambda: {"seconds": timeout})

    def update(self, value: JsonValue) -> Awaitable[None]:
        """Show people how far the run is. Only the newest view is kept."""
        number = self._execution.number()
        return self._update(number, dump("progress", value))

    def now(self) -> Awaitable[float]:
        """Return the time in seconds since 1970, recorded: the same in a replay."""
        return self.step("now", time.time)

    def random(self) -> float:
        """Return a number from 0 to 1, the same in a replay."""
        return self._random.random()

    def continue_as_new(self, value: JsonValue = None) -> NoReturn:
        """Go on as a new generation that begins with this value; what came before may be forgotten."""
        raise Again(dump("input of the next generation", value))

    # ---------------------------------------------------------------------------------------------

    async def _step(
        self,
        number: int,
        name: str,
        function: Callable[[], Any],
        retries: int,
        backoff: float,
        timeout: float | None,  # noqa: ASYNC109 - of each try
    ) -> Any:  # noqa: ANN401 - the workflow's own
        execution = self._execution
        entry = await execution.recall(number, "step", name)
        while entry is None or entry["queued"]:
            attempt = 1 if entry is None else await self._next_try(number)
            try:
                value = await execution.perform(function, timeout)
                content = dump("value of a step", value)
            except Exception as error:  # noqa: BLE001 - whatever a step raises is how it failed
                entry = await self._failed(number, name, attempt, error, retries, backoff)
                continue
            place = {"number": number, "name": name, "attempt": attempt}
            await execution.ask("record", content=execution.put(content), **place)
            return load(content)
        return await self._value(entry, StepFailed)

    async def _next_try(self, number: int) -> int:
        due = await self._execution.outcome(number)
        return int(due["attempt"]) + 1

    async def _failed(
        self, number: int, name: str, attempt: int, error: Exception, retries: int, backoff: float
    ) -> Entry:
        wait = _pause(attempt, retries, backoff)
        reason = f"{type(error).__name__}: {error}"[:2_000]
        place = {"number": number, "name": name, "attempt": attempt}
        told = await self._execution.ask("fail", reason=reason, retry_in=wait, **place)
        return _failure(place, told["reason"], queued=wait is not None)

    async def _effect(
        self,
        number: int,
        name: str,
        function: Callable[..., Any],
        retries: int,
        backoff: float,
        timeout: float | None,  # noqa: ASYNC109 - of each try
    ) -> Any:  # noqa: ANN401 - the workflow's own
        execution = self._execution
        entry = await execution.recall(number, "effect", name)
        while entry is None or entry["queued"] or entry["status"] == "running":
            place: dict[str, Any] = {
                "number": number,
                "name": name,
                "attempt": await self._effect_try(number, entry),
            }
            first = entry is None or bool(entry["queued"])
            told = await execution.ask("effect", first=first, content=None, **place)
            if told["status"] != "applying":
                entry = await execution.outcome(number)
                continue
            place["effect"] = told["effect"]
            try:
                call = partial(function, idempotency_key=told["key"])
                content = dump("receipt of an effect", await execution.perform(call, timeout))
            except NotApplied as error:
                wait = _pause(int(place["attempt"]), retries, backoff)
                said = await execution.ask("unapplied", reason=str(error), retry_in=wait, **place)
                entry = _failure(place, said["reason"], queued=wait is not None)
            except Exception:  # noqa: BLE001 - whatever else ends it, nobody knows what it did
                await execution.ask("doubted", **place)
                entry = await execution.outcome(number)
            else:
                await execution.ask("applied", content=execution.put(content), **place)
                return load(content)
        return await self._value(entry, StepFailed)

    async def _effect_try(self, number: int, entry: Entry | None) -> int:
        """Return the number of the try that is due: a new one, or one whose effect may happen after all."""
        if entry is None:
            return 1
        return await self._next_try(number) if entry["queued"] else int(entry["attempt"])

    async def _waited(self, number: int, kind: str, name: str, parts: Callable[[], dict[str, Any]]) -> Any:  # noqa: ANN401 - JSON
        """Begin what the engine ends, and wait until it has."""
        execution = self._execution
        entry = await execution.recall(number, kind, name)
        while entry is None or entry["queued"] or entry["status"] == "running":
            if entry is None or entry["queued"]:
                attempt = 1 if entry is None else await self._next_try(number)
                place = {"number": number, "name": name, "attempt": attempt}
                await execution.ask(kind, **place, **parts())
            entry = await execution.outcome(number)
        return await self._value(entry, ChildFailed if kind == "child" else StepFailed)

    async def _update(self, number: int, content: bytes) -> None:
        entry = await self._execution.recall(number, "update", "update")
        if entry is None:
            shown = self._execution.put(content)
            await self._execution.ask("update", number=number, name="update", attempt=1, content=shown)

    async def _value(self, entry: Entry, failure: type[StepFailed]) -> Any:  # noqa: ANN401 - JSON
        if entry["status"] != "completed":
            raise failure(entry["name"], entry["reason"] or f"it was {entry['status']}")
        return await self._execution.value_of(entry)


def _pause(attempt: int, retries: int, backoff: float) -> float | None:
    """Return the seconds until the next try, or ``None`` after the last one."""
    return min(backoff * GROWTH ** (attempt - 1), LONGEST_BACKOFF) if attempt <= retries else None


def _failure(place: dict[str, Any], reason: str, *, queued: bool) -> Entry:
    return {**place, "status": "failed", "queued": queued, "reason": reason, "content": None}
