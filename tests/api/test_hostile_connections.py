"""The server on a real socket, under what a hostile client may send."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any

import pytest

from afterrun.runs import RunStore
from afterrun.server.http.connections import Connection
from afterrun.server.http.guard import MAX_HEAD
from afterrun.server.serving import Listening, listening, server_of
from api.api_kit import TOKEN, QueueingHost
from runs.runs_kit import KEYS

HEAD = f"Host: localhost\r\nAuthorization: Bearer {TOKEN}\r\n".encode()
JSON = b"Content-Type: application/json\r\n"
LONG = 20.0
"""Seconds after which a test gives a connection up."""


@dataclass(frozen=True)
class Served:
    """A server in a thread, and the host behind it."""

    where: Listening
    host: QueueingHost


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Serve the API on a free port."""
    folder = tmp_path_factory.mktemp("served")
    location = str(folder / "runs.sqlite")
    with (
        RunStore.open(location, sealing=KEYS) as store,
        listening("127.0.0.1:0", unix=folder / "http.sock") as where,
        ExitStack() as ending,
    ):
        host = QueueingHost(location, store, folder / "state")
        server = server_of(host.app)
        thread = threading.Thread(target=asyncio.run, args=(server.serve(sockets=[where.socket]),))
        thread.start()
        ending.callback(thread.join)
        ending.callback(server.end)
        yield Served(where, host)


def connected(served: Served) -> socket.socket:
    """Return a connection."""
    made = socket.create_connection(served.where.socket.getsockname(), timeout=LONG)
    made.settimeout(LONG)
    return made


def said(connection: socket.socket) -> bytes:
    """Read until the server closes."""
    parts = []
    while part := connection.recv(65_536):
        parts.append(part)
    return b"".join(parts)


def answers(served: Served, *pieces: bytes) -> bytes:
    """Send bytes, and return all that comes back until the server closes."""
    with connected(served) as connection:
        for piece in pieces:
            connection.sendall(piece)
        return said(connection)


def status(answer: bytes) -> int:
    """Return the status of the first answer; 0 is a connection that was closed without one."""
    return int(answer.split(b" ", 2)[1]) if answer else 0


def problem(answer: bytes) -> dict[str, Any]:
    """Return the problem of an answer."""
    assert b"content-type: application/problem+json" in answer.lower()
    found: dict[str, Any] = json.loads(answer.partition(b"\r\n\r\n")[2])
    return found


