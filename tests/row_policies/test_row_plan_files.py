"""Rows in plan files: exactly those that a plan lists go, and only as far as the policy still lets them."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from afterrun import Policy
from afterrun.cli import plan_file
from cli.kit import run_cli
from row_policies.tables import Shop, ago, keep, log, policy, written

RULES = ("--rows", "logs=7d", "--rows", "events=7d", "--rows", "marks=7d")


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AFTERRUN_STATE_DIR", str(tmp_path / "state"))


@pytest.fixture
def filled(shop: Shop) -> Shop:
    """Give a store with old and young rows, one key of several columns, and a run that stays."""
    log(shop.store, [30, 20, 1], run="r")
    shop.store.insert("events", [("a", written(30), "x"), ("b", written(1), "x"), ("5", written(30), "x")])
    shop.store.insert("marks", [("a", 1, ago(30)), ("a", 2, ago(1)), ("b", 1, ago(30))])
    return shop


def words(shop: Shop) -> list[str]:
    """Return the words that name the store."""
    return [shop.store.location, "--profile", str(shop.store.folder / "shop.toml")]


def planned(shop: Shop, *rules: str) -> Path:
    """Write a plan file."""
    path = shop.store.folder / "plan.json"
    answer = run_cli("plan", *words(shop), *(rules or RULES), "--out", path)
    assert answer.code == 0, answer.err
    return path


def prune(shop: Shop, plan: Path, *rules: str) -> dict[str, Any]:
    """Remove what a plan file lists."""
    said = ("--plan", plan, "--apply", "--no-backup", "--yes", "--json")
    answer = run_cli("prune", *words(shop), *(rules or RULES), *said)
    assert answer.code == 0, answer.err
    return answer.json


def changed(plan: Path, **parts: object) -> None:
    """Change a plan file by hand."""
    plan.write_text(json.dumps(json.loads(plan.read_text("utf-8")) | parts), encoding="utf-8")


def test_a_plan_file_lists_keys_by_table(filled: Shop) -> None:
    """Numbers are numbers, text is text, a key of several columns is a list; only its owner reads it."""
    plan = planned(filled)
    contents = json.loads(plan.read_text("utf-8"))
    assert contents["format"] == "afterrun-plan/3"
    assert {name: sorted(keys) for name, keys in contents["rows"].items()} == {
        "logs": [0, 1],
        "events": ["5", "a"],
        "marks": [["a", 1], ["b", 1]],
    }
    assert plan.stat().st_mode & 0o777 == 0o600


def test_all_that_is_listed_goes(filled: Shop) -> None:
    """Plan, dry run and removal agree."""
    plan = planned(filled)
    dry = run_cli("prune", *words(filled), *RULES, "--plan", plan, "--json").json
    done = prune(filled, plan)
    rows = {"logs": 2, "events": 2, "event_parts": 0, "marks": 2}
    assert dry["rows"] == done["rows"] == rows
    assert (filled.ids("logs"), filled.ids("events"), filled.counts()["marks"]) == ([2], ["b"], 1)
    assert {table["outcome"] for table in done["tables"].values()} == {"drained"}


def test_rows_that_are_not_listed_stay(filled: Shop) -> None:
    """A row that came after the plan stays, however old it is, and the plan's own counts say so."""
    plan = planned(filled)
    log(filled.store, [90, 90], start=50)
    dry = run_cli("prune", *words(filled), *RULES, "--plan", plan, "--json").json
    assert dry["units"]["row:logs"]["skipped"] == {"not in the plan file": 2}
    assert prune(filled, plan)["tables"]["logs"]["rows"] == 2
    assert filled.ids("logs") == [2, 50, 51]


def test_listed_rows_that_a_policy_keeps_stay(filled: Shop) -> None:
    """A plan file never widens a policy."""
    plan = planned(filled)
    prune(filled, plan, "--rows", "logs=25d", "--rows", "events=60d")
    assert (filled.ids("logs"), filled.ids("events")) == ([1, 2], ["5", "a", "b"])


