"""What a step does outside: once, or known to be in doubt."""

from __future__ import annotations

from datetime import timedelta

import pytest

from afterrun.core.times import SECOND
from afterrun.runs import (
    Attempt,
    Effect,
    EffectStatus,
    FingerprintMismatch,
    NotFound,
    RunStatus,
    RunStore,
    StaleEpoch,
    Work,
    WorkBlocked,
    WrongState,
)
from runs.runs_kit import Home, running


@pytest.fixture
def step(store: RunStore) -> Attempt:
    """Give a running step."""
    return store.steps.start(running(store), "charge")


def _begun(store: RunStore, step: Attempt) -> Effect:
    return store.effects.propose(step, "pay", request=b"10", begin=True)


def test_an_effect_goes_from_proposed_to_applied_with_a_receipt(store: RunStore, step: Attempt) -> None:
    """Each stage is there when its call returns, and the effect keeps the tree until the last one."""
    proposed = store.effects.propose(step, "pay", request=b"10")
    begun = store.effects.begin(proposed)
    assert (proposed.status, begun.status) == (EffectStatus.PENDING, EffectStatus.APPLYING)
    assert Work.EFFECT in store.view(step.run).work
    with pytest.raises(WrongState, match="cannot have a receipt"):
        store.effects.receipt_of(begun)
    applied = store.effects.apply(begun, receipt=b"ok 17")
    assert (applied.status, applied.key) == (EffectStatus.APPLIED, proposed.key)
    assert store.effects.receipt_of(applied) == b"ok 17"
    assert store.effects.get(*applied.place) == applied
    assert Work.EFFECT not in store.view(step.run).work


def test_a_replayed_step_adopts_the_receipt_of_an_applied_effect(store: RunStore, step: Attempt) -> None:
    """The next attempt has the same key, and learns that there is nothing left to do."""
    store.effects.apply(_begun(store, step), receipt=b"ok 17")
    again = store.steps.fail(step, reason="died", retry_in=timedelta(0))
    assert again is not None
    adopted = store.effects.propose(store.steps.retry(again), "pay", request=b"10", begin=True)
    assert adopted.status is EffectStatus.APPLIED
    assert store.effects.receipt_of(adopted) == b"ok 17"
    assert len(store.effects.of(step.run)) == 1


def test_what_an_earlier_attempt_began_is_in_doubt(store: RunStore, step: Attempt) -> None:
    """It may have happened, so the next attempt does not begin it; what was only proposed it takes over."""
    begun = _begun(store, step)
    store.effects.propose(step, "mail")
    again = store.steps.fail(step, reason="no answer", retry_in=timedelta(0))
    assert again is not None
    second = store.steps.retry(again)
    doubtful = store.effects.propose(second, "pay", request=b"10", begin=True)
    taken = store.effects.propose(second, "mail", begin=True)
    assert (doubtful.number, doubtful.status) == (begun.number, EffectStatus.AMBIGUOUS)
    assert (taken.status, taken.attempt) == (EffectStatus.APPLYING, second)
    with pytest.raises(WrongState, match="ambiguous cannot be begun"):
        store.effects.begin(doubtful)
    with pytest.raises(WrongState, match="ambiguous cannot be applied"):
        store.effects.apply(begun)


def test_the_same_attempt_that_asks_twice_begins_once(store: RunStore, step: Attempt) -> None:
    """Whoever comes second sees that it is being applied."""
    begun = _begun(store, step)
    assert _begun(store, step) == begun
    with pytest.raises(WrongState, match="applying cannot be begun"):
        store.effects.begin(begun)


@pytest.mark.parametrize("how", ["request", "name"])
def test_a_key_with_another_request_is_refused(store: RunStore, step: Attempt, how: str) -> None:
    """Nothing is proposed under it, and nothing of what stands is changed."""
    first = store.effects.propose(step, "pay", key="order 7", request=b"10")
    name, request = ("pay", b"11") if how == "request" else ("refund", b"10")
    with pytest.raises(FingerprintMismatch, match="a key of its own"):
        store.effects.propose(step, name, key="order 7", request=request)
    assert store.effects.of(step.run) == [first]


def test_keys_are_those_of_a_step_and_a_name_and_tell_nothing(store: RunStore, step: Attempt) -> None:
    """Another step, name or generation has another key; another attempt has not."""
    keys = {store.effects.propose(step, name, request=None).key for name in ("a", "b")}
    keys |= {store.effects.propose(store.steps.start(step.run, "charge"), "a").key}
    assert len(keys) == 3
    assert not [key for key in keys if step.run in key or len(key) != 32]


