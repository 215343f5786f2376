"""How databases carry out the statements of row tables: by indexes, and bounded; and what blocks a table."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest
import sqlalchemy as sa

from afterrun.core.errors import StoreFailure
from afterrun.core.policy import DEFAULT_GRACE
from afterrun.core.row_rules import RowRules
from afterrun.stores.sql.rows import SqlRows
from row_policies.tables import PROFILE, Shop, ago, keep, log, policy


@pytest.fixture
def logs(shop: Shop) -> Iterator[SqlRows]:
    """Give the row table of logs, with many rows and statistics about them."""
    log(shop.store, [100 - n / 100 for n in range(9_000)])
    shop.store.run("ANALYZE")
    with shop.open() as retention:
        store = retention.store
        rules = RowRules(keep_for=timedelta(days=30))
        profile = store.profile.units.rows["logs"]
        yield SqlRows(store, "logs", profile, rules, now=store.now(), grace=DEFAULT_GRACE)


def explained(rows: SqlRows, statement: sa.ClauseElement, **given: object) -> str:
    """Return the database's plan."""
    return "\n".join(rows._dialect.explain(statement, rows._parameters() | {"most": 100, **given}))


def test_pages_read_the_index_in_its_order(logs: SqlRows) -> None:
    """The first page and those after it read so many entries of the index, and sort no table."""
    page = logs.page(None, limit=100)
    assert page.place is not None
    given = dict(logs.statements.given(page.place))
    plans = [explained(logs, logs.statements.first)]
    plans += [explained(logs, position, **given) for position in logs.statements.positions(page.place)]
    for plan in plans:
        assert "logs_at" in plan or "logs_pkey" in plan
        assert "TEMP B-TREE" not in plan
        assert "Seq Scan" not in plan


def test_a_batch_goes_by_keys(logs: SqlRows) -> None:
    """The look within a batch and the removal find their rows by the key."""
    keys = logs.statements.bind([1, 2, 3])
    for statement in (logs.statements.fresh, logs.statements.delete):
        plan = explained(logs, statement, keys=keys)
        assert "Seq Scan on logs" not in plan
        assert "SCAN e" not in plan
        assert "SCAN logs" not in plan


def test_counting_candidates_stops(logs: SqlRows) -> None:
    """The guard counts so many rows and no more."""
    assert logs.candidates(10) == 10
    assert logs.candidates(100_000) == 7_001  # the last one is some milliseconds too old
    assert logs.rows() == 9_000


def test_an_unknown_trigger_blocks(shop: Shop) -> None:
    """A trigger that nobody looked at may do anything when a row goes."""
    if shop.store.location.startswith("postgresql"):
        shop.store.run(
            "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN OLD; END $$",
            "CREATE TRIGGER spy BEFORE DELETE ON events FOR EACH ROW EXECUTE FUNCTION f()",
        )
    else:
        shop.store.run("CREATE TRIGGER spy BEFORE DELETE ON events BEGIN SELECT 1; END")
    done = shop.prune(policy(events=keep(7)))
    assert done.tables["events"].outcome == "blocked"
    assert "'spy'" in done.tables["events"].why


def test_a_column_of_another_kind_than_the_key_blocks(shop: Shop) -> None:
    """Rows that would be found by text that looks like a number, or the other way round, never go."""
    text = PROFILE.replace(
        '{ table = "task_states", column = "task" }', '{ table = "task_states", column = "id" }'
    )
    (shop.store.folder / "shop.toml").write_text(text, encoding="utf-8")
    done = shop.prune(policy(tasks=keep(7)))
    assert "another kind" in done.tables["tasks"].why


def test_a_batch_that_breaks_off_leaves_all(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a batch fails between two tables, nothing of it is gone."""
    shop.store.insert("tasks", [("a", "ok", ago(30), None, None)])
    shop.store.insert("task_states", [(1, "a")])
    real = SqlRows._change

    def change(self: SqlRows, delete: sa.Delete, *words: object) -> int:
        if "task_states" not in str(delete.table):
            raise StoreFailure("disk-full", "no room")
        return real(self, delete, *words)  # type: ignore[arg-type]

    monkeypatch.setattr(SqlRows, "_change", change)
    done = shop.prune(policy(tasks=keep(7)))
    assert (done.ended, done.message.partition(":")[0]) == ("failed", "disk-full")
    assert (shop.ids("tasks"), shop.ids("task_states")) == (["a"], [1])
