from __future__ import annotations

import os
from datetime import timedelta
from typing import Final

import pytest
import sqlalchemy as sa

from afterrun.core.errors import UsageError
from afterrun.runs import (
    AttemptStatus,
    KeySpent,
    NotFound,
    RunNotFound,
    RunStatus,
    RunStore,
    StepStatus,
    TaskStatus,
    Work,
    WorkBlocked,
    WrongState,
)
from afterrun.runs.ids import IdSource
from afterrun.runs.schema import blobs, generations, obligations, tombstones
from afterrun.runs.scrub import GONE, LONGEST, scrub
from runs.runs_kit import Home, any_address, child_of, ended_run, machine_for, running

SOAK: Final = os.environ.get("AFTERRUN_SOAK") == "1"


def _open_work(store: RunStore, run: str) -> list[Work]:
    tree = store.tree(run)
    assert tree is not None
    return list(tree.work)


def test_a_run_has_one_piece_of_open_work_at_a_time(store: RunStore) -> None:
    """What is open follows its state, from the queue to the end, and then nothing is."""
    run = store.create("agent").run.id
    assert _open_work(store, run) == [Work.QUEUED]
    store.start(run)
    assert _open_work(store, run) == []
    store.park(run)
    assert _open_work(store, run) == [Work.WAITING]
    store.start(run)
    store.wait(run)
    assert store.wake(run)
    assert (store.get(run).status, _open_work(store, run)) == (RunStatus.QUEUED, [Work.QUEUED])
    store.start(run)
    ended = store.finish(run, output=b"done")
    assert (ended.status, _open_work(store, run)) == (RunStatus.COMPLETED, [])
    tree = store.tree(run)
    assert tree is not None
    assert not tree.open


@pytest.mark.timeout(400)
def test_after_a_thousand_ordinary_runs_nothing_is_open(home: Home, store: RunStore) -> None:
    """Runs that use every kind of work, a child each and steps that are retried leave no open row."""
    for number in range(10 if home.name == "postgresql" else 100):
        run = running(store)
        step, child = child_of(store, run)
        store.wait(run)
        store.start(child)
        store.finish(child, deliver_to="parent")
        [result] = store.results.due("parent")
        store.results.acknowledge(result)
        store.start(run)
        again = store.steps.fail(step, reason="flaky", retry_in=timedelta(seconds=1))
        assert again is not None
        store.steps.complete(store.steps.retry(again), output=str(number).encode())
        store.tasks.complete(store.tasks.add(run, "note"))
        store.approvals.approve(store.approvals.ask(run, "go on?"), by="somebody")
        if SOAK or number % 5 == 0:
            _everything_beside(store, run)
        store.finish(run)
        _hand_over(store)
        for _ in range(8):
            ended_run(store)
    owed = home.rows(obligations)
    assert [row for row in owed if row["closed_at"] is None] == []
    assert {row["kind"] for row in owed} == set(Work)
    assert home.prune().units.protected == {}
    assert set(home.counts()) == {"idempotency_tombstones"}


def _everything_beside(store: RunStore, run: str) -> None:
    """Do what an ordinary run does beside its steps, and end it but for what others have to take."""
    held = store.leases.acquire(run, owner="w", keep_for=timedelta(hours=1))
    store.leases.release(held)
    step = store.steps.start(run, "pay")
    effect = store.effects.propose(step, "pay", request=b"10", begin=True)
    store.effects.apply(effect, receipt=b"ok")
    store.messages.send(run, b"go on", sender="somebody", key="go on")
    assert store.messages.consume(run, record_as=step) is not None
    store.turns.answer(store.turns.open(run, "user", content=b"why?"), b"because")
    store.follow_ups.add(run, "did it arrive?")
    for state in (b"one", b"two"):
        store.checkpoints.save(run, state)
    starter = str(machine_for(store, run).starter)
    store.start(starter)
    store.finish(starter)
    store.decisions.decide(store.decisions.ask(run, "where?"), "left", by="somebody")
    store.pins.release(store.pins.add(run, any_address(store), holder="audit"))


def _hand_over(store: RunStore) -> None:
    """Take what runs left for others."""
    for turn in store.turns.due():
        assert store.turns.deliver(turn) == b"because"
        store.turns.close(turn)
    for follow_up in store.follow_ups.due():
        store.follow_ups.done(follow_up)
    for resource in store.resources.held():
        store.resources.release(resource)


