"""Whether work may begin at a place: asked in the transaction that creates it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import sqlalchemy as sa

from afterrun.runs.database import Transaction
from afterrun.runs.errors import Block, WorkBlocked
from afterrun.runs.schema import runs, steps
from afterrun.runs.views import Attempt, above
from afterrun.runs.words import LIVE, MAX_DEPTH, RunStatus, StepStatus


def chain_of(run: sa.BindParameter[Any]) -> sa.CTE:
    """Return the chain from a run up to its root, two links longer than allowed at most."""
    start = sa.select(runs.c.id, runs.c.status, above(runs).label("above"), sa.literal(0).label("place"))
    chain = start.where(runs.c.id == run).cte("chain", recursive=True)
    upper = runs.alias("upper")
    climb = sa.select(upper.c.id, upper.c.status, above(upper), chain.c.place + 1)
    climb = climb.where(upper.c.id == chain.c.above, chain.c.place <= MAX_DEPTH)
    return chain.union_all(climb)


def _upwards() -> sa.Select[Any]:
    walked = chain_of(sa.bindparam("run"))
    links = walked.c.id.label("link"), walked.c.status.label("link_status"), walked.c.above
    return sa.select(*links).order_by(walked.c.place)


CHAIN: Final = _upwards()
STEP: Final = (
    sa.select(runs.c.status, runs.c.generation, steps.c.status.label("step"), steps.c.attempt)
    .join_from(runs, steps, runs.c.id == steps.c.run_id)
    .where(
        steps.c.run_id == sa.bindparam("run"),
        steps.c.generation == sa.bindparam("generation"),
        steps.c.number == sa.bindparam("step"),
    )
)
"""Made once: they are asked in every change, and to make one takes longer than to answer it."""


def lineage_block(transaction: Transaction, run: str, *, room: int = 0) -> Block | None:
    """Say why nothing may begin under a run, or ``None``.

    A run that completed or failed does not block what is below it. ``room`` is how many links the new work
    adds to the chain.
    """
    return lineage_fault(transaction.rows(CHAIN, {"run": run}), room=room)


def lineage_fault(chain: Sequence[Any], *, room: int = 0) -> Block | None:
    """Say what is wrong with a chain of runs, from one up to its root, by what `chain_of` told of each."""
    return next(_faults(chain, room), None)


def _faults(chain: Sequence[Any], room: int) -> Iterator[Block]:
    if not chain:
        yield Block("missing-run", "there is no such run")
        return
    if chain[0].link_status == RunStatus.CANCELLED:
        yield Block("cancelled", "the run was cancelled")
    if any(row.link_status == RunStatus.CANCELLED for row in chain):
        yield Block("cancelled-ancestor", "a run above it was cancelled")
    if len({row.link for row in chain}) < len(chain):
        yield Block("cycle", "the run is its own ancestor")
    if len(chain) + room > MAX_DEPTH + 1:
        yield Block("too-deep", f"the chain of runs above it would be longer than {MAX_DEPTH} links")
    if chain[-1].above is not None:
        yield Block("missing-parent", "a run above it is missing")


def step_block(transaction: Transaction, attempt: Attempt) -> Block | None:
    """Say why an attempt at a step may create nothing now, or ``None``."""
    lineage = lineage_block(transaction, attempt.run)
    if lineage is not None:
        return lineage
    place = {"run": attempt.run, "generation": attempt.generation, "step": attempt.step}
    found = transaction.rows(STEP, place)
    return next(_step_faults(found[0] if found else None, attempt), None)


def _step_faults(found: sa.Row[Any] | None, attempt: Attempt) -> Iterator[Block]:
    if found is None:
        yield Block("missing-step", "the run has no such step")
        return
    if found.status not in LIVE:
        yield Block("run-ended", f"the run is {found.status}")
    if found.generation != attempt.generation:
        yield Block("superseded-generation", "the run went on as a newer generation")
    if found.attempt != attempt.number:
        yield Block("stale-attempt", "another attempt at the step is the current one")
    if found.step != StepStatus.RUNNING:
        yield Block("step-ended", f"the step is {found.step}")


def refuse(block: Block | None) -> None:
    """Raise `WorkBlocked` if there is a block."""
    if block is not None:
        raise WorkBlocked(block)
