"""What becomes of a run: it starts, parks, waits, is woken, goes on as a new generation, ends, is retried."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa

from afterrun.core.errors import UsageError
from afterrun.core.times import Instant
from afterrun.runs import contents, results
from afterrun.runs.access import change_run, expect, hold, hold_as_owner, look_at
from afterrun.runs.database import Transaction
from afterrun.runs.endings import RESUMABLE, end_runs, end_work, has_open_work, one_run
from afterrun.runs.errors import WrongState
from afterrun.runs.leases import let_go
from afterrun.runs.lineage import lineage_block, refuse
from afterrun.runs.obligations import close_work, open_work
from afterrun.runs.schema import generations, runs, tombstones
from afterrun.runs.scrub import scrub
from afterrun.runs.side_tables import messages
from afterrun.runs.views import Run
from afterrun.runs.words import ENDED, GenerationStatus, RunStatus, Work

STARTABLE: Final = (RunStatus.QUEUED, RunStatus.PARKED, RunStatus.WAITING)
NO_END: Final = {"ended_at": None, "due_at": None}
RESTING: Final = (RunStatus.PARKED, RunStatus.WAITING)
UNREAD: Final = (
    sa.select(messages.c.number, messages.c.content_id)
    .where(messages.c.run_id == sa.bindparam("run"), messages.c.consumed_at.is_(None))
    .order_by(messages.c.number)
    .limit(1)
)
"""Finds the oldest message that a run has not read."""


def start(transaction: Transaction, run: str, *, epoch: int | None = None) -> Run:
    """Begin a run, or go on with one that parked or waits."""
    found = hold_as_owner(transaction, run, epoch)
    expect(found, STARTABLE, "start")
    refuse(lineage_block(transaction, run))
    begin(transaction, found)
    return look_at(transaction, run)


def begin(transaction: Transaction, run: Run) -> None:
    """Let a run go on whose tree is held and that may."""
    first = {} if run.started_at else {"started_at": transaction.now}
    change_run(transaction, run.id, status=RunStatus.RUNNING, wake_at=None, **first)
    close_work(transaction, run, Work.QUEUED, Work.WAITING)


def rest(transaction: Transaction, run: str, status: RunStatus, *, epoch: int | None = None) -> Run:
    """Let a run park or wait. Its lease ends with that."""
    found = hold_as_owner(transaction, run, epoch)
    expect(found, [RunStatus.RUNNING], "park" if status is RunStatus.PARKED else "wait")
    lay_aside(transaction, found, status)
    return look_at(transaction, run)


def lay_aside(transaction: Transaction, run: Run, status: RunStatus, *, due: Instant | None = None) -> None:
    """Let a run whose tree is held park or wait, until ``due`` at the latest."""
    change_run(transaction, run.id, status=status, wake_at=due)
    let_go(transaction, run)
    open_work(transaction, run, Work.WAITING)


def hand_off(transaction: Transaction, run: Run) -> None:
    """Queue a running run again for another owner; nothing of it has failed. Its tree is held."""
    change_run(transaction, run.id, status=RunStatus.QUEUED)
    let_go(transaction, run)
    open_work(transaction, run, Work.QUEUED)


def wake(transaction: Transaction, run: Run) -> bool:
    """Queue a run that waits; say whether it did. Its tree is held."""
    if run.status is not RunStatus.WAITING:
        return False
    change_run(transaction, run.id, status=RunStatus.QUEUED, wake_at=None)
    close_work(transaction, run, Work.WAITING)
    open_work(transaction, run, Work.QUEUED)
    return True


def wake_parent(transaction: Transaction, run: Run) -> None:
    """Queue the run that started this one, if it waits."""
    if run.parent is not None:
        wake(transaction, look_at(transaction, run.parent.run))


def finish(
    transaction: Transaction,
    run: str,
    status: RunStatus,
    *,
    output: bytes | None = None,
    reason: str | None = None,
    deliver_to: str | None = None,
    epoch: int | None = None,
) -> Run:
    """End a run, and settle all of the store's own bookkeeping of it.

    A run that completed must have ended its own work; of any other, what is open is cancelled.
    """
    if status is RunStatus.CANCELLED:
        raise UsageError("a run is cancelled with all that hangs from it: call cancel_tree")
    if status not in ENDED:
        raise UsageError("a run ends as completed, failed or timed_out")
    found = hold_as_owner(transaction, run, epoch)
    if found.status in ENDED:
        raise WrongState(f"the run has ended already, as {found.status}", status=found.status)
    scope = one_run(found)
    if status is RunStatus.COMPLETED:
        _refuse_open_work(transaction, found, "complete")
    else:
        end_work(transaction, scope)
    said = None if reason is None else scrub(reason)
    end_runs(transaction, scope, status, reason=said, output=contents.store(transaction, output))
    recipient = deliver_to
    if recipient is None:
        recipient = transaction.value(sa.select(runs.c.recipient).where(runs.c.id == run))
    if recipient is not None:
        results.post(transaction, found, recipient=recipient, content=output)
    wake_parent(transaction, found)
    return look_at(transaction, run)


def retry(transaction: Transaction, run: str) -> Run:
    """Queue a run again that failed or ran out of time; its age counts from its next end.

    What it ended with goes, unless something else refers to that.
    """
    found = hold(transaction, run)
    expect(found, RESUMABLE, "be retried")
    refuse(lineage_block(transaction, run))
    output = transaction.value(sa.select(runs.c.output_id).where(runs.c.id == run))
    change_run(transaction, run, status=RunStatus.QUEUED, reason=None, output_id=None, **NO_END)
    current = sa.and_(generations.c.run_id == run, generations.c.number == found.generation)
    again = sa.update(generations).where(current).values(status=GenerationStatus.RUNNING, ended_at=None)
    transaction.change(again)
    key = sa.select(runs.c.idempotency_key).where(runs.c.id == run).scalar_subquery()
    transaction.change(sa.delete(tombstones).where(tombstones.c.key == key))
    open_work(transaction, found, Work.QUEUED)
    if transaction.rows(UNREAD, {"run": run}):
        open_work(transaction, found, Work.MESSAGE)
    contents.drop(transaction, output)
    return look_at(transaction, run)


def go_on(transaction: Transaction, run: str) -> Run:
    """Queue a run that parked or waits; one that is queued already stays so."""
    found = hold(transaction, run)
    if found.status is RunStatus.QUEUED:
        return found
    expect(found, (*RESTING, *RESUMABLE), "go on")
    refuse(lineage_block(transaction, run))
    change_run(transaction, run, status=RunStatus.QUEUED, wake_at=None)
    close_work(transaction, found, Work.WAITING)
    open_work(transaction, found, Work.QUEUED)
    return look_at(transaction, run)


def continue_as_new(
    transaction: Transaction, run: str, *, content: bytes | None = None, epoch: int | None = None
) -> Run:
    """Go on as a new generation that begins with ``content``; retention may take the past one later."""
    found = hold_as_owner(transaction, run, epoch)
    expect(found, [RunStatus.RUNNING], "go on as new")
    refuse(lineage_block(transaction, run))
    _refuse_open_work(transaction, found, "go on as new")
    past = sa.and_(generations.c.run_id == run, generations.c.number == found.generation)
    ended = {"status": GenerationStatus.CONTINUED, "ended_at": transaction.now}
    transaction.change(sa.update(generations).where(past).values(ended))
    transaction.insert(
        generations,
        run_id=run,
        number=found.generation + 1,
        status=GenerationStatus.RUNNING,
        started_at=transaction.now,
        input_id=contents.store(transaction, content),
    )
    change_run(transaction, run, generation=found.generation + 1)
    return look_at(transaction, run)


def _refuse_open_work(transaction: Transaction, run: Run, doing: str) -> None:
    if has_open_work(transaction, run):
        raise WrongState(
            f"the run cannot {doing} with work of its own open: end its steps, queued retries, tasks, "
            "approvals, decisions and effects first",
            status=run.status,
        )
