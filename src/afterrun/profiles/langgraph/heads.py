"""Whether a thread is done: what its head has left to do.

The engine runs a node when a channel that triggers it holds a value. Nothing in the tables says which these
are, but their names do, in every graph made of nodes and edges and in every entrypoint. The head of any other
graph is unreadable here, and so is a format that was never read.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import Enum
from typing import Final, NamedTuple

from afterrun.profiles.langgraph.outline import NEWEST, Outline

READ: Final = range(1, 5)
"""Versions of the format that were read. From 4 on, every edge has a channel named for what it does."""

START: Final = "__start__"
TASKS: Final = "__pregel_tasks"
BRANCH: Final = "branch:"
JOIN: Final = "join:"
TRIGGERS: Final = (BRANCH, "start:", JOIN)
"""How the names of channels begin that run a node as soon as they hold a value."""

RESERVED: Final = "__"
"""How names begin that are the engine's own, and no node's."""

EMPTY: Final = frozenset({b"\x90", b""})
"""A list of tasks that is empty: in MessagePack, and as a row without bytes."""

_NO_NAMES: Final = b"\x93\xa8builtins\xa3set\x90"
NOBODY: Final = frozenset(
    {
        bytes([0xC7, len(_NO_NAMES), 0]) + _NO_NAMES,
        b"\x92" + bytes([0xC7, len(_NO_NAMES), 0]) + _NO_NAMES + b"\xc2",
    }
)
"""A join at which nobody has arrived, as bytes: the set's extension type is compared and not decoded."""

WRITES: Final = {
    "__interrupt__": "it waits for an answer",
    "__error__": "a task failed, and the others' results wait for its next attempt",
    "__scheduled__": "it has a task scheduled",
    "__resume__": "it was told an answer and has not taken it",
}
"""Channels of writes that say why a head is not done."""


class State(Enum):
    """What a head has left to do."""

    DONE = "done"
    PENDING = "pending"
    UNREADABLE = "unreadable"


class Head(NamedTuple):
    """A head's state and, in words, what was seen."""

    state: State
    detail: str = ""


def head_state(seen: Outline | None, writes: Collection[str]) -> Head:
    """Tell the state of a head from its outline and the channels that were written to it already.

    The outline is not needed where anything was written to it.
    """
    if writes:
        known = sorted(set(writes) & WRITES.keys())
        return Head(State.PENDING, WRITES[known[0]] if known else "it has results of tasks to take in")
    if seen is None:
        return Head(State.UNREADABLE, "there is no head")
    if seen.version not in READ:
        return Head(State.UNREADABLE, f"its format {str(seen.version)[:20]} was never read")
    waiting = _waiting(seen.values) or _unseen(seen)
    if waiting:
        return Head(State.PENDING, f"{waiting[:80]!r} is to be run")
    if not _is_known_graph(seen):
        return Head(State.UNREADABLE, "it was made by a graph without edges, so nothing says what is to run")
    return Head(State.DONE)


def _waiting(values: Mapping[str, bytes]) -> str | None:
    """Return a channel that triggers a node by its name, if one holds a value."""
    for name, value in values.items():
        if name == TASKS:
            if value not in EMPTY:
                return name
        elif name == START or (name.startswith(TRIGGERS) and not (name.startswith(JOIN) and value in NOBODY)):
            return name
    return None


def _unseen(outline: Outline) -> str | None:
    """Return a channel that holds a value which a node that knows the channel has not run for.

    Only old formats need it: they name the channel of an edge for the node that it leaves.
    """
    if outline.version == NEWEST:
        return None
    for node, seen in outline.seen.items():
        if node.startswith(RESERVED):
            continue
        if node in outline.values:
            return node
        for name, version in seen.items():
            if name in outline.values and outline.versions.get(name) != version and not _is_trigger(name):
                return name
    return None


def _is_trigger(name: str) -> bool:
    return name in {START, TASKS} or name.startswith(TRIGGERS)


def _is_known_graph(outline: Outline) -> bool:
    return any(name == START or name.startswith(TRIGGERS) for name in outline.versions)
