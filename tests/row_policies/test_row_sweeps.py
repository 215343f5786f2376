"""Sweeps with row policies: when they ask, what a fault of one table leaves alone, how time is shared."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from afterrun import Policy, SweepOptions
from afterrun.core.sweep import Budget
from afterrun.stores.sql import rows as sql_rows
from row_policies.tables import DAY_MS, PROFILE, Shop, ago, keep, log, policy, written

NOTES = "CREATE TABLE notes (id BIGINT PRIMARY KEY, log BIGINT REFERENCES logs (id)"


def test_the_first_sweep_asks(shop: Shop) -> None:
    """Nothing goes before somebody approved it, and the approval admits rows."""
    log(shop.store, [30] * 20)
    rules = policy(logs=keep(7))
    asked = shop.sweep(rules)
    assert (asked.ended, asked.would_go, shop.counts()["logs"]) == ("guard", 20, 20)
    done = shop.sweep(rules, approve=asked.fingerprint)
    assert (done.ended, done.removed, shop.counts()["logs"]) == ("completed", 20, 0)
    log(shop.store, [30] * 20)
    assert shop.sweep(rules).removed == 20


def test_an_approval_is_bounded(shop: Shop) -> None:
    """An approval of some rows admits no multiple of them."""
    log(shop.store, [30] * 20)
    rules = policy(logs=keep(7))
    asked = shop.sweep(rules)
    log(shop.store, [30] * 20, start=100)
    again = shop.sweep(rules, approve=asked.fingerprint)
    assert again.ended == "guard"
    assert shop.counts()["logs"] == 40


@pytest.mark.parametrize(
    ("old", "young", "asks"), [(11_000, 5_000, True), (11_000, 12_000, False), (9_000, 0, False)]
)
def test_most_of_a_large_table_asks_again(shop: Shop, old: int, young: int, *, asks: bool) -> None:
    """Over half of a table's rows and over 10,000 of them are asked for, in a store that was swept before."""
    rules = policy(logs=keep(7))
    shop.prune(rules)
    log(shop.store, [30] * old + [1] * young)
    swept = shop.sweep(rules)
    assert swept.ended == ("guard" if asks else "completed")
    assert ("more than half of the rows of logs" in swept.message) == asks


def test_a_table_that_does_not_fit_stops_no_other(shop: Shop) -> None:
    """Where a column is missing, that table is blocked and told; runs and other tables are swept."""
    shop.store.run("ALTER TABLE events RENAME COLUMN occurred TO happened")
    shop.store.insert("runs", [("old", "done", ago(40))])
    log(shop.store, [30])
    done = shop.prune(Policy(keep_for=timedelta(days=30), tables={"events": keep(7), "logs": keep(7)}))
    assert (done.ended, done.removed, done.undone) == ("completed", 2, True)
    assert done.tables["events"].outcome == "blocked"
    assert "no column occurred" in done.tables["events"].why
    assert done.tables["logs"].outcome == "drained"
    plan = shop.plan(policy(events=keep(7)))
    assert plan.tables["events"].outcome == "blocked"
    assert any("no column occurred" in notice for notice in plan.notices)


@pytest.mark.parametrize("action", ["CASCADE", "SET NULL"])
def test_a_key_that_would_change_other_rows_blocks(shop: Shop, action: str) -> None:
    """A foreign key that the profile does not name and that takes or empties rows lets nothing go."""
    shop.store.run(f"{NOTES} ON DELETE {action})")
    log(shop.store, [30])
    done = shop.prune(policy(logs=keep(7)))
    assert (done.tables["logs"].outcome, shop.counts()["logs"]) == ("blocked", 1)
    assert action in done.tables["logs"].why


