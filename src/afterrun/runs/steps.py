"""Steps of a run, and attempts at them. A retry waits in the queue until it is begun."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

import sqlalchemy as sa

from afterrun.core.times import micros, to_datetime
from afterrun.runs import contents
from afterrun.runs.access import expect, hold_as_owner, look_at
from afterrun.runs.contents import Display
from afterrun.runs.database import Database, Transaction, Values
from afterrun.runs.errors import NotFound, WrongState
from afterrun.runs.labels import label
from afterrun.runs.lineage import lineage_block, refuse, step_block
from afterrun.runs.numbers import next_number
from afterrun.runs.obligations import close_work, open_work
from afterrun.runs.recording import record
from afterrun.runs.schema import attempts, steps
from afterrun.runs.scrub import scrub
from afterrun.runs.views import Attempt, Run, Step, moment
from afterrun.runs.words import AttemptStatus, RunStatus, StepStatus, Work

FIRST = 1
"""The number of the first attempt."""

STEP_COLUMNS: Final = (*steps.c, attempts.c.status.label("attempt_status"))
CURRENT_ATTEMPT: Final = sa.and_(
    attempts.c.run_id == steps.c.run_id,
    attempts.c.generation == steps.c.generation,
    attempts.c.step == steps.c.number,
    attempts.c.number == steps.c.attempt,
)
"""What a view of a step is read from: the step, joined with its current attempt."""


class Steps:
    """Begins and ends steps. Raises `WorkBlocked`, `StaleEpoch`, `WrongState`, `NotFound`, `RunNotFound`."""

    def __init__(self, database: Database) -> None:
        """Work on a store."""
        self._database = database

    def start(self, run: str, name: str, *, epoch: int | None = None) -> Attempt:
        """Begin a step of a running run; return its first attempt."""
        with self._database.writing() as transaction:
            found = hold_as_owner(transaction, run, epoch)
            refuse(lineage_block(transaction, run))
            expect(found, [RunStatus.RUNNING], "begin a step")
            number = next_number(transaction, steps, run_id=run, generation=found.generation)
            attempt = Attempt(run, found.generation, number, FIRST)
            transaction.insert(
                steps,
                run_id=run,
                generation=found.generation,
                number=number,
                name=label("name of a step", name),
                status=StepStatus.RUNNING,
                attempt=FIRST,
                started_at=transaction.now,
            )
            now = transaction.now
            _insert(transaction, attempt, status=AttemptStatus.RUNNING, queued_at=now, started_at=now)
            _record(transaction, found, attempt)
        return attempt

    def record(self, run: str, name: str, *, output: bytes | None = None, epoch: int | None = None) -> Step:
        """Record a step of a running run that is done already, in one transaction; return it.

        For a step without effects: until then nothing says that it was begun, and it may be done again.
        """
        with self._database.writing() as transaction:
            return record(transaction, run, name, output=output, epoch=epoch)

    def complete(self, attempt: Attempt, *, output: bytes | None = None, epoch: int | None = None) -> None:
        """End a step with the output of its current attempt."""
        with self._database.writing() as transaction:
            run = self._current(transaction, attempt, epoch)
            complete_with(transaction, run, attempt, contents.store(transaction, output))

    def fail(
        self,
        attempt: Attempt,
        *,
        reason: str,
        retry_in: timedelta | None = None,
        epoch: int | None = None,
    ) -> Attempt | None:
        """End an attempt that failed; with ``retry_in``, queue another one, due after so long, and return it.

        The step has failed either way; with a retry in the queue it has no end yet.
        """
        with self._database.writing() as transaction:
            run = self._current(transaction, attempt, epoch)
            _end_attempt(transaction, attempt, AttemptStatus.FAILED, reason=scrub(reason))
            ended = transaction.now if retry_in is None else None
            _change(transaction, attempt, {"status": StepStatus.FAILED, "ended_at": ended})
            _close(transaction, run, attempt)
            return None if retry_in is None else _queue(transaction, run, attempt, retry_in)

    def retry(self, attempt: Attempt, *, epoch: int | None = None) -> Attempt:
        """Begin a queued attempt; it is the step's current one from then on."""
        with self._database.writing() as transaction:
            run = hold_as_owner(transaction, attempt.run, epoch)
            refuse(lineage_block(transaction, attempt.run))
            expect(run, [RunStatus.RUNNING], "begin a step")
            queued = sa.and_(_is(attempt), attempts.c.status == AttemptStatus.QUEUED)
            begun = sa.update(attempts).where(queued, attempts.c.generation == run.generation)
            begun = begun.values(status=AttemptStatus.RUNNING, started_at=transaction.now)
            if not transaction.change(begun):
                raise NotFound("the run has no such attempt in its queue")
            _change(transaction, attempt, {"status": StepStatus.RUNNING, "attempt": attempt.number})
            close_work(
                transaction, run, Work.QUEUED, generation=attempt.generation, subject=_subject(attempt)
            )
            _record(transaction, run, attempt)
        return attempt

    def of(self, run: str) -> list[Step]:
        """Return the steps of a run, ordered by start, then sequence."""
        wanted = sa.select(*STEP_COLUMNS).join_from(steps, attempts, CURRENT_ATTEMPT)
        wanted = wanted.where(steps.c.run_id == run)
        wanted = wanted.order_by(steps.c.started_at, steps.c.generation, steps.c.number)
        with self._database.reading() as transaction:
            look_at(transaction, run)
            return [step_of(row) for row in transaction.rows(wanted)]

    def output_of(self, step: Step) -> bytes | None:
        """Return exactly what the current attempt at a step ended with. Raises `PayloadUnreadable`."""
        reference, target = _output(step)
        with self._database.reading() as transaction:
            return contents.load(transaction, reference, run=step.run, target=target)

    def display_of(self, step: Step) -> Display | None:
        """Return what may be shown of that; it needs no key."""
        reference, target = _output(step)
        with self._database.reading() as transaction:
            return contents.show(transaction, reference, run=step.run, target=target)

    def _current(self, transaction: Transaction, attempt: Attempt, epoch: int | None) -> Run:
        """Hold the run of a step's current attempt, which may end it also while the run waits or parks."""
        run = hold_as_owner(transaction, attempt.run, epoch)
        block = step_block(transaction, attempt)
        if block is not None and block.reason in ("step-ended", "stale-attempt"):
            raise WrongState(f"the attempt is over: {block.sentence}", status=block.reason)
        refuse(block)
        return run


