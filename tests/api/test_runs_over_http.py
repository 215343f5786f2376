from __future__ import annotations

import json
from datetime import timedelta

import pytest

from afterrun.runs import Attempt, RunStatus
from api.api_kit import MISSING, Caller, QueueingHost


def started(caller: Caller, **words: object) -> str:
    """Start a run and return its id."""
    answer = caller.post("/v1/runs", {"workflow": "greet", "input": {"name": "you"}, **words})
    assert answer.status_code in {200, 201}, answer.text
    return str(answer.json()["run"]["id"])


def test_a_started_run_is_queued_and_its_input_is_one_spelling(caller: Caller, host: QueueingHost) -> None:
    """The answer comes when the run is durable; whoever looks for work is told."""
    answer = caller.post("/v1/runs", {"workflow": "greet", "input": {"b": [1.5, "ä"], "a": None}})
    assert answer.status_code == 201
    run = answer.json()["run"]
    assert (run["workflow"], run["status"], answer.json()["new"]) == ("greet", "queued", True)
    assert host.store.input_of(run["id"]) == '{"a":null,"b":[1.5,"ä"]}'.encode()
    assert host.nudges == 1


def test_the_same_key_gives_the_same_run(caller: Caller) -> None:
    """A start that is asked again after a lost answer starts nothing."""
    first = caller.post("/v1/runs", {"workflow": "greet", "idempotency_key": "order 7"})
    again = caller.post("/v1/runs", {"workflow": "greet", "idempotency_key": "order 7"})
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["run"] == again.json()["run"]
    assert again.json()["new"] is False


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (b"", 422),
        (b"{", 400),
        (b"[]", 422),
        (b"null", 422),
        (b'{"workflow": "a", "input": NaN}', 422),
        (b'{"workflow": "a", "input": 1e999}', 422),
        (b'{"workflow": "a", "input": "\\ud800"}', 422),
        (b'{"workflow": "a", "input": "\xff"}', 400),
        (b'{"workflow": "a\\u0000"}', 422),
        (b'{"workflow": "a\\u200b"}', 422),
        (b'{"workflow": ""}', 422),
        (b'{"workflow": 7}', 422),
        (b'{"workflow": "a", "store": "/etc/passwd"}', 422),
        (b'{"workflow": "a", "profile": "native"}', 422),
        (b'{"workflow": "a", "\\ud800": 1}', 422),
        (b'{"workflow": "' + b"a" * 201 + b'"}', 422),
        (b'{"workflow": "a", "input": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", 400),
        (b'{"workflow": "a", "input": ' + b"[" * 400 + b"]" * 400 + b"}", 422),
        (b'{"workflow": "a", "input": ' + b"9" * 5_000 + b"}", 400),
    ],
)
def test_a_start_that_makes_no_sense_is_a_sentence(caller: Caller, content: bytes, status: int) -> None:
    """Whatever bytes come, the answer is a problem that says what is wrong, and nothing is started."""
    answer = caller.send("/v1/runs", content)
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
    problem = answer.json()
    assert problem["status"] == status
    assert problem["detail"]
    assert "Traceback" not in answer.text
    assert len(answer.text) < 1_000
    assert caller.get("/v1/runs").json()["runs"] == []


def test_runs_are_listed_newest_first_by_pages(caller: Caller) -> None:
    """Pages join without a gap or a repetition, and a status narrows them."""
    made = [started(caller) for _ in range(5)]
    caller.post(f"/v1/runs/{made[2]}/cancel", {"reason": "x"})
    page = caller.get("/v1/runs", limit=2).json()
    rest = caller.get("/v1/runs", limit=10, after=page["next"]).json()
    assert [run["id"] for run in [*page["runs"], *rest["runs"]]] == made[::-1]
    assert rest["next"] is None
    only = caller.get("/v1/runs", status="cancelled").json()["runs"]
    assert [run["id"] for run in only] == [made[2]]


