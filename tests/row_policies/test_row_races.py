"""Row tables on PostgreSQL, where others write beside a batch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import sqlalchemy as sa

from afterrun import Retention
from afterrun.stores.sql.rows import SqlRows
from afterrun.stores.sql.timed import Stopwatch
from generations.loops import PostgresLoops
from pg_server import Database
from row_policies.tables import Shop, ago, keep, log, make, policy


@pytest.fixture
def shop(database: Database, tmp_path: Path) -> Shop:
    """Give an empty store on a server."""
    store = PostgresLoops(tmp_path, database)
    make(store)
    return Shop(store)


def connection_of(shop: Shop) -> Database:
    """Return the database of a shop."""
    assert isinstance(shop.store, PostgresLoops)
    return shop.store.database


def test_a_row_that_another_holds_is_passed_by(shop: Shop) -> None:
    """A locked row is waited for by no batch: all others go, and the table does not count as drained."""
    log(shop.store, [30, 30, 30])
    with connection_of(shop).connect() as other:
        other.execute("BEGIN")
        other.execute("SELECT * FROM logs WHERE id = 1 FOR UPDATE")
        done = shop.prune(policy(logs=keep(7)))
        other.execute("ROLLBACK")
    assert shop.ids("logs") == [1]
    assert (done.ended, done.undone, done.tables["logs"].outcome) == ("completed", True, "failed")
    assert "locked" in done.tables["logs"].why
    assert done.tables["logs"].slowest < 1.0
    assert shop.prune(policy(logs=keep(7))).tables["logs"].outcome == "drained"


def test_a_reference_that_comes_within_the_batch_undoes_it(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the lock and the removal of the row itself: nothing goes by halves, and others go later."""
    shop.store.insert("tasks", [("a", "ok", ago(30), None, None), ("b", "ok", ago(30), None, None)])
    shop.store.insert("task_states", [(1, "a"), (2, "b")])
    real = SqlRows._removed

    def removed(self: SqlRows, keys: Sequence[object], watch: Stopwatch) -> object:
        change = self._dialect.change
        came: list[int] = []

        def changing(statement: sa.Executable, parameters: dict[str, object]) -> int:
            if not came:
                came.append(1)
                shop.store.run(
                    f"INSERT INTO waits VALUES ('a', {ago(-9)}) ON CONFLICT (task) DO UPDATE SET task = 'a'"
                )
            return change(statement, parameters)

        monkeypatch.setattr(self._dialect, "change", changing)
        try:
            return real(self, keys, watch)  # type: ignore[arg-type]
        finally:
            monkeypatch.setattr(self._dialect, "change", change)

    monkeypatch.setattr(SqlRows, "_removed", removed)
    shop.prune(policy(tasks=keep(7)))
    assert (shop.ids("tasks"), shop.ids("task_states")) == (["a"], [1])


def test_owned_rows_that_another_holds_fail_their_row_alone(shop: Shop) -> None:
    """A lock on a row that goes along is waited for within bounds; then its row is left, and others go."""
    shop.store.insert("tasks", [("a", "ok", ago(30), None, None), ("b", "ok", ago(30), None, None)])
    shop.store.insert("task_states", [(1, "a"), (2, "b")])
    with connection_of(shop).connect() as other:
        other.execute("BEGIN")
        other.execute("SELECT * FROM task_states WHERE id = 1 FOR UPDATE")
        done = shop.prune(policy(tasks=keep(7)))
        other.execute("ROLLBACK")
    assert (shop.ids("tasks"), done.deferred) == (["a"], 1)


@pytest.mark.parametrize("right", ["DELETE", "SELECT"])
def test_a_missing_right_blocks_its_table_alone(shop: Shop, role: str, right: str) -> None:
    """Where a right is missing, the table is blocked with the grant that helps, and others are swept."""
    log(shop.store, [30])
    shop.store.insert("events", [("a", "2020-01-01 00:00:00", "x")])
    shop.store.run(
        f'GRANT USAGE ON SCHEMA public TO "{role}"',
        f'GRANT SELECT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO "{role}"',
        f'REVOKE {right} ON events FROM "{role}"',
    )
    with Retention(
        connection_of(shop).url(role, schema="public"),
        profile=str(shop.store.folder / "shop.toml"),
        state=shop.store.folder / "state",
    ) as retention:
        done = retention.prune(policy(logs=keep(7), events=keep(7)))
    assert (done.tables["logs"].outcome, done.tables["events"].outcome) == ("drained", "blocked")
    assert f"GRANT {right} ON" in done.tables["events"].why
    assert (shop.ids("logs"), shop.ids("events")) == ([], ["a"])
