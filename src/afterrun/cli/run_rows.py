"""Rows of tables that tell of runs, their steps and questions."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from afterrun.cli.text import moment, size
from afterrun.core.times import SECOND, to_instant
from afterrun.server.answers import PayloadAnswer, QuestionAnswer, RunAnswer

Row = tuple[str, object]


def run_rows(run: RunAnswer) -> Iterator[Row]:
    """Yield what a run is, a row a fact."""
    yield "run", run.id
    yield "workflow", run.workflow
    yield "status", run.status
    if run.reason is not None:
        yield "reason", run.reason
    if run.root != run.id:
        yield "root", run.root
    if run.parent is not None:
        yield "parent", f"{run.parent.run}, step {run.parent.step} of generation {run.parent.generation}"
    for word, other in (("restart of", run.restart_of), ("continuation of", run.continuation_of)):
        if other is not None:
            yield word, other
    yield "generation", run.generation
    yield "created", when(run.created_at)
    yield "started", when(run.started_at)
    yield "ended", when(run.ended_at)


def payload_row(word: str, payload: PayloadAnswer | None) -> Iterator[Row]:
    """Yield what may be shown of a payload."""
    if payload is not None:
        shown = "" if payload.display is None else f": {payload.display}"
        yield word, f"{size(payload.bytes)}{shown}"


def question_row(question: QuestionAnswer) -> tuple[object, ...]:
    """Return a row of a table of questions."""
    return (
        question.kind,
        f"{question.generation}.{question.number}",
        question.subject,
        ", ".join(question.choices) or "any word",
        when(question.asked_at),
    )


def when(at: datetime | None) -> str:
    """Write a moment, to the second."""
    if at is None:
        return "not yet"
    instant = to_instant(at)
    return moment(instant - instant % SECOND)
