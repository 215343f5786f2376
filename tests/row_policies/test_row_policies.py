"""What row policies let go, and what keeps a row: on both databases, and the plan counts what goes."""

from __future__ import annotations

from datetime import timedelta

import pytest

from afterrun import Policy, Refused, UsageError
from afterrun.core.policy import FOREVER
from afterrun.core.row_rules import RowRules
from row_policies.tables import Shop, ago, keep, log, policy, written


def test_rows_go_by_their_age(shop: Shop) -> None:
    """Rows older than keep_for go; younger ones, and those without a time that makes sense, stay."""
    log(shop.store, [30, 8, 6, 1, None, 400_000, -30])
    plan, done = shop.both(policy(logs=keep(7)))
    assert shop.ids("logs") == [2, 3, 4, 5, 6]
    units = plan.kinds["row:logs"]
    assert (units.expired, units.recent, units.members) == (2, 2, 7)
    assert units.blocked == {"unknown-end-time": 1, "unreadable-end-time": 1, "future-end-time": 1}
    assert done.tables["logs"].outcome == "drained"
    assert done.ended == "completed"


def test_owned_rows_go_along(shop: Shop) -> None:
    """Rows of another table that belong to a row go with it, and are counted by table."""
    shop.store.insert("events", [("old", written(10), "a"), ("new", written(2), "a"), ("odd", "soon", "a")])
    shop.store.insert("event_parts", [("old", 1), ("old", 2), ("new", 1), ("odd", 1)])
    plan, _ = shop.both(policy(events=keep(7)))
    assert plan.rows == {"events": 1, "event_parts": 2}
    assert shop.ids("events") == ["new", "odd"]


def test_only_ended_rows_that_are_meant_go(shop: Shop) -> None:
    """A row that is alive, belongs to a run or holds a request stays, whatever its age."""
    shop.store.insert(
        "tasks",
        [
            ("goes", "ok", ago(30), None, None),
            ("alive", "running", ago(30), None, None),
            ("unknown", "odd", ago(30), None, None),
            ("stateless", None, ago(30), None, None),
            ("of-run", "ok", ago(30), "run", None),
            ("request", "ok", ago(30), None, "key"),
            ("held", "ok", ago(30), None, None),
            ("let", "failed", ago(30), None, None),
        ],
    )
    shop.store.insert("task_states", [(1, "goes"), (2, "goes"), (3, "alive"), (4, "let")])
    shop.store.insert("waits", [("held", ago(-1)), ("let", ago(1))])
    plan, _ = shop.both(policy(tasks=keep(7)))
    assert shop.ids("tasks") == ["alive", "held", "of-run", "request", "stateless", "unknown"]
    assert plan.kinds["row:tasks"].protected == {"not-ended": 3, "not-meant": 2, "wait": 1}
    assert plan.rows == {"tasks": 2, "task_states": 3}


def test_only_the_named_states_go(shop: Shop) -> None:
    """Rules for some states leave rows in other ones, and a word that is no terminal state is an error."""
    shop.store.insert("tasks", [("a", "ok", ago(30), None, None), ("b", "failed", ago(30), None, None)])
    shop.both(policy(tasks=keep(7, None, "ok")))
    assert shop.ids("tasks") == ["b"]
    with pytest.raises(UsageError, match="did you mean 'failed'"):
        shop.plan(policy(tasks=keep(7, None, "faild")))
    with pytest.raises(UsageError, match="known: none"):
        shop.plan(policy(logs=keep(7, None, "ok")))


def test_the_latest_of_each_partition_stay(shop: Shop) -> None:
    """The newest rows of each name stay, NULL being a name like others, and what refers to a row holds it."""
    shop.store.insert(
        "results",
        [(n, name, ago(30 + n)) for n, name in enumerate(["a", "a", "a", "b", None, None, "a", "c"])],
    )
    shop.store.insert("heads", [("a", 6)])
    plan, _ = shop.both(policy(results=keep(None, 1)))
    assert shop.ids("results") == [0, 3, 4, 6, 7]
    units = plan.kinds["row:results"]
    assert (units.expired, units.recent, units.protected) == (3, 4, {"head": 1})


def test_both_rules_keep(shop: Shop) -> None:
    """With an age and a count, a row goes only if neither keeps it."""
    log(shop.store, [40, 30, 20, 3, 2, 1])
    shop.both(policy(logs=keep(7, 4)))
    assert shop.ids("logs") == [2, 3, 4, 5]
    shop.both(policy(logs=keep(7, 1)))
    assert shop.ids("logs") == [3, 4, 5]


def test_rows_of_one_moment_are_ranked_by_their_key(shop: Shop) -> None:
    """Among rows of one moment, those with the greatest keys are the latest."""
    log(shop.store, [30] * 5)
    shop.both(policy(logs=keep(None, 2)))
    assert shop.ids("logs") == [3, 4]