def test_what_is_known_not_to_have_happened_may_be_begun_again(store: RunStore, step: Attempt) -> None:
    """Or it is given up; a later proposal takes it up again, since it never happened."""
    failed = store.effects.fail(_begun(store, step), reason="refused: password=hunter2")
    assert (failed.status, failed.reason) == (EffectStatus.PENDING, "refused: password=[removed]")
    begun = store.effects.begin(failed)
    given_up = store.effects.fail(begun, reason="closed", again=False)
    assert given_up.status is EffectStatus.CANCELLED
    assert Work.EFFECT not in store.view(step.run).work
    again = _begun(store, step)
    assert (again.status, again.ended_at, again.reason) == (EffectStatus.APPLYING, None, None)
    assert Work.EFFECT in store.view(step.run).work


def test_one_who_got_no_answer_says_so(store: RunStore, step: Attempt) -> None:
    """The effect is in doubt at once, and the run may go on without it."""
    begun = _begun(store, step)
    [doubtful] = store.effects.doubt(begun)
    assert doubtful.status is EffectStatus.AMBIGUOUS
    assert store.effects.unsettled() == [doubtful]
    assert store.effects.doubt(step.run) == []


def test_a_new_owner_puts_in_doubt_what_the_one_before_began(home: Home, store: RunStore) -> None:
    """The old owner cannot record an answer any more, and the new one does not for it."""
    run = running(store)
    first = store.leases.acquire(run, owner="one", keep_for=timedelta(minutes=1))
    step = store.steps.start(run, "charge", epoch=first.epoch)
    begun = store.effects.propose(step, "pay", begin=True, epoch=first.epoch)
    home.clock.now += 120 * SECOND
    second = store.leases.acquire(run, owner="two", keep_for=timedelta(minutes=1))
    with pytest.raises(StaleEpoch):
        store.effects.apply(begun, receipt=b"ok", epoch=first.epoch)
    with pytest.raises(WrongState, match="an owner before this one"):
        store.effects.apply(begun, receipt=b"ok", epoch=second.epoch)
    with pytest.raises(WrongState, match="an owner before this one"):
        store.effects.fail(begun, reason="no", epoch=second.epoch)
    own = store.effects.propose(step, "mail", begin=True, epoch=second.epoch)
    assert [effect.name for effect in store.effects.doubt(run, epoch=second.epoch)] == ["pay"]
    assert store.effects.apply(own, epoch=second.epoch).status is EffectStatus.APPLIED


def test_a_proposal_of_a_new_owner_puts_it_in_doubt_as_well(home: Home, store: RunStore) -> None:
    """Also where the new owner goes on with the same attempt and asked for no doubts before."""
    run = running(store)
    first = store.leases.acquire(run, owner="one", keep_for=timedelta(minutes=1))
    step = store.steps.start(run, "charge", epoch=first.epoch)
    store.effects.propose(step, "pay", begin=True, epoch=first.epoch)
    home.clock.now += 120 * SECOND
    second = store.leases.acquire(run, owner="two", keep_for=timedelta(minutes=1))
    found = store.effects.propose(step, "pay", begin=True, epoch=second.epoch)
    assert found.status is EffectStatus.AMBIGUOUS


@pytest.mark.parametrize("applied", [True, False])
def test_a_person_settles_and_the_run_goes_on(store: RunStore, step: Attempt, applied: bool) -> None:
    """What happened is adopted with the receipt that the person found; what did not is begun again."""
    [doubtful] = store.effects.doubt(_begun(store, step))
    store.wait(step.run)
    settled = store.effects.settle(doubtful, applied=applied, by="ops", receipt=b"seen" if applied else None)
    assert settled.settled_by == "ops"
    assert store.get(step.run).status is RunStatus.QUEUED
    store.start(step.run)
    found = _begun(store, step)
    if applied:
        assert store.effects.receipt_of(found) == b"seen"
    else:
        assert found.status is EffectStatus.APPLYING
    with pytest.raises(WrongState, match="cannot be settled"):
        store.effects.settle(doubtful, applied=applied, by="ops")


def test_a_run_completes_once_its_effects_are_ended_or_in_doubt(home: Home, store: RunStore) -> None:
    """What it began it must end itself; what is in doubt keeps the tree until somebody settles it."""
    run = running(store)
    step = store.steps.start(run, "charge")
    store.effects.propose(step, "pay", begin=True)
    store.steps.complete(step)
    with pytest.raises(WrongState, match="effects first"):
        store.finish(run)
    with pytest.raises(WrongState, match="effects first"):
        store.continue_as_new(run)
    [doubtful] = store.effects.doubt(run)
    store.continue_as_new(run)
    store.finish(run)
    assert home.verdict(run) == ["protected", "unsettled-effect"]
    assert store.effects.settle(doubtful, applied=False, by="ops").status is EffectStatus.CANCELLED
    assert home.verdict(run) == ["expired"]


