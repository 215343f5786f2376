"""Which checkpoints of one thread stay, why, and what goes with those that do not.

A superseded checkpoint may still be needed: by the head that is rebuilt from it, by a fork that goes on from
it, by a subgraph whose memory it is. So all rows of a thread are looked at together, without their payloads,
and whatever is not understood stays.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from afterrun.profiles.langgraph.times import uuid6_instant

ROOT: Final = ""
UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
"""What every id of the engine's looks like. Only among such ids do all databases agree on an order."""

CALL: Final = ":"
"""In the namespace of a subgraph's call, before the id of the task that called it."""

SENDS_INSIDE: Final = 4
"""Version of the format from which a checkpoint holds its own tasks; before, its parent's writes do."""

MAX_METADATA: Final = 2**20
"""Bytes of a checkpoint's metadata that are looked into."""

DELTA_MARKS: Final = ("counters_since_delta_snapshot", "delta_writes_versioned")
"""Metadata of a thread whose values are gathered from all its checkpoints."""


class Place(NamedTuple):
    """Where a checkpoint is within its thread."""

    namespace: str
    id: str


class Metadata(NamedTuple):
    """What a checkpoint's metadata says. ``root`` is the root graph's checkpoint that a call belongs to."""

    delta: bool = False
    root: str | None = None
    readable: bool = True


class Checkpoint(NamedTuple):
    """One row without its payload.

    Attributes:
        namespace: of the graph that it is a state of.
        id: its own; ids of one namespace are ordered as the engine orders them, as text.
        parent: id of the checkpoint that it follows, or ``None``.
        metadata: what was read of its metadata.
        version: of its format; ``None`` where that cannot be told.
        snapshot: whether its payload holds a DeltaChannel's snapshot; ``None`` where that cannot be told.
        sends: whether tasks are among the writes that were made to it.
    """

    namespace: str
    id: str
    parent: str | None = None
    metadata: Metadata = Metadata()
    version: int | None = SENDS_INSIDE
    snapshot: bool | None = False
    sends: bool = False

    @property
    def place(self) -> Place:
        """Return where it is."""
        return Place(self.namespace, self.id)


class Stay(NamedTuple):
    """Why a checkpoint stays. ``blocks`` says that it is not understood, rather than needed."""

    name: str
    detail: str = ""
    blocks: bool = False


CURRENT: Final = Stay("current-generation", "the engine goes on from it")
LEAF: Final = Stay("fork-leaf", "a fork ends in it")
DELTA: Final = Stay("delta-channel", "values of its thread are gathered from all checkpoints")
SENDS: Final = Stay("pending-sends", "the checkpoint after it has its tasks from it")
UNSAVED: Final = Stay("unsaved-root", "the root checkpoint that it belongs to is not saved yet")
MEMORY: Final = Stay("subgraph-memory", "a kept checkpoint finds a subgraph's memory in it")
NO_AGE: Final = Stay("unknown-age", "its id tells no time", blocks=True)
NO_ROOT: Final = Stay("missing-root", "the root checkpoint that it belongs to is missing", blocks=True)
UNTIED: Final = Stay("unknown-root", "nothing says which root checkpoint it belongs to", blocks=True)
UNREADABLE: Final = Stay("unreadable-record", "a checkpoint of its thread cannot be read", blocks=True)
UNORDERED: Final = Stay("unreadable-record", "an id of its thread is no UUID", blocks=True)


@dataclass(frozen=True, slots=True)
class Cut:
    """What of a thread stays, and what may go once it is old enough.

    Attributes:
        kept: the checkpoints that stay, each with why.
        going: superseded checkpoints, each with all that goes with it, itself first.
    """

    kept: Mapping[Place, Stay]
    going: Mapping[Place, tuple[Place, ...]]


def read_metadata(raw: str | bytes | None) -> Metadata:
    """Read a checkpoint's metadata as it is stored: JSON, or nothing. Never raises."""
    if raw is None:
        return Metadata()
    if len(raw) > MAX_METADATA:
        return Metadata(readable=False)
    try:
        found = json.loads(raw.decode() if isinstance(raw, bytes) else raw)
    except (ValueError, RecursionError):
        return Metadata(readable=False)
    if not isinstance(found, dict):
        return Metadata(readable=False)
    parents = found.get("parents") or {}
    root = parents.get(ROOT) if isinstance(parents, dict) else None
    return Metadata(
        delta=any(mark in found for mark in DELTA_MARKS),
        root=root if isinstance(root, str) and root else None,
        readable=isinstance(parents, dict),
    )


def is_text(value: object) -> bool:
    """Say whether a value is text, as the engine writes it: a column may hold anything."""
    return isinstance(value, str)


def cut(rows: Sequence[Checkpoint], *, keep_leaves: bool = True) -> Cut:
    """Divide the checkpoints of one thread, given all of them, into what stays and what may go.

    Without ``keep_leaves``, the ends of forks other than the newest count as superseded.
    """
    whole = _whole(rows)
    if whole is not None:
        return Cut({row.place: whole for row in rows}, {})
    return _Thread(rows, keep_leaves=keep_leaves).cut()


