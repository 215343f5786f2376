"""One run in a runner: replays what is recorded, records what is new, and notices that it only waits."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from typing import Any, Final

from afterrun.server.app import Workflow
from afterrun.server.calling import Connection, HandedOff
from afterrun.server.frames import Message
from afterrun.server.payload import JsonValue, dump, load

SETTLE: Final = 3
"""Turns of the event loop without a call, after which a workflow counts as waiting."""

INPUT: Final = 0
"""The number under which the input is asked for; calls begin with 1."""

Entry = dict[str, Any]


class StepFailed(Exception):
    """A step, child or question of the workflow failed for good. ``reason`` is as it is recorded."""

    def __init__(self, name: str, reason: str) -> None:
        self.name = name
        self.reason = reason
        super().__init__(f"{name}: {reason}")


class ChildFailed(StepFailed):
    """A child run ended otherwise than completed."""


class Mismatch(BaseException):
    """The code does not ask for what is recorded. The run fails, with the first difference."""


class Again(BaseException):
    """The workflow goes on as a new generation, with this input."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        super().__init__()


class Execution:
    """A run that a runner executes or remembers. All of it happens in the event loop's thread."""

    def __init__(self, connection: Connection, threads: Executor, workflow: Workflow, told: Message) -> None:
        """Take what the engine told of the run."""
        self.run: str = told["run"]
        self.epoch: int = told["epoch"]
        self.generation: int = told["generation"]
        self.over: Callable[[Execution], None] = lambda _: None
        self._connection = connection
        self._threads = threads
        self._workflow = workflow
        self._input: dict[str, Any] | None = told["input"]
        self._begin(told["entries"], more=told["more"])
        self._task: asyncio.Task[None] | None = None

    def _begin(self, entries: list[Entry], *, more: bool) -> None:
        self._recorded: dict[int, Entry] = {}
        self._read = 0
        self._more = more
        self._numbers = 0
        self._busy = 0
        self._turn = 0
        self._awaited: dict[int, asyncio.Future[Entry]] = {}
        self._early: dict[int, Entry] = {}
        self._mismatch: Mismatch | None = None
        self._take_page(entries)

    def start(self, context: Callable[[Execution], Any]) -> None:
        """Execute the workflow, with a context for each generation."""
        self._task = asyncio.create_task(self._drive(context))

    def stop(self) -> None:
        """Go no further; nothing more is said to the engine."""
        self.epoch = -1
        if self._task is not None:
            self._task.cancel()

    def deliver(self, epoch: int, entries: list[Entry]) -> None:
        """Go on with what has come."""
        self.epoch = epoch
        for entry in entries:
            awaited = self._awaited.pop(entry["number"], None)
            if awaited is None:
                self._early[entry["number"]] = entry
            elif not awaited.done():
                awaited.set_result(entry)
        self._look_whether_blocked()

    # ------------------------------------------------------------------------------- for contexts

    def number(self) -> int:
        """Return the number of the next call: the order in which a workflow asks is what a replay goes by."""
        self._numbers += 1
        return self._numbers

    async def recall(self, number: int, kind: str, name: str) -> Entry | None:
        """Return what is recorded of a call, or ``None``. Raises `Mismatch`."""
        while self._more and number > self._read:
            told = await self.ask("history", after=self._read)
            self._more = told["more"]
            self._take_page(told["entries"])
        entry = self._recorded.pop(number, None)
        if entry is not None and (entry["kind"], entry["name"]) != (kind, name):
            raise self._differs(number, entry, f"the code asks for {kind} {_quoted(name)}")
        return entry

    async def outcome(self, number: int) -> Entry:
        """Wait until the engine tells what became of a call."""
        early = self._early.pop(number, None)
        if early is not None:
            return early
        awaited = asyncio.get_running_loop().create_future()
        self._awaited[number] = awaited
        self._look_whether_blocked()
        try:
            found: Entry = await awaited
        finally:
            self._awaited.pop(number, None)
        return found

    async def ask(self, do: str, **parts: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
        """Ask the engine for something in the name of the run. Raises `HandedOff`."""
        self._busy += 1
        try:
            return await self._connection.ask(self.run, self.epoch, do, **parts)
        finally:
            self._rest()

    async def value_of(self, entry: Entry) -> JsonValue:
        """Return the value that a call ended with."""
        return load(await self._content({"number": entry["number"]}, entry["content"]))

    async def perform(self, function: Callable[[], Any], timeout: float | None) -> Any:  # noqa: ANN401, ASYNC109 - the workflow's own
        """Call what a step does: on the event loop if it is async, else in a thread."""
        self._busy += 1
        try:
            async with asyncio.timeout(timeout):
                return await self._call(function)
        finally:
            self._rest()

    def put(self, content: bytes | None) -> dict[str, Any] | None:
        """Return content as a part of what is asked."""
        return self._connection.put(content)

    # ---------------------------------------------------------------------------------- its course

    async def _drive(self, context: Callable[[Execution], Any]) -> None:
        while True:
            try:
                again = await self._generation(context)
            except (HandedOff, asyncio.CancelledError):
                return  # the engine has the run, and knows why
            if again is None:
                self.over(self)
                return
            self.generation = again["generation"]
            self._input = again["input"]
            self._begin([], more=False)

    async def _generation(self, context: Callable[[Execution], Any]) -> dict[str, Any] | None:
        """Execute one generation; return what the next one begins with, if there is one."""
        try:
            given = load(await self._content({"number": INPUT}, self._input))
            output = await self._workflow(context(self), given)
            content = dump("output", output)
            await self._refuse_left()
        except Again as again:
            return await self._go_on(again)
        except Mismatch as difference:
            await self.ask("failed", reason=str(difference))
        except Exception as error:  # noqa: BLE001 - whatever a workflow raises is how its run failed
            await self.ask("failed", reason=f"{type(error).__name__}: {error}"[:2_000])
        else:
            await self.ask("finish", content=self.put(content))
        return None

    async def _go_on(self, again: Again) -> dict[str, Any] | None:
        try:
            await self._refuse_left()
        except Mismatch as difference:
            await self.ask("failed", reason=str(difference))
            return None
        told = await self.ask("continue", content=self.put(again.content))
        return told | {"input": {"text": again.content.decode()}} if "generation" in told else None

    async def _refuse_left(self) -> None:
        """Make sure that all that is recorded was asked for. Raises `Mismatch`."""
        if self._mismatch is not None:
            raise self._mismatch
        if not self._recorded and self._more:
            await self.recall(self._read + 1, "", "")
        if self._recorded:
            number = min(self._recorded)
            raise self._differs(number, self._recorded[number], "the code ends")

    def _differs(self, number: int, entry: Entry, instead: str) -> Mismatch:
        recorded = f"{entry['kind']} {_quoted(entry['name'])}"
        self._mismatch = Mismatch(
            f"the workflow no longer matches its record: at call {number} the record has {recorded}, "
            f"{instead}"
        )
        return self._mismatch

    async def _content(self, place: dict[str, int], part: dict[str, Any] | None) -> bytes | None:
        self._busy += 1
        try:
            return await self._connection.get(self.run, self.epoch, place, part)
        finally:
            self._rest()

    async def _call(self, function: Callable[[], Any]) -> Any:  # noqa: ANN401 - the workflow's own
        inner = function.func if isinstance(function, partial) else function
        if inspect.iscoroutinefunction(inner):
            return await function()
        made = await asyncio.get_running_loop().run_in_executor(self._threads, function)
        return await made if inspect.isawaitable(made) else made

    def _take_page(self, entries: list[Entry]) -> None:
        for entry in entries:
            self._recorded[entry["number"]] = entry
            self._read = entry["number"]

    # ------------------------------------------------------------------------------------- waiting

    def _rest(self) -> None:
        self._busy -= 1
        if self._busy == 0:
            self._look_whether_blocked()

    def _look_whether_blocked(self) -> None:
        self._turn += 1
        self._look_again(self._turn, SETTLE)

    def _look_again(self, turn: int, left: int) -> None:
        if turn != self._turn or self._busy or not self._awaited or self.epoch < 0:
            return
        if left:
            asyncio.get_running_loop().call_soon(self._look_again, turn, left - 1)
        else:
            self._connection.send({"type": "blocked", "run": self.run, "epoch": self.epoch, "turn": turn})


def _quoted(name: str) -> str:
    return f'"{name}"'
