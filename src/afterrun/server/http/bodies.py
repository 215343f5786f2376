"""Bodies of requests: bounded in bytes and seconds, whatever their headers say."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from afterrun.server.http.guard import refuse
from afterrun.server.http.problems import Problem

MAX_BODY: Final = 4 * 1024 * 1024
"""Bytes of a body. A larger value is made by a step, and comes into no request."""

SECONDS: Final = 20.0
"""Within which a body has to be here: the largest at 200 KiB a second."""


class Bodies:
    """Reads the body of each request, and hands it on in one piece."""

    def __init__(self, app: ASGIApp, *, most: int = MAX_BODY, seconds: float = SECONDS) -> None:
        """Bound the bodies that an application gets."""
        self._app = app
        self._most = most
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request whose body is too large or too slow, or hand it on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            self._check_length(scope["headers"])
            async with asyncio.timeout(self._seconds):
                body = await self._read(receive)
        except Problem as problem:
            await refuse(send, problem)
        except TimeoutError:
            sentence = f"the body was not here within {self._seconds:g} seconds"
            await refuse(send, Problem(408, sentence, kind="slow"))
        except ConnectionError:  # who asked is gone
            return
        else:
            await self._app(scope, _Given(body, receive), send)

    def _check_length(self, headers: Iterable[tuple[bytes, bytes]]) -> None:
        for name, value in headers:
            if name == b"content-length" and not 0 <= int(value) <= self._most:  # digits, as h11 has seen to
                raise self._too_large()

    async def _read(self, receive: Receive) -> bytes:
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ConnectionError
            body += message.get("body", b"")
            if len(body) > self._most:
                raise self._too_large()
            if not message.get("more_body", False):
                return bytes(body)

    def _too_large(self) -> Problem:
        return Problem(413, f"a body has at most {self._most:,} bytes", kind="too-large")


class _Given:
    """Gives a body that was read already, then whatever comes after it."""

    def __init__(self, body: bytes, receive: Receive) -> None:
        self._body: bytes | None = body
        self._receive = receive

    async def __call__(self) -> Message:
        if self._body is None:
            return await self._receive()
        body, self._body = self._body, None
        return {"type": "http.request", "body": body, "more_body": False}