def test_a_key_that_is_known_holds_nothing(shop: Shop) -> None:
    """A foreign key that the profile knows of does what the database says."""
    shop.store.run(f"{NOTES} ON DELETE SET NULL)")
    known = 'known = [{ table = "notes", column = "log" }]\nnote ='
    (shop.store.folder / "shop.toml").write_text(PROFILE.replace("note =", known), encoding="utf-8")
    log(shop.store, [30])
    shop.store.insert("notes", [(1, 0)])
    shop.prune(policy(logs=keep(7)))
    assert shop.store.rows("SELECT id, log FROM notes") == [(1, None)]


def test_a_key_from_an_unknown_table_holds_its_row(shop: Shop) -> None:
    """A foreign key without an action holds the row it refers to, and is told."""
    shop.store.run(f"{NOTES})")
    log(shop.store, [30, 30])
    shop.store.insert("notes", [(1, 0)])
    plan, _ = shop.both(policy(logs=keep(7)))
    assert shop.ids("logs") == [0]
    assert plan.kinds["row:logs"].blocked == {"unknown-reference:notes": 1}
    assert any("does not know notes (log)" in notice for notice in plan.notices)


def test_a_key_to_rows_that_go_along_blocks(shop: Shop) -> None:
    """Who refers to owned rows must be looked at first."""
    shop.store.run("CREATE TABLE notes (id BIGINT PRIMARY KEY, state BIGINT REFERENCES task_states (id))")
    shop.store.insert("tasks", [("a", "ok", ago(30), None, None)])
    done = shop.prune(policy(tasks=keep(7)))
    assert (done.tables["tasks"].outcome, shop.ids("tasks")) == ("blocked", ["a"])


def test_a_key_that_is_not_unique_blocks(shop: Shop) -> None:
    """Rows that cannot be told apart never go."""
    text = PROFILE.replace('table = "logs"\nkey = ["id"]', 'table = "logs"\nkey = ["run"]')
    (shop.store.folder / "shop.toml").write_text(text, encoding="utf-8")
    log(shop.store, [30], run="a")
    done = shop.prune(policy(logs=keep(7)))
    assert "cannot tell rows apart" in done.tables["logs"].why


def test_a_bound_of_removals_is_shared_with_runs(shop: Shop) -> None:
    """With --limit, no table takes all, and a later sweep goes on."""
    shop.store.insert("runs", [(f"r{n}", "done", ago(40)) for n in range(20)])
    log(shop.store, [30] * 50)
    shop.store.insert("events", [(f"e{n}", written(30), "a") for n in range(50)])
    rules = Policy(keep_for=timedelta(days=30), tables={"logs": keep(7), "events": keep(7)})
    options = SweepOptions(budget=Budget(units=30), rest=0.0)
    first = shop.prune(rules, options)
    assert (first.ended, first.removed, first.backlog_after) == ("budget", 30, 90)
    assert {kind: units.removed for kind, units in first.kinds.items()} == {
        "tree": 10,
        "row:logs": 10,
        "row:events": 10,
    }
    last = shop.prune(rules)
    assert (last.ended, last.removed, last.backlog_after) == ("completed", 90, 0)


def test_the_order_of_tables_rotates_from_sweep_to_sweep(shop: Shop) -> None:
    """Each sweep begins with another table; one whose rows another takes along always comes before it."""
    rules = policy(logs=keep(7), events=keep(7), results=keep(7))
    orders = [list(shop.prune(rules).tables) for _ in range(3)]
    assert {order[0] for order in orders} == {"logs", "events", "results"}
    owning = PROFILE.replace(
        '{ table = "task_states", column = "task" }',
        '{ table = "task_states", column = "task" }, { table = "events", column = "kind" }',
    )
    (shop.store.folder / "shop.toml").write_text(owning, encoding="utf-8")
    both = policy(tasks=keep(7), events=keep(7))
    assert {tuple(shop.prune(both).tables) for _ in range(2)} == {("events", "tasks")}


