"""End what is open in runs, whether one that ends or a whole tree that is cancelled: a statement a kind.

``scope`` is always a statement that selects ids of runs, so no number of runs becomes a parameter or a list.
What has ended keeps its state and its reason.
"""

from __future__ import annotations

from typing import Any, Final

import sqlalchemy as sa

from afterrun.runs.database import Transaction
from afterrun.runs.obligations import close_ended, open_kinds, settle
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
from afterrun.runs.side_tables import checkpoints, effects, turns
from afterrun.runs.views import Run
from afterrun.runs.words import (
    UNSURE,
    ApprovalStatus,
    AttemptStatus,
    DecisionStatus,
    EffectStatus,
    GenerationStatus,
    RunStatus,
    StepStatus,
    TaskStatus,
    Work,
)

Scope = sa.Select[Any]

RESUMABLE: Final = (RunStatus.FAILED, RunStatus.TIMED_OUT)
"""Ends after which a run may be retried."""


def one_run(run: Run) -> Scope:
    """Return the scope of a single run."""
    return sa.select(runs.c.id).where(runs.c.id == run.id)


def own_work(run: sa.BindParameter[str]) -> sa.ColumnElement[bool]:
    """Return what says whether a run has something open that it must end itself."""
    tests = [
        sa.exists().where(table.c.run_id == run, table.c.ended_at.is_(None))
        for table in (steps, tasks, approvals, decisions)
    ]
    words: list[sa.ColumnElement[str]] = [sa.literal_column(f"'{word}'") for word in UNSURE]
    unsure = sa.exists().where(effects.c.run_id == run, effects.c.status.in_(words))
    return sa.or_(*tests, unsure)


OWN_WORK: Final = sa.select(own_work(sa.bindparam("run")))


def has_open_work(transaction: Transaction, run: Run) -> bool:
    """Say whether a run has an open step, queued retry, task, unanswered question, or effect that it began.

    An effect that is in doubt is for somebody else to settle.
    """
    [(found,)] = transaction.rows(OWN_WORK, {"run": run.id})
    return bool(found)


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


def end_side_work(transaction: Transaction, scope: Scope, *, resumable: bool) -> None:
    """End what runs have open beside their steps, as far as nobody else has to.

    Effects that were not begun are given up; of those that were, nobody may ever tell whether they happened,
    so they are in doubt. Turns without an answer get none. Unless a run may be retried, nobody resumes it.
    """
    found = open_kinds(transaction, scope)
    if Work.EFFECT in found:
        _end_effects(transaction, scope)
    if Work.TURN in found:
        unanswered = sa.and_(turns.c.run_id.in_(scope), turns.c.answered_at.is_(None))
        ended = sa.update(turns).where(unanswered, turns.c.ended_at.is_(None))
        transaction.change(ended.values(ended_at=transaction.now))
        close_ended(transaction, scope, Work.TURN, turns)
    if Work.CHECKPOINT in found and not resumable:
        forget_checkpoints(transaction, scope)


def forget_checkpoints(transaction: Transaction, scope: Scope) -> None:
    """Settle the checkpoints from which runs could have been resumed."""
    open_ones = sa.and_(checkpoints.c.resumable == 1, checkpoints.c.settled_at.is_(None))
    settled = sa.update(checkpoints).where(checkpoints.c.run_id.in_(scope), open_ones)
    transaction.change(settled.values(settled_at=transaction.now))
    settle(transaction, scope, Work.CHECKPOINT)


def _end_effects(transaction: Transaction, scope: Scope) -> None:
    of = effects.c.run_id.in_(scope)
    begun = sa.update(effects).where(of, effects.c.status == EffectStatus.APPLYING)
    transaction.change(begun.values(status=EffectStatus.AMBIGUOUS))
    pending = sa.update(effects).where(of, effects.c.status == EffectStatus.PENDING)
    transaction.change(pending.values(status=EffectStatus.CANCELLED, ended_at=transaction.now))
    close_ended(transaction, scope, Work.EFFECT, effects)


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
    end_side_work(transaction, live, resumable=status in RESUMABLE)
    settle(transaction, live)
    _bury_keys(transaction, live, status, output)
    ended = sa.update(runs).where(runs.c.id.in_(scope), runs.c.ended_at.is_(None))
    values = {"status": status, "reason": reason, "output_id": output, "ended_at": transaction.now}
    values["due_at"] = None
    transaction.change(ended.values(values))
    return count  # a driver counts no rows of a statement that begins with a common table expression


def _bury_keys(transaction: Transaction, live: Scope, status: RunStatus, output: int | None) -> None:
    """Write a tombstone for each idempotency key: it outlives the run, and removal has nothing to insert."""
    digest = sa.select(blobs.c.address).where(blobs.c.id == output).scalar_subquery()
    columns = runs.c.idempotency_key, runs.c.id, sa.literal(status.value), digest, sa.literal(transaction.now)
    keyed = sa.select(*columns).where(runs.c.id.in_(live), runs.c.idempotency_key.is_not(None))
    names = ["key", "run_id", "status", "outcome_digest", "ended_at"]
    transaction.change(sa.insert(tombstones).from_select(names, keyed))