def test_a_key_of_another_type_is_another_row(filled: Shop) -> None:
    """5 lists no row whose key is the text 5, and "0" none whose key is a number."""
    plan = planned(filled)
    changed(plan, rows={"events": [5], "logs": ["0"], "marks": [["a", "1"]]})
    prune(filled, plan)
    assert (filled.ids("logs"), filled.ids("events")) == ([0, 1, 2], ["5", "a", "b"])
    assert filled.counts()["marks"] == 3


def test_a_table_that_is_not_listed_has_no_turn(filled: Shop) -> None:
    """What the file does not name stays whole, and the report says so."""
    plan = planned(filled)
    changed(plan, rows={"logs": [0]})
    done = prune(filled, plan)
    assert list(done["tables"]) == ["logs"]
    assert any("lists no rows of events, marks" in notice for notice in done["notices"])
    assert (filled.ids("logs"), filled.ids("events")) == ([1, 2], ["5", "a", "b"])


@pytest.mark.parametrize("form", [1, 2])
def test_an_older_file_lists_no_rows(filled: Shop, form: int) -> None:
    """Files of earlier formats are read as before; rows in one are a fault."""
    plan = planned(filled)
    changed(plan, format=f"afterrun-plan/{form}", rows={})
    prune(filled, plan)
    assert filled.ids("logs") == [0, 1, 2]
    changed(plan, rows={"logs": [0]})
    assert run_cli("prune", *words(filled), *RULES, "--plan", plan).code == 2


@pytest.mark.parametrize(
    "rows",
    [{"logs": [True]}, {"logs": [1.5]}, {"logs": [None]}, {"marks": [["a"]]}, {"logs": 1}, [1]],
)
def test_rows_that_are_none_are_refused(filled: Shop, rows: object) -> None:
    """Whatever is no key of a row is an error, and nothing goes."""
    plan = planned(filled)
    changed(plan, rows=rows)
    assert run_cli("prune", *words(filled), *RULES, "--plan", plan).code == 2
    changed(plan, rows={}, units=[["row:logs", "0"]])
    assert run_cli("prune", *words(filled), *RULES, "--plan", plan).code == 2


def test_a_full_file_lists_the_first_rows_and_says_so(filled: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """What has no room is told and stays; another plan finds it."""
    monkeypatch.setattr(plan_file, "MAX_UNITS", 3)
    path = filled.store.folder / "plan.json"
    answer = run_cli("plan", *words(filled), *RULES, "--out", path, "--json")
    assert any("no room for 1 more rows of events" in notice for notice in answer.json["notices"])
    done = prune(filled, path)
    assert (filled.ids("logs"), len(filled.ids("events")), filled.counts()["marks"]) == ([2], 2, 3)
    assert any("lists no rows of marks" in notice for notice in done["notices"])


def test_rows_of_a_listed_run_are_counted_once(shop: Shop) -> None:
    """A row that goes by itself is left out of its run; one that is not listed goes with it."""
    shop.store.insert("runs", [("old", "done", ago(40))])
    log(shop.store, [50, 50], run="old")
    rules = Policy(keep_for=timedelta(days=30), tables={"logs": keep(7)})
    only = {"tree": {"old"}, "row:logs": {0}}
    with shop.open() as retention:
        plan = retention.plan(rules, only=only)
        done = retention.prune(rules, only=only)
    assert plan.rows == done.rows == {"runs": 1, "logs": 2}
    assert {kind: units.removed for kind, units in done.kinds.items()} == {"tree": 1, "row:logs": 1}


def test_ids_without_kinds_are_of_no_rows(shop: Shop) -> None:
    """A list of ids alone, as older plan files have it, touches no row table."""
    shop.store.insert("runs", [("old", "done", ago(40))])
    log(shop.store, [50], run="old")
    log(shop.store, [50], start=5)
    rules = Policy(keep_for=timedelta(days=30), tables={"logs": keep(7)})
    with shop.open() as retention:
        plan = retention.plan(rules, only={"old"})
        done = retention.prune(rules, only={"old"})
        alone = retention.prune(policy(logs=keep(7)), only={"old"})
    assert plan.rows == done.rows == {"runs": 1, "logs": 1}
    assert (shop.ids("logs"), alone.removed) == ([5], 0)
    assert all(any("plan file" in notice for notice in report.notices) for report in (plan, done))
