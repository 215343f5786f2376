from __future__ import annotations

import asyncio
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from afterrun.config import PolicyText
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
from afterrun.runs import NotFound, RunError, RunNotFound, RunStatus, WrongState
from afterrun.server.answers import ProblemAnswer
from afterrun.server.client import Client, StillRunning
from afterrun.server.errors import ServerUnreachable
from afterrun.server.http.problems import KINDS, problem_of
from afterrun.server.places import Address, ServerFolder
from afterrun.server.remote import ERRORS, RemoteDesk
from afterrun.server.serving import listening, server_of
from api.api_kit import MISSING, QueueingHost


@pytest.fixture
def client(host: QueueingHost) -> Iterator[Client]:
    """Give a client of a host that runs nothing, over a Unix socket, found as every client finds it."""
    with ExitStack() as held:
        host.state = Path(
            held.enter_context(tempfile.TemporaryDirectory(prefix="ar"))
        )  # sockets need short paths
        folder = ServerFolder(host.location, state=host.state)
        held.enter_context(folder.held())
        where = held.enter_context(listening("unix", unix=folder.socket))
        token = folder.token()
        server = server_of(host.guarded(token))
        thread = threading.Thread(target=asyncio.run, args=(server.serve(sockets=[where.socket]),))
        thread.start()
        held.callback(thread.join)
        held.callback(server.end)
        folder.publish(Address(url=where.url, socket=str(where.path), token_file=str(folder.token_file)))
        yield held.enter_context(Client(host.location, state=host.state))


def test_a_client_does_what_an_open_store_does(client: Client, host: QueueingHost) -> None:
    """Each call has the effect and the answer of the store's own."""
    store = host.store
    run = client.start("greet", {"name": "you"}, idempotency_key="one")
    assert client.start("greet", {"name": "you"}, idempotency_key="one").id == run.id
    store.start(run.id)
    step = store.steps.start(run.id, "think")
    child = store.create("child", parent=step).run.id
    store.steps.complete(step)
    store.decisions.ask(run.id, "which way?")
    assert client.view(run.id).children == 1
    assert [part.id for part in client.tree(run.id)] == [run.id, child]
    assert [part.name for part in client.steps(run.id)] == ["think"]
    assert [part.subject for part in client.questions(run.id)] == ["which way?"]
    assert client.decide(run.id, "left", by="me").answer == "left"
    store.approvals.ask(run.id, "may I?")
    assert client.approve(run.id, by="me").status == "approved"
    assert client.message(run.id, [1], sender="me").number == 1
    assert client.cancel(child) == 1
    assert list(client.effects(run.id)) == []
    store.finish(run.id, output=b'{"a":1}')
    assert client.result(run.id) == client.wait(run.id) == {"a": 1}
    assert {part.id for part in client.list()} == {run.id, child}
    assert [part.id for part in client.list(status="cancelled")] == [child]
    assert client.state().counts["runs_queued"] == 0
    assert host.nudges >= 5


def test_a_run_goes_on_by_a_client(client: Client, host: QueueingHost) -> None:
    """One that failed is queued; waiting for it has an end."""
    run = client.start("greet").id
    host.store.start(run)
    host.store.finish(run, RunStatus.FAILED, reason="no")
    with pytest.raises(WrongState, match="failed") as failed:
        client.wait(run)
    assert failed.value.status == "failed"
    assert client.resume(run).status == "queued"
    with pytest.raises(StillRunning):
        client.wait(run, seconds=0)


def test_an_effect_in_doubt_is_settled(client: Client, host: QueueingHost) -> None:
    """It is listed, and the answer of a person ends the doubt."""
    run = client.start("greet").id
    store = host.store
    store.start(run)
    effect = store.effects.propose(store.steps.start(run, "pay"), "pay", begin=True)
    with pytest.raises(NotFound, match="no effect in doubt"):
        client.settle(run, applied=True, by="me")
    store.effects.doubt(effect)
    assert [part.name for part in client.view(run).in_doubt] == ["pay"]
    assert client.settle(run, applied=True, by="me", receipt={"id": 7}).status == "applied"
    assert store.effects.receipt_of(store.effects.get(run, 1, 1)) == b'{"id":7}'
    assert client.view(run).in_doubt == []


def test_pages_are_read_one_after_another(client: Client, host: QueueingHost) -> None:
    """An iterator goes over the bound of a page."""
    made = {host.store.create("a").run.id for _ in range(205)}
    assert {run.id for run in client.list()} == made


def test_retention_by_a_client(client: Client, host: QueueingHost) -> None:
    """Reports are those of the command line, and a refusal is one."""
    assert client.plan()["dry_run"] is True
    assert client.plan(PolicyText(keep_last=1))["policy"]["keep_last"] == 1
    assert client.prune(no_backup=True)["units"]["tree"]["removed"] == 0
    assert client.sweep()["ended"] in {"completed", "guard"}
    assert client.reclaim()["ended"] == "planned"
    with pytest.raises(UsageError, match="no_backup"):
        client.prune()
    with pytest.raises(Refused, match="keeps nothing") as refused:
        client.plan(PolicyText())
    assert refused.value.reason == "empty-policy"


@pytest.mark.parametrize("run", [MISSING, "", "..", "a/b", "%2e%2e", "x?y", "ä", "a b"])
def test_an_id_of_no_run_is_not_found(client: Client, run: str) -> None:
    """It never becomes another address."""
    with pytest.raises((RunNotFound, UsageError)):
        client.view(run)


def test_what_no_server_would_take_is_not_sent(client: Client) -> None:
    """The sentence is the server's, without a request."""
    with pytest.raises(UsageError, match="workflow"):
        client.start("\n")


def test_every_error_comes_back_as_itself() -> None:
    """What the server raises, the client raises, with the same words."""
    examples: list[AfterrunError] = [
        UsageError("a"),
        StoreLocked("b"),
        Refused("guard", "c"),
        NotFound("d"),
        WrongState("e", status="failed"),
        RunError("f"),
        UnitNotFound("g"),
        BackupFailed("io", "h"),
        StoreUnreadable("i"),
        StoreFailure("busy", "j"),
    ]
    for error in examples:
        problem = problem_of(error)
        again = ERRORS[problem.kind](ProblemAnswer.model_validate_json(problem.body))
        assert (type(again), str(again)) == (type(error), str(error))
    known = {word for _, _, word in KINDS} - {"run-not-found", "error"}
    assert known <= set(ERRORS)


def test_without_a_server_there_is_none(tmp_path: Path) -> None:
    """The sentence says how to start one."""
    with pytest.raises(ServerUnreachable, match="afterrun serve"):
        Client(str(tmp_path / "runs.sqlite"), state=tmp_path / "state")


def test_a_server_that_is_gone_is_said(tmp_path: Path) -> None:
    """Nothing is claimed about what became of the request."""
    address = Address(url="http://127.0.0.1:9", token_file="x")  # noqa: S106 - a path
    with RemoteDesk(address, token="x") as desk, pytest.raises(ServerUnreachable, match="not known"):  # noqa: S106
        desk.state()


def test_no_proxy_gets_the_token(client: Client, monkeypatch: pytest.MonkeyPatch, host: QueueingHost) -> None:
    """What the environment says of proxies is for other machines."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    with Client(host.location, state=host.state) as another:
        assert another.state().ready is True
