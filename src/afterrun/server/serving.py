"""Serving: uvicorn on a loopback port or a Unix socket, in an event loop that the caller has."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import uvicorn
from starlette.types import ASGIApp

from afterrun.core.errors import Refused, UsageError
from afterrun.server.http.connections import Connection
from afterrun.server.http.guard import MAX_HEAD
from afterrun.server.places import CLOSED

UNIX: Final = "unix"
"""What is said instead of a host and port."""

LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")
LONGEST_SOCKET: Final = 100
"""Bytes of a socket's path that every system takes."""

BACKLOG: Final = 128
KEEP_ALIVE: Final = 30
"""Seconds for which a connection without a request stays open."""

MOST_PORT: Final = 65_535


@dataclass(frozen=True, slots=True, kw_only=True)
class Listening:
    """A socket that takes connections, and how it is reached."""

    socket: socket.socket
    url: str
    path: Path | None = None


@contextmanager
def listening(where: str, *, unix: Path) -> Iterator[Listening]:
    """Listen at ``unix``, or at a loopback address as ``HOST:PORT``; port 0 takes a free one.

    ``unix`` is the path of the socket that the word of this name means, in a folder that is closed to others.
    Raises `UsageError` for another place, and `Refused` for one that is taken.
    """
    made = _unix(unix) if where == UNIX else _loopback(where)
    try:
        made.socket.listen(BACKLOG)
        yield made
    finally:
        made.socket.close()


class Server(uvicorn.Server):
    """uvicorn, without a hand on the process's signals."""

    def capture_signals(self) -> AbstractContextManager[None]:  # type: ignore[override]
        """Leave signals to the command."""
        return nullcontext()

    def end(self) -> None:
        """Take no more requests, and return from ``serve`` when those that run are answered."""
        self.should_exit = True


def server_of(app: ASGIApp) -> Server:
    """Return a server for an application: await its ``serve``, and `Server.end` it."""
    return Server(
        uvicorn.Config(
            app,
            http=Connection,
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="critical",  # what a client sends is no news; what goes wrong inside the guard tells
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=KEEP_ALIVE,
            timeout_graceful_shutdown=5,
            h11_max_incomplete_event_size=MAX_HEAD,
        )
    )


def _unix(path: Path) -> Listening:
    if len(str(path).encode()) > LONGEST_SOCKET:
        raise UsageError(
            f"the path of the socket, {path}, is too long for one: set AFTERRUN_STATE_DIR to a shorter "
            "folder, or listen on 127.0.0.1:0"
        )
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    _bind(made, str(path), said=str(path))
    path.chmod(CLOSED)
    return Listening(socket=made, url="http://localhost", path=path)


def _loopback(where: str) -> Listening:
    host, port = _parted(where)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    _bind(made, (host, port), said=where)
    bound = made.getsockname()[1]
    return Listening(socket=made, url=f"http://{f'[{host}]' if ':' in host else host}:{bound}")


def _parted(where: str) -> tuple[str, int]:
    host, colon, port = where.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or host not in LOOPBACK or not port.isascii() or not port.isdigit() or int(port) > MOST_PORT:
        raise UsageError(
            "a server listens at unix, or at a loopback address with a port: 127.0.0.1:0 takes a free one. "
            "For other machines, put a proxy before it that knows them"
        )
    return "127.0.0.1" if host == "localhost" else host, int(port)


def _bind(made: socket.socket, place: str | tuple[str, int], *, said: str) -> None:
    try:
        made.bind(place)
    except OSError as error:
        made.close()
        raise Refused("address", f"the server cannot listen at {said}: {error.strerror}") from None
