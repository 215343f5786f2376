"""The desk and the retention of a server, over HTTP. Its errors are those of an open store."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import httpx
from pydantic import ValidationError

from afterrun.core.errors import (
    AfterrunError,
    BackupFailed,
    Refused,
    StoreFailure,
    StoreLocked,
    StoreUnreadable,
    UnitNotFound,
    UsageError,
)
from afterrun.runs import NotFound, RunError, RunNotFound, WrongState
from afterrun.server.answers import (
    Answer,
    CancelledAnswer,
    EffectAnswer,
    EffectsAnswer,
    MessageAnswer,
    ProblemAnswer,
    QuestionAnswer,
    QuestionsAnswer,
    RunAnswer,
    RunDetail,
    RunsAnswer,
    StartedAnswer,
    StateAnswer,
    StepsAnswer,
)
from afterrun.server.asks import (
    Ask,
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
    SettleAsk,
    StartAsk,
    SweepAsk,
)
from afterrun.server.errors import ServerUnreachable
from afterrun.server.places import Address, ServerFolder, read_token

SECONDS: Final = 30.0
"""For which a call waits for an answer, but for those of retention, which take as long as they take."""

NO_CONTENT: Final = 204
GOOD: Final = range(200, 300)
Kind = TypeVar("Kind", bound=Answer)

ERRORS: Final[Mapping[str, Callable[[ProblemAnswer], AfterrunError]]] = {
    "usage": lambda said: UsageError(said.detail),
    "locked": lambda said: StoreLocked(said.detail),
    "refused": lambda said: Refused(said.reason or "refused", said.detail),
    "not-found": lambda said: NotFound(said.detail),
    "state": lambda said: WrongState(said.detail, status=said.reason or ""),
    "run": lambda said: RunError(said.detail),
    "unit-not-found": lambda said: UnitNotFound(said.detail),
    "backup": lambda said: BackupFailed(said.reason or "io", said.detail),
    "unreadable": lambda said: StoreUnreadable(said.detail),
    "store": lambda said: StoreFailure(said.reason or "store", said.detail.partition(": ")[2] or said.detail),
    "token": lambda said: Refused("token", said.detail),
    "host": lambda said: Refused("host", said.detail),
}
"""The error that each kind of problem was."""


class RemoteDesk:
    """A server that holds a store. Use it as a context manager; it may be used by several threads."""

    def __init__(self, address: Address, *, token: str) -> None:
        """Prepare to speak to a server; nothing is sent yet."""
        transport = httpx.HTTPTransport(uds=address.socket) if address.socket else httpx.HTTPTransport()
        self.address = address
        self._client = httpx.Client(
            base_url=address.url,
            headers={"authorization": f"Bearer {token}"},
            transport=transport,
            timeout=SECONDS,
            trust_env=False,  # no proxy stands between a machine and itself
        )

    @classmethod
    def of(cls, location: str, *, state: Path | None = None) -> Self | None:
        """Return the server that holds the store at a URL or path, if one does on this machine.

        Raises `StoreHeld` while it starts or ends, and `Refused` without the right to read its token.
        """
        address = ServerFolder(location, state=state).find()
        return None if address is None else cls(address, token=read_token(Path(address.token_file)))

    def __enter__(self) -> Self:
        """Return it."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close its connections."""
        self._client.close()

    # ------------------------------------------------------------------------------------------- runs

    def start(self, ask: StartAsk) -> StartedAnswer:
        """Start a workflow: the run is queued, durably, when this returns."""
        return self._post("/v1/runs", ask, StartedAnswer)

    def runs(self, ask: RunsAsk) -> RunsAnswer:
        """Return a page of the newest runs."""
        return self._get("/v1/runs", RunsAnswer, ask)

    def view(self, run: str) -> RunDetail:
        """Return a run as it is now."""
        return self._get(_of(run), RunDetail)

    def steps(self, run: str, ask: PartsAsk) -> StepsAnswer:
        """Return a page of its steps."""
        return self._get(f"{_of(run)}/steps", StepsAnswer, ask)

    def tree(self, run: str, ask: PageAsk) -> RunsAnswer:
        """Return a page of the run and all below it, by id."""
        return self._get(f"{_of(run)}/tree", RunsAnswer, ask)

    def questions(self, run: str, ask: QuestionsAsk) -> QuestionsAnswer:
        """Return a page of what it asked."""
        return self._get(f"{_of(run)}/questions", QuestionsAnswer, ask)

    def cancel(self, run: str, ask: CancelAsk) -> CancelledAnswer:
        """Cancel it and all below it."""
        return self._post(f"{_of(run)}/cancel", ask, CancelledAnswer)

    def decide(self, run: str, ask: DecideAsk) -> QuestionAnswer:
        """Answer what it asked."""
        return self._post(f"{_of(run)}/decide", ask, QuestionAnswer)

    def message(self, run: str, ask: MessageAsk) -> MessageAnswer:
        """Send it a message: it is in the store when this returns, and wakes a run that waits."""
        return self._post(f"{_of(run)}/messages", ask, MessageAnswer)

    def effects(self, run: str, ask: EffectsAsk) -> EffectsAnswer:
        """Return a page of its effects."""
        return self._get(f"{_of(run)}/effects", EffectsAnswer, ask)

    def settle(self, run: str, ask: SettleAsk) -> EffectAnswer:
        """Say what became of an effect in doubt."""
        return self._post(f"{_of(run)}/settle", ask, EffectAnswer)

    def resume(self, run: str) -> RunAnswer:
        """Let a run go on that failed, parked or waits."""
        return self._post(f"{_of(run)}/resume", None, RunAnswer)

    def result(self, run: str) -> bytes | None:
        """Return exactly what it ended with."""
        answer = self._ask("GET", f"{_of(run)}/result")
        return None if answer.status_code == NO_CONTENT else answer.content

    # ------------------------------------------------------------------------- the server and its store

    def state(self) -> StateAnswer:
        """Say how the server is."""
        return self._get("/v1/state", StateAnswer)

    def plan(self, ask: PolicyAsk) -> dict[str, Any]:
        """Return the report of a plan."""
        return self._report("/v1/plan", ask)

    def prune(self, ask: PruneAsk) -> dict[str, Any]:
        """Return the report of a removal."""
        return self._report("/v1/prune", ask)

    def sweep(self, ask: SweepAsk) -> dict[str, Any]:
        """Return the report of a sweep."""
        return self._report("/v1/sweep", ask)

    def reclaim(self, ask: ReclaimAsk) -> dict[str, Any]:
        """Return what a reclaim came to."""
        return self._report("/v1/reclaim", ask)

    # --------------------------------------------------------------------------------------- requests

    def _get(self, path: str, kind: type[Kind], ask: Ask | None = None) -> Kind:
        query = {} if ask is None else ask.model_dump(mode="json", exclude_none=True)
        return _read(kind, self._ask("GET", path, params=query))

    def _post(self, path: str, ask: Ask | None, kind: type[Kind]) -> Kind:
        return _read(kind, self._ask("POST", path, **_body(ask)))

    def _report(self, path: str, ask: Ask) -> dict[str, Any]:
        told = self._ask("POST", path, timeout=None, **_body(ask)).json()
        if not isinstance(told, dict):
            raise _no_answer()
        return told

    def _ask(self, method: str, path: str, **words: Any) -> httpx.Response:  # noqa: ANN401 - httpx's own
        try:
            answer = self._client.request(method, path, **words)
        except httpx.HTTPError as error:
            raise ServerUnreachable(
                f"the server that holds the store does not answer ({type(error).__name__}); whether it did "
                "what was asked is not known"
            ) from None
        if answer.status_code in GOOD:
            return answer
        raise _error_of(answer, path)


def _of(run: str) -> str:
    """Return the address of a run. Raises `RunNotFound` for what can be no id, and no address either."""
    if not run or not all(char.isascii() and (char.isalnum() or char == "-") for char in run):
        raise RunNotFound(run)
    return f"/v1/runs/{run}"


def _body(ask: Ask | None) -> dict[str, Any]:
    if ask is None:
        return {}
    content = ask.model_dump_json(exclude_unset=True)
    return {"content": content, "headers": {"content-type": "application/json"}}


def _read(kind: type[Kind], answer: httpx.Response) -> Kind:
    try:
        return kind.model_validate_json(answer.content)
    except ValidationError:
        raise _no_answer() from None


def _no_answer() -> ServerUnreachable:
    return ServerUnreachable("what answers at the server's address is no server of this version")


def _error_of(answer: httpx.Response, path: str) -> AfterrunError:
    try:
        said = ProblemAnswer.model_validate_json(answer.content)
    except ValidationError:
        return _no_answer()
    if said.kind == "run-not-found":
        return RunNotFound(path.split("/")[3])
    made = ERRORS.get(said.kind)
    return AfterrunError(said.detail) if made is None else made(said)
