"""A run that a runner executes, as the engine sees it, and what is told of it in frames."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Final

from afterrun.runs import RunStore
from afterrun.runs.claims import Claim
from afterrun.runs.history import Entry
from afterrun.runs.views import Run
from afterrun.runs.words import StepStatus
from afterrun.server.frames import INLINE
from afterrun.server.supervisor import Runner

PAGE: Final = 200
"""Entries of a frame."""

ROOM: Final = 256 * 1024
"""Bytes of content that a frame has beside its entries; the rest is fetched by its address."""

Part = dict[str, Any]


@dataclass(slots=True, eq=False)
class Session:
    """A run in a runner, under the lease of this epoch.

    ``asked`` counts what it has asked for and was not told yet. ``held`` is the timer of a run that waits for
    so short a time that it keeps its lease.
    """

    run: Run
    epoch: int
    generation: int
    runner: Runner
    activity: ExitStack
    asked: int = 0
    held: asyncio.TimerHandle | None = None
    draining: bool = False
    over: bool = False
    children: bool = False
    order: asyncio.Lock = field(default_factory=asyncio.Lock)


@dataclass(frozen=True, slots=True, kw_only=True)
class Beginning:
    """What a runner needs to go on with a run that it does not remember."""

    generation: int
    input: Part | None
    entries: list[Part]
    more: bool


def beginning(store: RunStore, claim: Claim) -> Beginning:
    """Read how a run begins: its input, and the first page of what is recorded."""
    run = claim.run.id
    if claim.run.started_at is not None:
        store.waits.settle(run, epoch=claim.epoch)
    given = store.history.input(run, generation=claim.run.generation)
    entries = [] if claim.run.started_at is None else store.history.page(run, limit=PAGE)
    return Beginning(
        generation=claim.run.generation,
        input=whole(given, address=f"{run}/{claim.run.generation}/input"),
        entries=told(store, claim.run, entries),
        more=len(entries) == PAGE,
    )


def told(store: RunStore, run: Run, entries: list[Entry] | tuple[Entry, ...]) -> list[Part]:
    """Return entries for a frame: small content as it is while there is room, the rest by its address."""
    room = ROOM
    parts = []
    for entry in entries:
        content: Part | None = None
        if entry.size is not None:
            small = entry.size <= min(INLINE, room)
            found = store.history.content(run.id, entry.number, generation=run.generation) if small else None
            text = None if found is None else _text(found)
            content = {"address": entry.address, "size": entry.size} if text is None else {"text": text}
            room -= entry.size if text is not None else 0
        parts.append(_part(entry, content))
    return parts


def whole(content: bytes | None, *, address: str) -> Part | None:
    """Return content as a part of a message; what is large, or no text, is fetched by the address."""
    if content is None:
        return None
    text = _text(content) if len(content) <= INLINE else None
    return {"address": address, "size": len(content)} if text is None else {"text": text}


def _text(content: bytes) -> str | None:
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None


def _part(entry: Entry, content: Part | None) -> Part:
    return {
        "number": entry.number,
        "kind": entry.kind.value,
        "name": entry.name,
        "status": entry.status.value,
        "attempt": entry.attempt,
        "queued": entry.queued and entry.status is StepStatus.FAILED,
        "reason": entry.reason,
        "content": content,
    }
