"""A server as a process of its own: settings as JSON, a line on its output when it is ready."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

from afterrun import Policy
from afterrun.schedule import Timing
from afterrun.server.engine import Engine
from afterrun.server.settings import EngineSettings


def settings(given: dict[str, Any]) -> EngineSettings:
    """Read settings; times are seconds, and what is kept is kept for so many."""
    read: dict[str, Any] = {"approve": True} | given | {"state": Path(given["state"])}
    for name in ("lease", "grace"):
        if name in read:
            read[name] = timedelta(seconds=read[name])
    if "keep_for" in read:
        kept = timedelta(seconds=read.pop("keep_for"))
        past = Policy(keep_for=kept, grace=timedelta(0))
        read["policy"] = Policy(keep_for=kept, grace=timedelta(0), generations=past)
    if "interval" in read:
        seconds = timedelta(seconds=read.pop("interval"))
        read["timing"] = Timing(interval=seconds, retry=seconds)
    return EngineSettings(**read)


async def serve(given: dict[str, Any]) -> None:
    """Serve until a signal comes."""
    engine = Engine.open(settings(given))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, engine.stop)
    serving = asyncio.create_task(engine.run_until_stopped())
    ready = asyncio.create_task(engine.wait_ready())
    await asyncio.wait([serving, ready], return_when=asyncio.FIRST_COMPLETED)
    if ready.done():
        print("ready", flush=True)  # noqa: T201 - the test reads it
    await serving


if __name__ == "__main__":
    asyncio.run(serve(json.loads(sys.argv[1])))
