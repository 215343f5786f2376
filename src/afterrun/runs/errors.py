"""What the run store refuses. Messages hold no ids and no content; programs read the attributes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from afterrun.core.errors import AfterrunError, Exit


@dataclass(frozen=True, slots=True)
class Block:
    """Why no work may be created: a stable ``reason``, and a sentence for people."""

    reason: str
    sentence: str

    def __str__(self) -> str:
        """Return the sentence."""
        return self.sentence


class RunError(AfterrunError):
    """Base of what the run store refuses; nothing was changed."""

    exit_code = Exit.REFUSED


class RunNotFound(RunError):
    """There is no such run, or retention has removed it. ``run`` is its id."""

    def __init__(self, run: str) -> None:
        self.run = run
        super().__init__("there is no such run: it was never created here, or it is already removed")


class NotFound(RunError):
    """A run has no such part: a step, a question, an effect, a message, a turn and so on."""


class WorkBlocked(RunError):
    """Work was not created, since its lineage or its step forbids it. ``block`` says why."""

    def __init__(self, block: Block) -> None:
        self.block = block
        super().__init__(f"no work can begin there: {block.sentence}")


class WrongState(RunError):
    """What is to change is in a state from which that does not follow. ``status`` is that state."""

    def __init__(self, message: str, *, status: str) -> None:
        self.status = status
        super().__init__(message)


class StaleEpoch(RunError):
    """The writer's lease is over: somebody else has the run, or it ended. Stop, and write nothing more."""


class LeaseHeld(RunError):
    """Another owner holds the run. ``until`` is when its lease ends if it is not renewed, in microseconds."""

    def __init__(self, *, until: int) -> None:
        self.until = until
        super().__init__("another owner holds the run: try again when its lease has ended")


class StoreServed(RunError):
    """Another workflow server holds the store. ``until`` is when its lease ends unless it is renewed."""

    def __init__(self, *, until: int) -> None:
        self.until = until
        super().__init__(
            "another workflow server holds the run store: stop that one, or wait until it is late"
        )


class KeySpent(RunError):
    """The run that this idempotency key started has ended and was removed, so the key starts no other one.

    ``run`` is its id and ``status`` how it ended.
    """

    def __init__(self, *, run: str, status: str) -> None:
        self.run = run
        self.status = status
        super().__init__(
            f"the run that this idempotency key started ended as {status} and was removed since: the key "
            "starts no other run"
        )


class FingerprintMismatch(RunError):
    """A key was given before, with something else: another request, another content, another fingerprint.

    Nothing was done under it now. Ask for the same again, or give another key.
    """


class SchemaTooNew(RunError):
    """A newer afterrun upgraded this store. Use that version; this one changes nothing."""


class UpgradeNeeded(RunError):
    """The store has an older schema, and was opened without leave to upgrade it."""


class UpgradeRefused(RunError):
    """The store cannot be upgraded now: leases are live, or its history is malformed. Nothing was changed.

    ``keys`` name rows with a malformed history, at most 20.
    """

    def __init__(self, message: str, *, keys: tuple[str, ...] = ()) -> None:
        self.keys = keys
        super().__init__(message)


class NoSealingKey(RunError):
    """Exact content needs a key, and this process has none. All that needs no content goes on working."""


class WrongSealingKey(RunError):
    """The keys that were given do not open this store. ``key_id`` is that of the key it wants."""

    def __init__(self, *, key_id: str) -> None:
        self.key_id = key_id
        super().__init__(
            "these keys do not open the run store: it is sealed under another one, or its identity was "
            "changed; give the key that it was last opened with, too, after the current one"
        )


class SealedStore(RunError):
    """The store seals its content, and was opened with the word that it does not. Open it with its key."""


UNREADABLE: Final = {
    "tampered": "it was changed or damaged since it was stored",
    "wrong-key": "it is sealed under a key that was not given: give that one, too, after the current one",
    "swapped": "content of another row stands in its place",
    "missing": "it is not in the store any more",
}


class PayloadUnreadable(RunError):
    """Exact content does not open, and nothing else is given in its place. A backup may have it.

    ``run`` is the id of the run if it is known, ``target`` says whose content of that run it is, and ``why``
    is tampered, wrong-key, swapped or missing.
    """

    def __init__(self, *, run: str | None, target: str, why: str) -> None:
        self.run = run
        self.target = target
        self.why = why
        super().__init__(f"the {target} cannot be read: {UNREADABLE[why]}")
