"""The committer: what shares a transaction, and who waits for whom."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from afterrun.core.errors import StoreFailure
from afterrun.runs import RunStore
from afterrun.server.again import TRIES, again
from afterrun.server.committer import Committer
from pg_server import Database
from pg_server import Server as PgServer
from server.conftest import _fill
from server.server_kit import eventually

SAME = b"the same content"
WAITS = "SELECT count(*) FROM pg_stat_activity WHERE datname = %s AND wait_event_type = 'Lock'"


@pytest.fixture
def database(postgres: PgServer) -> Iterator[Database]:
    """Give a store on a server, where several may write."""
    made = postgres.create_database(template=postgres.template("runs", _fill))
    yield made
    postgres.drop_database(made.name)


def test_who_holds_a_tree_and_stores_what_the_server_stores_is_not_caught(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A transaction of several trees holds them before it stores content that others may store, too."""
    alone, redo = [], Committer._alone

    def noted(committer: Committer, work: Callable[[], object]) -> object:
        alone.append(work)
        return redo(committer, work)

    monkeypatch.setattr(Committer, "_alone", noted)
    held, wanted = threading.Event(), threading.Event()
    with RunStore.open(database.url()) as store:
        runs = sorted(store.create("one").run.id for _ in range(2))
        committer = Committer(store)

        def outside() -> None:
            with RunStore.open(database.url()) as other, other.together():
                other.hold_trees(runs[1:])
                held.set()
                wanted.wait()
                other.messages.send(runs[1], SAME)

        async def both() -> None:
            sending = [committer.do(partial(store.messages.send, run, SAME), tree=run) for run in runs]
            waiting = asyncio.gather(*sending)
            await asyncio.to_thread(eventually, lambda: database.rows(WAITS, database.name)[0][0])
            wanted.set()
            await waiting

        with ThreadPoolExecutor(1) as outsider:
            caught = outsider.submit(outside)
            held.wait()
            asyncio.run(both())
            caught.result()
        committer.close()
        assert committer.commits == 1, "both shared a transaction"
        assert not alone, "the transaction had to be done again"
        assert [len(store.messages.of(run)) for run in runs] == [1, 2]


def test_what_is_about_no_one_tree_shares_no_transaction(database: Database) -> None:
    """Who holds one tree never waits for a transaction that has stored content and now takes trees."""
    with RunStore.open(database.url()) as store:
        run = store.create("one").run.id
        committer = Committer(store)

        async def all_of_them() -> None:
            send = [committer.do(lambda: store.messages.send(run, SAME), tree=run) for _ in range(2)]
            await asyncio.gather(send[0], committer.do(store.claims.wake_due), send[1])

        asyncio.run(all_of_them())
        committer.close()
        assert committer.commits == 3


def test_work_is_done_again_after_a_failure_that_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """As often as it is worth it, and not where it may have been done."""
    monkeypatch.setattr("afterrun.server.again.FIRST_PAUSE", 0)
    for kind, tries in (("deadlock", TRIES), ("lost-connection", 1), ("constraint", 1)):
        seen: list[str] = []

        def work(kind: str = kind, seen: list[str] = seen) -> None:
            seen.append(kind)
            raise StoreFailure(kind, "no")

        with pytest.raises(StoreFailure):
            again(work)
        assert len(seen) == tries
