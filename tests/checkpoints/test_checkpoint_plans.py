"""How databases find the rows: by keys, and never by reading a whole table for a few of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from afterrun.stores.sql.langgraph.checkpoints import CheckpointStore
from afterrun.stores.sql.langgraph.places import given_keys, given_members
from afterrun.stores.sql.langgraph.store import ThreadStore
from checkpoints.hostile_kit import Hostile, at
from checkpoints.pg_checkpoints import Site
from pg_server import Database

KEYS = [("a", "", at(0)), ("b", "", at(1))]


def by_keys(store: ThreadStore) -> Iterator[tuple[str, sa.ClauseElement, dict[str, object]]]:
    """Yield the statements that go by keys, with keys for them."""
    view = CheckpointStore(store, leaving=None)
    dialect = store.dialect
    threads, rows = {"keys": dialect.bind_keys(["a", "b"])}, given_keys(dialect, KEYS)
    yield "heads", store.threads.heads, threads
    yield "facts", view._reader.by_thread, threads
    yield "a head's payload", view._reader._heads, rows
    for name, statement in store.removal.deletes:
        yield f"threads, delete {name}", statement, threads
    members = given_members(dialect, KEYS)
    for name, statement in view.removal.deletes:
        yield f"checkpoints, delete {name}", statement, members
    yield "lead on", view.removal._lead_on, {**members, "parent": None}
    yield "written", view.removal.written, members
    if dialect.locks_rows:
        yield "following", view.removal.following, rows
    if view.removal.shared is not None:
        yield "shared values", view.removal.shared.delete, {"threads": threads["keys"]}


def pages(store: ThreadStore) -> Iterator[tuple[str, sa.Select[Any], dict[str, object]]]:
    """Yield the statements of pages."""
    view = CheckpointStore(store, leaving=None)
    for after in (None, "a"):
        given: dict[str, object] = {"bound": after or ""}
        yield f"threads after {after}", store.threads.next_ids(1_000, after), given
        yield f"checkpoints after {after}", view._reader.next_rows(1_000, after), given


@pytest.mark.parametrize("analyzed", [False, True])
def test_sqlite_searches_for_keys_and_pages_follow_an_index(tmp_path: Path, *, analyzed: bool) -> None:
    """With statistics and without, keys are searched, and a page sorts nothing."""
    made = Hostile(tmp_path / "checkpoints.sqlite")
    for number in range(50):
        made.thread(f"thread-{number}")
    if analyzed:
        with made.open() as database:
            database.execute("ANALYZE")
    with made.retention() as retention:
        store = retention.store
        assert isinstance(store, ThreadStore)
        for name, statement, given in by_keys(store):
            plan = "\n".join(store.dialect.explain(statement, given))
            for line in plan.splitlines():
                assert not line.strip().startswith(("SCAN checkpoints", "SCAN writes")), f"{name}: {plan}"
                assert "BLOOM" not in line, f"{name}: {plan}"
        for name, statement, given in pages(store):
            plan = "\n".join(store.dialect.explain(statement, given))
            assert "TEMP B-TREE" not in plan, f"{name}: {plan}"


def test_postgresql_goes_by_keys_and_pages_follow_an_index(database: Database, tmp_path: Path) -> None:
    """Even without statistics no statement of a batch or a page reads a whole table."""
    site = Site(database, tmp_path)
    store = site.retention.store
    assert isinstance(store, ThreadStore)
    with store.dialect.locked(60.0):
        for name, statement, given in by_keys(store):
            plan = "\n".join(store.dialect.explain(statement, given))
            assert "Seq Scan on checkpoint" not in plan, f"{name}: {plan}"
    for name, statement, given in pages(store):
        store.dialect.execute(statement, given)  # so that the planner is told the way
        plan = "\n".join(store.dialect.explain(statement, given))
        assert "Seq Scan on checkpoint" not in plan, f"{name}: {plan}"
    site.retention.close()
