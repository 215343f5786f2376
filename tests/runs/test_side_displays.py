"""What people see of effects, messages, turns and checkpoints: scrubbed, and never in place of the exact."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import pytest
import sqlalchemy as sa

from afterrun.runs import Display, NoSealingKey, PayloadUnreadable, RunStore
from afterrun.runs.keys import VARIABLE
from afterrun.runs.schema import blobs
from runs.runs_kit import Home, running

HIDDEN = "hunter2hunter2"
Reading: TypeAlias = tuple[str, Callable[[], bytes | None], Callable[[], Display | None]]


def _said(what: str) -> bytes:
    return f'{{"what": "{what}", "password": "{HIDDEN}"}}'.encode()


def _fill(store: RunStore) -> str:
    """Have a run with one of everything that holds content."""
    run = running(store)
    step = store.steps.start(run, "pay")
    effect = store.effects.propose(step, "pay", request=_said("request"), begin=True)
    store.effects.apply(effect, receipt=_said("receipt"))
    store.messages.send(run, _said("message"))
    store.turns.answer(store.turns.open(run, "user", content=_said("turn")), _said("answer"))
    store.checkpoints.save(run, _said("checkpoint"))
    return run


def _readings(store: RunStore, run: str) -> list[Reading]:
    """Return what holds content: its name in errors, its exact reading and its display."""
    effects, messages, turns, checkpoints = store.effects, store.messages, store.turns, store.checkpoints
    parts: tuple[Any, ...] = (effects, messages, turns, checkpoints)
    [effect], [message], [turn], [saved] = (part.of(run) for part in parts)
    return [
        (
            "request of effect",
            partial(effects.request_of, effect),
            partial(effects.request_display_of, effect),
        ),
        (
            "receipt of effect",
            partial(effects.receipt_of, effect),
            partial(effects.receipt_display_of, effect),
        ),
        ("message", partial(messages.content_of, message), partial(messages.display_of, message)),
        ("turn", partial(turns.content_of, turn), partial(turns.display_of, turn)),
        ("answer of turn", partial(turns.deliver, turn), partial(turns.answer_display_of, turn)),
        ("checkpoint", partial(checkpoints.content_of, saved), partial(checkpoints.display_of, saved)),
    ]


def test_displays_need_no_key_and_hold_no_secret(
    home: Home, store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The exact reading is refused without the key, and is exact with it."""
    run = _fill(store)
    for what, exact, shown in _readings(store, run):
        display = shown()
        assert exact() == _said(what.split(" of ")[0])
        assert display is not None
        assert display.text is not None
        assert HIDDEN not in display.text
    monkeypatch.delenv(VARIABLE)
    with home.open() as locked:
        for _, exact, shown in _readings(locked, run):
            assert shown() is not None
            with pytest.raises(NoSealingKey):
                exact()


def test_content_that_cannot_be_read_is_named_by_run_and_target(home: Home, store: RunStore) -> None:
    """Whatever was tampered with, the error says whose it is, and there is no other reading instead."""
    run = _fill(store)
    with home.behind() as transaction:
        transaction.change(sa.update(blobs).values(content=b"x" * 60))
    for what, exact, _ in _readings(store, run):
        with pytest.raises(PayloadUnreadable) as unreadable:
            exact()
        assert unreadable.value.run == run
        assert unreadable.value.target == f"{what} 1" + (" of generation 1" if what != "message" else "")
        assert what in str(unreadable.value)


def test_a_message_that_cannot_be_read_stays_unread(home: Home, store: RunStore) -> None:
    """To consume it fails as a whole, so that it is there once the right key is."""
    run = running(store)
    store.messages.send(run, b"hello")
    with home.behind() as transaction:
        transaction.change(sa.update(blobs).values(content=b"x" * 60))
    with pytest.raises(PayloadUnreadable):
        store.messages.consume(run, record_as="receive")
    assert len(store.messages.pending(run)) == 1
    assert store.steps.of(run) == []
