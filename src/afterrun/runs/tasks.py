"""Tasks of a run, and what each needs: a task is blocked until all that it needs is completed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from afterrun.runs.access import expect, hold_as_owner, look_at
from afterrun.runs.database import Database, Transaction
from afterrun.runs.errors import NotFound, WrongState
from afterrun.runs.labels import label
from afterrun.runs.lineage import lineage_block, refuse, step_block
from afterrun.runs.numbers import next_number
from afterrun.runs.obligations import close_work, open_work
from afterrun.runs.schema import task_needs, tasks
from afterrun.runs.views import Attempt, Run
from afterrun.runs.words import RunStatus, TaskStatus, Work


@dataclass(frozen=True, slots=True)
class Task:
    """A task of a generation."""

    run: str
    generation: int
    number: int


class Tasks:
    """Adds and ends tasks. Raises `WorkBlocked`, `StaleEpoch`, `WrongState`, `NotFound`, `RunNotFound`."""

    def __init__(self, database: Database) -> None:
        """Work on a store."""
        self._database = database

    def add(
        self,
        run: str,
        name: str,
        *,
        needs: Sequence[Task] = (),
        attempt: Attempt | None = None,
        epoch: int | None = None,
    ) -> Task:
        """Add a task to the current generation of a running run, and say what it needs."""
        with self._database.writing() as transaction:
            found = hold_as_owner(transaction, run, epoch)
            refuse(lineage_block(transaction, run) if attempt is None else step_block(transaction, attempt))
            expect(found, [RunStatus.RUNNING], "get a task")
            open_needs = _open_needs(transaction, found, needs)
            number = next_number(transaction, tasks, run_id=run, generation=found.generation)
            task = Task(run, found.generation, number)
            transaction.insert(
                tasks,
                run_id=run,
                generation=found.generation,
                number=number,
                step=attempt and attempt.step,
                attempt=attempt and attempt.number,
                name=label("name of a task", name),
                status=TaskStatus.BLOCKED if open_needs else TaskStatus.OPEN,
                created_at=transaction.now,
            )
            for need in needs:
                place = {"run_id": run, "generation": found.generation}
                transaction.insert(task_needs, **place, task=number, needs=need.number)
            open_work(transaction, found, Work.QUEUED, generation=found.generation, subject=_subject(task))
        return task

    def complete(self, task: Task, *, epoch: int | None = None) -> None:
        """End a task, and open those that needed nothing else."""
        with self._database.writing() as transaction:
            run = hold_as_owner(transaction, task.run, epoch)
            _end(transaction, run, task, TaskStatus.COMPLETED)
            transaction.change(_unblock(task))

    def fail(self, task: Task, *, epoch: int | None = None) -> None:
        """End a task that failed. What needs it, also through others, can never begin: it is cancelled."""
        with self._database.writing() as transaction:
            run = hold_as_owner(transaction, task.run, epoch)
            _end(transaction, run, task, TaskStatus.FAILED)
            for (number,) in transaction.rows(_dependents(task)):
                _end(transaction, run, Task(task.run, task.generation, number), TaskStatus.CANCELLED)

    def of(self, run: str) -> dict[Task, TaskStatus]:
        """Return the tasks of a run with their states, in the order in which they were added."""
        wanted = sa.select(tasks).where(tasks.c.run_id == run)
        with self._database.reading() as transaction:
            look_at(transaction, run)
            rows = transaction.rows(wanted.order_by(tasks.c.generation, tasks.c.number))
        return {Task(row.run_id, row.generation, row.number): TaskStatus(row.status) for row in rows}


def _open_needs(transaction: Transaction, run: Run, needs: Sequence[Task]) -> bool:
    """Say whether any of these tasks is open. Raises `NotFound`, and `WrongState` for one that failed."""
    waits = False
    for need in needs:
        if (need.run, need.generation) != (run.id, run.generation):
            raise NotFound("a task needs tasks of its own generation only")
        status = _status(transaction, need)
        if status in (TaskStatus.FAILED, TaskStatus.CANCELLED):
            raise WrongState(f"a task that is {status} will never be completed", status=status)
        waits = waits or status != TaskStatus.COMPLETED
    return waits


def _status(transaction: Transaction, task: Task) -> str:
    found: str | None = transaction.value(sa.select(tasks.c.status).where(_is(task)))
    if found is None:
        raise NotFound("the run has no such task")
    return found


def _end(transaction: Transaction, run: Run, task: Task, status: TaskStatus) -> None:
    before = _status(transaction, task)
    wanted = (TaskStatus.BLOCKED, TaskStatus.OPEN) if status is TaskStatus.CANCELLED else (TaskStatus.OPEN,)
    if before not in wanted:
        raise WrongState(f"a task that is {before} cannot become {status}", status=before)
    transaction.change(sa.update(tasks).where(_is(task)), {"status": status, "ended_at": transaction.now})
    close_work(transaction, run, Work.QUEUED, generation=task.generation, subject=_subject(task))


def _unblock(task: Task) -> sa.Update:
    """Return what opens the blocked tasks that needed this one and now need nothing more."""
    need = tasks.alias("need")
    link = task_needs.alias("link")
    same = sa.and_(link.c.run_id == task.run, link.c.generation == task.generation)
    waiting = sa.select(link.c.task).where(same, link.c.needs == task.number)
    other = sa.and_(need.c.run_id == task.run, need.c.generation == task.generation)
    unmet = (
        sa.select(link.c.task)
        .join_from(link, need, sa.and_(other, need.c.number == link.c.needs))
        .where(same, need.c.status != TaskStatus.COMPLETED)
    )
    mine = sa.and_(tasks.c.run_id == task.run, tasks.c.generation == task.generation)
    blocked = sa.and_(mine, tasks.c.status == TaskStatus.BLOCKED)
    opened = sa.update(tasks).where(blocked, tasks.c.number.in_(waiting), tasks.c.number.not_in(unmet))
    return opened.values(status=TaskStatus.OPEN)


def _dependents(task: Task) -> sa.Select[Any]:
    """Return the blocked tasks that need this one, directly or through others."""
    place = sa.and_(task_needs.c.run_id == task.run, task_needs.c.generation == task.generation)
    start = sa.select(task_needs.c.task).where(place, task_needs.c.needs == task.number)
    found = start.cte("found", recursive=True)
    link = task_needs.alias("link")
    further = sa.select(link.c.task).where(
        link.c.run_id == task.run, link.c.generation == task.generation, link.c.needs == found.c.task
    )
    walked = found.union(further)
    mine = sa.and_(tasks.c.run_id == task.run, tasks.c.generation == task.generation)
    blocked = sa.and_(mine, tasks.c.status == TaskStatus.BLOCKED)
    return sa.select(tasks.c.number).where(blocked, tasks.c.number.in_(sa.select(walked.c.task)))


def _is(task: Task) -> sa.ColumnElement[bool]:
    return sa.and_(
        tasks.c.run_id == task.run, tasks.c.generation == task.generation, tasks.c.number == task.number
    )


def _subject(task: Task) -> str:
    return f"task {task.number}"
