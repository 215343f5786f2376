"""End what is open in runs, whether one that ends or a whole tree that is cancelled: a statement a kind.

``scope`` is always a statement that selects ids of runs, so no number of runs becomes a parameter or a list.
What has ended keeps its state and its reason.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from afterrun.runs.database import Transaction
from afterrun.runs.obligations import settle
from afterrun.runs.schema import (
    approvals,
    attempts,
    blobs,
    decisions,
    generations,
    leases,
    runs,
    steps,
    tasks,
    tombstones,
)
from afterrun.runs.views import Run
from afterrun.runs.words import (
    ApprovalStatus,
    AttemptStatus,
    DecisionStatus,
    GenerationStatus,
    RunStatus,
    StepStatus,
    TaskStatus,
)

Scope = sa.Select[Any]


def one_run(run: Run) -> Scope:
    """Return the scope of a single run."""
    return sa.select(runs.c.id).where(runs.c.id == run.id)


def has_open_work(transaction: Transaction, run: Run) -> bool:
    """Say whether a run has an open step, a queued retry, an open task or an unanswered question."""
    for table in (steps, tasks, approvals, decisions):
        found = sa.select(sa.literal(1)).where(table.c.run_id == run.id, table.c.ended_at.is_(None)).limit(1)
        if transaction.one(found) is not None:
            return True
    return False


def end_work(transaction: Transaction, scope: Scope) -> None:
    """Cancel what is open in runs: steps, queued retries, tasks of every attempt, and unanswered questions.

    A step whose retry is queued keeps its outcome; only its end is filled in.
    """
    running = steps.c.status == StepStatus.RUNNING
    status = sa.case((running, StepStatus.CANCELLED.value), else_=steps.c.status)
    _end(transaction, steps, scope, status=status)
    _end(transaction, attempts, scope, status=AttemptStatus.CANCELLED)
    _end(transaction, tasks, scope, status=TaskStatus.CANCELLED)
    _end(transaction, approvals, scope, status=ApprovalStatus.CANCELLED)
    _end(transaction, decisions, scope, status=DecisionStatus.CANCELLED)


def _end(transaction: Transaction, table: sa.Table, scope: Scope, *, status: object) -> None:
    open_ones = sa.update(table).where(table.c.run_id.in_(scope), table.c.ended_at.is_(None))
    transaction.change(open_ones.values(status=status, ended_at=transaction.now))


def _release_leases(transaction: Transaction, scope: Scope) -> None:
    """Take runs from their owners: what these still write is refused."""
    held = sa.update(leases).where(leases.c.run_id.in_(scope), leases.c.released_at.is_(None))
    transaction.change(held.values(released_at=transaction.now))


def end_runs(
    transaction: Transaction,
    scope: Scope,
    status: RunStatus,
    *,
    reason: str | None = None,
    output: int | None = None,
) -> int:
    """End the live ones among runs, with their generations, leases, bookkeeping and keys. Return how many.

    The runs come last: until then their missing end tells which of the scope are meant.
    """
    live = sa.select(runs.c.id).where(runs.c.id.in_(scope), runs.c.ended_at.is_(None))
    count: int = transaction.value(sa.select(sa.func.count()).select_from(live.subquery()))
    if count == 0:
        return 0
    current = sa.update(generations).where(generations.c.run_id.in_(live), generations.c.status == "running")
    transaction.change(current.values(status=GenerationStatus(status), ended_at=transaction.now))
    _release_leases(transaction, live)
    settle(transaction, live)
    _bury_keys(transaction, live, status, output)
    ended = sa.update(runs).where(runs.c.id.in_(scope), runs.c.ended_at.is_(None))
    values = {"status": status, "reason": reason, "output_id": output, "ended_at": transaction.now}
    transaction.change(ended.values(values))
    return count  # a driver counts no rows of a statement that begins with a common table expression


def _bury_keys(transaction: Transaction, live: Scope, status: RunStatus, output: int | None) -> None:
    """Write a tombstone for each idempotency key: it outlives the run, and removal has nothing to insert."""
    digest = sa.select(blobs.c.address).where(blobs.c.id == output).scalar_subquery()
    columns = runs.c.idempotency_key, runs.c.id, sa.literal(status.value), digest, sa.literal(transaction.now)
    keyed = sa.select(*columns).where(runs.c.id.in_(live), runs.c.idempotency_key.is_not(None))
    names = ["key", "run_id", "status", "outcome_digest", "ended_at"]
    transaction.change(sa.insert(tombstones).from_select(names, keyed))