@pytest.mark.parametrize(
    "query",
    [{"limit": 0}, {"limit": 201}, {"limit": "x"}, {"status": "done"}, {"after": "x"}, {"limt": 1}],
)
def test_a_page_has_bounds(caller: Caller, query: dict[str, str | int]) -> None:
    """A page cannot be asked for that is no page."""
    assert caller.get("/v1/runs", **query).status_code == 422


def test_what_is_shown_of_a_payload_is_scrubbed(caller: Caller, host: QueueingHost) -> None:
    """Secrets are in the exact result, and nowhere else."""
    run = started(caller, input={"user": "me", "password": "hunter2-hunter2"})
    host.store.start(run)
    exact = b'{"password":"hunter2-hunter2","user":"me"}'
    host.store.finish(run, output=exact)
    view = caller.get(f"/v1/runs/{run}")
    assert "hunter2" not in view.text
    for word in ("input", "output"):
        assert '"user"' in view.json()[word]["display"]
        assert view.json()[word]["bytes"] == len(exact)
    assert caller.get(f"/v1/runs/{run}/result").content == exact


def test_a_view_has_sizes_and_counts_and_no_payload_of_steps(caller: Caller, host: QueueingHost) -> None:
    """What a run began and ended with is told by its bytes; the exact result has its own address."""
    run = started(caller, input="a secret of mine")
    store = host.store
    store.start(run)
    step = store.steps.start(run, "think")
    store.steps.complete(step, output=b'"a thought"')
    store.finish(run, output=b'{"b":1, "a":"\xc3\xa4"}')
    view = caller.get(f"/v1/runs/{run}")
    assert view.json()["input"]["bytes"] == len('"a secret of mine"')
    assert view.json()["output"]["bytes"] == len(b'{"b":1, "a":"\xc3\xa4"}')
    assert (view.json()["steps"], view.json()["children"]) == (1, 0)
    for address in ("", "/steps", "/tree", "/questions"):
        shown = caller.get(f"/v1/runs/{run}{address}").text
        assert "thought" not in shown
    result = caller.get(f"/v1/runs/{run}/result")
    assert result.content == b'{"b":1, "a":"\xc3\xa4"}'
    assert result.headers["content-type"] == "application/json"
    assert result.headers["content-disposition"] == "attachment"


def test_a_run_without_a_result_says_so(caller: Caller, host: QueueingHost) -> None:
    """One that goes on has none yet, one that failed never, and one may end with nothing."""
    waiting, failed, silent = (started(caller) for _ in range(3))
    for run in (failed, silent):
        host.store.start(run)
    host.store.finish(failed, RunStatus.FAILED, reason="no")
    host.store.finish(silent)
    answers = [caller.get(f"/v1/runs/{run}/result") for run in (waiting, failed, silent)]
    assert [answer.status_code for answer in answers] == [409, 409, 204]
    assert answers[1].json()["reason"] == "failed"


def test_steps_and_trees_are_paged(caller: Caller, host: QueueingHost) -> None:
    """A page ends at its bound, and the next one begins right after it."""
    store = host.store
    root = started(caller)
    store.start(root)
    step = store.steps.start(root, "spawn")
    children = [store.create("child", parent=step).run.id for _ in range(4)]
    store.steps.complete(step)
    for number in range(4):
        store.steps.complete(store.steps.start(root, f"step {number}"))
    seen, after = [], None
    while True:
        query: dict[str, str | int] = {"limit": 2} if after is None else {"limit": 2, "after": after}
        page = caller.get(f"/v1/runs/{root}/steps", **query).json()
        seen += [part["name"] for part in page["steps"]]
        after = page["next"]
        if after is None:
            break
    assert seen == ["spawn", "step 0", "step 1", "step 2", "step 3"]
    first = caller.get(f"/v1/runs/{root}/tree", limit=3).json()
    rest = caller.get(f"/v1/runs/{root}/tree", limit=3, after=first["next"]).json()
    assert [run["id"] for run in [*first["runs"], *rest["runs"]]] == [root, *children]
    assert first["runs"][1]["parent"] == {"run": root, "generation": 1, "step": 1, "attempt": 1}
    below = caller.get(f"/v1/runs/{children[1]}/tree").json()
    assert [run["id"] for run in below["runs"]] == [children[1]]


