"""What a workflow waits for: times, children, answers, messages. No wake-up is lost before the wait.

Whether something has come is asked in the transaction that lays the run aside, while its tree is held, and
who brings it wakes the run in a transaction that holds the tree as well.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

import sqlalchemy as sa

from afterrun.core.times import Instant, micros
from afterrun.runs import contents, creation
from afterrun.runs.access import expect, hold_as_owner
from afterrun.runs.calls import Call, begin, owned, settle
from afterrun.runs.creation import Order
from afterrun.runs.database import Database, Transaction
from afterrun.runs.history import Entry, entries
from afterrun.runs.labels import label
from afterrun.runs.lifecycle import lay_aside
from afterrun.runs.messages import Messages
from afterrun.runs.numbers import next_number
from afterrun.runs.obligations import open_work
from afterrun.runs.schema import attempts, decisions, runs, steps
from afterrun.runs.scrub import scrub
from afterrun.runs.side_tables import effects, receipts
from afterrun.runs.views import Attempt, Run
from afterrun.runs.words import (
    ENDED,
    AttemptStatus,
    DecisionStatus,
    EffectStatus,
    RunStatus,
    StepKind,
    StepStatus,
    Work,
)

MANY: Final = 200
"""Calls that one look settles at most; the rest is settled by the next one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waited:
    """What came of waiting: calls that ended, or tries that are due, else whether the run was laid aside.

    ``due_in`` is the time until the next of its times, if it has one.
    """

    settled: tuple[Entry, ...]
    resting: bool
    due_in: timedelta | None


class Waits:
    """Begins what a workflow waits for, and lays it aside. Raises as `Calls` does."""

    def __init__(self, database: Database) -> None:
        """Work on a store."""
        self._database = database
        self._messages = Messages(database)

    def child(self, call: Call, workflow: str, *, content: bytes | None) -> Run:
        """Begin a child run; its call ends with it."""
        with self._database.writing() as transaction:
            attempt = begin(transaction, owned(transaction, call), call)
            order = Order(name=workflow, parent=attempt, content=content, epoch=call.epoch)
            return creation.create(transaction, order).run

    def decision(self, call: Call, *, choices: tuple[str, ...]) -> None:
        """Ask somebody; the call ends with the answer. Its name is what the question is about."""
        with self._database.writing() as transaction:
            run = owned(transaction, call)
            begin(transaction, run, call)
            number = next_number(transaction, decisions, run_id=run.id, generation=run.generation)
            listed = [label("choice", choice) for choice in choices]
            transaction.insert(
                decisions,
                run_id=run.id,
                generation=run.generation,
                number=number,
                subject=label("subject of a question", call.name),
                status=DecisionStatus.PENDING,
                asked_at=transaction.now,
                step=call.number,
                choices=json.dumps(listed, ensure_ascii=False) if listed else None,
            )
            open_work(transaction, run, Work.DECISION, generation=run.generation, subject=str(number))

    def settle(self, run: str, *, epoch: int) -> tuple[Entry, ...]:
        """End the calls whose outcome is there, and return them, with the tries that are due."""
        with self._database.together(), self._database.writing() as transaction:
            return self._settle(transaction, hold_as_owner(transaction, run, epoch), epoch)

    def wait(self, run: str, *, epoch: int, patience: timedelta = timedelta(0)) -> Waited:
        """Lay a run aside, unless something has come, or will within the ``patience``."""
        with self._database.together(), self._database.writing() as transaction:
            found = hold_as_owner(transaction, run, epoch)
            expect(found, [RunStatus.RUNNING], "wait")
            settled = self._settle(transaction, found, epoch)
            due = _next_due(transaction, found)
            soon = due is not None and due - transaction.now <= micros(patience)
            resting = not settled and not soon
            if resting:
                lay_aside(transaction, found, RunStatus.WAITING, due=due)
            due_in = None if due is None else timedelta(microseconds=max(0, due - transaction.now))
            return Waited(settled=settled, resting=resting, due_in=due_in)

    def _settle(self, transaction: Transaction, run: Run, epoch: int) -> tuple[Entry, ...]:
        numbers = [
            *_end_sleeps(transaction, run),
            *_end_children(transaction, run),
            *_end_decisions(transaction, run),
            *self._end_receives(transaction, run, epoch),
            *_end_effects(transaction, run),
            *_due_tries(transaction, run),
        ]
        if not numbers:
            return ()
        return tuple(entries(transaction, sa.and_(*_mine(run), steps.c.number.in_(numbers)), limit=MANY))

    def _end_receives(self, transaction: Transaction, run: Run, epoch: int) -> list[int]:
        """Hand messages to the calls that wait for one, the oldest to the first; end those that are late."""
        ended = []
        for row in transaction.rows(_open_calls(run, StepKind.RECEIVE)):
            place = Attempt(run.id, run.generation, row.number, row.attempt)
            if self._messages.consume(run.id, record_as=place, epoch=epoch) is None:
                if row.due_at is None or row.due_at > transaction.now:
                    continue
                settle(transaction, run, row.number, row.attempt, AttemptStatus.COMPLETED)
            ended.append(row.number)
        return ended


def _mine(run: Run) -> tuple[sa.ColumnElement[bool], ...]:
    return steps.c.run_id == run.id, steps.c.generation == run.generation


