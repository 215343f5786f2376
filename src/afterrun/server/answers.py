"""What a server answers, as models. Text of payloads is what may be shown; the exact one is nowhere here."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Literal, Protocol, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from afterrun.runs import Attempt, Effect, Message, Run, Step
from afterrun.runs.contents import Display
from afterrun.runs.pages import Asked

Row_co = TypeVar("Row_co", covariant=True)


class Answer(BaseModel):
    """An answer."""

    model_config = ConfigDict(frozen=True, extra="ignore")  # a client reads what a newer server says


class Page(Protocol[Row_co]):
    """A page of a list. ``next`` is what the next page goes on after, if there may be one."""

    @property
    def rows(self) -> Sequence[Row_co]:
        """Return what is on it."""

    @property
    def next(self) -> str | None:
        """Return what the next page goes on after."""


class AttemptAnswer(Answer):
    """The attempt at a step from which a run was started."""

    run: str
    generation: int
    step: int
    attempt: int

    @classmethod
    def of(cls, attempt: Attempt) -> Self:
        """Read an attempt."""
        return cls(run=attempt.run, generation=attempt.generation, step=attempt.step, attempt=attempt.number)


class RunAnswer(Answer):
    """A run as it is now, without any payload."""

    id: str
    root: str
    workflow: str
    status: str
    reason: str | None
    generation: int
    parent: AttemptAnswer | None
    restart_of: str | None
    continuation_of: str | None
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None

    @classmethod
    def of(cls, run: Run) -> Self:
        """Read a run."""
        return cls(
            id=run.id,
            root=run.root,
            workflow=run.name,
            status=run.status.value,
            reason=run.reason,
            generation=run.generation,
            parent=None if run.parent is None else AttemptAnswer.of(run.parent),
            restart_of=run.restart_of,
            continuation_of=run.continuation_of,
            created_at=run.created_at,
            started_at=run.started_at,
            ended_at=run.ended_at,
        )


class StartedAnswer(Answer):
    """A run that was started, or with ``new`` false the one that its key had started before."""

    run: RunAnswer
    new: bool


class RunsAnswer(Answer):
    """A page of runs. ``next`` is what the next page goes on after, if there may be one."""

    runs: Sequence[RunAnswer]
    next: str | None

    @property
    def rows(self) -> Sequence[RunAnswer]:
        """Return what is on it."""
        return self.runs

    @classmethod
    def of(cls, runs: Sequence[Run], *, limit: int) -> Self:
        """Read a page of at most ``limit`` runs."""
        after = runs[-1].id if len(runs) == limit else None
        return cls(runs=[RunAnswer.of(run) for run in runs], next=after)


class StepAnswer(Answer):
    """A step as it is now, with its current attempt."""

    generation: int
    number: int
    name: str
    status: str
    attempt: int
    attempt_status: str
    started_at: datetime
    ended_at: datetime | None

    @classmethod
    def of(cls, step: Step) -> Self:
        """Read a step."""
        return cls(
            generation=step.generation,
            number=step.number,
            name=step.name,
            status=step.status.value,
            attempt=step.attempt,
            attempt_status=step.attempt_status.value,
            started_at=step.started_at,
            ended_at=step.ended_at,
        )


class StepsAnswer(Answer):
    """A page of steps. ``next`` is what the next page goes on after, if there may be one."""

    steps: Sequence[StepAnswer]
    next: str | None

    @property
    def rows(self) -> Sequence[StepAnswer]:
        """Return what is on it."""
        return self.steps

    @classmethod
    def of(cls, steps: Sequence[Step], *, limit: int) -> Self:
        """Read a page of at most ``limit`` steps."""
        last = steps[-1] if len(steps) == limit else None
        after = None if last is None else f"{last.generation}.{last.number}"
        return cls(steps=[StepAnswer.of(step) for step in steps], next=after)


class QuestionAnswer(Answer):
    """A question of a run, and what was answered."""

    kind: Literal["approval", "decision"]
    generation: int
    number: int
    subject: str
    status: str
    choices: Sequence[str]
    answer: str | None
    asked_at: datetime
    ended_at: datetime | None

    @classmethod
    def of(cls, asked: Asked) -> Self:
        """Read a question."""
        return cls(
            kind=asked.kind,
            generation=asked.generation,
            number=asked.number,
            subject=asked.subject,
            status=asked.status,
            choices=asked.choices,
            answer=asked.answer,
            asked_at=asked.asked_at,
            ended_at=asked.ended_at,
        )


class QuestionsAnswer(Answer):
    """A page of questions. ``next`` is what the next page goes on after, if there may be one."""

    questions: Sequence[QuestionAnswer]
    next: str | None

    @property
    def rows(self) -> Sequence[QuestionAnswer]:
        """Return what is on it."""
        return self.questions

    @classmethod
    def of(cls, asked: Sequence[Asked], *, limit: int) -> Self:
        """Read a page of at most ``limit`` questions."""
        last = asked[-1] if len(asked) == limit else None
        after = None if last is None else f"{last.generation}.{last.number}"
        return cls(questions=[QuestionAnswer.of(part) for part in asked], next=after)


class EffectAnswer(Answer):
    """An effect as it stands: ``ambiguous`` is one of which nobody knows whether it happened."""

    generation: int
    number: int
    name: str
    status: str

    @classmethod
    def of(cls, effect: Effect) -> Self:
        """Read an effect."""
        return cls(
            generation=effect.generation,
            number=effect.number,
            name=effect.name,
            status=effect.status.value,
        )


class EffectsAnswer(Answer):
    """A page of effects. ``next`` is what the next page goes on after, if there may be one."""

    effects: Sequence[EffectAnswer]
    next: str | None

    @property
    def rows(self) -> Sequence[EffectAnswer]:
        """Return what is on it."""
        return self.effects

    @classmethod
    def of(cls, effects: Sequence[Effect], *, limit: int) -> Self:
        """Read a page of at most ``limit`` effects."""
        last = effects[-1] if len(effects) == limit else None
        after = None if last is None else f"{last.generation}.{last.number}"
        return cls(effects=[EffectAnswer.of(part) for part in effects], next=after)


class MessageAnswer(Answer):
    """A message to a run, and when that read it. What it says is not told."""

    number: int
    sender: str | None
    sent_at: datetime
    read_at: datetime | None

    @classmethod
    def of(cls, message: Message) -> Self:
        """Read a message."""
        return cls(
            number=message.number,
            sender=message.sender,
            sent_at=message.sent_at,
            read_at=message.consumed_at,
        )


class PayloadAnswer(Answer):
    """What may be shown of a payload: its bytes as a count, and text without secrets, where there is any."""

    bytes: int
    display: str | None

    @classmethod
    def of(cls, display: Display | None) -> Self | None:
        """Read what may be shown; of nothing, nothing."""
        return None if display is None else cls(bytes=display.size, display=display.text)


class RunDetail(RunAnswer):
    """A run, how much it has, and what it waits to be told."""

    input: PayloadAnswer | None
    output: PayloadAnswer | None
    progress: str | None = Field(description="What it last said of its progress, scrubbed.")
    steps: int
    children: int
    work: dict[str, int] = Field(description="Its open work by kind: what keeps it from going.")
    questions: Sequence[QuestionAnswer] = Field(description="At most 20 that nobody has answered.")
    in_doubt: Sequence[EffectAnswer] = Field(description="At most 20 effects that somebody has to settle.")


class CancelledAnswer(Answer):
    """How many runs a cancellation ended."""

    cancelled: int


class HealthAnswer(Answer):
    """Whether the server takes work."""

    ready: bool


class StateAnswer(Answer):
    """How the server is: counts and moments by name, and nothing that tells of a single run."""

    ready: bool
    counts: dict[str, int]
    moments: dict[str, datetime | None]


class ProblemAnswer(Answer):
    """An error: a sentence for people, and words for programs."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    kind: str
    reason: str | None = None