def test_forever_keeps_every_row(shop: Shop) -> None:
    """The word forever lets nothing go, and all rows are counted."""
    log(shop.store, [400, 1, None])
    plan, done = shop.both(Policy(tables={"logs": RowRules(keep_for=FOREVER)}))
    assert done.removed == 0
    assert plan.kinds["row:logs"].recent == 2
    assert plan.kinds["row:logs"].blocked == {"unknown-end-time": 1}


def test_grace_keeps_rows_too(shop: Shop) -> None:
    """A row that ended less than the grace time ago stays, whatever its rules say."""
    log(shop.store, [0.01, 0.1])
    rules = RowRules(keep_for=timedelta(minutes=1))
    shop.both(Policy(tables={"logs": rules}))
    assert shop.ids("logs") == [0]


def test_keys_of_several_columns(shop: Shop) -> None:
    """A row is told by all columns of its key."""
    shop.store.insert("marks", [("a", 1, ago(30)), ("a", 2, ago(1)), ("b", 1, ago(30)), ("b", 2, ago(30))])
    shop.both(policy(marks=keep(7)))
    assert shop.store.rows("SELECT run, number FROM marks") == [("a", 2)]


def test_a_row_of_a_run_is_counted_once(shop: Shop) -> None:
    """Rows that a row policy takes are left out of the runs they belong to, in plans and in reports."""
    shop.store.insert("runs", [("old", "done", ago(40)), ("alive", "running", None)])
    log(shop.store, [50, 45, 20, 1], run="old")
    log(shop.store, [50, 1], run="alive", start=10)
    rules = Policy(keep_for=timedelta(days=30), tables={"logs": keep(14)})
    plan, _ = shop.both(rules)
    assert plan.kinds["row:logs"].expired == 4
    assert plan.rows == {"runs": 1, "logs": 5}
    assert shop.ids("logs") == [11]


def test_a_policy_for_rows_touches_no_run(shop: Shop) -> None:
    """Without rules for runs, none goes, and the plan counts them all as recent."""
    shop.store.insert("runs", [("old", "done", ago(40))])
    log(shop.store, [50], run="old")
    plan, _ = shop.both(policy(logs=keep(14)))
    assert shop.ids("runs") == ["old"]
    assert plan.kinds["tree"].recent == 1


def test_an_unknown_table_is_told(shop: Shop) -> None:
    """Rules for a table that the profile lacks decide nothing and are told; alone they are refused."""
    rules = {"log": keep(7)}
    plan = shop.plan(Policy(keep_for=timedelta(days=1), tables=rules))
    assert any("the rules for the table log decide nothing" in notice for notice in plan.notices)
    assert any("did you mean 'logs'" in notice for notice in plan.notices)
    with pytest.raises(Refused, match="decide nothing"):
        shop.plan(Policy(tables=rules))


def test_a_second_sweep_has_nothing_to_do(shop: Shop) -> None:
    """Nothing new, nothing removed: the second pass reads the same pages once and makes no batch."""
    log(shop.store, [30] * 10)
    shop.prune(policy(logs=keep(7)))
    again = shop.prune(policy(logs=keep(7)))
    assert (again.removed, again.batches, again.tables["logs"].outcome) == (0, 0, "drained")


def test_many_rows_go_in_many_batches(shop: Shop) -> None:
    """Rows beyond a page and a batch go, with many that cannot go in front of them."""
    log(shop.store, [100] * 1_500, start=10_000)
    log(shop.store, [50 - n / 1_000 for n in range(2_700)])
    shop.store.run("UPDATE logs SET at = at + id")
    _, done = shop.both(policy(logs=keep(7, 100)))
    assert shop.counts()["logs"] == 100
    assert done.tables["logs"].batches >= 3
    assert done.tables["logs"].rows == 4_100


@pytest.mark.parametrize("index", [True, False])
def test_protected_rows_in_front_are_passed(shop: Shop, *, index: bool) -> None:
    """Old rows that stay hide none behind them, with an index by time and without."""
    if not index:
        shop.store.run("DROP INDEX tasks_ended")
    shop.store.insert("tasks", [(f"k{n}", "ok", ago(90), "run", None) for n in range(2_500)])
    shop.store.insert("tasks", [(f"z{n}", "ok", ago(30), None, None) for n in range(300)])
    plan, _ = shop.both(policy(tasks=keep(7)))
    assert plan.kinds["row:tasks"].protected == {"not-meant": 2_500}
    assert shop.counts()["tasks"] == 2_500
    assert any("no index serves tasks (ended)" in notice for notice in plan.notices) != index
