"""A server in the process of a command: its event loop, its signals, and what it says of itself."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from functools import partial
from typing import Final

from afterrun.cli.watch import SETTLING
from afterrun.core.errors import Exit
from afterrun.server.places import Address
from afterrun.server.process import ServerProcess
from afterrun.server.settings import EngineSettings, Outside
from afterrun.telemetry import say
from afterrun.telemetry.logs import LOGGER
from afterrun.telemetry.names import SERVER_ENDED, SERVER_READY, SERVER_STOPPING
from afterrun.watch import Watch

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


def serve_until_signal(settings: EngineSettings, outside: Outside, *, watching: Watch | None) -> Exit:
    """Serve a store until the first signal; a second one ends the process where it stands.

    Other stores are swept by ``watching`` meanwhile.
    """
    try:
        return asyncio.run(_served(settings, outside, watching))
    finally:
        if watching is not None:
            watching.settle(SETTLING)


async def _served(settings: EngineSettings, outside: Outside, watching: Watch | None) -> Exit:
    process = ServerProcess(settings, outside)
    loop = asyncio.get_running_loop()
    stopping = False

    def stop() -> None:
        nonlocal stopping
        if stopping:  # runs are given up where they stand, and recovered by the next server
            os._exit(Exit.INTERRUPTED)
        stopping = True
        say(LOGGER, logging.INFO, SERVER_STOPPING.name)
        process.stop()

    for number in SIGNALS:
        loop.add_signal_handler(number, stop)
    try:
        await process.run(told=partial(_told, watching))
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)
    say(LOGGER, logging.INFO, SERVER_ENDED.name)
    return Exit.DONE


def _told(watching: Watch | None, address: Address) -> None:
    """Say how the server is reached; its port is no secret, and its token stands in a file."""
    if watching is not None:
        watching.start()
    say(LOGGER, logging.INFO, SERVER_READY.name, at="unix" if address.socket else address.url)
