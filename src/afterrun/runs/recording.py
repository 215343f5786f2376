"""Record a step that is done: one transaction, and as few statements as it can be.

A pure step needs no row before its end: what was not recorded is done again. So all that its record needs is
asked in one statement, once the tree is held, and then three rows are written.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import sqlalchemy as sa

from afterrun.core.times import to_datetime
from afterrun.runs import contents
from afterrun.runs.access import lock_tree, refuse_stale, refuse_state
from afterrun.runs.database import Dialect, Transaction
from afterrun.runs.direct import insert_of
from afterrun.runs.errors import RunNotFound
from afterrun.runs.labels import label
from afterrun.runs.lineage import chain_of, lineage_fault, refuse
from afterrun.runs.schema import attempts, leases, runs, steps
from afterrun.runs.views import Step
from afterrun.runs.words import AttemptStatus, RunStatus, StepKind, StepStatus

FIRST: Final = 1
"""The number of the only attempt."""


class Asked(NamedTuple):
    """A link of the chain from a run upwards, with what the run itself is: the same in every row."""

    link: str
    link_status: str
    above: str | None
    status: str
    generation: int
    epoch: int | None
    last: int | None
    clock: int | None


def record(
    transaction: Transaction,
    run: str,
    name: str,
    *,
    output: bytes | None = None,
    kind: StepKind = StepKind.STEP,
    number: int | None = None,
    epoch: int | None = None,
) -> Step:
    """Record a step of a running run that is completed, with its output: the next one, or of this number."""
    label("name of a step", name)
    found = _allowed(transaction, run, epoch)
    now = transaction.now
    number = (found.last or 0) + 1 if number is None else number
    values = {
        "run_id": run,
        "generation": found.generation,
        "name": name,
        "kind": kind.value,
        "status": StepStatus.COMPLETED.value,
        "step": number,
        "attempt": FIRST,
        "output_id": contents.store(transaction, output),
        "queued_at": now,
        "started_at": now,
        "ended_at": now,
    }
    transaction.direct(_insert_step, {**values, "number": number})
    transaction.direct(_insert_attempt, {**values, "number": FIRST})
    moment = to_datetime(now)
    return Step(
        run=run,
        generation=found.generation,
        number=number,
        name=name,
        status=StepStatus.COMPLETED,
        attempt=FIRST,
        attempt_status=AttemptStatus.COMPLETED,
        started_at=moment,
        ended_at=moment,
    )


def _allowed(transaction: Transaction, run: str, epoch: int | None) -> Asked:
    """Hold a run's tree, and make sure that its owner may record a step now."""
    lock_tree(transaction, run)
    rows = [Asked(*row) for row in transaction.direct(_state, {"run": run})]
    if not rows:
        raise RunNotFound(run)
    found = rows[0]
    transaction.tell(found.clock)
    refuse_stale(() if found.epoch is None else (found.epoch,), epoch)
    refuse(lineage_fault(rows))
    refuse_state(found.status, (RunStatus.RUNNING,), "begin a step")
    return found


def _state(dialect: Dialect) -> sa.Select[Any]:
    """Return what tells of a run, its owner, its last step and all runs above it, nearest first."""
    chain = chain_of(sa.bindparam("run"))
    last = sa.select(sa.func.max(steps.c.number))
    last = last.where(steps.c.run_id == runs.c.id, steps.c.generation == runs.c.generation)
    held = sa.and_(leases.c.run_id == runs.c.id, leases.c.released_at.is_(None))
    source = chain.join(runs, runs.c.id == sa.bindparam("run")).outerjoin(leases, held)
    links = chain.c.id, chain.c.status, chain.c.above
    columns = runs.c.status, runs.c.generation, leases.c.epoch, last.scalar_subquery(), dialect.clock
    return sa.select(*links, *columns).select_from(source).order_by(chain.c.place)


def _insert_step(_: Dialect) -> sa.Insert:
    columns = ("run_id", "generation", "number", "name", "kind", "status", "attempt")
    return insert_of(steps, *columns, "started_at", "ended_at")


def _insert_attempt(_: Dialect) -> sa.Insert:
    times = ("queued_at", "started_at", "ended_at")
    return insert_of(attempts, "run_id", "generation", "step", "number", "status", "output_id", *times)