def test_a_tree_is_cancelled(caller: Caller, host: QueueingHost) -> None:
    """A run goes with all below it; the reason is scrubbed, and a second cancellation finds nothing."""
    root = started(caller)
    host.store.start(root)
    host.store.create("child", parent=host.store.steps.start(root, "spawn"))
    body = {"reason": "token=0123456789abcdefghijklmnopqrstuvwxyz leaked"}
    assert caller.post(f"/v1/runs/{root}/cancel", body).json() == {"cancelled": 2}
    assert caller.post(f"/v1/runs/{root}/cancel", body).json() == {"cancelled": 0}
    view = caller.get(f"/v1/runs/{root}").json()
    assert view["status"] == "cancelled"
    assert "0123456789" not in view["reason"]


def asking(host: QueueingHost, caller: Caller, *subjects: str) -> str:
    """Return a run that waits for decisions."""
    run = started(caller)
    host.store.start(run)
    for subject in subjects:
        host.store.decisions.ask(run, subject)
    host.store.wait(run)
    return run


def test_a_decision_is_seen_made_and_wakes_the_run(caller: Caller, host: QueueingHost) -> None:
    """The one question that waits needs no number; a second answer is refused."""
    run = asking(host, caller, "which way?")
    [question] = caller.get(f"/v1/runs/{run}").json()["questions"]
    assert (question["subject"], question["status"]) == ("which way?", "pending")
    answer = caller.post(f"/v1/runs/{run}/decide", {"choice": "left", "by": "somebody"})
    assert (answer.json()["status"], answer.json()["answer"]) == ("decided", "left")
    assert host.store.get(run).status is RunStatus.QUEUED
    again = {"choice": "right", "by": "x", "number": question["number"]}
    assert caller.post(f"/v1/runs/{run}/decide", again).status_code == 409
    assert caller.post(f"/v1/runs/{run}/decide", {"choice": "right", "by": "x"}).status_code == 404
    assert caller.get(f"/v1/runs/{run}/questions").json()["questions"] == []
    told = caller.get(f"/v1/runs/{run}/questions", pending=False).json()["questions"]
    assert [part["answer"] for part in told] == ["left"]


def test_of_several_questions_the_number_says_which(caller: Caller, host: QueueingHost) -> None:
    """Nothing is decided by guessing."""
    run = asking(host, caller, "one?", "two?")
    assert caller.post(f"/v1/runs/{run}/decide", {"choice": "a", "by": "x"}).status_code == 422
    answer = caller.post(f"/v1/runs/{run}/decide", {"choice": "a", "by": "x", "number": 2})
    assert answer.json()["subject"] == "two?"
    [left] = caller.get(f"/v1/runs/{run}/questions").json()["questions"]
    assert left["number"] == 1


@pytest.mark.parametrize(("choice", "status"), [("approve", "approved"), ("reject", "rejected")])
def test_an_approval_is_yes_or_no(caller: Caller, host: QueueingHost, choice: str, status: str) -> None:
    """Any other word is refused."""
    run = started(caller)
    host.store.start(run)
    host.store.approvals.ask(run, "may I?")
    body = {"kind": "approval", "by": "somebody"}
    assert caller.post(f"/v1/runs/{run}/decide", {**body, "choice": "perhaps"}).status_code == 422
    assert caller.post(f"/v1/runs/{run}/decide", {**body, "choice": choice}).json()["status"] == status


def test_a_run_goes_on_at_a_persons_word(caller: Caller, host: QueueingHost) -> None:
    """One that failed, parked or waits is queued; one that is queued stays so; others are refused."""
    store = host.store
    failed, parked, waits, ended = (started(caller) for _ in range(4))
    for run in (failed, parked, waits, ended):
        store.start(run)
    store.finish(failed, RunStatus.FAILED, reason="no")
    store.park(parked)
    store.wait(waits)
    store.finish(ended)
    for run in (failed, parked, waits, parked):
        assert caller.post(f"/v1/runs/{run}/resume").json()["status"] == "queued"
        assert open_work(host, run) == ["queued"]
    refused = caller.post(f"/v1/runs/{ended}/resume")
    assert (refused.status_code, refused.json()["reason"]) == (409, "completed")