def test_rows_that_another_table_would_take_along_are_counted_once(shop: Shop) -> None:
    """Where a row goes by itself, the plan leaves it out of what goes with a row of another table."""
    owning = PROFILE.replace(
        '{ table = "task_states", column = "task" }',
        '{ table = "task_states", column = "task" }, { table = "events", column = "kind" }',
    )
    (shop.store.folder / "shop.toml").write_text(owning, encoding="utf-8")
    shop.store.insert("tasks", [("a", "ok", ago(30), None, None)])
    shop.store.insert("events", [("old", written(30), "a"), ("new", written(1), "a"), ("x", written(1), "b")])
    plan, _ = shop.both(policy(tasks=keep(7), events=keep(7)))
    assert plan.rows == {"tasks": 1, "task_states": 0, "events": 2, "event_parts": 0}
    assert plan.kinds["row:events"].expired == 1
    assert shop.ids("events") == ["x"]


def test_what_runs_leave_goes_to_tables(shop: Shop) -> None:
    """A store without old runs gives their share to a table that is not done."""
    log(shop.store, [30] * 100)
    rules = Policy(keep_for=timedelta(days=30), tables={"logs": keep(7)})
    done = shop.prune(rules, SweepOptions(budget=Budget(units=60), rest=0.0))
    assert (done.ended, done.removed) == ("budget", 60)


def test_a_closed_gate_removes_nothing(shop: Shop) -> None:
    """When the host has work, neither tables nor runs begin."""
    shop.store.insert("runs", [("old", "done", ago(40))])
    log(shop.store, [30] * 10)
    rules = Policy(keep_for=timedelta(days=30), tables={"logs": keep(7)})
    done = shop.prune(rules, SweepOptions(gate=lambda: False))
    assert (done.ended, done.removed) == ("interrupted", 0)
    assert (done.tables["logs"].outcome, done.tables["logs"].backlog) == ("interrupted", 10)


def test_a_cut_off_walk_goes_on_behind_what_stays(shop: Shop) -> None:
    """A sweep that was cut off remembers its place, so that rows that stay are not read again and again."""
    shop.store.insert("tasks", [(f"k{n}", "ok", ago(90) + n, "run", None) for n in range(4_500)])
    shop.store.insert("tasks", [(f"z{n}", "ok", ago(30) + n, None, None) for n in range(30)])
    rules = policy(tasks=keep(7))
    shop.prune(rules)
    shop.store.insert("tasks", [(f"z{n}", "ok", ago(30) + n, None, None) for n in range(30)])
    options = SweepOptions(budget=Budget(units=10), rest=0.0)
    with shop.open() as retention:
        first = retention.sweep(rules, options=options, always=True)
        second = retention.sweep(rules, options=options, always=True)
    assert (first.ended, first.removed, second.ended, second.removed) == ("budget", 10, "budget", 10)
    assert first.kinds["row:tasks"].scanned == 4_530
    assert second.kinds["row:tasks"].scanned == 520
    assert shop.prune(rules).removed == 10