def test_a_run_that_completes_has_ended_its_own_work(store: RunStore) -> None:
    """An open step is a fault of the caller, who is told; a run that fails cancels it instead."""
    run = running(store)
    store.steps.start(run, "work")
    with pytest.raises(WrongState, match="end its steps"):
        store.finish(run)
    store.finish(run, RunStatus.FAILED, reason="gave up")
    [step] = store.steps.of(run)
    assert (step.status, step.attempt_status) == (StepStatus.CANCELLED, AttemptStatus.CANCELLED)
    assert _open_work(store, run) == []


def test_a_run_ends_once(store: RunStore) -> None:
    """What has ended keeps how."""
    run = ended_run(store)
    with pytest.raises(WrongState, match="ended already, as completed") as refused:
        store.finish(run, RunStatus.FAILED)
    assert refused.value.status == "completed"
    with pytest.raises(UsageError, match="completed, failed or timed_out"):
        store.finish(run, RunStatus.PARKED)
    with pytest.raises(UsageError, match="call cancel_tree"):
        store.finish(run, RunStatus.CANCELLED)


@pytest.mark.parametrize("status", [RunStatus.FAILED, RunStatus.TIMED_OUT])
def test_a_retried_run_is_young_again(home: Home, store: RunStore, status: RunStatus) -> None:
    """Its end is forgotten until it ends again, so that retention leaves it alone meanwhile."""
    run = running(store, key="daily")
    store.finish(run, status, reason="no luck")
    assert home.verdict(run) == ["expired"]
    again = store.retry(run)
    assert (again.status, again.ended_at, again.reason) == (RunStatus.QUEUED, None, None)
    assert home.verdict(run) == ["protected", "live-member", "queued"]
    store.start(run)
    store.finish(run)
    assert home.verdict(run) == ["expired"]
    assert [row["status"] for row in home.rows(tombstones)] == ["completed"]


@pytest.mark.parametrize("shared", ["nothing", "an input", "its own result", "a step of another run"])
def test_what_a_retried_run_ended_with_goes_unless_it_is_needed(
    home: Home, store: RunStore, shared: str
) -> None:
    """Its content leaves nothing behind for a full pass, and is there for whoever else refers to it."""
    run = running(store)
    output = b"so far"
    if shared == "an input":
        store.create("later", content=output)
    elif shared == "a step of another run":
        store.steps.complete(store.steps.start(running(store), "copy"), output=output)
    deliver_to = "mail" if shared == "its own result" else None
    store.finish(run, RunStatus.FAILED, output=output, deliver_to=deliver_to)
    store.retry(run)
    assert store.output_of(run) is None
    assert [row["size"] for row in home.rows(blobs)] == ([] if shared == "nothing" else [len(output)])
    store.start(run)
    store.finish(run, output=output)
    assert store.output_of(run) == output


def test_a_run_that_completed_is_not_retried(store: RunStore) -> None:
    """Only a failure is tried again."""
    with pytest.raises(WrongState, match="failed or timed_out"):
        store.retry(ended_run(store))


def test_a_key_gives_its_run_and_outlives_it(home: Home, store: RunStore) -> None:
    """The same request makes no second run, not even after retention has taken the first one."""
    made = store.create("report", idempotency_key="2026-01")
    again = store.create("report", idempotency_key="2026-01")
    assert (made.new, again.new, again.run.id) == (True, False, made.run.id)
    store.start(made.run.id)
    store.finish(made.run.id, output=b"the report")
    assert not store.create("report", idempotency_key="2026-01").new
    home.prune()
    with pytest.raises(RunNotFound):
        store.get(made.run.id)
    with pytest.raises(KeySpent, match="ended as completed") as refused:
        store.create("report", idempotency_key="2026-01")
    assert (refused.value.run, refused.value.status) == (made.run.id, "completed")
    assert set(home.counts()) == {"idempotency_tombstones"}
    assert home.rows(tombstones)[0]["outcome_digest"] == store.address_of(b"the report")


def test_a_child_that_ends_queues_the_parent_that_waits(store: RunStore) -> None:
    """A parent that parked is left alone: it waits for a call."""
    run = running(store)
    _, first = child_of(store, run)
    _, second = child_of(store, run)
    store.wait(run)
    store.start(first)
    store.finish(first, RunStatus.FAILED)
    assert store.get(run).status is RunStatus.QUEUED
    store.start(run)
    store.park(run)
    store.start(second)
    store.finish(second)
    assert store.get(run).status is RunStatus.PARKED


