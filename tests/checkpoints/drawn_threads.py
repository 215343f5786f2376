"""Threads as an engine might make them, drawn at random."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import strategies as st

from afterrun.core.times import DAY, Instant
from afterrun.profiles.langgraph import Checkpoint, Metadata, uuid6_floor

BEGIN: Instant = 1_700_000_000_000_000
ROOT = ""


def at(step: int, thread: int = 0) -> str:
    """Return the id of the checkpoint made at a step, one a day."""
    return f"{uuid6_floor(BEGIN + step * DAY)}-8000-{thread:012x}"


def call(namespace: str, steps: Iterable[int], root: str | None) -> list[Checkpoint]:
    """Return the checkpoints of a subgraph's call."""
    made = [at(n) for n in steps]
    return [
        Checkpoint(namespace, name, parent, Metadata(root=root))
        for name, parent in zip(made, [None, *made[:-1]], strict=True)
    ]


@st.composite
def threads(draw: st.DrawFn) -> list[Checkpoint]:
    """Draw the checkpoints of one thread in the order in which an engine makes them."""
    rows: list[Checkpoint] = []
    roots: list[str] = []
    memory: str | None = None
    step = 0
    for _ in range(draw(st.integers(1, 12))):
        if draw(st.booleans()) and roots:  # a subgraph with a memory runs before the next root checkpoint
            for _ in range(draw(st.integers(1, 2))):
                rows.append(Checkpoint("mem", at(step), memory, Metadata(root=roots[-1])))
                memory, step = at(step), step + 1
        if draw(st.booleans()) and roots:
            many = draw(st.integers(1, 3))
            rows += call(f"node:{step}", range(step, step + many), roots[-1])
            step += many
        forks = bool(roots) and draw(st.integers(0, 3)) == 0
        parent = draw(st.sampled_from(roots)) if forks else (roots[-1] if roots else None)
        rows.append(Checkpoint(ROOT, at(step), parent))
        roots.append(at(step))
        step += 1
    return sorted(rows, key=lambda row: row.place)
