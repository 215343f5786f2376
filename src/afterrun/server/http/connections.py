"""Connections as uvicorn keeps them, with two bounds: how many there are, and how long a head takes."""

from __future__ import annotations

import asyncio
from typing import Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from afterrun.server.http.problems import MEDIA_TYPE, Problem

MOST: Final = 256
"""Connections at a time."""

SECONDS: Final = 10.0
"""Within which the head of a request has to be here, counted from its first byte or from the connection."""


class Connection(H11Protocol):
    """One connection. Without a whole request in time it is closed; what is no HTTP is a problem."""

    seconds = SECONDS
    most = MOST
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to wait for a request, or close the connection if there are too many."""
        super().connection_made(transport)  # type: ignore[arg-type] # as uvicorn narrows it
        if len(self.connections) > self.most:
            self.transport.abort()
            return
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Take what came; a head that is not whole yet has its time."""
        super().data_received(data)
        answering: RequestResponseCycle | None = self.cycle
        if answering is not None and not answering.response_complete:
            self._relax()
        else:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing any more."""
        self._relax()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - uvicorn's own words are not for people
        """Say that what came is no HTTP, in the words of every other problem."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            problem = Problem(
                400, "the request is no HTTP that can be read, or its head is too large", kind="usage"
            )
            head = h11.Response(
                status_code=problem.status,
                headers=[
                    ("content-type", MEDIA_TYPE),
                    ("content-length", str(len(problem.body))),
                    ("connection", "close"),
                ],
            )
            for event in (head, h11.Data(data=problem.body), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _wait(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(self.seconds, self.transport.close)

    def _relax(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