def open_work(host: QueueingHost, run: str) -> list[str]:
    """Return the kinds of open work of a run alone."""
    tree = host.store.tree(run)
    assert tree is not None
    return [kind.value for kind in tree.work]


@pytest.mark.parametrize("address", ["", "/steps", "/tree", "/questions", "/result"])
@pytest.mark.parametrize("run", [MISSING, "x", "..%2f..", "%00", "%ff", "a" * 5_000, "%2e%2e", "1;drop"])
def test_an_id_of_no_run_is_not_found_or_no_id(caller: Caller, run: str, address: str) -> None:
    """No id reaches the database that is none, and none is repeated in the answer."""
    answer = caller.get(f"/v1/runs/{run}{address}")
    assert answer.status_code in {404, 422}
    assert answer.headers["content-type"] == "application/problem+json"
    assert "drop" not in answer.text
    assert len(answer.text) < 500


def test_a_run_of_another_is_refused_without_its_id(caller: Caller, host: QueueingHost) -> None:
    """A key whose run is gone says how that ended, and no more."""
    run = started(caller, idempotency_key="once")
    host.store.cancel_tree(run, reason="x")
    host.sweep_away()
    answer = caller.post("/v1/runs", {"workflow": "greet", "idempotency_key": "once"})
    assert answer.status_code == 409
    assert "cancelled" in answer.json()["detail"]
    assert run not in answer.text


def test_the_state_has_counts_and_moments_alone(caller: Caller, host: QueueingHost) -> None:
    """No id, path, payload, token or process stands in it."""
    run = started(caller, input="a secret of mine", idempotency_key="my key")
    host.store.leases.acquire(run, owner="runner 4711", keep_for=timedelta(minutes=1))
    answer = caller.get("/v1/state")
    told = answer.json()
    assert set(told) == {"ready", "counts", "moments"}
    assert all(isinstance(count, int) for count in told["counts"].values())
    assert (told["counts"]["runs_queued"], told["counts"]["open_lease"], told["counts"]["finished"]) == (
        1,
        1,
        0,
    )
    for private in (run, host.location, "secret", "greet", "runner", "key", "4711"):
        assert private not in json.dumps(told)


def test_a_retry_of_a_step_is_one_step(caller: Caller, host: QueueingHost) -> None:
    """A view shows the current attempt."""
    run = started(caller)
    host.store.start(run)
    first = host.store.steps.start(run, "flaky")
    again = host.store.steps.fail(first, reason="no", retry_in=timedelta(0))
    assert again == Attempt(run, 1, 1, 2)
    [step] = caller.get(f"/v1/runs/{run}/steps").json()["steps"]
    assert (step["attempt"], step["status"], step["ended_at"]) == (1, "failed", None)


def test_a_message_comes_once_by_its_key(caller: Caller, host: QueueingHost) -> None:
    """It wakes a run that waits; the same key with other words is refused, and so is a run that has ended."""
    run = started(caller)
    host.store.start(run)
    host.store.wait(run)
    body = {"content": {"go": True}, "sender": "a friend", "key": "1"}
    first = caller.post(f"/v1/runs/{run}/messages", body)
    assert (first.status_code, first.json()["number"], first.json()["read_at"]) == (200, 1, None)
    assert caller.post(f"/v1/runs/{run}/messages", body).json() == first.json()
    assert host.store.get(run).status is RunStatus.QUEUED
    assert caller.post(f"/v1/runs/{run}/messages", {**body, "content": 1}).status_code == 409
    host.store.cancel_tree(run, reason="x")
    assert caller.post(f"/v1/runs/{run}/messages", {"content": 1}).status_code == 409
    assert "friend" not in caller.get(f"/v1/runs/{run}").text