def test_a_request_is_answered(served: Served) -> None:
    """The server is there, and tells nothing of its make."""
    answer = answers(served, b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    assert status(answer) == 200
    assert b"server:" not in answer.lower()


@pytest.mark.parametrize(
    "request_",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"\x00" * 100 + b"\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET /v1/state\r\n\r\n",
        b"GET /v1/state HTTP/9.9\r\nHost: localhost\r\n\r\n",
        b"GET /v1/\xff\xfe HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /v1/state HTTP/1.1\r\n" + HEAD + b"Host: evil.example\r\n\r\n",
        b"GET /v1/state HTTP/1.1\r\nAuthorization: Bearer x\r\n\r\n",
        b"GET /v1/state HTTP/1.1\r\n" + HEAD + b"X: a\x00b\r\n\r\n",
        b"GET /v1/state HTTP/1.1\r\n" + HEAD + b" folded: x\r\n\r\n",
        b"POST /v1/runs HTTP/1.1\r\n" + HEAD + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
        b"POST /v1/runs HTTP/1.1\r\n" + HEAD + b"Content-Length: -1\r\n\r\n",
        b"POST /v1/runs HTTP/1.1\r\n" + HEAD + b"Content-Length: 0x10\r\n\r\n",
        b"POST /v1/runs HTTP/1.1\r\n" + HEAD + b"Content-Length: " + b"9" * 50 + b"\r\n\r\n",
        b"POST /v1/runs HTTP/1.1\r\n" + HEAD + b"Transfer-Encoding: gzip\r\n\r\n",
        b"GET /v1/state HTTP/1.1\r\n" + HEAD + b"X: " + b"a" * (2 * MAX_HEAD) + b"\r\n\r\n",
        b"GET /" + b"a" * (2 * MAX_HEAD) + b" HTTP/1.1\r\n" + HEAD + b"\r\n",
        b"GET /v1/state HTTP/1.1\r\n" + HEAD + b"A: b\r\n" * MAX_HEAD + b"\r\n",
    ],
)
def test_what_is_no_http_is_a_problem(
    served: Served, request_: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever bytes come, the answer is a sentence or none at all, and the next client is served."""
    monkeypatch.setattr(Connection, "seconds", 0.5)  # for what may still become a request
    answer = answers(served, request_)
    assert status(answer) in {0, 400, 401, 431}
    assert not answer or problem(answer)["detail"]
    test_a_request_is_answered(served)


@pytest.mark.parametrize(
    ("head", "wanted"),
    [
        (b"GET http://evil.example/v1/state HTTP/1.1\r\n" + HEAD, 404),
        (
            b"GET /v1/state HTTP/1.1\r\nHost: evil.example\r\nAuthorization: Bearer "
            + TOKEN.encode()
            + b"\r\n",
            421,
        ),
        (b"GET /v1/state HTTP/1.0\r\nAuthorization: Bearer " + TOKEN.encode() + b"\r\n", 421),
        (
            b"GET /v1/state HTTP/1.1\r\nHost: localhost\r\nCookie: authorization=Bearer "
            + TOKEN.encode()
            + b"\r\n",
            401,
        ),
        (b"GET /v1/runs/..%2f..%2fv1%2fhealth HTTP/1.1\r\n" + HEAD, 404),
        (b"GET /v1/runs/%00 HTTP/1.1\r\n" + HEAD, 422),
        (b"GET /v1/runs/%ff%fe HTTP/1.1\r\n" + HEAD, 422),
        (b"GET /v1/runs?after=%00 HTTP/1.1\r\n" + HEAD, 422),
        (b"GET /v1/runs?limit=%ff HTTP/1.1\r\n" + HEAD, 422),
        (b"TRACE /v1/state HTTP/1.1\r\n" + HEAD, 405),
        (b"CONNECT localhost:22 HTTP/1.1\r\n" + HEAD, 404),
        (b"GET /v1/state HTTP/1.1\r\n" + HEAD + b"Upgrade: websocket\r\nConnection: Upgrade, close\r\n", 200),
    ],
)
def test_odd_requests_find_nothing(served: Served, head: bytes, wanted: int) -> None:
    """Foreign hosts, tokens elsewhere and tricks in the path lead nowhere."""
    answer = answers(served, head + (b"\r\n" if b"close" in head else b"Connection: close\r\n\r\n"))
    assert status(answer) == wanted
    if wanted != 200:
        assert problem(answer)["status"] == wanted


def test_a_body_without_a_length_is_counted(served: Served) -> None:
    """Chunks that never end are cut off at the bound, in the middle of the sending."""
    chunk = b"10000\r\n" + b"x" * 65_536 + b"\r\n"
    with connected(served) as connection:
        connection.sendall(
            b"POST /v1/runs HTTP/1.1\r\n" + HEAD + JSON + b"Transfer-Encoding: chunked\r\n\r\n"
        )
        sent = 0
        try:
            while sent < 64 * 1024 * 1024:
                connection.sendall(chunk)
                sent += 65_536
        except OSError:
            return  # it was closed while we sent
        answer = said(connection)
    assert status(answer) == 413


def test_a_body_that_says_too_much_is_not_waited_for(served: Served) -> None:
    """The answer comes before any byte of the body."""
    with connected(served) as connection:
        connection.sendall(
            b"POST /v1/runs HTTP/1.1\r\n" + HEAD + JSON + b"Content-Length: 99999999999\r\n\r\n"
        )
        answer = said(connection)
    assert (status(answer), problem(answer)["kind"]) == (413, "too-large")


def test_who_has_no_token_is_answered_before_the_body(served: Served) -> None:
    """Nobody makes the server read without a token."""
    with connected(served) as connection:
        connection.sendall(b"POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n")
        answer = said(connection)
    assert status(answer) == 401


def test_a_body_shorter_than_its_length_does_nothing(served: Served) -> None:
    """What is cut off is not taken for the whole."""
    before = len(served.host.store.newest())
    body = b'{"workflow": "a"}'
    with connected(served) as connection:
        connection.sendall(
            b"POST /v1/runs HTTP/1.1\r\n" + HEAD + JSON + b"Content-Length: 100\r\n\r\n" + body
        )
    test_a_request_is_answered(served)
    assert len(served.host.store.newest()) == before


def test_what_follows_a_body_is_another_request(served: Served) -> None:
    """A request that is smuggled behind a body needs a token of its own."""
    before = len(served.host.store.newest())
    body = b'{"workflow": "a"}'
    first = b"POST /v1/runs HTTP/1.1\r\n" + HEAD + JSON + b"Content-Length: %d\r\n\r\n" % len(body) + body
    second = b"POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    answer = answers(served, first + second)
    assert answer.count(b"HTTP/1.1 201") == 1
    assert answer.count(b"HTTP/1.1 401") == 1
    assert len(served.host.store.newest()) == before + 1


@pytest.mark.parametrize("begun", [b"", b"GET /v1/state HT", b"GET /v1/state HTTP/1.1\r\n" + HEAD])
def test_a_head_that_never_comes_is_given_up(
    served: Served, begun: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection without a whole request is closed."""
    monkeypatch.setattr(Connection, "seconds", 0.05)
    with connected(served) as connection:
        connection.sendall(begun)
        assert said(connection) == b""


def asked(connection: socket.socket) -> int:
    """Ask for the health on a connection that stays open; return the status."""
    connection.sendall(b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n")
    answer = b""
    while not answer.endswith(b"}"):
        part = connection.recv(65_536)
        assert part
        answer += part
    return status(answer)


def test_a_second_head_that_never_comes_is_given_up(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that was answered once is no better."""
    monkeypatch.setattr(Connection, "seconds", 0.5)
    with connected(served) as connection:
        assert asked(connection) == 200
        connection.sendall(b"GET /v1/hea")
        assert said(connection) == b""


def test_connections_are_counted(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than there is room for are closed at once, and those that are there go on."""
    monkeypatch.setattr(Connection, "most", 2)
    with connected(served) as one, connected(served) as two:
        assert (asked(one), asked(two)) == (200, 200)
        with connected(served) as three, suppress(ConnectionResetError):
            three.settimeout(Connection.seconds / 2)  # before it would be closed for saying nothing
            assert three.recv(1) == b""
        assert (asked(one), asked(two)) == (200, 200)
