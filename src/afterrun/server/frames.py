"""Frames between the engine and a runner: a length in four bytes, then JSON, at most `MAX_FRAME` bytes.

What is larger than `INLINE` travels in pieces of `CHUNK` bytes, one a frame. A frame of another shape ends
the connection: both ends are of one version.
"""

from __future__ import annotations

import base64
import binascii
import json
import struct
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias

from afterrun.core.errors import AfterrunError

Message: TypeAlias = dict[str, Any]

MAX_FRAME: Final = 1024 * 1024
"""Bytes of a frame, without its length."""

INLINE: Final = 4 * 1024
"""Bytes of content that travels in the message that tells of it."""

CHUNK: Final = 256 * 1024
"""Bytes of a piece of larger content."""

HEAD: Final = struct.Struct(">I")

SHAPES: Final[Mapping[str, Mapping[str, tuple[type, ...]]]] = {
    # from a runner
    "hello": {"workflows": (list,)},
    "broken": {"message": (str,)},
    "ask": {"id": (int,), "run": (str,), "epoch": (int,), "do": (str,), "with": (dict,)},
    "piece": {"upload": (int,), "data": (str,), "last": (bool,)},
    "blocked": {"run": (str,), "epoch": (int,), "turn": (int,)},
    # from the engine
    "run": {
        "run": (str,),
        "epoch": (int,),
        "workflow": (str,),
        "generation": (int,),
        "input": (dict, type(None)),
        "entries": (list,),
        "more": (bool,),
    },
    "resume": {"run": (str,), "epoch": (int,), "entries": (list,)},
    "drop": {"run": (str,)},
    "answer": {"id": (int,), "ok": (bool,), "with": (dict,)},
}
"""Every message by its ``type``, with the types of its parts. There are no other parts."""


class BadFrame(AfterrunError):
    """The other end sent what no frame is; the connection is over."""


def encode(message: Message) -> bytes:
    """Return a message as a frame. Raises `BadFrame` where it is too long."""
    check(message)
    body = json.dumps(message, separators=(",", ":"), ensure_ascii=False).encode()
    if len(body) > MAX_FRAME:
        raise BadFrame(f"a frame of {len(body):,} bytes is longer than the {MAX_FRAME:,} that are allowed")
    return HEAD.pack(len(body)) + body


def check(message: Message) -> None:
    """Make sure that a message has a known shape. Raises `BadFrame`."""
    shape = SHAPES.get(str(message.get("type")))
    if shape is None or message.keys() - {"type"} != shape.keys():
        raise BadFrame("the other end sent a message of a kind that is not known")
    if any(type(message[name]) not in kinds for name, kinds in shape.items()):
        raise BadFrame("the other end sent a message with a part of another type")


class Frames:
    """Takes bytes as they come and gives messages."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Message]:
        """Yield the messages that are complete. Raises `BadFrame`."""
        self._buffer += data
        while len(self._buffer) >= HEAD.size:
            (length,) = HEAD.unpack_from(self._buffer)
            if length > MAX_FRAME:
                raise BadFrame(f"the other end announced a frame of {length:,} bytes")
            if len(self._buffer) < HEAD.size + length:
                return
            body = bytes(self._buffer[HEAD.size : HEAD.size + length])
            del self._buffer[: HEAD.size + length]
            yield decode(body)


def decode(body: bytes) -> Message:
    """Read the body of a frame. Raises `BadFrame`."""
    try:
        message = json.loads(body)
    except (ValueError, RecursionError):
        raise BadFrame("the other end sent what is no JSON") from None
    if not isinstance(message, dict):
        raise BadFrame("the other end sent JSON that is no message")
    check(message)
    return message


def packed(piece: bytes) -> str:
    """Return bytes as text for a message."""
    return base64.b64encode(piece).decode("ascii")


def unpacked(text: str) -> bytes:
    """Return what was `packed`. Raises `BadFrame`."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise BadFrame("the other end sent a piece of content that cannot be read") from None