def _open_calls(run: Run, kind: StepKind) -> sa.Select[Any]:
    """Return what finds running calls of a kind, with the time until which they wait."""
    current = sa.and_(
        attempts.c.run_id == steps.c.run_id,
        attempts.c.generation == steps.c.generation,
        attempts.c.step == steps.c.number,
        attempts.c.number == steps.c.attempt,
    )
    wanted = sa.select(steps.c.number, steps.c.attempt, attempts.c.due_at).join_from(steps, attempts, current)
    wanted = wanted.where(*_mine(run), steps.c.kind == kind, steps.c.ended_at.is_(None))
    return wanted.where(steps.c.status == StepStatus.RUNNING).order_by(steps.c.number).limit(MANY)


def _end_sleeps(transaction: Transaction, run: Run) -> list[int]:
    over = _open_calls(run, StepKind.SLEEP).where(attempts.c.due_at <= transaction.now)
    rows = transaction.rows(over)
    for row in rows:
        settle(transaction, run, row.number, row.attempt, AttemptStatus.COMPLETED)
    return [row.number for row in rows]


def _end_children(transaction: Transaction, run: Run) -> list[int]:
    child = runs.alias("child")
    wanted = _open_calls(run, StepKind.CHILD).add_columns(child.c.status, child.c.reason, child.c.output_id)
    wanted = wanted.where(
        child.c.parent_id == steps.c.run_id,
        child.c.parent_generation == steps.c.generation,
        child.c.parent_step == steps.c.number,
        child.c.parent_attempt == steps.c.attempt,
        child.c.status.in_(ENDED),
    )
    rows = transaction.rows(wanted)
    for row in rows:
        if row.status == RunStatus.COMPLETED:
            outcome: dict[str, object] = {"output_id": row.output_id}
            settle(transaction, run, row.number, row.attempt, AttemptStatus.COMPLETED, **outcome)
        else:
            why = f"the child run ended as {row.status}" + (f": {row.reason}" if row.reason else "")
            outcome = {"reason": scrub(why)}
            settle(transaction, run, row.number, row.attempt, AttemptStatus.FAILED, **outcome)
    return [row.number for row in rows]


def _end_decisions(transaction: Transaction, run: Run) -> list[int]:
    wanted = _open_calls(run, StepKind.DECIDE).add_columns(decisions.c.status, decisions.c.choice)
    wanted = wanted.where(
        decisions.c.run_id == steps.c.run_id,
        decisions.c.generation == steps.c.generation,
        decisions.c.step == steps.c.number,
        decisions.c.ended_at.is_not(None),
    )
    rows = transaction.rows(wanted)
    for row in rows:
        if row.status == DecisionStatus.DECIDED:
            chosen = contents.store(transaction, json.dumps(row.choice, ensure_ascii=False).encode())
            outcome: dict[str, object] = {"output_id": chosen}
            settle(transaction, run, row.number, row.attempt, AttemptStatus.COMPLETED, **outcome)
        else:
            outcome = {"reason": "the question was withdrawn"}
            settle(transaction, run, row.number, row.attempt, AttemptStatus.FAILED, **outcome)
    return [row.number for row in rows]


def _end_effects(transaction: Transaction, run: Run) -> list[int]:
    """End calls whose effect somebody settled as applied; return also those that may happen now."""
    wanted = _open_calls(run, StepKind.EFFECT).add_columns(effects.c.status, receipts.c.content_id)
    wanted = wanted.where(
        effects.c.run_id == steps.c.run_id,
        effects.c.generation == steps.c.generation,
        effects.c.step == steps.c.number,
        effects.c.status.in_([EffectStatus.APPLIED, EffectStatus.PENDING]),
    )
    receipt = sa.and_(
        receipts.c.run_id == effects.c.run_id,
        receipts.c.generation == effects.c.generation,
        receipts.c.effect == effects.c.number,
    )
    wanted = wanted.select_from(sa.join(effects, receipts, receipt, isouter=True))
    rows = transaction.rows(wanted)
    for row in rows:
        if row.status == EffectStatus.APPLIED:
            outcome: dict[str, object] = {"output_id": row.content_id}
            settle(transaction, run, row.number, row.attempt, AttemptStatus.COMPLETED, **outcome)
    return [row.number for row in rows]


def _queued_tries(run: Run) -> sa.Select[Any]:
    """Return what finds steps with a queued try, the one that is due first at the front."""
    after = sa.and_(
        attempts.c.run_id == steps.c.run_id,
        attempts.c.generation == steps.c.generation,
        attempts.c.step == steps.c.number,
        attempts.c.number == steps.c.attempt + 1,
        attempts.c.status == AttemptStatus.QUEUED,
    )
    wanted = sa.select(steps.c.number, attempts.c.due_at).join_from(steps, attempts, after)
    return wanted.where(*_mine(run), steps.c.ended_at.is_(None)).order_by(attempts.c.due_at)


def _due_tries(transaction: Transaction, run: Run) -> list[int]:
    due = _queued_tries(run).where(attempts.c.due_at <= transaction.now).limit(MANY)
    return [row.number for row in transaction.rows(due)]


def _next_due(transaction: Transaction, run: Run) -> Instant | None:
    """Return the first of the times that a run waits for."""
    current = sa.and_(
        attempts.c.run_id == steps.c.run_id,
        attempts.c.generation == steps.c.generation,
        attempts.c.step == steps.c.number,
        attempts.c.number >= steps.c.attempt,
    )
    found = sa.select(sa.func.min(attempts.c.due_at)).join_from(steps, attempts, current)
    open_ones = attempts.c.status.in_([AttemptStatus.RUNNING, AttemptStatus.QUEUED])
    due: Instant | None = transaction.value(found.where(*_mine(run), steps.c.ended_at.is_(None), open_ones))
    return due
