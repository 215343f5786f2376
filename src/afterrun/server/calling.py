"""The runner's end of a connection: asks the engine, and moves content in pieces."""

from __future__ import annotations

import asyncio
import itertools
import os
import socket
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final

from afterrun.core.errors import UsageError
from afterrun.server.frames import CHUNK, INLINE, BadFrame, Frames, Message, encode, packed, unpacked

CACHE: Final = 32 * 1024 * 1024
"""Bytes of content that a runner remembers by address, so that equal content travels once."""

READ: Final = 64 * 1024
LOST: Final = 75
"""Exit code of a runner whose engine is gone."""


class HandedOff(BaseException):
    """The run is not this runner's any more: it was handed off, or has ended. Go no further.

    It passes through a workflow's ``except Exception``.
    """


class Connection:
    """A connection with the engine. A thread reads, so that a workflow that blocks cannot hide its end."""

    def __init__(self, link: socket.socket, receive: Callable[[Message], None]) -> None:
        """Begin to read. ``receive`` is called in the event loop with all that is no answer."""
        self._link = link
        self._loop = asyncio.get_running_loop()
        self._receive = receive
        self._ids = itertools.count(1)
        self._asked: dict[int, asyncio.Future[Message]] = {}
        self._cache: OrderedDict[str, bytes] = OrderedDict()
        self._cached = 0
        self._sending = threading.Lock()
        threading.Thread(target=self._read, name="frames", daemon=True).start()

    def send(self, message: Message) -> None:
        """Send a message. A lost engine ends the process."""
        frame = encode(message)
        try:
            with self._sending:
                self._link.sendall(frame)
        except OSError:
            os._exit(LOST)

    async def ask(self, run: str, epoch: int, do: str, **parts: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
        """Ask the engine and return its answer. Raises `HandedOff`, and `UsageError` for bad asks."""
        number = next(self._ids)
        answer: asyncio.Future[Message] = self._loop.create_future()
        self._asked[number] = answer
        try:
            self.send({"type": "ask", "id": number, "run": run, "epoch": epoch, "do": do, "with": parts})
            found = await answer
        finally:
            self._asked.pop(number, None)
        told: dict[str, Any] = found["with"]
        if found["ok"]:
            return told
        if told["gone"]:
            raise HandedOff(told["message"])
        raise UsageError(told["message"])

    def put(self, content: bytes | None) -> dict[str, Any] | None:
        """Return content as a part of a message; what is large is sent before, in pieces."""
        if content is None:
            return None
        if len(content) <= INLINE:
            return {"text": content.decode()}
        upload = next(self._ids)
        for start in range(0, len(content), CHUNK):
            piece = content[start : start + CHUNK]
            last = start + CHUNK >= len(content)
            self.send({"type": "piece", "upload": upload, "data": packed(piece), "last": last})
        return {"upload": upload}

    async def get(
        self, run: str, epoch: int, place: dict[str, int], part: dict[str, Any] | None
    ) -> bytes | None:
        """Return the content that a part of a message tells of; what is large is asked for in pieces."""
        if part is None:
            return None
        if "text" in part:
            return str(part["text"]).encode()
        known = self._cache.get(part["address"])
        if known is None:
            known = await self._fetch(run, epoch, place, part)
            self._remember(part["address"], known)
        return known

    async def _fetch(self, run: str, epoch: int, place: dict[str, int], part: dict[str, Any]) -> bytes:
        content = bytearray()
        while len(content) < part["size"]:
            told = await self.ask(run, epoch, "get", offset=len(content), address=part["address"], **place)
            piece = unpacked(told["data"])
            if not piece:
                raise BadFrame("the engine sent less content than it had announced")
            content += piece
        return bytes(content)

    def _remember(self, address: str, content: bytes) -> None:
        self._cache[address] = content
        self._cached += len(content)
        while self._cached > CACHE:
            _, oldest = self._cache.popitem(last=False)
            self._cached -= len(oldest)

    def _read(self) -> None:
        """Read until the engine is gone, then end the process, whatever its workflows do."""
        frames = Frames()
        try:
            while data := self._link.recv(READ):
                for message in frames.feed(data):
                    self._loop.call_soon_threadsafe(self._take, message)
        except (OSError, BadFrame, RuntimeError):
            pass
        os._exit(LOST)

    def _take(self, message: Message) -> None:
        if message["type"] != "answer":
            self._receive(message)
            return
        asked = self._asked.get(message["id"])
        if asked is not None and not asked.done():
            asked.set_result(message)
