"""Workflows of the benchmark: three steps of our own, a loop of many generations, and one with many steps."""

from __future__ import annotations

from afterrun.server.app import App
from afterrun.server.context import Context

app = App("benchmark")


def more(number: int) -> int:
    """Add one."""
    return number + 1


@app.workflow()
async def three_steps(ctx: Context, number: int) -> int:
    """Pass three steps."""
    for _ in range(3):
        number = await ctx.step("more", more, number)
    return number


@app.workflow()
async def loop(ctx: Context, until: int) -> None:
    """Go on as new until a generation, with some content in each; then wait to be told the next one."""
    await ctx.step("gather", str, f"{ctx.generation:08d}" * 512)
    if ctx.generation < until:
        ctx.continue_as_new(until)
    ctx.continue_as_new(await ctx.receive())


@app.workflow()
async def many_steps(ctx: Context, steps: int) -> int:
    """Pass many steps."""
    for number in range(steps):
        await ctx.step("one of many", str, f"{number:06d}" * 100)
    return steps
