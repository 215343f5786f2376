"""Runners from outside: started without the store's location or a key, listened to, and started anew."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from typing import Final

from afterrun.server.frames import BadFrame, Frames, Message, encode, unpacked
from afterrun.server.payload import MAX_VALUE

READ: Final = 64 * 1024
UPLOADS: Final = 64
"""Pieces of content that a runner may have under way at a time."""

HIDDEN: Final = ("AFTERRUN_", "PG", "DATABASE_URL")
"""Beginnings of variables that runners do not inherit: where stores are, and how to get in."""

FIRST_PAUSE: Final = 0.1
LONGEST_PAUSE: Final = 30.0
ENDING: Final = 1.0
"""Seconds that a runner has to end by itself."""

HEALTHY: Final = 5.0
"""Seconds after which a runner that ends is started anew at once."""


def environment(settings: Mapping[str, str], *, secrets: tuple[str, ...]) -> dict[str, str]:
    """Return the variables of a runner: those of this process without any that leads to a store."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(HIDDEN) and not any(secret and secret in value for secret in secrets)
    }
    return inherited | {"PYTHONUNBUFFERED": "1"} | dict(settings)


class Runner:
    """A runner process and the connection with it."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        """Take a process that was started with the other end of the connection."""
        self.process = process
        self._reader, self._writer = reader, writer
        self.workflows: frozenset[str] = frozenset()
        self.busy: set[str] = set()
        """Runs that it executes."""
        self.resting: OrderedDict[str, int] = OrderedDict()
        """Runs that it remembers while they wait, with the epochs of their last leases, the oldest first."""
        self.lost = False
        self.started = ExitStack()
        """Closed when it is ready."""
        self._uploads: dict[int, bytearray] = {}
        self._whole: dict[int, bytes] = {}
        self.sent = self.received = 0
        """Bytes of frames."""

    @classmethod
    async def start(cls, app: str, variables: Mapping[str, str]) -> Runner:
        """Start a process with one descriptor besides its output."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)  # noqa: FBT003 - the socket's own
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "afterrun.server.runner",
                str(theirs.fileno()),
                app,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                pass_fds=[theirs.fileno()],
                env=dict(variables),
                start_new_session=True,
            )
        finally:
            theirs.close()
        return cls(process, *await asyncio.open_connection(sock=ours))

    async def listen(self, receive: Callable[[Runner, Message], None]) -> None:
        """Hand over what the runner says until it is gone."""
        frames = Frames()
        with suppress(OSError, BadFrame):
            while data := await self._reader.read(READ):
                self.received += len(data)
                for message in frames.feed(data):
                    if message["type"] == "piece":
                        self._take_piece(message)
                    else:
                        receive(self, message)

    async def relay(self) -> None:
        """Write what its workflows print to this process's error output."""
        assert self.process.stdout is not None  # noqa: S101 - as it was started
        while data := await self.process.stdout.read(READ):
            with suppress(OSError, ValueError):
                sys.stderr.buffer.write(data)
                sys.stderr.buffer.flush()

    def send(self, message: Message) -> None:
        """Send a message in its turn; what a runner that is gone should have got is lost."""
        frame = encode(message)
        self.sent += len(frame)
        if not self.lost:
            self._writer.write(frame)

    def upload(self, number: int) -> bytes:
        """Return content that came in pieces. Raises `BadFrame`."""
        try:
            return self._whole.pop(number)
        except KeyError:
            raise BadFrame("a runner told of content that it had not sent") from None

    def _take_piece(self, message: Message) -> None:
        number = message["upload"]
        made = self._uploads.setdefault(number, bytearray())
        made += unpacked(message["data"])
        if len(made) > MAX_VALUE or len(self._uploads) + len(self._whole) > UPLOADS:
            raise BadFrame("a runner sent more content than it may")
        if message["last"]:
            self._whole[number] = bytes(self._uploads.pop(number))

    async def end(self) -> None:
        """Wait for the end of a process whose connection is over, and end it if it does not come."""
        self.lost = True
        try:
            async with asyncio.timeout(ENDING):
                await self.process.wait()
        except TimeoutError:
            self.kill()
            await self.process.wait()
        finally:
            self.kill()

    def kill(self) -> None:
        """End the process, whatever it does."""
        self.lost = True
        if self.process.returncode is None:
            with suppress(ProcessLookupError):
                self.process.kill()
        self._writer.close()
