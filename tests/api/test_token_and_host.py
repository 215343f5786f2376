from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import anyio
import pytest
from starlette.types import Message, Scope

from afterrun.server.http.app import api, application
from afterrun.server.http.guard import HEALTH, Guard
from api.api_kit import MISSING, TOKEN, QueueingHost

Headers = Iterable[tuple[bytes, bytes]]
HERE = (b"host", b"localhost:4711")
KEY = (b"authorization", f"Bearer {TOKEN}".encode())
OTHER = [
    "/",
    "/docs",
    "/redoc",
    "/openapi.json",
    "/v1/openapi.json",
    "/v1/nothing",
    "/v1/health/",
    "//v1/health",
]


def status_of(
    host: QueueingHost, path: str, headers: Headers, *, method: str = "GET", query: bytes = b""
) -> int:
    """Send one request as a server hands it on, and return the status of its answer."""
    return int(answer_of(host, path, headers, method=method, query=query)[0]["status"])


def answer_of(
    host: QueueingHost, path: str, headers: Headers, *, method: str = "GET", query: bytes = b""
) -> list[dict[str, Any]]:
    """Send one request as a server hands it on, and return what it sends."""
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": query,
        "headers": list(headers),
        "http_version": "1.1",
        "scheme": "http",
        "root_path": "",
    }
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"{}", "more_body": False}

    async def send(message: Any) -> None:  # noqa: ANN401 - as ASGI has it
        sent.append(message)

    anyio.run(host.app, scope, receive, send)
    return sent


def operations(host: QueueingHost) -> Iterator[tuple[str, str]]:
    """Yield every method and address of the API."""
    for path, methods in application(host).openapi()["paths"].items():
        for method in methods:
            yield method.upper(), path.replace("{run}", MISSING)


def test_nothing_but_health_answers_without_the_token(host: QueueingHost) -> None:
    """Every address and method asks for the token, those that do not exist and the documents, too."""
    asked = [*operations(host), *(("GET", path) for path in OTHER), ("DELETE", "/v1/runs"), ("POST", HEALTH)]
    assert len(asked) > 20
    for method, path in asked:
        wanted = 200 if (method, path) == ("GET", HEALTH) else 401
        assert status_of(host, path, [HERE], method=method) == wanted, (method, path)


def test_the_token_opens_every_address(host: QueueingHost) -> None:
    """With the token no address answers that it is missing."""
    asked = [*operations(host), *(("GET", path) for path in OTHER)]
    assert all(status_of(host, path, [HERE, KEY], method=method) != 401 for method, path in asked)


@pytest.mark.parametrize(
    "headers",
    [
        [(b"authorization", b"Bearer")],
        [(b"authorization", b"Bearer ")],
        [(b"authorization", TOKEN.encode())],
        [(b"authorization", f"Basic {TOKEN}".encode())],
        [(b"authorization", f"Bearer {TOKEN[:-1]}".encode())],
        [(b"authorization", f"Bearer {TOKEN}x".encode())],
        [(b"authorization", f"Bearer {TOKEN.upper()}".encode())],
        [(b"authorization", f"Bearer  {TOKEN}".encode())],
        [(b"authorization", f"Bearer {TOKEN}, Bearer {TOKEN}".encode())],
        [(b"authorization", f"Bearer {TOKEN}\0".encode())],
        [(b"authorization", b"Bearer \xff\xfe")],
        [KEY, KEY],
        [KEY, (b"authorization", b"Bearer other")],
        [(b"cookie", f"token={TOKEN}; authorization=Bearer {TOKEN}".encode())],
        [(b"proxy-authorization", f"Bearer {TOKEN}".encode())],
        [(b"x-api-key", TOKEN.encode())],
    ],
)
def test_a_token_elsewhere_or_otherwise_is_none(host: QueueingHost, headers: Headers) -> None:
    """The token is one header, whole and exact; no other place is looked at."""
    assert status_of(host, "/v1/state", [HERE, *headers]) == 401


def test_a_token_in_the_address_is_none(host: QueueingHost) -> None:
    """A query would stand in histories and logs."""
    query = f"token={TOKEN}&access_token={TOKEN}&authorization=Bearer%20{TOKEN}".encode()
    assert status_of(host, "/v1/state", [HERE], query=query) == 401


