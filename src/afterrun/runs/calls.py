"""Calls of a workflow: steps that say their own numbers, so that a replay finds each where it was recorded.

A call that is done at once is recorded in one transaction, with its outcome. One that waits for something, or
that fails and is tried again, is a row from its beginning.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import sqlalchemy as sa

from afterrun.core.times import Instant, micros
from afterrun.runs import conclusion, contents, recording
from afterrun.runs.access import change_run, expect, hold_as_owner
from afterrun.runs.database import Database, Transaction
from afterrun.runs.errors import NotFound
from afterrun.runs.labels import label
from afterrun.runs.lineage import lineage_block, refuse
from afterrun.runs.obligations import close_work, open_work
from afterrun.runs.schema import attempts, steps
from afterrun.runs.scrub import scrub
from afterrun.runs.views import Attempt, Run
from afterrun.runs.words import AttemptStatus, RunStatus, StepKind, StepStatus, Work

FIRST = 1
"""The number of the first attempt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call of a run's current generation, by its number there. ``attempt`` is the try that is told of."""

    run: str
    epoch: int
    number: int
    name: str
    kind: StepKind = StepKind.STEP
    attempt: int = FIRST


class Calls:
    """Records calls for the owner of a run. Raises `StaleEpoch`, `WrongState`, `WorkBlocked`, `NotFound`."""

    def __init__(self, database: Database) -> None:
        """Work on a store."""
        self._database = database

    def record(self, call: Call, *, output: bytes | None = None) -> None:
        """Record a call that is done: one durable commit."""
        with self._database.writing() as transaction:
            if call.attempt == FIRST:
                place: dict[str, Any] = {"kind": call.kind, "number": call.number, "epoch": call.epoch}
                recording.record(transaction, call.run, call.name, output=output, **place)
                return
            run = owned(transaction, call)
            content = contents.store(transaction, output)
            end(transaction, run, call, AttemptStatus.COMPLETED, output_id=content)

    def fail(self, call: Call, *, reason: str, retry_in: timedelta | None = None) -> str:
        """Record a try that failed, and with ``retry_in`` queue another one; return the reason as stored."""
        said = scrub(reason)
        with self._database.writing() as transaction:
            run = owned(transaction, call)
            end(transaction, run, call, AttemptStatus.FAILED, retry_in=retry_in, reason=said)
        return said

    def begin(self, call: Call, *, due_in: timedelta | None = None) -> Attempt:
        """Begin a call that waits, until so long from now at the most."""
        with self._database.writing() as transaction:
            return begin(transaction, owned(transaction, call), call, due_in=due_in)

    def end(self, call: Call, *, output: bytes | None = None) -> None:
        """Record what a call ended with that was begun before."""
        with self._database.writing() as transaction:
            run = owned(transaction, call)
            content = contents.store(transaction, output)
            settle(transaction, run, call.number, call.attempt, AttemptStatus.COMPLETED, output_id=content)

    def give_up(self, call: Call, *, reason: str, retry_in: timedelta | None = None) -> str:
        """Record that a call failed that was begun before; with ``retry_in`` queue another try."""
        said = scrub(reason)
        with self._database.writing() as transaction:
            run = owned(transaction, call)
            settle(transaction, run, call.number, call.attempt, AttemptStatus.FAILED, reason=said)
            if retry_in is not None:
                place = _attempt(run, call)
                _change_step(transaction, place, status=StepStatus.FAILED, ended_at=None)
                _queue(transaction, run, place, retry_in)
        return said

    def complete(self, run: str, *, output: bytes | None, epoch: int) -> None:
        """Complete a run, as `RunStore.finish` does."""
        with self._database.writing() as transaction:
            conclusion.complete(transaction, run, output=output, epoch=epoch)

    def update(self, call: Call, *, progress: str) -> None:
        """Show how far a run is; the newest view takes the place of the one before."""
        with self._database.writing() as transaction:
            run = owned(transaction, call)
            change_run(transaction, run.id, progress=progress)
            end(transaction, run, call, AttemptStatus.COMPLETED)


def owned(transaction: Transaction, call: Call) -> Run:
    """Hold the run of a call for its owner; it must be running, under no cancelled one."""
    run = hold_as_owner(transaction, call.run, call.epoch)
    expect(run, [RunStatus.RUNNING], "begin a step")
    refuse(lineage_block(transaction, call.run))
    return run


def begin(transaction: Transaction, run: Run, call: Call, *, due_in: timedelta | None = None) -> Attempt:
    """Begin a call, or a queued try of it."""
    due = None if due_in is None else transaction.now + micros(due_in)
    attempt = _attempt(run, call)
    running = {"status": AttemptStatus.RUNNING, "started_at": transaction.now, "due_at": due}
    if call.attempt == FIRST:
        _insert_step(transaction, run, call, StepStatus.RUNNING, ended=None)
        _insert_attempt(transaction, attempt, queued_at=transaction.now, **running)
    else:
        _change_queued(transaction, run, attempt, running)
        _change_step(transaction, attempt, status=StepStatus.RUNNING, attempt=call.attempt, ended_at=None)
    open_work(transaction, run, Work.RECORDING, generation=run.generation, subject=subject_of(call.number))
    return attempt


