"""What rows of LangGraph's checkpoint tables mean, as pure functions of fetched columns.

A **thread** is all rows of one ``thread_id``. A **checkpoint** is its state after one step, within a
**namespace**: the root graph's is the empty text; a subgraph's call has one that ends in a task's id, as in
``node:id``; a subgraph that keeps a memory of its own (``checkpointer=True``) has its name alone. The
**head** of a namespace is its checkpoint with the greatest id, which is what the engine loads.

Payloads are bytes here. They are walked, never built: no pickle, no extension type, no object of the
engine's. Nothing in here does I/O, and all of it is bounded.
"""

from afterrun.profiles.langgraph.heads import Head, State, head_state
from afterrun.profiles.langgraph.keep import (
    CURRENT,
    DELTA_MARKS,
    MAX_METADATA,
    Checkpoint,
    Cut,
    Metadata,
    Place,
    Stay,
    cut,
    is_line,
    read_metadata,
)
from afterrun.profiles.langgraph.outline import (
    MAX_PAYLOAD,
    PEEK,
    Outline,
    outline,
    outline_of_json,
    version_of_prefix,
)
from afterrun.profiles.langgraph.times import uuid6_floor, uuid6_instant
from afterrun.profiles.langgraph.walk import Malformed

__all__ = [
    "CURRENT",
    "DELTA_MARKS",
    "MAX_METADATA",
    "MAX_PAYLOAD",
    "PEEK",
    "Checkpoint",
    "Cut",
    "Head",
    "Malformed",
    "Metadata",
    "Outline",
    "Place",
    "State",
    "Stay",
    "cut",
    "head_state",
    "is_line",
    "outline",
    "outline_of_json",
    "read_metadata",
    "uuid6_floor",
    "uuid6_instant",
    "version_of_prefix",
]