def record_with(transaction: Transaction, run: Run, name: str, content: int | None) -> Attempt:
    """Add a step that is done, with stored content as its output, to a run that is held."""
    number = next_number(transaction, steps, run_id=run.id, generation=run.generation)
    attempt = Attempt(run.id, run.generation, number, FIRST)
    now = transaction.now
    transaction.insert(
        steps,
        run_id=run.id,
        generation=run.generation,
        number=number,
        name=label("name of a step", name),
        status=StepStatus.COMPLETED,
        attempt=FIRST,
        started_at=now,
        ended_at=now,
    )
    times = {"queued_at": now, "started_at": now, "ended_at": now}
    _insert(transaction, attempt, status=AttemptStatus.COMPLETED, output_id=content, **times)
    return attempt


def complete_with(transaction: Transaction, run: Run, attempt: Attempt, content: int | None) -> None:
    """End the step of a current attempt with stored content as its output. Its run is held."""
    _end_attempt(transaction, attempt, AttemptStatus.COMPLETED, output_id=content)
    _change(transaction, attempt, {"status": StepStatus.COMPLETED, "ended_at": transaction.now})
    _close(transaction, run, attempt)


def _output(step: Step) -> tuple[sa.ScalarSelect[int], str]:
    reference = sa.select(attempts.c.output_id).where(_is(step.current)).scalar_subquery()
    return reference, f"output of attempt {step.attempt} at step {step.number}"


def _queue(transaction: Transaction, run: Run, attempt: Attempt, retry_in: timedelta) -> Attempt:
    again = Attempt(attempt.run, attempt.generation, attempt.step, attempt.number + 1)
    due = transaction.now + micros(retry_in)
    _insert(transaction, again, status=AttemptStatus.QUEUED, queued_at=transaction.now, due_at=due)
    open_work(transaction, run, Work.QUEUED, generation=again.generation, subject=_subject(again))
    return again


def _insert(transaction: Transaction, attempt: Attempt, **values: object) -> None:
    transaction.insert(
        attempts,
        run_id=attempt.run,
        generation=attempt.generation,
        step=attempt.step,
        number=attempt.number,
        **values,
    )


def _end_attempt(transaction: Transaction, attempt: Attempt, status: AttemptStatus, **values: object) -> None:
    ended = {"status": status, "ended_at": transaction.now, **values}
    transaction.change(sa.update(attempts).where(_is(attempt)), ended)


def _change(transaction: Transaction, attempt: Attempt, values: Values) -> None:
    step = sa.and_(
        steps.c.run_id == attempt.run,
        steps.c.generation == attempt.generation,
        steps.c.number == attempt.step,
    )
    transaction.change(sa.update(steps).where(step), values)


def _record(transaction: Transaction, run: Run, attempt: Attempt) -> None:
    subject = _subject(attempt)
    open_work(transaction, run, Work.RECORDING, generation=attempt.generation, subject=subject)


def _close(transaction: Transaction, run: Run, attempt: Attempt) -> None:
    subject = _subject(attempt)
    close_work(transaction, run, Work.RECORDING, generation=attempt.generation, subject=subject)


def _subject(attempt: Attempt) -> str:
    return f"step {attempt.step}"


def _is(attempt: Attempt) -> sa.ColumnElement[bool]:
    return sa.and_(
        attempts.c.run_id == attempt.run,
        attempts.c.generation == attempt.generation,
        attempts.c.step == attempt.step,
        attempts.c.number == attempt.number,
    )


def step_of(row: sa.Row[Any]) -> Step:
    """Return the view of a row of `STEP_COLUMNS`."""
    return Step(
        run=row.run_id,
        generation=row.generation,
        number=row.number,
        name=row.name,
        status=StepStatus(row.status),
        attempt=row.attempt,
        attempt_status=AttemptStatus(row.attempt_status),
        started_at=to_datetime(row.started_at),
        ended_at=moment(row.ended_at),
    )