def end(
    transaction: Transaction,
    run: Run,
    call: Call,
    status: AttemptStatus,
    *,
    retry_in: timedelta | None = None,
    **values: object,
) -> None:
    """Record a try that is over and was not begun before, as one that ended at once."""
    now = transaction.now
    attempt = _attempt(run, call)
    step = StepStatus.COMPLETED if status is AttemptStatus.COMPLETED else StepStatus.FAILED
    ended = now if retry_in is None else None
    over = {"status": status, "started_at": now, "ended_at": now, **values}
    if call.attempt == FIRST:
        _insert_step(transaction, run, call, step, ended=ended)
        _insert_attempt(transaction, attempt, queued_at=now, **over)
    else:
        _change_queued(transaction, run, attempt, over)
        _change_step(transaction, attempt, status=step, attempt=call.attempt, ended_at=ended)
    if retry_in is not None:
        _queue(transaction, run, attempt, retry_in)


def settle(
    transaction: Transaction,
    run: Run,
    number: int,
    attempt: int,
    status: AttemptStatus,
    **values: object,
) -> None:
    """End a call that was begun before."""
    place = Attempt(run.id, run.generation, number, attempt)
    changed = {"status": status, "ended_at": transaction.now, **values}
    transaction.change(sa.update(attempts).where(_is(place)), changed)
    step = StepStatus.COMPLETED if status is AttemptStatus.COMPLETED else StepStatus.FAILED
    _change_step(transaction, place, status=step, ended_at=transaction.now)
    close_work(transaction, run, Work.RECORDING, generation=run.generation, subject=subject_of(number))


def try_again(transaction: Transaction, run: Run) -> int:
    """Queue another try of what ended a failed run: the steps after the last one that was completed."""
    mine = steps.c.run_id == run.id, steps.c.generation == run.generation
    last = sa.select(sa.func.max(steps.c.number)).where(*mine, steps.c.status == StepStatus.COMPLETED)
    undone = sa.select(steps.c.number, steps.c.attempt).where(
        *mine, steps.c.number > (transaction.value(last) or 0), steps.c.ended_at.is_not(None)
    )
    found = transaction.rows(undone.order_by(steps.c.number))
    for row in found:
        place = Attempt(run.id, run.generation, row.number, row.attempt)
        again = sa.delete(attempts).where(
            attempts.c.run_id == run.id,
            attempts.c.generation == run.generation,
            attempts.c.step == row.number,
            attempts.c.number > row.attempt,
        )
        transaction.change(again)  # a try that was queued when the run ended
        _change_step(transaction, place, status=StepStatus.FAILED, ended_at=None)
        _queue(transaction, run, place, timedelta(0))
    return len(found)


def subject_of(number: int) -> str:
    """Return what an obligation of a step is about."""
    return f"step {number}"


def _attempt(run: Run, call: Call) -> Attempt:
    return Attempt(run.id, run.generation, call.number, call.attempt)


def _insert_step(
    transaction: Transaction, run: Run, call: Call, status: StepStatus, *, ended: Instant | None
) -> None:
    transaction.insert(
        steps,
        run_id=run.id,
        generation=run.generation,
        number=call.number,
        name=label("name of a step", call.name),
        kind=call.kind,
        status=status,
        attempt=call.attempt,
        started_at=transaction.now,
        ended_at=ended,
    )


def _insert_attempt(transaction: Transaction, attempt: Attempt, **values: object) -> None:
    transaction.insert(
        attempts,
        run_id=attempt.run,
        generation=attempt.generation,
        step=attempt.step,
        number=attempt.number,
        **values,
    )


def _change_queued(transaction: Transaction, run: Run, attempt: Attempt, values: dict[str, object]) -> None:
    queued = sa.update(attempts).where(_is(attempt), attempts.c.status == AttemptStatus.QUEUED)
    if not transaction.change(queued, values):
        raise NotFound("the run has no such attempt in its queue")
    subject = subject_of(attempt.step)
    close_work(transaction, run, Work.QUEUED, generation=attempt.generation, subject=subject)


def _change_step(transaction: Transaction, place: Attempt, /, **values: object) -> None:
    step = sa.update(steps).where(
        steps.c.run_id == place.run,
        steps.c.generation == place.generation,
        steps.c.number == place.step,
    )
    transaction.change(step, values)


def _queue(transaction: Transaction, run: Run, attempt: Attempt, retry_in: timedelta) -> None:
    again = Attempt(attempt.run, attempt.generation, attempt.step, attempt.number + 1)
    due = transaction.now + micros(retry_in)
    _insert_attempt(transaction, again, status=AttemptStatus.QUEUED, queued_at=transaction.now, due_at=due)
    subject = subject_of(attempt.step)
    open_work(transaction, run, Work.QUEUED, generation=run.generation, subject=subject)


def _is(attempt: Attempt) -> sa.ColumnElement[bool]:
    return sa.and_(
        attempts.c.run_id == attempt.run,
        attempts.c.generation == attempt.generation,
        attempts.c.step == attempt.step,
        attempts.c.number == attempt.number,
    )
