"""Endpoints of runs: start, look, cancel, answer, go on, and the exact result."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import APIRouter, Path, Query, Response

from afterrun.server.answers import (
    CancelledAnswer,
    EffectAnswer,
    EffectsAnswer,
    MessageAnswer,
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
    RunId,
    RunsAsk,
    SettleAsk,
    StartAsk,
)
from afterrun.server.desk import Desk
from afterrun.server.http.problems import responses

Id = Annotated[RunId, Path(description="Id of a run.")]
CREATED: Final = 201
ANY: Final = responses()
KNOWN: Final = responses(404)
CHANGED: Final = responses(404, 409)
RESULT: Final[dict[int | str, dict[str, Any]]] = {
    200: {"description": "The result.", "content": {"application/json": {"schema": {}}}},
    204: {"description": "The run ended without one."},
    **CHANGED,
}


def runs_of(desk: Desk) -> APIRouter:
    """Return the endpoints over a desk."""
    router = APIRouter(prefix="/v1/runs", tags=["runs"])
    _add_lists(router, desk)
    _add_parts(router, desk)
    _add_changes(router, desk)
    return router


def _add_lists(router: APIRouter, desk: Desk) -> None:
    started = {CREATED: {"description": "It was started now.", "model": StartedAnswer}, **responses(409)}

    @router.post("", operation_id="start", responses=started)
    def start(ask: StartAsk, response: Response) -> StartedAnswer:
        """Start a workflow. With a key that started a run before, that one is the answer."""
        made = desk.start(ask)
        if made.new:
            response.status_code = CREATED
        return made

    @router.get("", operation_id="list", responses=ANY)
    def newest(ask: Annotated[RunsAsk, Query()]) -> RunsAnswer:
        """List the newest runs, without payloads."""
        return desk.runs(ask)

    @router.get("/{run}", operation_id="view", responses=KNOWN)
    def view(run: Id) -> RunDetail:
        """Show a run as it is now."""
        return desk.view(run)


def _add_parts(router: APIRouter, desk: Desk) -> None:
    @router.get("/{run}/steps", operation_id="steps", responses=KNOWN)
    def steps(run: Id, ask: Annotated[PartsAsk, Query()]) -> StepsAnswer:
        """List the steps of a run, without payloads."""
        return desk.steps(run, ask)

    @router.get("/{run}/tree", operation_id="tree", responses=KNOWN)
    def tree(run: Id, ask: Annotated[PageAsk, Query()]) -> RunsAnswer:
        """List a run and all below it by id, which is the order in which they were created."""
        return desk.tree(run, ask)

    @router.get("/{run}/questions", operation_id="questions", responses=KNOWN)
    def questions(run: Id, ask: Annotated[QuestionsAsk, Query()]) -> QuestionsAnswer:
        """List what a run asked."""
        return desk.questions(run, ask)

    @router.get("/{run}/effects", operation_id="effects", responses=KNOWN)
    def effects(run: Id, ask: Annotated[EffectsAsk, Query()]) -> EffectsAnswer:
        """List the effects of a run, without requests and receipts."""
        return desk.effects(run, ask)

    @router.get("/{run}/result", operation_id="result", responses=RESULT, response_class=Response)
    def result(run: Id) -> Response:
        """Return exactly what a run ended with. Nothing else here shows a payload without scrubbing it."""
        content = desk.result(run)
        if content is None:
            return Response(status_code=204)
        return Response(content, media_type="application/json", headers={"content-disposition": "attachment"})


def _add_changes(router: APIRouter, desk: Desk) -> None:
    @router.post("/{run}/cancel", operation_id="cancel", responses=KNOWN)
    def cancel(run: Id, ask: CancelAsk) -> CancelledAnswer:
        """Cancel a run and all below it, in one transaction."""
        return desk.cancel(run, ask)

    @router.post("/{run}/decide", operation_id="decide", responses=CHANGED)
    def decide(run: Id, ask: DecideAsk) -> QuestionAnswer:
        """Answer what a run asked."""
        return desk.decide(run, ask)

    @router.post("/{run}/messages", operation_id="message", responses=CHANGED)
    def message(run: Id, ask: MessageAsk) -> MessageAnswer:
        """Send a message to a run. With a key that came before, that message is the answer."""
        return desk.message(run, ask)

    @router.post("/{run}/settle", operation_id="settle", responses=CHANGED)
    def settle(run: Id, ask: SettleAsk) -> EffectAnswer:
        """Say what became of an effect in doubt."""
        return desk.settle(run, ask)

    @router.post("/{run}/resume", operation_id="resume", responses=CHANGED)
    def resume(run: Id) -> RunAnswer:
        """Let a run go on that failed, parked or waits."""
        return desk.resume(run)
