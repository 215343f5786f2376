"""The how-to for a FastAPI application, followed with a real server."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from afterrun import Retention
from cli.kit import count
from schedule.how_to_kit import PATIENCE, App, await_rows, commands, make_aged_store, running, write_app

PAGE = "howto/fastapi.md"
RUNS = 3_000
SETTLED = 2.0
"""Seconds within which a host that is told to end has settled its sweep."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Give a folder with the application of the page, and a store that takes a while to sweep."""
    write_app(PAGE, tmp_path)
    make_aged_store(tmp_path / "app.sqlite", RUNS)
    return tmp_path


@contextmanager
def serving(folder: Path) -> Iterator[tuple[App, httpx.Client]]:
    """Run the server as the page says, but on a socket in the folder."""
    socket = folder / "socket"
    (words,) = commands(PAGE)
    with running([*words, "--uds", str(socket)], folder, path=Path(sys.executable).parent) as server:
        server.hear("Uvicorn running")
        transport = httpx.HTTPTransport(uds=str(socket))
        with httpx.Client(transport=transport, base_url="http://app", timeout=PATIENCE) as client:
            yield server, client


def standing(client: httpx.Client, until: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Ask how the sweeps stand until that is so."""
    while True:
        found: dict[str, Any] = client.get("/sweeps").raise_for_status().json()
        if until(found):
            return found


def test_the_page_can_be_followed(folder: Path) -> None:
    """It sweeps, leaves off while a request works, goes on, and does what a person asks for."""
    store = folder / "app.sqlite"
    with serving(folder) as (server, client):
        await_rows(store, RUNS)
        answer = client.post("/imports/a.txt", params={"seconds": 0.5})
        assert answer.json() == {"imported": "a.txt"}
        done = standing(client, lambda found: found["state"] == "waiting")
        assert done["last"] == "completed"
        assert done["sweeps"] > 1, "the request ended the first one"
        assert count(store) == 0
        again = client.post("/sweeps").json()
        assert "manual" in again["reasons"]
        standing(client, lambda found: found["sweeps"] > done["sweeps"] and found["state"] == "waiting")
        assert client.post("/reclaim").json()["ended"] == "completed"
        assert standing(client, lambda _found: True)["reasons"] == ["maintenance"]
        server.settle("Application shutdown complete")
    assert not [line for line in server.lines if "Traceback" in line]


def test_the_server_ends_when_the_sweep_is_settled(folder: Path) -> None:
    """What went is gone, what is left is whole, and the next start finishes."""
    store = folder / "app.sqlite"
    with serving(folder) as (server, _client):
        await_rows(store, RUNS)
        assert server.settle("Application shutdown complete") < SETTLED
    left = count(store)
    assert 0 < left < RUNS
    with Retention(str(store), state=folder / "state", writable=False) as retention:
        assert list(retention.verify()) == []
        assert [record.ended for record in retention.history()] == ["interrupted"]
        assert retention.history()[-1].removed == RUNS - left
    with serving(folder) as (server, client):
        standing(client, lambda found: found["state"] == "waiting")
        assert count(store) == 0
        server.settle("Application shutdown complete")
