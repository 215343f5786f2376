from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from afterrun.runs import RunStatus, RunStore
from afterrun.server import sessions, supervisor
from afterrun.server.frames import MAX_FRAME, Message, encode
from server.server_kit import Hosted, eventually, lines, output, start

STEPS = 40
REPEATS = 10
LARGE = 64 * 1024
HISTORY = STEPS * LARGE
"""Bytes of distinct content: over 2 MiB."""

SMALL = 4_000
"""Bytes that an exchange with a small addition may take, both ways."""

WHOLE = 1.5 * HISTORY
"""Bytes that a runner may be sent that knows nothing of the run: distinct content, and what frames add."""


@dataclass
class Wire:
    """Counts the frames that go to runners."""

    sizes: list[int] = field(default_factory=list)
    fetched: list[str] = field(default_factory=list)
    pages: int = 0

    def take(self, message: Message) -> bytes:
        """Encode a message, and count it."""
        frame = encode(message)
        self.sizes.append(len(frame))
        self.pages += "entries" in message or "entries" in message.get("with", {})
        return frame

    def since(self, count: int) -> int:
        """Return the bytes of the frames after so many."""
        return sum(self.sizes[count:])


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> Wire:
    """Give the counter of all frames."""
    made = Wire()
    monkeypatch.setattr(supervisor, "encode", made.take)
    return made


@pytest.fixture
def gathered(location: str, store: RunStore, tmp_path: Path, wire: Wire) -> Iterator[tuple[Hosted, str]]:
    """Give a server, and a run with a long history that waits for a message."""
    with Hosted(location, tmp_path) as server:
        given = {"steps": STEPS, "repeats": REPEATS, "folder": str(tmp_path)}
        run = start(store, "large", given)
        server.engine.nudge()
        eventually(lambda: store.get(run).status is RunStatus.WAITING)
        yield server, run


def _exchange(server: Hosted, store: RunStore, run: str, message: str, wire: Wire) -> int:
    """Send a message, and return the bytes that the runner was sent until the run waits again."""
    before, done = len(wire.sizes), server.engine.store.history.page(run, after=STEPS + REPEATS)
    store.messages.send(run, json.dumps(message).encode())
    server.engine.nudge()
    eventually(
        lambda: (
            store.get(run).status is RunStatus.WAITING
            and len(store.history.page(run, after=STEPS + REPEATS)) > len(done)
        )
    )
    return wire.since(before)


def _growth(server: Hosted, store: RunStore, run: str, wire: Wire) -> None:
    """Make sure that a run which goes on costs what it adds, however long its history is."""
    costs = [_exchange(server, store, run, f"message {number}", wire) for number in range(4)]
    assert max(costs) <= SMALL, f"exchanges with small additions took {costs} bytes"


def test_what_goes_on_costs_what_it_adds(
    gathered: tuple[Hosted, str], store: RunStore, tmp_path: Path, wire: Wire
) -> None:
    """Resume, wait, continue and finish after 2.5 MiB of history: small frames, each content once."""
    server, run = gathered
    _growth(server, store, run, wire)
    before, pages = len(wire.sizes), wire.pages
    [runner] = server.runners
    runner.kill()
    eventually(lambda: server.engine.status().counts["runner_exits"] == 1)
    first = _exchange(server, store, run, "after the runner", wire)
    assert HISTORY <= first <= WHOLE
    assert wire.pages - pages == 1
    _growth(server, store, run, wire)
    before = len(wire.sizes)
    store.messages.send(run, b'"again"')
    server.engine.nudge()
    eventually(lambda: (now := store.get(run)).generation == 2 and now.status is RunStatus.WAITING)
    assert wire.since(before) <= SMALL
    before = len(wire.sizes)
    store.messages.send(run, b'"end"')
    server.engine.nudge()
    assert output(store, run) == 0
    assert wire.since(before) <= SMALL
    assert max(wire.sizes) <= MAX_FRAME
    assert lines(tmp_path).count("small") == 9


def test_replies_that_copy_history_are_found(
    gathered: tuple[Hosted, str], store: RunStore, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The measure above fails where what is told of a run is all that it has."""
    server, run = gathered
    told = sessions.told

    def all_of_it(opened: RunStore, told_of: Any, entries: Any) -> Any:  # noqa: ANN401 - as the original
        return told(opened, told_of, opened.history.page(run) if entries else entries)

    monkeypatch.setattr("afterrun.server.dispatch.told", all_of_it)
    with pytest.raises(AssertionError, match="took"):
        _growth(server, store, run, wire)
