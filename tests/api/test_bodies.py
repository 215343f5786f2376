from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import anyio
import pytest

from afterrun.server.http.bodies import Bodies

MOST = 1_000


class Sink:
    """An application that keeps what it gets."""

    def __init__(self) -> None:
        self.body: bytes | None = None

    async def __call__(self, _scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401 - as ASGI has it
        self.body = (await receive())["body"]
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})


def sent_to(
    sink: Sink, parts: Sequence[bytes | None], *, length: int | None = None, seconds: float = 20.0
) -> tuple[int | None, int]:
    """Send a body in parts; return the status and how many parts were read. ``None`` is a body that stops."""
    headers = [] if length is None else [(b"content-length", str(length).encode())]
    waiting = list(parts)
    statuses: list[int] = []

    async def receive() -> dict[str, Any]:
        if not waiting:
            return {"type": "http.disconnect"}
        part = waiting.pop(0)
        if part is None:
            await asyncio.Event().wait()
        return {"type": "http.request", "body": part, "more_body": bool(waiting)}

    async def send(message: Any) -> None:  # noqa: ANN401 - as ASGI has it
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    anyio.run(Bodies(sink, most=MOST, seconds=seconds), {"type": "http", "headers": headers}, receive, send)
    return (statuses[0] if statuses else None), len(parts) - len(waiting)


def test_a_body_comes_in_one_piece() -> None:
    """Parts are put together, up to the bound itself."""
    sink = Sink()
    assert sent_to(sink, [b"a" * 400, b"b" * 600]) == (200, 2)
    assert sink.body == b"a" * 400 + b"b" * 600


def test_a_body_that_says_it_is_too_large_is_not_read() -> None:
    """The header alone decides."""
    sink = Sink()
    assert sent_to(sink, [b"x"] * 10, length=MOST + 1) == (413, 0)
    assert sink.body is None


@pytest.mark.parametrize("length", [None, 10])
def test_a_body_that_is_larger_than_it_says_is_read_up_to_the_bound(length: int | None) -> None:
    """Chunks without a length, and a length that lies, are counted as they come."""
    sink = Sink()
    assert sent_to(sink, [b"x" * 400] * 100, length=length) == (413, 3)
    assert sink.body is None


def test_a_body_that_stops_is_given_up() -> None:
    """Nobody holds a place by sending slowly."""
    sink = Sink()
    assert sent_to(sink, [b"x", None], seconds=0.01)[0] == 408
    assert sink.body is None


def test_who_is_gone_gets_no_answer() -> None:
    """A connection that is closed in the middle of a body ends quietly."""
    sink = Sink()
    assert sent_to(sink, []) == (None, 0)
    assert sink.body is None