def test_the_name_of_the_scheme_has_no_case(host: QueueingHost) -> None:
    """RFC 9110 has it so."""
    assert status_of(host, "/v1/state", [HERE, (b"authorization", f"bearer {TOKEN}".encode())]) == 200


def test_the_token_is_compared_in_constant_time(host: QueueingHost, monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison is that of the standard library, with both sides whole."""
    asked: list[tuple[bytes, bytes]] = []

    def compare(one: bytes, other: bytes) -> bool:
        asked.append((one, other))
        return False

    monkeypatch.setattr("afterrun.server.http.guard.hmac.compare_digest", compare)
    assert status_of(host, "/v1/state", [HERE, (b"authorization", b"Bearer guess")]) == 401
    assert asked == [(b"guess", TOKEN.encode())]


@pytest.mark.parametrize("name", [b"localhost", b"127.0.0.1", b"127.0.0.1:80", b"[::1]:4711", b"LOCALHOST:1"])
def test_this_host_has_its_names(host: QueueingHost, name: bytes) -> None:
    """Loopback by its names, with any port."""
    assert status_of(host, HEALTH, [(b"host", name)]) == 200


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [(b"host", b"")],
        [(b"host", b"evil.example")],
        [(b"host", b"evil.example:4711")],
        [(b"host", b"localhost.evil.example")],
        [(b"host", b"127.0.0.1.nip.io:4711")],
        [(b"host", b"localhost@evil.example")],
        [(b"host", b"localhost:80:80")],
        [(b"host", b"localhost:")],
        [(b"host", b"localhost, evil.example")],
        [(b"host", b"localhost\0")],
        [(b"host", b"[::ffff:127.0.0.1]")],
        [(b"host", b"2130706433")],
        [(b"host", b"0.0.0.0")],
        [HERE, (b"host", b"evil.example")],
        [(b"x-forwarded-host", b"localhost"), (b"host", b"evil.example")],
    ],
)
def test_a_foreign_host_is_refused_also_with_the_token(host: QueueingHost, headers: Headers) -> None:
    """A page that rebinds its name to this machine still sends that name."""
    assert status_of(host, "/v1/state", [*headers, KEY]) == 421
    assert status_of(host, HEALTH, headers) == 421


def test_a_refusal_is_a_problem_and_closes_the_connection(host: QueueingHost) -> None:
    """It says what to do, shows nothing, and leaves no body to be read."""
    head, body = answer_of(host, "/v1/runs", [HERE], method="POST")
    headers = dict(head["headers"])
    assert headers[b"content-type"] == b"application/problem+json"
    assert headers[b"connection"] == b"close"
    assert headers[b"www-authenticate"] == b"Bearer"
    assert headers[b"cache-control"] == b"no-store"
    assert b"Authorization: Bearer" in body["body"]
    assert TOKEN.encode() not in body["body"]


def test_a_bug_is_a_sentence(host: QueueingHost, caplog: pytest.LogCaptureFixture) -> None:
    """What goes wrong inside neither tells what it worked on nor breaks the server."""

    async def broken(*_words: object) -> None:
        raise ValueError("the secret of a payload")

    sent: list[Message] = []

    async def receive() -> Message:
        return {}

    async def send(message: Message) -> None:
        sent.append(message)

    guard = Guard(broken, token=TOKEN)
    scope: Scope = {
        "type": "http",
        "method": "GET",
        "path": "/v1/state",
        "raw_path": b"/v1/state",
        "query_string": b"",
        "headers": [HERE, KEY],
    }
    anyio.run(guard, scope, receive, send)
    assert sent[0]["status"] == 500
    assert b"this is a bug" in sent[1]["body"]
    assert "secret" not in str(sent) + caplog.text
    assert "ValueError" in caplog.text


def test_a_server_without_a_token_does_not_start(host: QueueingHost) -> None:
    """An empty token would be matched by an empty header."""
    with pytest.raises(ValueError, match="open to everybody"):
        api(host, token="")
