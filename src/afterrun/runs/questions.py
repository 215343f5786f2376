"""What a run asks of others: approvals, with yes or no, and decisions, with a choice. An answer wakes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import sqlalchemy as sa

from afterrun.runs.access import expect, hold, hold_as_owner, look_at
from afterrun.runs.database import Database
from afterrun.runs.errors import NotFound, WrongState
from afterrun.runs.labels import label, spoken
from afterrun.runs.lifecycle import wake
from afterrun.runs.lineage import lineage_block, refuse
from afterrun.runs.numbers import next_number
from afterrun.runs.obligations import close_work, open_work
from afterrun.runs.schema import approvals, decisions
from afterrun.runs.words import LIVE, ApprovalStatus, DecisionStatus, RunStatus, Work


@dataclass(frozen=True, slots=True)
class Question:
    """An approval or a decision that a generation asked for."""

    run: str
    generation: int
    number: int


class _Questions:
    """What approvals and decisions have in common."""

    _table: ClassVar[sa.Table]
    _kind: ClassVar[Work]

    def __init__(self, database: Database) -> None:
        """Work on a store."""
        self._database = database

    def ask(self, run: str, subject: str, *, epoch: int | None = None) -> Question:
        """Ask, for a running run. ``subject`` says what about, in words that may be shown."""
        with self._database.writing() as transaction:
            found = hold_as_owner(transaction, run, epoch)
            refuse(lineage_block(transaction, run))
            expect(found, [RunStatus.RUNNING], "ask")
            number = next_number(transaction, self._table, run_id=run, generation=found.generation)
            transaction.insert(
                self._table,
                run_id=run,
                generation=found.generation,
                number=number,
                subject=spoken("subject of a question", subject),
                status="pending",
                asked_at=transaction.now,
            )
            open_work(transaction, found, self._kind, generation=found.generation, subject=str(number))
        return Question(run, found.generation, number)

    def status(self, question: Question) -> str:
        """Return where a question stands. Raises `NotFound`."""
        with self._database.reading() as transaction:
            found: str | None = transaction.value(sa.select(self._table.c.status).where(self._is(question)))
        if found is None:
            raise NotFound("the run has asked no such thing")
        return found

    def of(self, run: str) -> dict[Question, str]:
        """Return what a run has asked, with where each stands, in the order in which it asked."""
        columns = self._table.c
        wanted = sa.select(columns.generation, columns.number, columns.status).where(columns.run_id == run)
        with self._database.reading() as transaction:
            look_at(transaction, run)
            rows = transaction.rows(wanted.order_by(columns.generation, columns.number))
        return {Question(run, row.generation, row.number): row.status for row in rows}

    def _answer(self, question: Question, **values: object) -> None:
        """Answer a question once; the run is queued if it waits."""
        with self._database.writing() as transaction:
            found = hold(transaction, question.run)
            before = transaction.value(sa.select(self._table.c.status).where(self._is(question)))
            if before is None:
                raise NotFound("the run has asked no such thing")
            if before != "pending":
                raise WrongState(f"it is {before} already", status=before)
            expect(found, LIVE, "be answered")
            answer = {**values, "ended_at": transaction.now}
            transaction.change(sa.update(self._table).where(self._is(question)), answer)
            subject = str(question.number)
            close_work(transaction, found, self._kind, generation=question.generation, subject=subject)
            wake(transaction, found)

    def _is(self, question: Question) -> sa.ColumnElement[bool]:
        columns = self._table.c
        return sa.and_(
            columns.run_id == question.run,
            columns.generation == question.generation,
            columns.number == question.number,
        )


class Approvals(_Questions):
    """Asks whether something may be done. Raises as `Steps` does."""

    _table = approvals
    _kind = Work.INTERACTION

    def approve(self, question: Question, *, by: str) -> None:
        """Say yes."""
        self._answer(question, status=ApprovalStatus.APPROVED, decided_by=label("name of who answers", by))

    def reject(self, question: Question, *, by: str) -> None:
        """Say no."""
        self._answer(question, status=ApprovalStatus.REJECTED, decided_by=label("name of who answers", by))


class Decisions(_Questions):
    """Asks which way to go. Raises as `Steps` does."""

    _table = decisions
    _kind = Work.DECISION

    def decide(self, question: Question, choice: str, *, by: str) -> None:
        """Choose."""
        self._answer(
            question,
            status=DecisionStatus.DECIDED,
            choice=label("choice", choice),
            decided_by=label("name of who answers", by),
        )

    def choice(self, question: Question) -> str | None:
        """Return what was chosen, or ``None`` while nothing is. Raises `NotFound`."""
        self.status(question)
        with self._database.reading() as transaction:
            found: str | None = transaction.value(sa.select(decisions.c.choice).where(self._is(question)))
        return found
