"""Workflows of the tests of `afterrun serve`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from afterrun.server.app import App
from afterrun.server.context import Context

app = App("flows")


@app.workflow()
async def greet(ctx: Context, name: str) -> str:
    """Greet somebody, in two steps."""
    words = await ctx.step("find words", str, f"hello, {name}")
    return str(await ctx.step("shout", words.upper))


@app.workflow()
async def publish(ctx: Context, folder: str) -> str:
    """Ask a person before anything happens, and show how far it is."""
    note(folder, "drafted")
    await ctx.update({"drafted": True})
    choice = await ctx.decide("publish it?", ["yes", "no"])
    return str(await ctx.step("publish", note, folder, f"published {choice}"))


@app.workflow()
async def listen(ctx: Context, _: Any) -> Any:  # noqa: ANN401 - a JSON value
    """Wait for a message."""
    return await ctx.receive()


def note(folder: str, line: str) -> str:
    """Write a line that outlives the process."""
    with (Path(folder) / "log").open("a") as log:
        log.write(f"{line}\n")
    return line