def is_line(rows: Sequence[Checkpoint]) -> bool:
    """Say whether a thread is of one graph, never forked, and understood: then all but the last may go.

    That is the plain case, and by far the most frequent; `cut` comes to the same.
    """
    before: str | None = None
    for namespace, name, parent, metadata, version, snapshot, _ in rows:
        if namespace != ROOT or version != SENDS_INSIDE or parent != before or snapshot is not False:
            return False
        if metadata.delta or not metadata.readable or uuid6_instant(name) is None:
            return False
        if before is not None and name <= before:
            return False
        before = name
    return True


def _whole(rows: Sequence[Checkpoint]) -> Stay | None:
    """Return why a thread stays as it is, if it does."""
    if not all(is_text(row.namespace) and is_text(row.id) for row in rows):
        return UNREADABLE
    if any(row.metadata.delta or row.snapshot for row in rows):
        return DELTA
    if any(not row.metadata.readable or row.snapshot is None for row in rows):
        return UNREADABLE
    if not all(uuid6_instant(row.id) is not None or UUID.fullmatch(row.id) for row in rows):
        return UNORDERED
    return None


class _Thread:
    """One thread while it is cut."""

    def __init__(self, rows: Sequence[Checkpoint], *, keep_leaves: bool) -> None:
        self._keep_leaves = keep_leaves
        self._spaces: dict[str, list[Checkpoint]] = defaultdict(list)
        for row in rows:
            self._spaces[row.namespace].append(row)
        for space in self._spaces.values():
            space.sort(key=lambda row: row.id)
        self._kept: dict[Place, Stay] = {}
        self._tied: dict[Place, Place] = {}

    def cut(self) -> Cut:
        for namespace, space in self._spaces.items():
            if CALL not in namespace:
                self._keep_ends(space)
        for namespace, space in self._spaces.items():
            if CALL in namespace:
                self._tie_call(space)
            elif namespace != ROOT:
                self._tie_memory(space)
        going: dict[Place, list[Place]] = {}
        for row in self._rows():
            if row.place not in self._kept and row.place not in self._tied:
                going[row.place] = [row.place]
        for place, root in self._tied.items():
            going[root].append(place)
        return Cut(self._kept, {place: tuple(members) for place, members in going.items()})

    def _rows(self) -> Iterator[Checkpoint]:
        for space in self._spaces.values():
            yield from space

    def _keep(self, row: Checkpoint, why: Stay) -> None:
        self._kept.setdefault(row.place, why)

    def _keep_ends(self, space: Sequence[Checkpoint]) -> None:
        """Keep what a namespace has for itself: its head, leaves of forks, and what tells no age."""
        self._keep(space[-1], CURRENT)
        parents = {row.parent for row in space}
        sent = {row.parent for row in space if row.version is None or row.version < SENDS_INSIDE}
        for row in space:
            if row.sends and row.id in sent:
                self._keep(row, SENDS)
            elif self._keep_leaves and row.id not in parents:
                self._keep(row, LEAF)
            elif uuid6_instant(row.id) is None:
                self._keep(row, NO_AGE)

    def _tie_call(self, space: Sequence[Checkpoint]) -> None:
        """Tie a subgraph's call to the root checkpoint that it was made from: they go together."""
        roots = {row.metadata.root for row in space}
        saved = {row.id: row for row in self._spaces.get(ROOT, ())}
        newest = self._spaces[ROOT][-1].id if saved else ""
        if None in roots:
            why = UNTIED
        elif missing := {root for root in roots if root is not None and root not in saved}:
            why = UNSAVED if max(missing) > newest else NO_ROOT
        elif any(Place(ROOT, root) in self._kept for root in roots if root is not None):
            self._keep_ends(space)
            return
        else:
            last = Place(ROOT, max(root for root in roots if root is not None))
            self._tied.update((row.place, last) for row in space)
            return
        for row in space:
            self._keep(row, why)

    def _tie_memory(self, space: Sequence[Checkpoint]) -> None:
        """Tie the states of a subgraph's own memory to the root checkpoints that are replayed with them.

        A replay finds the newest state from before its root checkpoint. So that one goes with the last root
        checkpoint it would be found from, and stays while one of these does.
        """
        roots = [row.id for row in self._spaces.get(ROOT, ())]
        for row, later in zip(space, [*(row.id for row in space[1:]), None], strict=True):
            if row.place in self._kept:
                continue
            end = len(roots) if later is None else bisect_right(roots, later)
            needing = roots[bisect_right(roots, row.id) : end]
            if any(Place(ROOT, root) in self._kept for root in needing):
                self._keep(row, MEMORY)
            elif needing:
                self._tied[row.place] = Place(ROOT, needing[-1])
