"""A whole server in one process: the store's place on this machine, the engine, and the API over it.

Callers find it once it is ready. At its end nobody is let in any more, while what runs is handed off.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import ExitStack

from afterrun.core.errors import StoreFailure
from afterrun.server.engine import Engine
from afterrun.server.http.app import api
from afterrun.server.http.guard import LOOPBACK
from afterrun.server.places import Address, ServerFolder, backup_folder
from afterrun.server.serving import Listening, Server, listening, server_of
from afterrun.server.settings import EngineSettings, Outside


class ServerProcess:
    """One server. `run` it in an event loop; `stop` it from there."""

    def __init__(self, settings: EngineSettings, outside: Outside) -> None:
        """Prepare; nothing is opened yet."""
        self._settings = settings
        self._outside = outside
        self._folder = ServerFolder(settings.store, state=settings.state)
        self._stopped = asyncio.Event()

    def stop(self) -> None:
        """End: no new request, no new work, and what runs is handed off."""
        self._stopped.set()

    async def run(self, *, told: Callable[[Address], object]) -> None:
        """Serve until it is stopped; ``told`` hears when it is ready.

        Raises `StoreHeld`, `StoreServed`, `Refused`, `UsageError`, and `StoreFailure` if the store was lost.
        """
        if self._settings.backups is not None:
            backup_folder(self._settings.backups)
        with ExitStack() as held:
            held.enter_context(self._folder.held())
            token = self._folder.token(self._outside.token_file)
            where = held.enter_context(listening(self._outside.listen, unix=self._folder.socket))
            engine = Engine.open(self._settings)
            hosts = [*LOOPBACK, *self._outside.hosts]
            await self._serve(engine, server_of(api(engine, token=token, hosts=hosts)), where, told)

    async def _serve(
        self,
        engine: Engine,
        server: Server,
        where: Listening,
        told: Callable[[Address], object],
    ) -> None:
        working = asyncio.create_task(engine.run_until_stopped())
        stopped = asyncio.create_task(self._stopped.wait())
        ready = asyncio.create_task(engine.wait_ready())
        await asyncio.wait([working, stopped, ready], return_when=asyncio.FIRST_COMPLETED)
        if ready.done():
            answering = asyncio.create_task(server.serve(sockets=[where.socket]))
            address = self._address(where)
            self._folder.publish(address)
            told(address)
            await asyncio.wait([working, stopped, answering], return_when=asyncio.FIRST_COMPLETED)
            lost = working.done() and not stopped.done()
            engine.stop()
            server.end()
            await answering
        else:
            lost = False
            engine.stop()
        for waiting in (stopped, ready):
            waiting.cancel()
        await working
        if lost:
            raise StoreFailure("lost", "the server does not hold its store any more: it has ended")

    def _address(self, where: Listening) -> Address:
        backups, token_file = self._settings.backups, self._outside.token_file
        return Address(
            url=where.url,
            socket=None if where.path is None else str(where.path),
            token_file=str(token_file or self._folder.token_file),
            backups=None if backups is None else str(backups.resolve()),
        )
