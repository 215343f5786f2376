"""Messages, turns, follow-ups, checkpoints and managed resources of runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from afterrun.core.errors import UsageError
from afterrun.core.times import DAY
from afterrun.runs import (
    FingerprintMismatch,
    NotFound,
    RunStatus,
    RunStore,
    StaleEpoch,
    Work,
    WorkBlocked,
    WrongState,
)
from afterrun.runs.schema import blobs, obligations, runs
from afterrun.runs.side_tables import managed_resources
from runs.runs_kit import Home, ended_run, machine_for, running
from runs.test_run_races import THREADS, at_once


def _work(store: RunStore, run: str) -> list[Work]:
    return list(store.view(run).work)


def test_messages_are_read_once_in_their_order(store: RunStore) -> None:
    """Each is handed out in the transaction that notes it as read; the last one closes the open work."""
    run = running(store)
    sent = [store.messages.send(run, text, sender="me") for text in (b"one", b"two")]
    assert store.messages.pending(run) == sent
    assert store.messages.content_of(sent[1]) == b"two"
    assert _work(store, run) == [Work.MESSAGE]
    read = [store.messages.consume(run) for _ in range(3)]
    assert [one and one[1] for one in read] == [b"one", b"two", None]
    assert _work(store, run) == []
    assert store.messages.pending(run) == []
    assert [message.consumed_at is None for message in store.messages.of(run)] == [False, False]


def test_a_message_that_is_read_by_a_step_is_its_output(home: Home, store: RunStore) -> None:
    """The step is done in the same transaction, and shares the content; a replay finds it there."""
    run = running(store)
    for _ in range(2):
        store.messages.send(run, b"hello")
    step = store.steps.start(run, "receive")
    first = store.messages.consume(run, record_as=step)
    second = store.messages.consume(run, record_as="receive")
    assert first is not None
    assert second is not None
    assert (first[0].read_by, second[0].read_by) == ((1, 1), (1, 2))
    assert [(part.name, part.status) for part in store.steps.of(run)] == [("receive", "completed")] * 2
    assert [store.steps.output_of(part) for part in store.steps.of(run)] == [b"hello"] * 2
    assert len(home.rows(blobs)) == 1
    assert _work(store, run) == []


def test_a_message_wakes_a_run_that_waits(store: RunStore) -> None:
    """One that parked waits for a call, and finds the message later."""
    run = running(store)
    store.wait(run)
    store.messages.send(run, b"go")
    assert store.get(run).status is RunStatus.QUEUED
    store.start(run)
    store.park(run)
    store.messages.send(run, b"more")
    assert store.get(run).status is RunStatus.PARKED
    with pytest.raises(WrongState, match="cannot read messages"):
        store.messages.consume(run)


def test_a_repeated_key_is_the_same_message(store: RunStore) -> None:
    """Also once it was read, and once the run has ended; with another content it is refused."""
    run = running(store)
    first = store.messages.send(run, b"pay", sender="me", key="7")
    store.messages.consume(run)
    again = store.messages.send(run, b"pay", sender="me", key="7")
    assert (again.number, again.consumed_at is None) == (first.number, False)
    for content, sender in ((b"pay more", "me"), (b"pay", "you")):
        with pytest.raises(FingerprintMismatch, match="another key"):
            store.messages.send(run, content, sender=sender, key="7")
    store.finish(run)
    assert store.messages.send(run, b"pay", sender="me", key="7") == again
    with pytest.raises(WrongState, match="completed cannot get a message"):
        store.messages.send(run, b"late")


def test_messages_that_come_at_once_are_all_there(store: RunStore) -> None:
    """Each has a number of its own; those with one key are one."""
    run = running(store)
    at_once(lambda who: store.messages.send(run, f"{who}".encode()))
    at_once(lambda _: store.messages.send(run, b"same", key="k"))
    assert [message.number for message in store.messages.of(run)] == list(range(1, THREADS + 2))


def test_two_readers_get_a_message_once(store: RunStore) -> None:
    """However they come, each message goes to one of them."""
    run = running(store)
    for number in range(THREADS - 1):
        store.messages.send(run, f"{number}".encode())
    read: list[Any] = at_once(lambda _: store.messages.consume(run))
    assert sorted(one[1] for one in read if one) == [b"0", b"1", b"2"]


def test_unread_messages_keep_no_ended_run_and_are_found_by_a_retry(home: Home, store: RunStore) -> None:
    """Nobody can read them any more, unless the run goes on."""
    run = running(store)
    store.messages.send(run, b"hello")
    store.finish(run, RunStatus.FAILED)
    assert home.verdict(run) == ["expired"]
    store.retry(run)
    assert Work.MESSAGE in _work(store, run)
    store.start(run)
    found = store.messages.consume(run)
    assert found is not None
    assert found[1] == b"hello"
    store.finish(run)
    assert home.verdict(run) == ["expired"]


def test_read_messages_go_with_the_generation_that_read_them(home: Home, store: RunStore) -> None:
    """A loop that lives on messages does not grow; what is unread stays."""
    run = running(store)
    for number in range(3):
        store.messages.send(run, f"{number}".encode())
        store.messages.consume(run)
        store.turns.close(store.turns.open(run, "user", content=f"turn {number}".encode()))
        store.follow_ups.done(store.follow_ups.add(run, "look"))
        store.checkpoints.save(run, f"state {number}".encode())
        store.continue_as_new(run)
    store.messages.send(run, b"unread")
    assert home.prune_generations("7d").kinds["generation"].removed == 2
    assert [message.number for message in store.messages.of(run)] == [3, 4]
    assert [turn.generation for turn in store.turns.of(run)] == [3]
    assert len([row for row in home.rows(obligations) if row["kind"] == Work.MESSAGE]) == 1
    assert len(home.rows(blobs)) == 4


def test_a_turn_is_open_until_its_answer_is_delivered(home: Home, store: RunStore) -> None:
    """The answer outlives the run, is handed out until the turn is closed, and keeps the tree until then."""
    run = running(store)
    store.wait(run)
    turn = store.turns.open(run, "user", content=b"why?")
    assert store.get(run).status is RunStatus.QUEUED
    store.start(run)
    with pytest.raises(WrongState, match="no answer to deliver"):
        store.turns.deliver(turn)
    assert store.turns.content_of(turn) == b"why?"
    answered = store.turns.answer(turn, b"because")
    with pytest.raises(WrongState, match="answered already"):
        store.turns.answer(turn, b"no")
    store.finish(run)
    assert store.turns.due() == [answered]
    assert [store.turns.deliver(turn) for _ in range(2)] == [b"because"] * 2
    assert home.verdict(run) == ["protected", "open-turn"]
    for _ in range(2):
        store.turns.close(turn)
    assert store.turns.due() == []
    assert home.verdict(run) == ["expired"]


def test_a_turn_that_gets_no_answer_ends_with_its_run(home: Home, store: RunStore) -> None:
    """Nobody will answer any more; of two turns the answered one stays."""
    run = running(store)
    lost, answered = (store.turns.open(run, "user") for _ in range(2))
    store.turns.answer(answered, b"yes")
    store.finish(run, RunStatus.FAILED)
    assert [turn.ended_at is None for turn in store.turns.of(run)] == [False, True]
    store.turns.close(answered)
    assert home.verdict(run) == ["expired"]
    with pytest.raises(WrongState, match="failed cannot be spoken to"):
        store.turns.open(run, "user")
    store.retry(run)
    store.start(run)
    with pytest.raises(WrongState, match="closed already"):
        store.turns.answer(lost, b"late")


def test_a_follow_up_is_due_in_time_and_outlives_its_run(home: Home, store: RunStore) -> None:
    """It keeps the tree until somebody has done it, also that of a cancelled run."""
    run = running(store)
    later = store.follow_ups.add(run, "did the refund arrive?", due_in=timedelta(days=2))
    now = store.follow_ups.add(run, "call back")
    assert store.follow_ups.due() == [now]
    store.follow_ups.done(now)
    store.cancel_tree(run, reason="stop")
    assert store.follow_ups.due() == []
    home.clock.now += 3 * DAY
    assert store.follow_ups.due() == [later]
    assert home.verdict(run) == ["protected", "follow-up"]
    for _ in range(2):
        store.follow_ups.done(later)
    assert home.verdict(run) == ["expired"]
    assert [one.ended_at is None for one in store.follow_ups.of(run)] == [False, False]
    with pytest.raises(UsageError, match="zero or more"):
        store.follow_ups.add(run, "back", due_in=timedelta(-1))


def test_the_newest_resumable_checkpoint_settles_the_former(store: RunStore) -> None:
    """One that is not resumable settles nothing; also across generations one is the one to resume from."""
    run = running(store)
    first = store.checkpoints.save(run, b"one")
    step = store.steps.start(run, "work")
    second = store.checkpoints.save(step, b"two")
    note = store.checkpoints.save(run, b"note", resumable=False)
    assert second.attempt == step
    assert store.checkpoints.newest(run) == note
    assert store.checkpoints.newest(run, resumable=True) == second
    assert store.checkpoints.content_of(second) == b"two"
    assert [one.settled_at is None for one in store.checkpoints.of(run)] == [False, True, True]
    assert store.view(run).work == {Work.RECORDING: 1, Work.CHECKPOINT: 1}
    store.steps.complete(step)
    store.continue_as_new(run)
    assert store.checkpoints.newest(run, resumable=True) == second
    third = store.checkpoints.save(run, b"three")
    assert store.checkpoints.newest(run, resumable=True) == third
    assert store.view(run).work == {Work.CHECKPOINT: 1}
    assert store.checkpoints.content_of(first) == b"one"


@pytest.mark.parametrize("end", ["completed", "cancelled", "failed"])
def test_a_run_that_failed_may_be_resumed_and_no_other(home: Home, store: RunStore, end: str) -> None:
    """Its checkpoint keeps the tree until it is retried, cancelled, or nobody wants it any more."""
    run = running(store)
    saved = store.checkpoints.save(run, b"state")
    if end == "cancelled":
        store.cancel_tree(run, reason="stop")
    else:
        store.finish(run, RunStatus(end))
    assert (store.checkpoints.unresumed() == [saved]) == (end == "failed")
    if end == "failed":
        assert home.verdict(run) == ["protected", "resumable-checkpoint"]
        store.retry(run)
        with pytest.raises(WrongState, match="cancel it first"):
            store.checkpoints.forget(run)
        store.start(run)
        store.finish(run, RunStatus.FAILED)
        store.checkpoints.forget(run)
    assert home.verdict(run) == ["expired"]


def test_a_failed_run_under_a_cancelled_one_is_not_resumed(home: Home, store: RunStore) -> None:
    """Nothing begins there any more, so its checkpoint keeps nothing."""
    root = running(store)
    child = running(store, parent=store.steps.start(root, "delegate"))
    store.checkpoints.save(child, b"state")
    store.finish(child, RunStatus.FAILED)
    store.cancel_tree(root, reason="stop")
    assert home.verdict(root) == ["expired"]


def test_a_resource_is_asked_for_as_often_as_one_likes(home: Home, store: RunStore) -> None:
    """One run in the tree makes it; the same key gives the same resource, also after its release."""
    run = running(store)
    resource = machine_for(store, run)
    assert machine_for(store, run) == resource
    assert resource.starter is not None
    starter = store.get(resource.starter)
    assert (starter.name, starter.root, starter.continuation_of) == ("make vm", run, run)
    assert store.input_of(starter.id) == b"2 cpu"
    with pytest.raises(WrongState, match="goes on"):
        store.resources.release(resource)
    store.start(starter.id)
    store.finish(starter.id)
    store.finish(run)
    assert machine_for(store, run) == resource
    assert store.resources.held() == [resource]
    assert home.verdict(run) == ["protected", "managed-resource"]
    for _ in range(2):
        store.resources.release(resource)
    assert machine_for(store, run).released_at is not None
    assert store.resources.held() == []
    assert home.verdict(run) == ["expired"]


def test_the_same_request_key_with_another_fingerprint_is_refused(home: Home, store: RunStore) -> None:
    """So is another kind or address; nothing is started then."""
    run = running(store)
    machine_for(store, run)
    with pytest.raises(FingerprintMismatch, match="a request key of its own"):
        machine_for(store, run, fingerprint="4 cpu")
    words: dict[str, Any] = {"request_key": "vm", "fingerprint": "2 cpu", "start": "make vm"}
    for kind, address in (("disk", "vm-1.example"), ("vm", "vm-2.example")):
        with pytest.raises(FingerprintMismatch):
            store.resources.ensure(run, kind, address, **words)
    assert (len(home.rows(runs)), len(home.rows(managed_resources))) == (2, 1)


def test_reconcilers_at_once_start_one_run(home: Home, store: RunStore) -> None:
    """Each gets the one resource."""
    run = running(store)
    got: list[Any] = at_once(lambda _: machine_for(store, run))
    assert len({(one.number, one.starter) for one in got}) == 1
    assert (len(home.rows(runs)), len(home.rows(managed_resources))) == (2, 1)


def test_a_reconciler_may_start_again_what_failed(store: RunStore) -> None:
    """The same run is queued again; without leave it is only told."""
    run = running(store)
    resource = machine_for(store, run)
    assert resource.starter is not None
    store.start(resource.starter)
    store.finish(resource.starter, RunStatus.FAILED)
    machine_for(store, run)
    assert store.get(resource.starter).status is RunStatus.FAILED
    assert machine_for(store, run, again=True) == resource
    assert store.get(resource.starter).status is RunStatus.QUEUED


def test_a_step_that_needs_a_resource_waits_for_the_run_that_makes_it(store: RunStore) -> None:
    """That one is its child then, by the lease of its owner, and wakes it."""
    run = running(store)
    lease = store.leases.acquire(run, owner="w", keep_for=timedelta(hours=1))
    step = store.steps.start(run, "prepare", epoch=lease.epoch)
    words: dict[str, Any] = {"request_key": "vm", "fingerprint": "2 cpu", "start": "make vm"}
    with pytest.raises(StaleEpoch):
        store.resources.ensure(step, "vm", "vm-1", **words)
    resource = store.resources.ensure(step, "vm", "vm-1", epoch=lease.epoch, **words)
    assert resource.starter is not None
    assert store.get(resource.starter).parent == step
    store.wait(run, epoch=lease.epoch)
    store.start(resource.starter)
    store.finish(resource.starter)
    assert store.get(run).status is RunStatus.QUEUED


def test_a_cancelled_tree_takes_the_starter_and_leaves_the_resource(home: Home, store: RunStore) -> None:
    """It may exist, so somebody has to look and release it; nothing more is started for it."""
    run = running(store)
    resource = machine_for(store, run)
    assert store.cancel_tree(run, reason="stop") == 2
    assert home.verdict(run) == ["protected", "managed-resource"]
    assert machine_for(store, run, again=True) == resource
    with pytest.raises(WrongState, match="needs no resource"):
        machine_for(store, run, key="other")
    store.resources.release(resource)
    assert home.verdict(run) == ["expired"]


def test_nothing_of_it_begins_under_a_cancelled_run(store: RunStore) -> None:
    """Each call that opens work is refused, with a reason."""
    run = running(store)
    store.cancel_tree(run, reason="stop")
    for call in (
        lambda: store.checkpoints.save(run, b"x"),
        lambda: store.follow_ups.add(run, "x"),
    ):
        with pytest.raises(WorkBlocked, match="cancelled"):
            call()
    for send in (lambda: store.messages.send(run, b"x"), lambda: store.turns.open(run, "user")):
        with pytest.raises(WrongState, match="cancelled"):
            send()


def test_parts_that_never_were_are_told(store: RunStore) -> None:
    """By what they are."""
    one, other = running(store), running(store)
    turn = store.turns.open(one, "user")
    resource = machine_for(store, one)
    checkpoint = store.checkpoints.save(one, b"x")
    follow_up = store.follow_ups.add(one, "x")
    calls: tuple[tuple[str, Callable[[], object]], ...] = (
        ("turn", lambda: store.turns.close(replace(turn, run=other))),
        ("resource", lambda: store.resources.release(replace(resource, run=other))),
        ("checkpoint", lambda: store.checkpoints.content_of(replace(checkpoint, run=other))),
        ("follow-up", lambda: store.follow_ups.done(replace(follow_up, run=other))),
    )
    for what, call in calls:
        with pytest.raises(NotFound, match=what):
            call()


def test_a_view_tells_how_much_there_is_and_what_is_open(store: RunStore) -> None:
    """All kinds are counted, of the run alone."""
    run = running(store)
    store.messages.send(run, b"hello")
    ended_run(store, parent=store.steps.start(run, "delegate"))
    view = store.view(run)
    assert (view.run, view.children) == (store.get(run), 1)
    told = {name: count for name, count in view.parts.items() if count}
    assert told == {"generations": 1, "steps": 1, "messages": 1}
    assert view.work == {Work.MESSAGE: 1, Work.RECORDING: 1}


def test_lists_come_in_pages(store: RunStore) -> None:
    """Of every kind, in the order in which its parts were made."""
    run = running(store)
    for number in range(3):
        store.messages.send(run, b"hello")
        store.turns.open(run, "user")
        store.follow_ups.add(run, "look")
        store.checkpoints.save(run, b"state")
        machine_for(store, run, key=f"vm {number}")
    parts: tuple[Any, ...] = (store.turns, store.follow_ups, store.checkpoints)
    for part in parts:
        assert [one.number for one in part.of(run, limit=2)] == [1, 2]
        assert [one.number for one in part.of(run, after=(1, 2), limit=2)] == [3]
    numbered: tuple[Any, ...] = (store.messages, store.resources)
    for part in numbered:
        assert [one.number for one in part.of(run, limit=2)] == [1, 2]
        assert [one.number for one in part.of(run, after=2)] == [3]
    assert [one.number for one in store.messages.pending(run, after=1, limit=1)] == [2]