def test_what_did_not_happen_in_a_past_generation_is_given_up(store: RunStore, step: Attempt) -> None:
    """The step that would do it again is over; the live run proposes it anew if it wants it."""
    [doubtful] = store.effects.doubt(_begun(store, step))
    store.steps.complete(step)
    store.continue_as_new(step.run)
    assert store.effects.settle(doubtful, applied=False, by="ops").status is EffectStatus.CANCELLED
    assert store.view(step.run).work == {}


@pytest.mark.parametrize("end", ["finish", "cancel"])
def test_a_run_that_ends_leaves_in_doubt_what_was_begun(store: RunStore, step: Attempt, end: str) -> None:
    """What was not begun is given up, and nobody has to settle it."""
    _begun(store, step)
    store.effects.propose(step, "mail")
    if end == "finish":
        store.finish(step.run, RunStatus.FAILED)
    else:
        store.cancel_tree(step.run, reason="stop")
    pay, mail = store.effects.of(step.run)
    assert (pay.status, mail.status) == (EffectStatus.AMBIGUOUS, EffectStatus.CANCELLED)
    assert store.view(step.run).work == {Work.EFFECT: 1}
    store.effects.settle(pay, applied=True, by="ops")
    assert store.view(step.run).work == {}


def test_an_effect_of_an_earlier_generation_is_adopted_by_its_key(store: RunStore) -> None:
    """Continue-as-new makes no second chance of it; one that never happened is proposed anew."""
    run = running(store)
    step = store.steps.start(run, "charge")
    applied = store.effects.propose(step, "pay", key="order 7", begin=True)
    store.effects.apply(applied, receipt=b"ok")
    never = store.effects.propose(step, "mail", key="mail 7")
    store.effects.fail(never, reason="no need", again=False)
    store.steps.complete(step)
    store.continue_as_new(run)
    step = store.steps.start(run, "charge")
    assert store.effects.propose(step, "pay", key="order 7").generation == 1
    assert store.effects.propose(step, "mail", key="mail 7").generation == 2


def test_a_failed_run_that_is_retried_goes_on_from_what_is_known(store: RunStore, step: Attempt) -> None:
    """What it left in doubt stays so under its key, in whatever step it comes again."""
    store.effects.propose(step, "pay", key="order 7", begin=True)
    store.finish(step.run, RunStatus.FAILED)
    store.retry(step.run)
    store.start(step.run)
    again = store.steps.start(step.run, "charge")
    assert store.effects.propose(again, "pay", key="order 7", begin=True).status is EffectStatus.AMBIGUOUS


def test_nothing_begins_under_a_cancelled_run_or_a_late_attempt(store: RunStore, step: Attempt) -> None:
    """The same rules as for children: the attempt is the current one, the step runs, the lineage is free."""
    proposed = store.effects.propose(step, "pay")
    store.steps.fail(step, reason="late", retry_in=timedelta(hours=1))
    with pytest.raises(WorkBlocked, match="the step is failed"):
        store.effects.begin(proposed)
    with pytest.raises(WorkBlocked, match="the step is failed"):
        store.effects.propose(step, "mail")
    store.cancel_tree(step.run, reason="stop")
    with pytest.raises(WorkBlocked, match="cancelled"):
        store.effects.propose(step, "pay")


def test_an_effect_that_never_was_is_told(store: RunStore, step: Attempt) -> None:
    """By its number, in whatever run."""
    with pytest.raises(NotFound, match="no such effect"):
        store.effects.get(step.run, 1, 7)


def test_effects_come_in_pages(store: RunStore, step: Attempt) -> None:
    """By generation and number, from a place on; those that somebody has to settle, the oldest first."""
    made = [store.effects.propose(step, f"mail {number}", begin=True) for number in range(5)]
    first = store.effects.of(step.run, limit=2)
    assert first == made[:2]
    assert store.effects.of(step.run, after=(1, first[-1].number), limit=2) == made[2:4]
    store.effects.doubt(made[3])
    store.effects.doubt(made[1])
    assert [effect.number for effect in store.effects.unsettled()] == [2, 4]
    assert len(store.effects.unsettled(status=None, limit=4)) == 4
    assert [effect.number for effect in store.effects.unsettled(status=EffectStatus.APPLYING)] == [1, 3, 5]