def test_a_row_that_changes_before_its_batch_stays(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """The decision is made again within the batch: a row that is younger by then is left alone."""
    log(shop.store, [30, 30, 30])
    real = sql_rows.SqlRows.remove

    def remove(self: sql_rows.SqlRows, keys: object, **words: object) -> object:
        shop.store.run(f"UPDATE logs SET at = {ago(1)} WHERE id = 1")
        return real(self, keys, **words)  # type: ignore[arg-type]

    monkeypatch.setattr(sql_rows.SqlRows, "remove", remove)
    done = shop.prune(policy(logs=keep(7)))
    assert shop.ids("logs") == [1]
    assert (done.removed, done.kinds["row:logs"].skipped.total()) == (2, 1)
    assert done.tables["logs"].outcome == "drained"


def test_a_reference_that_comes_before_the_batch_holds(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row that is needed by then stays, with all that belongs to it."""
    shop.store.insert("tasks", [("a", "ok", ago(30), None, None), ("b", "ok", ago(30), None, None)])
    shop.store.insert("task_states", [(1, "a"), (2, "b")])
    real = sql_rows.SqlRows.remove

    def remove(self: sql_rows.SqlRows, keys: object, **words: object) -> object:
        shop.store.run(f"INSERT INTO waits SELECT 'a', {ago(-1)} WHERE NOT EXISTS (SELECT 1 FROM waits)")
        return real(self, keys, **words)  # type: ignore[arg-type]

    monkeypatch.setattr(sql_rows.SqlRows, "remove", remove)
    shop.prune(policy(tasks=keep(7)))
    assert (shop.ids("tasks"), shop.counts()["task_states"]) == (["a"], 1)


def test_a_later_row_never_lets_an_earlier_one_go(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """What keep_latest keeps is resolved once: rows that come meanwhile push none of those out."""
    shop.store.insert("results", [(n, "a", ago(30) + n) for n in range(5)])
    real = sql_rows.SqlRows.page

    def page(self: sql_rows.SqlRows, place: object, **words: object) -> object:
        found = real(self, place, **words)  # type: ignore[arg-type]
        shop.store.run(
            f"INSERT INTO results SELECT 99, 'a', {ago(1)} "
            "WHERE NOT EXISTS (SELECT 1 FROM results WHERE id = 99)"
        )
        return found

    monkeypatch.setattr(sql_rows.SqlRows, "page", page)
    shop.prune(policy(results=keep(None, 2)))
    assert shop.ids("results") == [3, 4, 99]


def test_a_row_that_cannot_go_is_left_and_told(shop: Shop) -> None:
    """A row that a trigger of the profile's refuses is deferred alone; all others go, and the exit is 3."""
    triggers = 'triggers = ["logs_guard"]\n[units.tree]'
    (shop.store.folder / "shop.toml").write_text(
        PROFILE.replace("[units.tree]", triggers, 1), encoding="utf-8"
    )
    if shop.store.location.startswith("postgresql"):
        shop.store.run(
            "CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN IF OLD.id = 3 THEN RAISE EXCEPTION 'no'; END IF; RETURN OLD; END $$",
            "CREATE TRIGGER logs_guard BEFORE DELETE ON logs FOR EACH ROW EXECUTE FUNCTION no()",
        )
    else:
        shop.store.run(
            "CREATE TRIGGER logs_guard BEFORE DELETE ON logs WHEN OLD.id = 3 "
            "BEGIN SELECT RAISE(ABORT, 'no'); END"
        )
    log(shop.store, [30] * 8)
    done = shop.prune(policy(logs=keep(7)))
    assert shop.ids("logs") == [3]
    assert (done.deferred, done.tables["logs"].outcome, done.tables["logs"].backlog) == (1, "failed", 1)
    assert (done.ended, done.undone) == ("completed", True)


def test_fingerprints_of_policies_without_tables_are_as_before(shop: Shop) -> None:
    """Row rules name another question; a policy without them is spelled as it always was."""
    plain = Policy(keep_for=timedelta(days=30))
    assert plain.canonical() == {"keep_for": "30d", "grace": "1h"}
    both = replace(plain, tables={"logs": keep(7)})
    assert both.canonical()["tables"] == {"logs": {"keep_for": "1w"}}
    assert shop.plan(plain).fingerprint != shop.plan(both).fingerprint


@pytest.mark.parametrize("offset", [-1, 0, 1])
def test_the_cutoff_is_strict(shop: Shop, monkeypatch: pytest.MonkeyPatch, offset: int) -> None:
    """A row goes only if its end plus keep_for lies before now, to the unit of the column."""
    now = ago(0) * 1_000
    monkeypatch.setattr("afterrun.stores.sql.store.SqlStore.now", lambda _self: now)
    shop.store.insert("logs", [(1, None, now // 1_000 - 7 * DAY_MS + offset, "x")])
    shop.both(policy(logs=keep(7)))
    assert shop.counts()["logs"] == (0 if offset < 0 else 1)
