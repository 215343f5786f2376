"""Who may speak to the server at all: asked of every request, before anything else looks at it.

The token comes in the ``Authorization`` header and nowhere else. A browser that was lured here names the host
that it was lured by, and is refused for that. What goes wrong inside becomes one sentence here.
"""

from __future__ import annotations

import hmac
import logging
import re
from collections.abc import Collection, Iterable
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from afterrun.server.http.problems import MEDIA_TYPE, Problem

HEALTH: Final = "/v1/health"
"""The one address that needs no token."""

LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")
HOST: Final = re.compile(rb"(\[[0-9a-fA-F:.]{2,45}\]|[A-Za-z0-9._-]{1,255})(?::[0-9]{1,5})?")
MAX_HEAD: Final = 16 * 1024
"""Bytes of a request's head."""

BEARER: Final = b"bearer "
CLOSE: Final = (b"connection", b"close")
SAFE: Final = (
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
)
"""Headers of every answer: nothing is kept, guessed or run by a browser."""

log = logging.getLogger("afterrun.server")


class Guard:
    """Lets requests through that name this host and bring the token."""

    def __init__(self, app: ASGIApp, *, token: str, hosts: Collection[str] = LOOPBACK) -> None:
        """Guard an application. ``hosts`` are names of this host, without ports."""
        if not token:
            raise ValueError("a server without a token would be open to everybody")
        self._app = app
        self._token = token.encode()
        self._hosts = {host.lower().encode() for host in hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or hand it on."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            raise RuntimeError("only HTTP is spoken here")
        answer = _Answer(send)
        problem = self._refusal(scope)
        if problem is not None:
            await refuse(answer, problem)
            return
        try:
            await self._app(scope, receive, answer)
        except Exception as error:  # noqa: BLE001 - the last place: no traceback may reach a person
            log.error("a request ended in %s: this is a bug", type(error).__name__)  # noqa: TRY400 - it may hold data
            if answer.begun:
                raise RuntimeError("an answer broke off") from None  # the connection is closed
            await refuse(answer, Problem(500, "an unexpected error: this is a bug", kind="bug"))

    def _refusal(self, scope: Scope) -> Problem | None:
        headers = scope["headers"]
        host = _only(headers, b"host")
        named = None if host is None else HOST.fullmatch(host)
        if named is None or named[1].lower() not in self._hosts:
            return Problem(421, "the request names a host that this server is not", kind="host")
        size = sum(len(name) + len(value) for name, value in headers)
        if size + len(scope["raw_path"]) + len(scope["query_string"]) > MAX_HEAD:
            return Problem(431, f"the head of a request has at most {MAX_HEAD:,} bytes", kind="too-large")
        if scope["path"] == HEALTH and scope["method"] in ("GET", "HEAD"):
            return None
        if not self._knows(_only(headers, b"authorization")):
            sentence = "the token is missing or wrong: send it as Authorization: Bearer TOKEN"
            return Problem(401, sentence, kind="token", headers={"www-authenticate": "Bearer"})
        return None

    def _knows(self, header: bytes | None) -> bool:
        """Say whether a header has the token; how long that takes tells nothing of it."""
        if header is None or header[: len(BEARER)].lower() != BEARER:
            return False
        return hmac.compare_digest(header[len(BEARER) :], self._token)


class _Answer:
    """Sends an answer with the headers that every one has, and knows whether it has begun."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.begun = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.begun = True
            message = {**message, "headers": [*message.get("headers", []), *SAFE]}
        await self._send(message)


async def refuse(send: Send, problem: Problem) -> None:
    """Send a problem without having read the request's body, and close the connection."""
    headers = [
        (b"content-type", MEDIA_TYPE.encode()),
        (b"content-length", str(len(problem.body)).encode()),
        *((name.encode(), value.encode()) for name, value in problem.headers.items()),
        CLOSE,
    ]
    await send({"type": "http.response.start", "status": problem.status, "headers": headers})
    await send({"type": "http.response.body", "body": problem.body})


def _only(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> bytes | None:
    """Return the one header of a name; of two that differ in what they say nobody knows which is meant."""
    found = [value for known, value in headers if known == name]
    return found[0] if len(found) == 1 else None
