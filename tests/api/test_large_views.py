from __future__ import annotations

import tracemalloc

import sqlalchemy as sa

from afterrun.runs.schema import attempts, steps
from api.api_kit import Caller, QueueingHost
from runs.runs_kit import Home

STEPS = 10_000
CHILDREN = 1_000
MEBIBYTE = 1024 * 1024


def test_a_run_with_10_000_steps_is_viewed_in_bounded_memory(caller: Caller, host: QueueingHost) -> None:
    """A view and a page cost what they show, and pages join to the whole."""
    store = host.store
    run = store.create("long", content=b"x" * MEBIBYTE).run.id
    store.start(run)
    first = store.steps.start(run, "step")
    store.steps.complete(first, output=b"y" * MEBIBYTE)
    _repeat(host, run)
    few = _peak(caller, f"/v1/runs/{store.create('short').run.id}")
    assert caller.get(f"/v1/runs/{run}").json()["steps"] == STEPS
    for address in ("", "/steps", "/tree", "/questions"):
        assert _peak(caller, f"/v1/runs/{run}{address}") < few + MEBIBYTE
    seen, after, pages = 0, None, 0
    while pages == 0 or after is not None:
        query: dict[str, str | int] = {"limit": 200} if after is None else {"limit": 200, "after": after}
        page = caller.get(f"/v1/runs/{run}/steps", **query).json()
        seen, after, pages = seen + len(page["steps"]), page["next"], pages + 1
    assert (seen, pages) == (STEPS, STEPS // 200 + 1)


def test_a_wide_tree_comes_in_pages(caller: Caller, host: QueueingHost) -> None:
    """A page of a tree of thousands has its bound, and what it needs does not grow with the tree."""
    store = host.store
    root = store.create("root").run.id
    store.start(root)
    step = store.steps.start(root, "spawn")
    few = _peak(caller, f"/v1/runs/{root}/tree")
    for _ in range(CHILDREN):
        store.create("child", parent=step)
    assert len(caller.get(f"/v1/runs/{root}/tree").json()["runs"]) == 50
    assert _peak(caller, f"/v1/runs/{root}/tree") < few + MEBIBYTE


def _peak(caller: Caller, path: str) -> int:
    """Return the most memory that an answer took, in bytes."""
    caller.get(path)
    tracemalloc.start()
    try:
        assert caller.get(path).status_code == 200
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def _repeat(host: QueueingHost, run: str) -> None:
    """Let a run's one step be there many times."""
    home = Home("sqlite", host.location, host.state, host.location)
    with home.database() as database, database.writing() as transaction:
        for table, number in ((steps, steps.c.number), (attempts, attempts.c.step)):
            row = dict(transaction.rows(sa.select(table).where(table.c.run_id == run))[0]._mapping)
            copies = [{**row, number.name: count} for count in range(2, STEPS + 1)]
            transaction.connection.execute(sa.insert(table), copies)
