from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from afterrun.runs import Question, RunStatus, RunStore
from afterrun.runs.words import EffectStatus
from server.server_kit import Server, ended, eventually, lines


@pytest.fixture
def server(location: str, tmp_path: Path) -> Iterator[Server]:
    """Give a server that works on the store."""
    with Server(location, tmp_path) as started:
        yield started


def _start(store: RunStore, workflow: str, value: object = None) -> str:
    return store.create(workflow, content=json.dumps(value).encode()).run.id


def _output(store: RunStore, run: str) -> object:
    found = ended(store, run)
    assert found.status is RunStatus.COMPLETED, found.reason
    return json.loads(store.output_of(run) or b"null")


def test_calls_do_what_they_say(server: Server, store: RunStore, tmp_path: Path) -> None:
    """Children, sleeps, questions, messages, retries, progress and generations, in one server."""
    runs = {
        "family": _start(store, "family", [[1, 2], [3, 4], []]),
        "nap": _start(store, "nap", 0.05),
        "ask": _start(store, "ask", ["left", "right"]),
        "flaky": _start(
            store,
            "flaky",
            {"folder": str(tmp_path), "tries": True, "failures": 2, "retries": 2, "backoff": 0.01},
        ),
        "loop": _start(store, "loop", 3),
        "careful": _start(store, "careful"),
        "listen": _start(store, "listen", 30),
        "deaf": _start(store, "listen", 0.05),
        "pay": _start(store, "pay", str(tmp_path)),
    }
    question = eventually(lambda: list(store.decisions.of(runs["ask"])))[0]
    store.decisions.decide(question, "left", by="a test")
    eventually(lambda: store.get(runs["listen"]).status is RunStatus.WAITING)
    store.messages.send(runs["listen"], b'"hello"')
    assert _output(store, runs["family"]) == [3, 7, 0]
    assert _output(store, runs["nap"]) == "awake"
    assert _output(store, runs["ask"]) == "so left"
    assert _output(store, runs["flaky"]) == "worked"
    assert _output(store, runs["loop"]) == "generation 4"
    assert _output(store, runs["careful"]) == "the child run ended as failed: RuntimeError: this one is broken"
    assert _output(store, runs["listen"]) == "hello"
    assert _output(store, runs["deaf"]) is None
    assert _output(store, runs["pay"]) == {"paid": True}
    [effect] = store.effects.of(runs["pay"])
    assert (effect.status, store.effects.receipt_of(effect)) == (EffectStatus.APPLIED, b'{"paid":true}')
    assert (tmp_path / "paid").read_text() == f"{effect.key}\n"
    assert question == Question(runs["ask"], 1, 1)
    assert lines(tmp_path).count("try") == 3