def test_steps_are_listed_by_start_and_a_late_attempt_is_refused(store: RunStore) -> None:
    """An attempt whose step went on without it changes nothing any more."""
    run = running(store)
    first = store.steps.start(run, "a")
    second = store.steps.start(run, "b")
    again = store.steps.fail(first, reason="slow", retry_in=timedelta(minutes=1))
    assert again is not None
    assert _open_work(store, run) == [Work.QUEUED, Work.RECORDING]
    [failed, other] = store.steps.of(run)
    assert (failed.name, failed.status, failed.ended_at) == ("a", StepStatus.FAILED, None)
    assert other.name == "b"
    store.steps.retry(again)
    for late in (first, again.__class__(run, 1, 1, 3)):
        with pytest.raises(WrongState, match="another attempt"):
            store.steps.complete(late)
    store.steps.complete(again, output=b"x")
    with pytest.raises(NotFound, match="in its queue"):
        store.steps.retry(again)
    with pytest.raises(WrongState, match="the step is completed"):
        store.steps.complete(again)
    store.steps.complete(second)


def test_tasks_open_when_what_they_need_is_completed(store: RunStore) -> None:
    """A task with two needs waits for both; what needs a failed one, also through others, is cancelled."""
    run = running(store)
    plan = [store.tasks.add(run, name) for name in ("a", "b")]
    both = store.tasks.add(run, "c", needs=plan)
    last = store.tasks.add(run, "d", needs=[both])
    with pytest.raises(WrongState, match="blocked cannot become completed"):
        store.tasks.complete(both)
    store.tasks.complete(plan[0])
    assert store.tasks.of(run)[both] is TaskStatus.BLOCKED
    store.tasks.complete(plan[1])
    assert store.tasks.of(run)[both] is TaskStatus.OPEN
    store.tasks.fail(both)
    assert list(store.tasks.of(run).values()) == ["completed", "completed", "failed", "cancelled"]
    assert store.tasks.of(run)[last] is TaskStatus.CANCELLED
    with pytest.raises(WrongState, match="never be completed"):
        store.tasks.add(run, "e", needs=[both])
    assert _open_work(store, run) == []


def test_questions_keep_a_run_until_they_are_answered(store: RunStore) -> None:
    """An answer queues a run that waits, and counts once."""
    run = running(store)
    approval = store.approvals.ask(run, "delete the branch?")
    decision = store.decisions.ask(run, "which region?")
    store.wait(run)
    assert _open_work(store, run) == [Work.DECISION, Work.INTERACTION, Work.WAITING]
    store.approvals.reject(approval, by="ops")
    assert (store.approvals.status(approval), store.get(run).status) == ("rejected", RunStatus.QUEUED)
    with pytest.raises(WrongState, match="rejected already"):
        store.approvals.approve(approval, by="ops")
    assert store.decisions.choice(decision) is None
    store.decisions.decide(decision, "eu", by="ops")
    assert store.decisions.choice(decision) == "eu"


def test_generations_are_left_behind_and_go(home: Home, store: RunStore) -> None:
    """A loop that goes on as new keeps its current generation; past ones go with their steps and content."""
    run = running(store)
    for turn in range(3):
        store.steps.complete(store.steps.start(run, "turn"), output=f"turn {turn}".encode())
        assert store.continue_as_new(run, content=f"state {turn}".encode()).generation == turn + 2
    _, child = child_of(store, run)
    with pytest.raises(WrongState, match="cannot go on as new"):
        store.continue_as_new(run)
    report = home.prune_generations("7d")
    assert report.kinds["generation"].removed == 3
    assert [(row["run_id"], row["number"]) for row in home.rows(generations)] == [(run, 4), (child, 1)]
    assert {row["display"] for row in home.rows(blobs)} == {"state 2"}
    assert store.get(child).status is RunStatus.QUEUED


def test_a_generation_with_a_child_stays(home: Home, store: RunStore) -> None:
    """The child names a step of it as its origin, so it stays until the root goes."""
    run = running(store)
    step, child = child_of(store, run)
    store.start(child)
    store.finish(child)
    store.steps.complete(step)
    store.continue_as_new(run)
    report = home.prune_generations("7d")
    told = report.kinds["generation"]
    assert (told.protected["has-children"], told.removed) == (1, 0)


def test_content_is_stored_once_and_pinned_content_stays(home: Home, store: RunStore) -> None:
    """Two runs with the same content share it; a pin keeps its tree, and the other one goes."""
    first, second = (store.create("copy", content=b"same").run.id for _ in range(2))
    for run in (first, second):
        store.start(run)
        store.finish(run)
    assert len(home.rows(blobs)) == 1
    pin = store.pins.add(first, store.address_of(b"same"), holder="audit")
    assert home.prune().units.removed == 1
    assert store.input_of(first) == b"same"
    store.pins.release(pin)
    home.prune()
    assert set(home.counts()) == set()
    with pytest.raises(RunNotFound):
        store.pins.release(pin)


