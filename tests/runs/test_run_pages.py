"""Pages for people and APIs, and going on at a person's word: the same on both databases."""

from __future__ import annotations

from datetime import timedelta

import pytest

from afterrun.runs import RunNotFound, RunStatus, RunStore, WrongState

NOWHERE = "01890a5d-ac96-774b-bcce-b302099a8057"


@pytest.fixture
def run(store: RunStore) -> str:
    """Start a run."""
    made = store.create("a", content=b"12345").run.id
    store.start(made)
    return made


def test_steps_come_by_generation_and_number(store: RunStore, run: str) -> None:
    """Pages join, over a continue-as-new as well."""
    for name in ("one", "two", "three"):
        store.steps.complete(store.steps.start(run, name))
    store.continue_as_new(run)
    store.steps.start(run, "four")
    first = store.pages.steps(run, limit=2)
    second = store.pages.steps(run, after=(first[-1].generation, first[-1].number), limit=2)
    rest = store.pages.steps(run, after=(second[-1].generation, second[-1].number), limit=2)
    assert [step.name for step in [*first, *second]] == ["one", "two", "three", "four"]
    assert (rest, second[-1].generation) == ([], 2)


def test_a_tree_comes_by_id_from_any_of_its_runs(store: RunStore, run: str) -> None:
    """A page of a part of the tree has that part alone."""
    store.create("another tree")
    step = store.steps.start(run, "spawn")
    children = [store.create("child", parent=step).run.id for _ in range(3)]
    store.start(children[0])
    grandchild = store.create("grandchild", parent=store.steps.start(children[0], "spawn")).run.id
    again = store.create("again", restart_of=children[2]).run.id
    everything = [run, *children, grandchild, again]
    assert [part.id for part in store.pages.tree(run, limit=100)] == everything
    assert [part.id for part in store.pages.tree(run, after=children[0], limit=2)] == children[1:]
    assert [part.id for part in store.pages.tree(children[0], limit=100)] == [children[0], grandchild]
    assert [part.id for part in store.pages.tree(children[2], limit=100)] == [children[2], again]


def test_questions_come_as_they_stand(store: RunStore, run: str) -> None:
    """Those that wait, or all of them, with their answers."""
    one, _ = (store.decisions.ask(run, subject) for subject in ("one?", "two?"))
    store.approvals.ask(run, "may I?")
    store.decisions.decide(one, "left", by="somebody")
    [waiting] = store.pages.questions(run, kind="decision", pending=True, limit=10)
    told = store.pages.questions(run, kind="decision", pending=False, limit=10)
    [approval] = store.pages.questions(run, kind="approval", pending=True, limit=10)
    assert (waiting.subject, waiting.answer, waiting.choices) == ("two?", None, ())
    assert [part.answer for part in told] == ["left", None]
    assert (approval.subject, approval.choices) == ("may I?", ("approve", "reject"))
    later = store.pages.questions(run, kind="decision", pending=False, after=(1, 1), limit=10)
    assert [part.subject for part in later] == ["two?"]


def test_effects_in_doubt_are_those_alone(store: RunStore, run: str) -> None:
    """What is begun, applied or settled is in no doubt."""
    pays = [store.effects.propose(store.steps.start(run, name), name, begin=True) for name in "abc"]
    store.effects.apply(pays[0])
    store.effects.doubt(pays[1])
    assert [part.name for part in store.pages.in_doubt(run, limit=10)] == ["b"]
    store.effects.settle(pays[1], applied=True, by="somebody")
    assert store.pages.in_doubt(run, limit=10) == []


def test_a_load_counts_live_runs_and_open_work(store: RunStore, run: str) -> None:
    """What has ended costs and counts nothing."""
    queued = store.create("b").run
    ended = store.create("c").run.id
    store.cancel_tree(ended, reason="x")
    store.leases.acquire(run, owner="me", keep_for=timedelta(minutes=1))
    load = store.pages.load()
    assert load.runs == {"queued": 1, "running": 1, "parked": 0, "waiting": 0}
    assert load.work == {"lease": 1, "queued": 1}
    assert load.oldest_queued == queued.created_at


def test_a_run_that_is_not_there_has_no_page(store: RunStore) -> None:
    """An empty page would say that there is one."""
    for read in (
        lambda: store.pages.steps(NOWHERE, limit=1),
        lambda: store.pages.tree(NOWHERE, limit=1),
        lambda: store.pages.questions(NOWHERE, kind="decision", pending=True, limit=1),
        lambda: store.pages.in_doubt(NOWHERE, limit=1),
        lambda: store.pages.progress(NOWHERE),
        lambda: store.resume(NOWHERE),
    ):
        with pytest.raises(RunNotFound):
            read()


@pytest.mark.parametrize("state", ["failed", "parked", "waiting", "queued"])
def test_a_run_goes_on_at_a_persons_word(store: RunStore, run: str, state: str) -> None:
    """It is queued with one piece of open work, and starts again."""
    if state == "failed":
        store.finish(run, RunStatus.FAILED, reason="no")
    elif state == "parked":
        store.park(run)
    else:
        store.wait(run)
    if state == "queued":
        store.wake(run)
    assert store.resume(run).status is RunStatus.QUEUED
    tree = store.tree(run)
    assert tree is not None
    assert tree.work == ("queued",)
    assert store.start(run).status is RunStatus.RUNNING


def test_a_run_that_has_nothing_to_go_on_with_is_refused(store: RunStore, run: str) -> None:
    """One that runs, and one that ended for good."""
    with pytest.raises(WrongState, match="running cannot go on"):
        store.resume(run)
    store.finish(run)
    with pytest.raises(WrongState, match="completed cannot go on"):
        store.resume(run)
