"""The desk: where runs are started, looked at, answered and ended, over an open store.

The API of a server and a command line without a server ask the same desk; the client is one, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from afterrun.core.errors import UsageError
from afterrun.runs import Effect, NotFound, Question, RunStatus, RunStore, WrongState
from afterrun.runs.pages import Asked, Place, QuestionKind
from afterrun.server.again import again
from afterrun.server.answers import (
    CancelledAnswer,
    EffectAnswer,
    EffectsAnswer,
    MessageAnswer,
    PayloadAnswer,
    QuestionAnswer,
    QuestionsAnswer,
    RunAnswer,
    RunDetail,
    RunsAnswer,
    StartedAnswer,
    StepsAnswer,
)
from afterrun.server.asks import (
    CancelAsk,
    DecideAsk,
    EffectsAsk,
    MessageAsk,
    PageAsk,
    PartsAsk,
    QuestionsAsk,
    RunsAsk,
    SettleAsk,
    StartAsk,
)
from afterrun.server.payload import dump

SHOWN: Final = 20
"""Unanswered questions of one kind that the view of a run has."""


class Desk(Protocol):
    """What can be asked about runs. Raises `RunError` and `UsageError`."""

    def start(self, ask: StartAsk) -> StartedAnswer:
        """Start a workflow."""

    def runs(self, ask: RunsAsk) -> RunsAnswer:
        """Return a page of the newest runs."""

    def view(self, run: str) -> RunDetail:
        """Return a run as it is now."""

    def steps(self, run: str, ask: PartsAsk) -> StepsAnswer:
        """Return a page of its steps."""

    def tree(self, run: str, ask: PageAsk) -> RunsAnswer:
        """Return a page of the run and all below it, by id."""

    def questions(self, run: str, ask: QuestionsAsk) -> QuestionsAnswer:
        """Return a page of what it asked."""

    def cancel(self, run: str, ask: CancelAsk) -> CancelledAnswer:
        """Cancel it and all below it."""

    def decide(self, run: str, ask: DecideAsk) -> QuestionAnswer:
        """Answer what it asked."""

    def message(self, run: str, ask: MessageAsk) -> MessageAnswer:
        """Send it a message."""

    def effects(self, run: str, ask: EffectsAsk) -> EffectsAnswer:
        """Return a page of its effects."""

    def settle(self, run: str, ask: SettleAsk) -> EffectAnswer:
        """Say what became of an effect in doubt."""

    def resume(self, run: str) -> RunAnswer:
        """Let a run go on that failed, parked or waits."""

    def result(self, run: str) -> bytes | None:
        """Return exactly what it ended with."""


class StoreDesk:
    """A desk over an open store.

    ``queued`` is called when a run was queued, and ``nudge`` when something may have changed for runs that
    are under way.
    """

    def __init__(
        self,
        store: RunStore,
        *,
        nudge: Callable[[], object] = lambda: None,
        queued: Callable[[], object] = lambda: None,
    ) -> None:
        """Take a store."""
        self._store = store
        self._nudge = nudge
        self._queued = queued

    def start(self, ask: StartAsk) -> StartedAnswer:
        """Start a workflow: the run is queued, durably, when this returns."""
        content = dump("input", ask.input)
        key = ask.idempotency_key
        made = again(lambda: self._store.create(ask.workflow, idempotency_key=key, content=content))
        self._queued()
        return StartedAnswer(run=RunAnswer.of(made.run), new=made.new)

    def runs(self, ask: RunsAsk) -> RunsAnswer:
        """Return a page of the newest runs."""
        status = None if ask.status is None else RunStatus(ask.status)
        found = self._store.newest(status=status, before=ask.after, limit=ask.limit)
        return RunsAnswer.of(found, limit=ask.limit)

    def view(self, run: str) -> RunDetail:
        """Return a run as it is now; of its payloads, what may be shown."""
        seen = self._store.view(run)
        asked = [*self._pending(run, "approval"), *self._pending(run, "decision")]
        return RunDetail(
            **RunAnswer.of(seen.run).model_dump(),
            input=PayloadAnswer.of(self._store.input_display_of(run)),
            output=PayloadAnswer.of(self._store.output_display_of(run)),
            progress=self._store.pages.progress(run),
            steps=seen.parts["steps"],
            children=seen.children,
            work={kind.value: count for kind, count in seen.work.items()},
            questions=[QuestionAnswer.of(part) for part in asked],
            in_doubt=[EffectAnswer.of(part) for part in self._store.pages.in_doubt(run, limit=SHOWN)],
        )

    def steps(self, run: str, ask: PartsAsk) -> StepsAnswer:
        """Return a page of its steps."""
        found = self._store.pages.steps(run, after=_place(ask.after), limit=ask.limit)
        return StepsAnswer.of(found, limit=ask.limit)

    def tree(self, run: str, ask: PageAsk) -> RunsAnswer:
        """Return a page of the run and all below it, by id."""
        found = self._store.pages.tree(run, after=ask.after, limit=ask.limit)
        return RunsAnswer.of(found, limit=ask.limit)

    def questions(self, run: str, ask: QuestionsAsk) -> QuestionsAnswer:
        """Return a page of what it asked."""
        found = self._store.pages.questions(
            run, kind=ask.kind, pending=ask.pending, after=_place(ask.after), limit=ask.limit
        )
        return QuestionsAnswer.of(found, limit=ask.limit)

    def cancel(self, run: str, ask: CancelAsk) -> CancelledAnswer:
        """Cancel it and all below it."""
        count = again(lambda: self._store.cancel_tree(run, reason=ask.reason))
        self._nudge()
        return CancelledAnswer(cancelled=count)

    def decide(self, run: str, ask: DecideAsk) -> QuestionAnswer:
        """Answer what it asked."""
        question = self._question(run, ask)
        again(lambda: self._answer(question, ask))
        self._nudge()
        before = (question.generation, question.number - 1)
        [now] = self._store.pages.questions(run, kind=ask.kind, pending=False, after=before, limit=1)
        return QuestionAnswer.of(now)

    def message(self, run: str, ask: MessageAsk) -> MessageAnswer:
        """Send it a message: it is in the store when this returns, and wakes a run that waits."""
        content = dump("message", ask.content)
        sent = again(lambda: self._store.messages.send(run, content, sender=ask.sender, key=ask.key))
        self._nudge()
        return MessageAnswer.of(sent)

    def effects(self, run: str, ask: EffectsAsk) -> EffectsAnswer:
        """Return a page of its effects."""
        found = self._store.effects.of(run, after=_place(ask.after), limit=ask.limit)
        return EffectsAnswer.of(found, limit=ask.limit)

    def settle(self, run: str, ask: SettleAsk) -> EffectAnswer:
        """Say what became of an effect in doubt; the run goes on if it waits."""
        receipt = dump("receipt", ask.receipt) if ask.applied else None
        effect, settle = self._effect(run, ask), self._store.effects.settle
        settled = again(lambda: settle(effect, applied=ask.applied, by=ask.by, receipt=receipt))
        self._nudge()
        return EffectAnswer.of(settled)

    def resume(self, run: str) -> RunAnswer:
        """Let a run go on that failed, parked or waits; one that is queued already stays so."""
        found = again(lambda: self._store.resume(run))
        self._nudge()
        return RunAnswer.of(found)

    def result(self, run: str) -> bytes | None:
        """Return exactly what it ended with."""
        found = self._store.get(run)
        if found.status is not RunStatus.COMPLETED:
            raise WrongState(f"the run is {found.status}, and has no result", status=found.status)
        return self._store.output_of(run)

    def _pending(self, run: str, kind: QuestionKind) -> list[Asked]:
        return self._store.pages.questions(run, kind=kind, pending=True, limit=SHOWN)

    def _question(self, run: str, ask: DecideAsk) -> Question:
        """Return the question that is meant: the named one, or the one that waits."""
        if ask.number is not None:
            generation = ask.generation or self._store.get(run).generation
            return Question(run, generation, ask.number)
        waiting = self._store.pages.questions(run, kind=ask.kind, pending=True, limit=2)
        if not waiting:
            raise NotFound(f"the run waits for no {ask.kind}")
        if len(waiting) > 1:
            raise UsageError(
                f"the run waits for more than one {ask.kind}: say the number of the one you mean"
            )
        return Question(run, waiting[0].generation, waiting[0].number)

    def _effect(self, run: str, ask: SettleAsk) -> Effect:
        """Return the effect that is meant: the named one, or the one in doubt."""
        if ask.number is not None:
            return self._store.effects.get(run, ask.generation or self._store.get(run).generation, ask.number)
        doubted = self._store.pages.in_doubt(run, limit=2)
        if not doubted:
            raise NotFound("the run has no effect in doubt")
        if len(doubted) > 1:
            raise UsageError("the run has more than one effect in doubt: say the number of the one you mean")
        return doubted[0]

    def _answer(self, question: Question, ask: DecideAsk) -> None:
        if ask.kind == "decision":
            self._store.decisions.decide(question, ask.choice, by=ask.by)
        elif ask.choice == "approve":
            self._store.approvals.approve(question, by=ask.by)
        elif ask.choice == "reject":
            self._store.approvals.reject(question, by=ask.by)
        else:
            raise UsageError("the choice of an approval is approve or reject")


def _place(after: str | None) -> Place | None:
    if after is None:
        return None
    generation, _, number = after.partition(".")
    return int(generation), int(number)
