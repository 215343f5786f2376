"""Workflows of the tests. What they do outside is a line in a file of the folder that their input names."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from pathlib import Path
from typing import Any

from afterrun.server.app import App
from afterrun.server.context import Context
from afterrun.server.execution import StepFailed

app = App("tests")

POLL = 0.01


def note(folder: str, line: str) -> str:
    """Write a line that outlives every process."""
    with (Path(folder) / "log").open("a") as log:
        log.write(f"{line} {os.getpid()}\n")
    return line


def gate(folder: str, name: str) -> str:
    """Note that this was reached, and wait until it is opened."""
    note(folder, name)
    while not (Path(folder) / f"open-{name}").exists():
        time.sleep(POLL)
    return name


@app.workflow()
async def three_steps(ctx: Context, folder: str) -> list[str]:
    """Pass three steps; the second one waits at a gate."""
    first = await ctx.step("first", note, folder, "first")
    second = await ctx.step("second", gate, folder, "second")
    third = await ctx.step("third", note, folder, "third")
    return [first, second, third]


@app.workflow()
async def add_up(ctx: Context, numbers: list[int]) -> int:
    """Add numbers, one a step."""
    total = 0
    for number in numbers:
        total = await ctx.step("add", lambda so_far, more: so_far + more, total, number)
    return total


@app.workflow()
async def family(ctx: Context, numbers: list[list[int]]) -> list[int]:
    """Let children add up, all at a time."""
    return list(await asyncio.gather(*(ctx.child(add_up, part) for part in numbers)))


@app.workflow()
async def nap(ctx: Context, seconds: float) -> str:
    """Sleep."""
    await ctx.sleep(seconds)
    return "awake"


@app.workflow()
async def ask(ctx: Context, choices: list[str]) -> str:
    """Ask a person."""
    answer = await ctx.decide("which way", choices)
    return f"so {answer}"


@app.workflow()
async def flaky(ctx: Context, given: dict[str, Any]) -> str:
    """Fail so many times before a step works."""

    def attempt() -> str:
        done = (Path(given["folder"]) / "log").read_text().count("try") if given["tries"] else 0
        note(given["folder"], "try")
        if done < given["failures"]:
            raise ValueError(f"failure {done + 1}")
        return "worked"

    note(given["folder"], "begun")
    return str(await ctx.step("try", attempt, retries=given["retries"], backoff=given["backoff"]))


@app.workflow()
async def loop(ctx: Context, left: int) -> str:
    """Go on as new so many times."""
    await ctx.step("once", str, left)
    if left:
        ctx.continue_as_new(left - 1)
    return f"generation {ctx.generation}"


@app.workflow()
async def careful(ctx: Context, _: object) -> str:
    """Catch the failure of a child."""
    try:
        await ctx.child(broken)
    except StepFailed as failure:
        return failure.reason
    return "no failure"


@app.workflow()
async def broken(ctx: Context, _: object) -> None:
    """Fail."""
    raise RuntimeError("this one is broken")


@app.workflow()
async def shown(ctx: Context, folder: str) -> str:
    """Show progress, then wait at a gate."""
    await ctx.update({"done": 1})
    await ctx.update({"done": 2})
    return str(await ctx.step("gate", gate, folder, "shown"))


@app.workflow()
async def listen(ctx: Context, seconds: float) -> object:
    """Wait for a message."""
    return await ctx.receive(timeout=seconds)


def _pay(folder: str, *, idempotency_key: str) -> dict[str, bool]:
    with (Path(folder) / "paid").open("a") as sink:
        sink.write(f"{idempotency_key}\n")
    return {"paid": True}


@app.workflow()
async def pay(ctx: Context, folder: str) -> object:
    """Have an effect."""
    return await ctx.effect("pay", _pay, folder)


def _large(number: int) -> str:
    return f"{number:06d}" * (64 * 1024 // 6)


def _counted(folder: str, value: object) -> object:
    note(folder, "small")
    return value


@app.workflow()
async def large(ctx: Context, given: dict[str, Any]) -> int:
    """Gather a long history, then do a little with each message; begin anew once."""
    size = 0
    for number in range(given["steps"]):
        size += len(await ctx.step("gather", _large, number))
    for _ in range(given["repeats"]):
        size += len(await ctx.step("gather", _large, 0))
    while (message := await ctx.receive()) != "end":
        if message == "again":
            ctx.continue_as_new(given | {"steps": 0, "repeats": 0})
        await ctx.step("small", _counted, given["folder"], message)
    return size


@app.workflow()
async def changed(ctx: Context, folder: str) -> None:
    """Do what the code of the day says: it is changed while the run waits."""
    code = (Path(folder) / "code").read_text()
    await ctx.step("first", note, folder, "first")
    if code == "charge":
        await ctx.step("charge", note, folder, "charged")
    elif code == "ask":
        await ctx.decide("ok")
    await ctx.receive()
    if code == "more":
        await ctx.receive()


@app.workflow()
async def poison(ctx: Context, _: object) -> None:
    """End the runner."""
    os._exit(3)


def _tell(sink: str, line: str, *, idempotency_key: str) -> str:
    """Tell a process outside, and wait for its answer."""
    with socket.socket(socket.AF_UNIX) as link:
        link.connect(sink)
        link.sendall(f"{idempotency_key} {line}\n".encode())
        return link.recv(100).decode().strip()


@app.workflow()
async def errand(ctx: Context, given: dict[str, Any]) -> dict[str, Any]:
    """Do a little of everything, two things outside among it."""
    number = await ctx.step("think", lambda: given["number"] * 2, retries=3, backoff=0.01)
    before = await ctx.effect("tell before", _tell, given["sink"], f"{given['number']} before")
    both = await asyncio.gather(ctx.child(add_up, [number, 1, 2]), ctx.child(add_up, [number]))
    await ctx.sleep(0.02)
    after = await ctx.effect("tell after", _tell, given["sink"], f"{given['number']} after")
    return {"sums": list(both), "told": [before, after]}
