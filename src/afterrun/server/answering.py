"""What runners ask for, done in the store: each ask is one piece of work of the committer.

Everything here runs in the committer's thread, in the transaction of that piece.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final

from afterrun.core.errors import UsageError
from afterrun.runs import RunStatus, RunStore, WrongState
from afterrun.runs.calls import Call
from afterrun.runs.effect_rows import Effect
from afterrun.runs.views import Attempt, Run
from afterrun.runs.words import EffectStatus, StepKind
from afterrun.server.frames import CHUNK, packed
from afterrun.server.sessions import PAGE, Part, told

SHOWN: Final = 16 * 1024
"""Characters of a view of progress."""


@dataclass(frozen=True, slots=True)
class Ask:
    """What a runner asks for: in the name of a run and its epoch; ``content`` came with it or before it."""

    run: Run
    epoch: int
    parts: Mapping[str, Any]
    content: bytes | None

    def call(self, kind: StepKind) -> Call:
        """Return the call that this is about."""
        parts = self.parts
        return Call(
            run=self.run.id,
            epoch=self.epoch,
            number=int(parts["number"]),
            name=str(parts["name"]),
            kind=kind,
            attempt=int(parts["attempt"]),
        )


def record(store: RunStore, ask: Ask) -> Part:
    """Record a step that is done."""
    store.calls.record(ask.call(StepKind.STEP), output=ask.content)
    return {}


def fail(store: RunStore, ask: Ask) -> Part:
    """Record a try that failed, and queue the next one."""
    wait = ask.parts["retry_in"]
    again = None if wait is None else timedelta(seconds=float(wait))
    reason = store.calls.fail(ask.call(StepKind.STEP), reason=str(ask.parts["reason"]), retry_in=again)
    return {"reason": reason}


def child(store: RunStore, ask: Ask) -> Part:
    """Begin a child run."""
    store.waits.child(ask.call(StepKind.CHILD), str(ask.parts["name"]), content=ask.content)
    return {}


def decide(store: RunStore, ask: Ask) -> Part:
    """Ask a person."""
    choices = tuple(str(choice) for choice in ask.parts["choices"])
    store.waits.decision(ask.call(StepKind.DECIDE), choices=choices)
    return {}


def sleep(store: RunStore, ask: Ask) -> Part:
    """Begin to wait for a time."""
    store.calls.begin(ask.call(StepKind.SLEEP), due_in=timedelta(seconds=float(ask.parts["seconds"])))
    return {}


def receive(store: RunStore, ask: Ask) -> Part:
    """Begin to wait for a message."""
    seconds = ask.parts["seconds"]
    due = None if seconds is None else timedelta(seconds=float(seconds))
    store.calls.begin(ask.call(StepKind.RECEIVE), due_in=due)
    return {}


def effect(store: RunStore, ask: Ask) -> Part:
    """Begin an effect, or say why it is not to happen: it has, or nobody knows whether it has."""
    call = ask.call(StepKind.EFFECT)
    attempt = Attempt(call.run, ask.run.generation, call.number, call.attempt)
    if ask.parts["first"]:
        attempt = store.calls.begin(call)
    found = store.effects.propose(attempt, call.name, request=ask.content, begin=True, epoch=ask.epoch)
    if found.status is EffectStatus.APPLIED:
        store.waits.settle(call.run, epoch=ask.epoch)
    return {"status": found.status.value, "key": found.key, "effect": found.number}


def applied(store: RunStore, ask: Ask) -> Part:
    """Keep the receipt of an effect, and end its call with it."""
    store.effects.apply(_effect(store, ask), receipt=ask.content, epoch=ask.epoch)
    store.calls.end(ask.call(StepKind.EFFECT), output=ask.content)
    return {}


def unapplied(store: RunStore, ask: Ask) -> Part:
    """Note that an effect is known not to have happened; another try of it is queued, or its call fails."""
    wait, reason = ask.parts["retry_in"], str(ask.parts["reason"])
    store.effects.fail(_effect(store, ask), reason=reason, again=wait is not None, epoch=ask.epoch)
    again = None if wait is None else timedelta(seconds=float(wait))
    return {"reason": store.calls.give_up(ask.call(StepKind.EFFECT), reason=reason, retry_in=again)}


def doubted(store: RunStore, ask: Ask) -> Part:
    """Note that nobody knows whether an effect has happened: a person has to look."""
    store.effects.doubt(_effect(store, ask), epoch=ask.epoch)
    return {}


def _effect(store: RunStore, ask: Ask) -> Effect:
    return store.effects.get(ask.run.id, ask.run.generation, int(ask.parts["effect"]))


def update(store: RunStore, ask: Ask) -> Part:
    """Show how far the run is."""
    shown = "" if ask.content is None else ask.content.decode()[:SHOWN]
    store.calls.update(ask.call(StepKind.UPDATE), progress=shown)
    return {}


def history(store: RunStore, ask: Ask) -> Part:
    """Return a page of what is recorded."""
    entries = store.history.page(ask.run.id, after=int(ask.parts["after"]), limit=PAGE)
    return {"entries": told(store, ask.run, entries), "more": len(entries) == PAGE}


def get(store: RunStore, ask: Ask) -> Part:
    """Return a piece of content: of the input, or of a call."""
    number, offset = int(ask.parts["number"]), int(ask.parts["offset"])
    found = (
        store.history.content(ask.run.id, number, generation=ask.run.generation)
        if number
        else store.history.input(ask.run.id, generation=ask.run.generation)
    )
    return {"data": packed((found or b"")[offset : offset + CHUNK])}


def finish(store: RunStore, ask: Ask) -> Part:
    """End a run that completed; with work of its own open it failed."""
    try:
        store.calls.complete(ask.run.id, output=ask.content, epoch=ask.epoch)
    except WrongState as error:
        store.finish(ask.run.id, RunStatus.FAILED, reason=str(error), epoch=ask.epoch)
    return {}


def failed(store: RunStore, ask: Ask) -> Part:
    """End a run that failed."""
    store.finish(ask.run.id, RunStatus.FAILED, reason=str(ask.parts["reason"]), epoch=ask.epoch)
    return {}


def go_on(store: RunStore, ask: Ask) -> Part:
    """Begin the next generation; with work of its own open the run failed."""
    try:
        again = store.continue_as_new(ask.run.id, content=ask.content, epoch=ask.epoch)
    except WrongState as error:
        store.finish(ask.run.id, RunStatus.FAILED, reason=str(error), epoch=ask.epoch)
        return {}
    return {"generation": again.generation}


ANSWERS: Final[Mapping[str, Callable[[RunStore, Ask], Part]]] = {
    "record": record,
    "fail": fail,
    "child": child,
    "decide": decide,
    "sleep": sleep,
    "receive": receive,
    "effect": effect,
    "applied": applied,
    "unapplied": unapplied,
    "doubted": doubted,
    "update": update,
    "history": history,
    "get": get,
    "finish": finish,
    "failed": failed,
    "continue": go_on,
}
"""Everything that can be asked for."""

ENDINGS: Final = ("finish", "failed")
"""After which the run has ended."""

READING: Final = ("history", "get")
"""What changes nothing, so that it is no boundary."""


def answer(store: RunStore, do: str, ask: Ask) -> Part:
    """Do what is asked for. Raises what the store raises, and `UsageError`."""
    known = ANSWERS.get(do)
    if known is None:
        raise UsageError("a runner asked for what no engine does")
    return known(store, ask)


def of_generation(ask: Ask, generation: int) -> Ask:
    """Return the ask for a later generation of the run."""
    return replace(ask, run=replace(ask.run, generation=generation))
