from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from afterrun.runs import Question, RunStatus, RunStore
from afterrun.runs.words import EffectStatus
from server.server_kit import Hosted, eventually, lines, output, start


@pytest.fixture
def server(location: str, tmp_path: Path) -> Iterator[Hosted]:
    """Give a server that works on the store."""
    with Hosted(location, tmp_path) as started:
        yield started


def test_calls_do_what_they_say(server: Hosted, store: RunStore, tmp_path: Path) -> None:
    """Children, sleeps, questions, messages, retries, progress and generations, in one server."""
    runs = {
        "family": start(store, "family", [[1, 2], [3, 4], []]),
        "nap": start(store, "nap", 0.05),
        "ask": start(store, "ask", ["left", "right"]),
        "flaky": start(
            store,
            "flaky",
            {"folder": str(tmp_path), "tries": True, "failures": 2, "retries": 2, "backoff": 0.01},
        ),
        "loop": start(store, "loop", 3),
        "careful": start(store, "careful"),
        "listen": start(store, "listen", 30),
        "deaf": start(store, "listen", 0.05),
        "pay": start(store, "pay", str(tmp_path)),
    }
    question = eventually(lambda: list(store.decisions.of(runs["ask"])))[0]
    store.decisions.decide(question, "left", by="a test")
    eventually(lambda: store.get(runs["listen"]).status is RunStatus.WAITING)
    store.messages.send(runs["listen"], b'"hello"')
    assert output(store, runs["family"]) == [3, 7, 0]
    assert output(store, runs["nap"]) == "awake"
    assert output(store, runs["ask"]) == "so left"
    assert output(store, runs["flaky"]) == "worked"
    assert output(store, runs["loop"]) == "generation 4"
    assert output(store, runs["careful"]) == "the child run ended as failed: RuntimeError: this one is broken"
    assert output(store, runs["listen"]) == "hello"
    assert output(store, runs["deaf"]) is None
    assert output(store, runs["pay"]) == {"paid": True}
    [effect] = store.effects.of(runs["pay"])
    assert (effect.status, store.effects.receipt_of(effect)) == (EffectStatus.APPLIED, b'{"paid":true}')
    assert (tmp_path / "paid").read_text() == f"{effect.key}\n"
    assert question == Question(runs["ask"], 1, 1)
    assert lines(tmp_path).count("try") == 3
