"""Several threads with one store, and a sweep beside them."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier
from typing import Any, TypeVar

import sqlalchemy as sa

from afterrun import SweepOptions
from afterrun.core.errors import StoreFailure
from afterrun.runs import LeaseHeld, RunError, RunNotFound, RunStatus, RunStore, creation
from afterrun.runs.schema import blobs, runs
from runs.read_meter import statements
from runs.runs_kit import MONTH, Home, child_of, ended_run, running

THREADS = 4
Answer = TypeVar("Answer")


def at_once(call: Callable[[int], Answer]) -> list[Answer | Exception]:
    """Call something from several threads at the same time; return what each got, refusals included."""
    ready = Barrier(THREADS)

    def one(number: int) -> Answer | Exception:
        ready.wait(timeout=30)
        try:
            return call(number)
        except (RunError, StoreFailure) as refused:
            return refused

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(one, range(THREADS)))


def test_a_key_that_comes_at_once_makes_one_run(home: Home, store: RunStore) -> None:
    """One of the requests creates it, and all get it."""
    made: list[Any] = at_once(lambda _: store.create("daily", idempotency_key="today"))
    assert sorted(one.new for one in made) == [False] * (THREADS - 1) + [True]
    assert len({one.run.id for one in made}) == 1
    assert len(home.rows(runs)) == 1


def test_a_run_that_is_wanted_at_once_has_one_owner(store: RunStore) -> None:
    """The others learn that it is held."""
    run = store.create("agent").run.id
    got = at_once(lambda who: store.leases.acquire(run, owner=f"w{who}", keep_for=timedelta(hours=1)))
    assert sum(isinstance(one, LeaseHeld) for one in got) == THREADS - 1


def test_the_same_content_at_once_is_stored_once(home: Home, store: RunStore) -> None:
    """Each run refers to the one blob."""
    at_once(lambda _: store.create("copy", content=b"same"))
    assert len(home.rows(blobs)) == 1
    assert len({row["input_id"] for row in home.rows(runs)}) == 1


def test_children_of_one_tree_that_come_at_once_all_hang_from_it(store: RunStore) -> None:
    """Changes of one tree come one after another, and none is lost."""
    root = running(store)
    step = store.steps.start(root, "fan out")
    at_once(lambda _: store.create("child", parent=step))
    at_once(lambda _: store.steps.start(root, "more"))
    tree = store.tree(root)
    assert tree is not None
    assert len(tree.runs) == THREADS + 1
    assert [part.number for part in store.steps.of(root)] == [1, 2, 3, 4, 5]


def test_a_child_is_created_or_its_parent_cancelled_first(store: RunStore) -> None:
    """In whatever order they come, no child is live under a cancelled run."""
    for _ in range(5):
        root = running(store)
        step = store.steps.start(root, "fan out")

        def either(who: int, root: str = root, step: Any = step) -> object:  # noqa: ANN401 - an attempt
            if who == 0:
                return store.cancel_tree(root, reason="stop")
            return store.create("child", parent=step)

        at_once(either)
        tree = store.tree(root)
        assert tree is not None
        assert {run.status for run in tree.runs} == {"cancelled"}


def test_a_run_that_is_retried_beside_a_sweep_stays_or_is_told_missing(home: Home, store: RunStore) -> None:
    """The sweep takes the tree whole or not at all; a retry of what is gone says so."""
    failed = []
    for _ in range(6):
        run = running(store)
        store.finish(run, RunStatus.FAILED)
        failed.append(run)
    ended_run(store)

    def either(who: int) -> object:
        if who == 0:
            with home.retention() as retention:
                return retention.prune(MONTH, options=SweepOptions(batch_units=1)).units.removed
        return [_retried(store, run) for run in failed[who - 1 :: THREADS - 1]]

    removed, *retried = at_once(either)
    kept = {answer for answers in retried if isinstance(answers, list) for answer in answers} - {None}
    assert {row["id"] for row in home.rows(runs)} == kept
    assert removed == 7 - len(kept)
    assert {row["status"] for row in home.rows(runs)} <= {"queued"}


def _retried(store: RunStore, run: str) -> str | None:
    """Retry a run; return its id, or nothing if it is gone."""
    try:
        return store.retry(run).id
    except RunNotFound:
        return None


def test_content_that_is_dropped_and_stored_at_once_is_there(store: RunStore) -> None:
    """Whoever stores the same bytes while a retry lets go of them has them afterwards."""
    for number in range(8):
        content = f"shared {number}".encode()
        run = running(store)
        store.finish(run, RunStatus.FAILED, output=content)

        def either(who: int, run: str = run, content: bytes = content) -> object:
            return store.retry(run) if who == 0 else store.create("copy", content=content).run.id

        _, *copies = at_once(either)
        assert [store.input_of(str(copy)) for copy in copies] == [content] * (THREADS - 1)


def test_a_retry_waits_for_whoever_stores_what_it_drops(home: Home, store: RunStore) -> None:
    """Bytes that another transaction has found stay, though its reference is not committed yet."""
    if home.name == "sqlite":
        return  # a file has one writer
    run = running(store)
    store.finish(run, RunStatus.FAILED, output=b"shared")
    with home.database() as database, ThreadPoolExecutor(1) as pool:
        database.sealing = store._database.sealing
        with database.writing() as transaction:
            made = creation.create(transaction, creation.Order(name="copy", content=b"shared")).run.id
            retried = pool.submit(store.retry, run)
            _wait_for_lock(home)
        retried.result(timeout=30)
    assert store.input_of(made) == b"shared"


def _wait_for_lock(home: Home) -> None:
    """Return when a session of the server waits for another one."""
    waiting = sa.text("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'")
    for _ in range(10_000):
        with home.database() as database, database.reading() as transaction:
            if transaction.value(waiting):
                return
    raise AssertionError("nobody waits")


def test_what_is_held_by_another_transaction_is_passed_by(home: Home, store: RunStore) -> None:
    """On a server, a sweep leaves a tree alone that somebody is changing, and takes the others."""
    if home.name == "sqlite":
        return  # a file has one writer: the sweep waits
    held, other = ended_run(store), ended_run(store)
    with home.database() as database, database.writing() as transaction:
        lock = sa.select(runs.c.id).where(runs.c.id == held).with_for_update()
        assert transaction.value(lock) == held
        with home.retention() as retention:
            report = retention.prune(MONTH, options=SweepOptions(offline=True))
    assert report.units.removed == 1
    assert [row["id"] for row in home.rows(runs)] == [held]
    assert other != held


def test_lists_and_states_are_read_without_touching_content(store: RunStore) -> None:
    """No statement of theirs names the table of content, so their cost does not grow with it."""
    root = running(store)
    step, _ = child_of(store, root)
    store.effects.propose(step, "pay", request=b"10")
    store.messages.send(root, b"hello")
    turn = store.turns.open(root, "user", content=b"why?")
    store.checkpoints.save(root, b"state")
    with statements(store) as seen:
        store.newest()
        store.queued()
        store.get(root)
        store.tree(root)
        store.steps.of(root)
        store.results.due("anybody")
        store.view(root)
        parts: tuple[Any, ...] = (store.effects, store.messages, store.turns, store.follow_ups)
        for part in (*parts, store.checkpoints, store.resources):
            part.of(root)
        store.messages.pending(root)
        store.effects.unsettled()
        store.turns.due()
        store.follow_ups.due()
        store.checkpoints.newest(root)
        store.checkpoints.unresumed()
        store.resources.held()
        assert seen
        assert not [text for text, _ in seen if "blobs" in text]
        store.turns.content_of(turn)
        assert [text for text, _ in seen if "blobs" in text]


def test_candidates_come_by_an_index(home: Home) -> None:
    """A sweep that finds nothing old reads nothing: the end of runs is indexed."""
    with home.retention() as retention:
        assert all(stream.indexed for stream in retention.store.streams())


def test_what_waits_for_others_is_found_by_an_index(home: Home, store: RunStore) -> None:
    """However much is over and done, looking for what is open reads what is open."""
    if home.name != "sqlite":
        return  # with so few rows a server reads them all
    with statements(store) as seen:
        store.effects.unsettled()
        store.turns.due()
        store.follow_ups.due()
        store.checkpoints.unresumed()
        store.resources.held()
        store.messages.pending(running(store))
    looks = [call for call in seen if call[0].startswith("SELECT") and "ORDER BY" in call[0]]
    with store._database._engine.connect() as connection:
        for statement, values in looks:
            plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", values).fetchall()
            assert not [row for row in plan if row[3].startswith("SCAN") and "INDEX" not in row[3]], statement
    assert len(looks) >= 6
