"""A client in Python for a server on this machine.

::

    from afterrun.server.client import Client

    with Client("agent.sqlite") as client:
        run = client.start("greet", {"name": "you"})
        print(client.wait(run.id))

Every method raises what an open store would: `RunNotFound`, `WrongState`, `UsageError`,
and `ServerUnreachable`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal, Self, TypeVar

from pydantic import JsonValue, ValidationError

from afterrun.config import PolicyText
from afterrun.core.errors import UsageError
from afterrun.server.answers import (
    EffectAnswer,
    MessageAnswer,
    Page,
    QuestionAnswer,
    RunAnswer,
    RunDetail,
    StateAnswer,
    StepAnswer,
)
from afterrun.server.asks import (
    MOST,
    Ask,
    BackupAsk,
    CancelAsk,
    DecideAsk,
    EffectsAsk,
    MessageAsk,
    PageAsk,
    PartsAsk,
    PolicyAsk,
    PruneAsk,
    QuestionsAsk,
    ReclaimAsk,
    RunsAsk,
    RunStatusWord,
    SettleAsk,
    StartAsk,
    SweepAsk,
    faults_of,
)
from afterrun.server.errors import ServerUnreachable
from afterrun.server.remote import RemoteDesk

ENDED: Final = ("completed", "failed", "cancelled", "timed_out")
FIRST_REST: Final = 0.02
LONGEST_REST: Final = 1.0
"""Seconds between two looks at a run that is waited for: doubled from the first to the longest."""


Kind = TypeVar("Kind", bound=Ask)
Row = TypeVar("Row")


class StillRunning(Exception):
    """A run has not ended in the time for which it was waited for. It goes on."""


class Client:
    """Speaks to the server that holds a store. Use it as a context manager; threads may share it."""

    def __init__(self, location: str, *, state: Path | None = None) -> None:
        """Find the server of the store at a URL or path. Raises `ServerUnreachable` if there is none."""
        found = RemoteDesk.of(location, state=state)
        if found is None:
            raise ServerUnreachable(
                "no server of this machine holds the store: start one with `afterrun serve`"
            )
        self._desk = found

    def __enter__(self) -> Self:
        """Return it."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close its connections."""
        self.close()

    def close(self) -> None:
        """Close its connections."""
        self._desk.__exit__(None, None, None)

    # ------------------------------------------------------------------------------------------- runs

    def start(
        self, workflow: str, value: JsonValue = None, *, idempotency_key: str | None = None
    ) -> RunAnswer:
        """Start a workflow with a JSON value. The same key gives the same run, however often it is asked."""
        return self._desk.start(
            _ask(StartAsk, workflow=workflow, input=value, idempotency_key=idempotency_key)
        ).run

    def list(self, *, status: RunStatusWord | None = None) -> Iterator[RunAnswer]:
        """Yield runs, the newest first, a page at a time."""
        return _paged(lambda after: self._desk.runs(_ask(RunsAsk, status=status, after=after, limit=MOST)))

    def view(self, run: str) -> RunDetail:
        """Return a run as it is now."""
        return self._desk.view(run)

    def steps(self, run: str) -> Iterator[StepAnswer]:
        """Yield the steps of a run, a page at a time."""
        return _paged(lambda after: self._desk.steps(run, _ask(PartsAsk, after=after, limit=MOST)))

    def tree(self, run: str) -> Iterator[RunAnswer]:
        """Yield a run and all below it in the order of their creation, a page at a time."""
        return _paged(lambda after: self._desk.tree(run, _ask(PageAsk, after=after, limit=MOST)))

    def questions(
        self, run: str, *, kind: Literal["approval", "decision"] = "decision"
    ) -> Iterator[QuestionAnswer]:
        """Yield what a run asked and nobody has answered, a page at a time."""
        return _paged(
            lambda after: self._desk.questions(run, _ask(QuestionsAsk, kind=kind, after=after, limit=MOST))
        )

    def cancel(self, run: str, *, reason: str = "cancelled by a person") -> int:
        """Cancel a run and all below it; return how many runs that ended."""
        return self._desk.cancel(run, _ask(CancelAsk, reason=reason)).cancelled

    def decide(self, run: str, choice: str, *, by: str, number: int | None = None) -> QuestionAnswer:
        """Answer the decision of a run that waits for one, or that with a number."""
        return self._desk.decide(run, _ask(DecideAsk, choice=choice, by=by, number=number))

    def approve(self, run: str, *, by: str, yes: bool = True, number: int | None = None) -> QuestionAnswer:
        """Answer the approval of a run that waits for one, or that with a number."""
        choice = "approve" if yes else "reject"
        return self._desk.decide(run, _ask(DecideAsk, kind="approval", choice=choice, by=by, number=number))

    def message(
        self, run: str, content: JsonValue, *, sender: str | None = None, key: str | None = None
    ) -> MessageAnswer:
        """Send a JSON value to a run. The same key is the same message, however often it is sent."""
        return self._desk.message(run, _ask(MessageAsk, content=content, sender=sender, key=key))

    def effects(self, run: str) -> Iterator[EffectAnswer]:
        """Yield the effects of a run, a page at a time."""
        return _paged(lambda after: self._desk.effects(run, _ask(EffectsAsk, after=after, limit=MOST)))

    def settle(
        self, run: str, *, applied: bool, by: str, number: int | None = None, receipt: JsonValue = None
    ) -> EffectAnswer:
        """Say what became of the effect of a run that is in doubt, or of that with a number."""
        ask = _ask(SettleAsk, applied=applied, by=by, number=number, receipt=receipt)
        return self._desk.settle(run, ask)

    def resume(self, run: str) -> RunAnswer:
        """Let a run go on that failed, parked or waits."""
        return self._desk.resume(run)

    def result(self, run: str) -> JsonValue:
        """Return what a run ended with, exactly. Raises `WrongState` for one that has not completed."""
        content = self._desk.result(run)
        return None if content is None else json.loads(content)

    def wait(self, run: str, *, seconds: float | None = None) -> JsonValue:
        """Wait until a run has ended, and return its result. Raises `StillRunning` after so many seconds."""
        until = None if seconds is None else time.monotonic() + seconds
        rest = FIRST_REST
        while self._desk.view(run).status not in ENDED:
            if until is not None and time.monotonic() >= until:
                raise StillRunning("the run has not ended yet; it goes on")
            time.sleep(rest)
            rest = min(2 * rest, LONGEST_REST)
        return self.result(run)

    # ------------------------------------------------------------------------- the server and its store

    def state(self) -> StateAnswer:
        """Say how the server is: counts and moments."""
        return self._desk.state()

    def plan(self, policy: PolicyText | None = None) -> dict[str, Any]:
        """Return the report of a plan, by a policy or by the server's own."""
        return self._desk.plan(_ask(PolicyAsk, policy=policy))

    def prune(
        self,
        policy: PolicyText | None = None,
        *,
        backup: str | None = None,
        backup_kind: Literal["removed", "whole"] = "removed",
        no_backup: bool = False,
    ) -> dict[str, Any]:
        """Remove what a policy lets go. ``backup`` is a name in the folder of the server's settings."""
        order = None if backup is None else _ask(BackupAsk, name=backup, kind=backup_kind)
        return self._desk.prune(_ask(PruneAsk, policy=policy, backup=order, no_backup=no_backup))

    def sweep(self, policy: PolicyText | None = None, *, approve: str | None = None) -> dict[str, Any]:
        """Run one automatic sweep now."""
        return self._desk.sweep(_ask(SweepAsk, policy=policy, approve=approve))

    def reclaim(self, *, apply: bool = False) -> dict[str, Any]:
        """Say what space could be given back, or give it back."""
        return self._desk.reclaim(_ask(ReclaimAsk, apply=apply))


def _paged(read: Callable[[str | None], Page[Row]]) -> Iterator[Row]:
    """Yield the rows of all pages, each read when it is needed."""
    after: str | None = None
    while True:
        page = read(after)
        yield from page.rows
        if page.next is None:
            return
        after = page.next


def _ask(kind: type[Kind], /, **words: Any) -> Kind:  # noqa: ANN401 - the model checks them
    """Make an ask. Raises `UsageError` for what no server would take."""
    try:
        return kind(**words)
    except ValidationError as error:
        raise UsageError("; ".join(faults_of(error))) from None
