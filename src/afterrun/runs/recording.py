"""Record a step that is done: one transaction, and as few statements as it can be.

A pure step needs no row before its end: what was not recorded is done again. So all that its record needs is
asked in one statement, once the tree is held, and then three rows are written.
"""

from __future__ import annotations

from typing import Any, Final

import sqlalchemy as sa

from afterrun.core.times import to_datetime
from afterrun.runs import contents
from afterrun.runs.access import expect, lock_tree, refuse_stale
from afterrun.runs.database import Dialect, Transaction
from afterrun.runs.errors import RunNotFound
from afterrun.runs.labels import label
from afterrun.runs.lineage import chain_of, lineage_fault, refuse
from afterrun.runs.schema import attempts, leases, runs, steps
from afterrun.runs.views import COLUMNS, Step, run_of
from afterrun.runs.words import AttemptStatus, RunStatus, StepStatus

FIRST: Final = 1
"""The number of the only attempt."""

INSERT_STEP: Final = sa.insert(steps)
INSERT_ATTEMPT: Final = sa.insert(attempts)


def record(
    transaction: Transaction, run: str, name: str, *, output: bytes | None = None, epoch: int | None = None
) -> Step:
    """Record a step of a running run that is completed, with its output."""
    label("name of a step", name)
    lock_tree(transaction, run)
    rows = transaction.rows(transaction.prepared(_state), {"run": run})
    if not rows:
        raise RunNotFound(run)
    found = run_of(rows[0])
    transaction.tell(rows[0].clock)
    refuse_stale({rows[0].epoch} - {None}, epoch)
    refuse(lineage_fault(rows))
    expect(found, [RunStatus.RUNNING], "begin a step")
    now = transaction.now
    number = (rows[0].last or 0) + 1
    content = contents.store(transaction, output)
    place = {"run_id": run, "generation": found.generation}
    step = {"number": number, "name": name, "status": StepStatus.COMPLETED, "attempt": FIRST}
    transaction.change(INSERT_STEP, {**place, **step, "started_at": now, "ended_at": now})
    times = {"queued_at": now, "started_at": now, "ended_at": now}
    attempt = {"step": number, "number": FIRST, "status": AttemptStatus.COMPLETED, "output_id": content}
    transaction.change(INSERT_ATTEMPT, {**place, **attempt, **times})
    return Step(
        run=run,
        generation=found.generation,
        number=number,
        name=name,
        status=StepStatus.COMPLETED,
        attempt=FIRST,
        attempt_status=AttemptStatus.COMPLETED,
        started_at=to_datetime(now),
        ended_at=to_datetime(now),
    )


def _state(dialect: Dialect) -> sa.Select[Any]:
    """Return what tells of a run, its owner, its last step and all runs above it, nearest first."""
    chain = chain_of(sa.bindparam("run"))
    last = sa.select(sa.func.max(steps.c.number))
    last = last.where(steps.c.run_id == runs.c.id, steps.c.generation == runs.c.generation)
    held = sa.and_(leases.c.run_id == runs.c.id, leases.c.released_at.is_(None))
    source = chain.join(runs, runs.c.id == sa.bindparam("run")).outerjoin(leases, held)
    columns = *COLUMNS, leases.c.epoch, last.scalar_subquery().label("last"), dialect.clock.label("clock")
    links = chain.c.id.label("link"), chain.c.status.label("link_status"), chain.c.above
    return sa.select(*columns, *links).select_from(source).order_by(chain.c.place)