def test_a_result_keeps_its_run_until_it_is_acknowledged(home: Home, store: RunStore) -> None:
    """It is handed out again until then."""
    run = running(store)
    store.finish(run, output=b"42", deliver_to="asker")
    [result] = store.results.due("asker")
    assert store.results.deliver(result) == b"42"
    assert len(store.results.due("asker")) == 1
    assert home.verdict(run) == ["protected", "undelivered-result"]
    store.results.acknowledge(result)
    assert store.results.due("asker") == []
    assert home.verdict(run) == ["expired"]


def test_lists_hold_no_content_and_page_by_id(store: RunStore) -> None:
    """The newest come first; the queue gives the oldest first."""
    made = [store.create(f"run {number}").run.id for number in range(5)]
    assert [run.id for run in store.newest(limit=2)] == [made[4], made[3]]
    assert [run.id for run in store.newest(before=made[3], limit=2)] == [made[2], made[1]]
    store.start(made[0])
    assert [run.id for run in store.newest(status=RunStatus.RUNNING)] == [made[0]]
    assert [run.id for run in store.queued(limit=2)] == [made[1], made[2]]


@pytest.mark.parametrize("name", ["", "x" * 201, "two\nlines", "nul\0", "\ud800"])
def test_a_name_that_no_list_could_show_is_refused(store: RunStore, name: str) -> None:
    """Wherever one is given; the message says what a name is, and not which one was given."""
    run = running(store)
    question = store.decisions.ask(run, "which?")
    for call in (
        lambda: store.create(name),
        lambda: store.steps.start(run, name),
        lambda: store.tasks.add(run, name),
        lambda: store.approvals.ask(run, name),
        lambda: store.decisions.decide(question, name, by="ops"),
        lambda: store.leases.acquire(run, owner=name, keep_for=timedelta(hours=1)),
        lambda: store.finish(run, RunStatus.FAILED, deliver_to=name),
    ):
        with pytest.raises(UsageError, match="printable text"):
            call()
    assert store.get(run).status is RunStatus.RUNNING


def test_reasons_are_scrubbed_before_they_are_stored(store: RunStore) -> None:
    """What looks like a secret is in no row."""
    run = running(store)
    key = "sk_live_0123456789abcdefABCDEF"
    store.finish(run, RunStatus.FAILED, reason=f"GET https://me:{key}@host failed, token={key}")
    reason = store.get(run).reason
    assert reason is not None
    assert key not in reason
    assert GONE in reason


def test_scrubbing_keeps_words_and_cuts_length() -> None:
    """An ordinary sentence stays; control characters and what is too long do not."""
    assert scrub("step 3 failed: no such file or directory") == "step 3 failed: no such file or directory"
    assert scrub("a\x1b[2Jb\n") == "a [2Jb"
    assert len(scrub("word " * 1_000)) <= LONGEST
    assert scrub("Authorization: Bearer abc.def") == f"Authorization: {GONE}"


def test_ids_grow_whatever_the_clock_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that stands still or goes back makes no smaller id, and each is a UUID of version 7."""
    source = IdSource()
    made = [source.new()]
    for moment in (10**18, 10**18, 10**18 - 5_000_000, 10**17):
        monkeypatch.setattr("afterrun.runs.ids.time.time_ns", lambda moment=moment: moment)
        made.append(source.new())
    assert made == sorted(set(made))
    assert {identity[14] for identity in made} == {"7"}


def test_work_under_an_ended_step_is_refused(store: RunStore) -> None:
    """A child is begun by the current attempt of a running step, or not at all."""
    run = running(store)
    step = store.steps.start(run, "a")
    store.steps.complete(step)
    with pytest.raises(WorkBlocked, match="the step is completed") as refused:
        store.create("child", parent=step)
    assert refused.value.block.reason == "step-ended"
    with pytest.raises(WrongState):
        store.steps.start(ended_run(store), "late")


def test_a_method_inside_another_ones_transaction_is_refused(home: Home) -> None:
    """A thread that opened a transaction of the store cannot wait for itself."""
    with home.database() as database, database.writing() as transaction:
        assert transaction.value(sa.select(sa.literal(1))) == 1
        with pytest.raises(RuntimeError, match="open in this thread"), database.writing():
            pass
