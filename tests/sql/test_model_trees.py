"""Run trees of other engines, said in a user's own profile: edges, link tables, lookups, owned tables."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa

from afterrun.stores.sql.dialect import Rows
from own_store import HOURS_AGO, OLD, PLAIN, RUNS, own_store

EDGES = """
CREATE TABLE runs (id TEXT PRIMARY KEY, status TEXT, ended INTEGER,
                   parent TEXT, restart_of TEXT, continues TEXT);
CREATE INDEX runs_ended ON runs (ended);
CREATE INDEX runs_parent ON runs (parent);
CREATE INDEX runs_restart ON runs (restart_of);
CREATE INDEX runs_continues ON runs (continues);
"""
EDGE_TREE = f"""{PLAIN}
edges = [{{ column = "parent" }}, {{ column = "restart_of" }}, {{ column = "continues" }}]
"""


def insert(table: str, *rows: tuple[object, ...]) -> str:
    """Write rows as SQL."""
    lines = (", ".join("NULL" if value is None else repr(value) for value in row) for row in rows)
    return "".join(f'INSERT INTO "{table}" VALUES ({line});\n' for line in lines)


def test_a_run_hangs_on_the_first_of_its_edges_that_is_set(tmp_path: Path) -> None:
    """Parent comes before restart, restart before continuation; each run has one place."""
    runs = insert(
        "runs",
        ("a", "done", OLD, None, None, None),
        ("a-child", "done", OLD, "a", None, None),
        ("a-again", "failed", OLD, None, "a", None),
        ("a-more", "done", OLD, None, None, "a-again"),
        ("b", "running", None, None, None, None),
        ("both", "done", OLD, "a", "b", None),
        ("all", "done", OLD, "b", "a", "a-more"),
        ("last-two", "done", OLD, None, "a", "b"),
        ("alone", "done", OLD, None, None, None),
    )
    store = own_store(tmp_path, EDGES + runs, EDGE_TREE)
    assert store.verdicts("a", "a-child", "a-again", "a-more", "b", "both", "all", "last-two", "alone") == {
        "a": "expired",
        "a-child": "in a: expired",
        "a-again": "in a: expired",
        "a-more": "in a: expired",
        "b": "protected live-member",
        "both": "in a: expired",
        "all": "in b: protected live-member",
        "last-two": "in a: expired",
        "alone": "expired",
    }
    assert store.prune().units.removed == 2
    assert store.left() == ["all", "b"]


def test_only_edges_that_a_run_has_are_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each walk asks anew which there are; one that came since the last look is followed by the next."""
    runs = insert("runs", ("a", "done", OLD, None, None, None), ("b", "done", OLD, "a", None, None))
    store = own_store(tmp_path, EDGES + runs, EDGE_TREE).open()
    asked: list[object] = []
    plain = store.dialect.execute

    def execute(statement: sa.Executable, parameters: Mapping[str, object] | None = None) -> Rows:
        asked.append(statement)
        return plain(statement, parameters)

    monkeypatch.setattr(store.dialect, "execute", execute)
    by_parent, by_restart, by_continuation = store.facts.by_parent
    assert [unit.members for unit in store.units(["a"])] == [("a", "b")]
    assert (by_parent in asked, by_restart in asked, by_continuation in asked) == (True, False, False)
    with closing(sqlite3.connect(tmp_path / "own.sqlite")) as other:
        other.executescript(insert("runs", ("c", "done", OLD, None, None, "b")))
    assert [unit.members for unit in store.units(["a"])] == [("a", "b", "c")]
    assert (by_restart in asked, by_continuation in asked) == (False, True)
    store.close()


def test_an_edge_that_leads_nowhere_does_not_give_way_to_the_next(tmp_path: Path) -> None:
    """The first edge that is set decides, even if what it names is gone."""
    runs = insert(
        "runs",
        ("a", "running", None, None, None, None),
        ("b", "done", OLD, "gone", "a", None),
    )
    root = own_store(tmp_path, EDGES + runs, EDGE_TREE + 'missing = "root"')
    assert root.verdicts("b") == {"b": "expired"}
    root.profile.write_text(root.profile.read_text().replace('missing = "root"', ""))
    assert root.verdicts("b") == {"b": "blocked missing-parent"}
    root.prune()
    assert root.left() == ["a", "b"]


LINKS = """
CREATE TABLE flow_run (id TEXT PRIMARY KEY, state TEXT, end_time TEXT, parent_task_run_id TEXT, flow TEXT);
CREATE TABLE task_run (id TEXT PRIMARY KEY, flow_run_id TEXT REFERENCES flow_run(id) ON DELETE CASCADE);
CREATE TABLE task_run_state (id INTEGER PRIMARY KEY,
                             task_run_id TEXT REFERENCES task_run(id) ON DELETE CASCADE);
CREATE TABLE log (id INTEGER PRIMARY KEY, flow_run_id TEXT);
CREATE INDEX flow_run_end ON flow_run (end_time);
CREATE INDEX flow_run_parent ON flow_run (parent_task_run_id);
CREATE INDEX task_run_flow ON task_run (flow_run_id);
CREATE INDEX task_run_state_task ON task_run_state (task_run_id);
CREATE INDEX log_flow ON log (flow_run_id);
"""
LINK_TREE = """
table = "flow_run"
key = "id"
status = "state"
terminal = ["COMPLETED", "FAILED"]
live = [["RUNNING"], ["PENDING", "SCHEDULED"]]
end = [{ column = "end_time", format = "text_utc" }]
edges = [{ column = "parent_task_run_id", via = { table = "task_run", key = "id", owner = "flow_run_id" } }]
missing = "root"
group = ["flow"]
owned = [
  { table = "log", column = "flow_run_id" },
  { table = "task_run_state", column = "task_run_id", VIA },
  { table = "task_run", column = "flow_run_id" },
]
""".replace("VIA", 'via = { table = "task_run", key = "id", owner = "flow_run_id" }')
THEN = "2020-01-01 00:00:00.000000"


def test_edges_and_owned_rows_through_a_link_table(tmp_path: Path) -> None:
    """A child names the task that started it; states hang on tasks: trees and rows are found through both."""
    script = LINKS + insert(
        "flow_run",
        ("p", "COMPLETED", THEN, None, "f"),
        ("c", "COMPLETED", THEN, "p-t1", "f"),
        ("g", "FAILED", THEN, "c-t1", "f"),
        ("live", "RUNNING", None, None, "f"),
        ("kept", "COMPLETED", THEN, "live-t1", "f"),
        ("gone-task", "COMPLETED", THEN, "no-such-task", "f"),
    )
    script += insert(
        "task_run", ("p-t1", "p"), ("p-t2", "p"), ("c-t1", "c"), ("live-t1", "live"), ("kept-t1", "kept")
    )
    script += insert("task_run_state", (1, "p-t1"), (2, "p-t1"), (3, "c-t1"), (4, "live-t1"), (5, "kept-t1"))
    script += insert("log", (1, "p"), (2, "g"), (3, "live"), (4, "kept"), (5, None), (6, "elsewhere"))
    store = own_store(tmp_path, script, LINK_TREE)
    assert store.verdicts("p", "c", "g", "live", "kept", "gone-task") == {
        "p": "expired",
        "c": "in p: expired",
        "g": "in p: expired",
        "live": "protected live-member",
        "kept": "in live: protected live-member",
        "gone-task": "expired",
    }
    assert store.prune().units.removed == 2
    assert store.left("flow_run") == ["kept", "live"]
    assert store.left("task_run") == ["kept-t1", "live-t1"]
    assert store.left("task_run_state") == [4, 5]
    assert store.left("log") == [3, 4, 5, 6]


def test_a_link_row_whose_own_run_is_gone(tmp_path: Path) -> None:
    """A link that leads to a task, but to no run, is a parent that is missing."""
    script = LINKS + insert(
        "flow_run", ("c", "COMPLETED", THEN, "t", "f"), ("n", "COMPLETED", THEN, "u", "f")
    )
    script += insert("task_run", ("t", "gone"), ("u", None))
    store = own_store(tmp_path, script, LINK_TREE)
    assert store.verdicts("c", "n") == {"c": "expired", "n": "expired"}
    store.profile.write_text(store.profile.read_text().replace('missing = "root"', 'missing = "block"'))
    assert store.verdicts("c", "n") == {"c": "blocked missing-parent", "n": "blocked missing-parent"}
    assert store.plan().units.blocked == {"missing-parent": 2}


LOOKUPS = """
CREATE TABLE instances (instance_id TEXT PRIMARY KEY, current_execution_id INTEGER, parent TEXT, name TEXT);
CREATE TABLE executions (instance_id TEXT, execution_id INTEGER, status TEXT, completed_at INTEGER,
                         PRIMARY KEY (instance_id, execution_id));
CREATE TABLE history (instance_id TEXT, execution_id INTEGER, event INTEGER);
CREATE INDEX instances_parent ON instances (parent);
CREATE INDEX history_run ON history (instance_id);
"""
LOOKUP_TREE = """
table = "instances"
key = "instance_id"
lookup.cur = { table = "executions", on = { ON } }
status = "cur.status"
terminal = ["Completed", "Failed"]
successful = ["Completed"]
live = [["Running"]]
end = [{ column = "cur.completed_at", format = "epoch_ms" }]
edges = [{ column = "parent" }]
group = ["name", "cur.status"]
owned = [{ table = "history", column = "instance_id" }, { table = "executions", column = "instance_id" }]
""".replace("ON", 'instance_id = "instance_id", execution_id = "current_execution_id"')


def test_status_and_end_stand_in_a_row_that_belongs_to_the_run(tmp_path: Path) -> None:
    """The current execution tells status and end, and older executions say nothing."""
    script = LOOKUPS + insert(
        "instances",
        ("old", 2, None, "n"),
        ("child", 1, "old", "n"),
        ("live", 2, None, "n"),
        ("no-end", 1, None, "n"),
        ("recent", 1, None, "n"),
    )
    script += insert(
        "executions",
        ("old", 1, "Running", None),
        ("old", 2, "Completed", OLD),
        ("child", 1, "Failed", OLD),
        ("live", 1, "Completed", OLD),
        ("live", 2, "Running", None),
        ("no-end", 1, "Completed", None),
        ("recent", 1, "Completed", HOURS_AGO),
    )
    script += insert("history", ("old", 1, 1), ("old", 2, 1), ("child", 1, 1), ("live", 1, 1))
    store = own_store(tmp_path, script, LOOKUP_TREE)
    assert store.verdicts("old", "child", "live", "no-end", "recent") == {
        "old": "expired",
        "child": "in old: expired",
        "live": "protected live-member",
        "no-end": "blocked unknown-end-time",
        "recent": "recent keep-for",
    }
    with store.retention(writable=False) as retention:
        assert [stream.indexed for stream in retention.store.streams()] == [False]
    assert dict(store.prune().rows) == {"history": 3, "executions": 3, "instances": 2}
    assert store.left("instances", "instance_id") == ["live", "no-end", "recent"]
    assert store.left("executions", "instance_id") == ["live", "live", "no-end", "recent"]


def test_a_lookup_without_a_row_blocks_removal_altogether(tmp_path: Path) -> None:
    """Promise 3: no row is no status, and an unknown status anywhere refuses an apply."""
    script = (
        LOOKUPS
        + insert("instances", ("lost", 7, None, "n"))
        + insert("executions", ("lost", 1, "Completed", OLD))
    )
    store = own_store(tmp_path, script, LOOKUP_TREE)
    assert store.verdicts("lost") == {"lost": "blocked unknown-status"}
    assert store.plan().units.blocked == {"unknown-status": 1}
    with store.retention() as retention:
        census = retention.store.census()
    assert (dict(census.statuses), dict(census.unknown)) == ({"None": 1}, {"None": 1})


@pytest.mark.parametrize("alias", ["u", "p", "k", "r", "w", "l", "t", "raw", "reached", "h", "o"])
def test_a_lookup_may_have_any_name(tmp_path: Path, alias: str) -> None:
    """The profile's own aliases do not meet those of our statements."""
    script = LOOKUPS + insert("instances", ("old", 1, None, "n"), ("live", 1, None, "n"))
    script += insert("executions", ("old", 1, "Completed", OLD), ("live", 1, "Running", None))
    store = own_store(
        tmp_path, script, LOOKUP_TREE.replace("cur", alias).replace(f"{alias}rent_", "current_")
    )
    assert store.plan().units.protected == {"live-member": 1}
    store.prune()
    assert store.left("instances", "instance_id") == ["live"]


@pytest.mark.parametrize("reference", ["'self'", "'b'"])
def test_runs_that_are_their_own_ancestors_are_never_removed(tmp_path: Path, reference: str) -> None:
    """Promise 3: cycles, and what hangs on them, are in no unit, are counted, and stay."""
    runs = insert("runs", ("self", "done", OLD, "self"), ("a", "done", OLD, "b"), ("b", "done", OLD, "a"))
    runs += f"INSERT INTO runs VALUES ('below', 'done', {OLD}, {reference}), ('free', 'done', {OLD}, NULL);"
    store = own_store(tmp_path, RUNS + runs, PLAIN + 'edges = [{ column = "parent" }]\n')
    found = store.verdicts("self", "a", "below", "free")
    assert {run: words.split()[-2:] for run, words in found.items() if run != "free"} == {
        run: ["blocked", "cycle"] for run in ("self", "a", "below")
    }
    assert found["free"] == "expired"
    assert store.prune().units.unrooted == 0
    assert store.plan().units.unrooted == 4
    assert store.left() == ["a", "b", "below", "self"]


@pytest.mark.parametrize(("depth", "verdict"), [(4, "expired"), (5, "blocked too-deep")])
def test_a_tree_deeper_than_the_profile_allows_is_blocked(tmp_path: Path, depth: int, verdict: str) -> None:
    """Promise 3: the bound is exact."""
    chain = [(f"r{i}", "done", OLD, f"r{i - 1}" if i else None) for i in range(depth + 1)]
    store = own_store(
        tmp_path, RUNS + insert("runs", *chain), PLAIN + 'max_depth = 4\nedges = [{ column = "parent" }]\n'
    )
    assert store.verdicts("r0") == {"r0": verdict}
    store.prune()
    assert len(store.left()) == (0 if verdict == "expired" else 6)


def test_a_model_without_edges_has_units_of_one_run(tmp_path: Path) -> None:
    """A column that the profile does not name as an edge ties nothing."""
    runs = insert("runs", ("a", "running", None, None), ("b", "done", OLD, "a"))
    store = own_store(tmp_path, RUNS + runs)
    assert store.verdicts("a", "b") == {"a": "protected live-member", "b": "expired"}
    store.prune()
    assert store.left() == ["a"]


def test_an_optional_table_may_be_absent_and_goes_where_it_is(tmp_path: Path) -> None:
    """The same profile serves versions of a schema with and without a table."""
    tree = PLAIN + 'owned = [{ table = "extra", column = "run", optional = true }]\n'
    runs = RUNS + insert("runs", ("a", "done", OLD, None))
    without = tmp_path / "without"
    without.mkdir()
    assert dict(own_store(without, runs, tree).prune().rows) == {"runs": 1}
    store = own_store(
        tmp_path, f"{runs} CREATE TABLE extra (run TEXT); INSERT INTO extra VALUES ('a'), ('b');", tree
    )
    assert dict(store.prune().rows) == {"extra": 1, "runs": 1}
    assert store.left("extra", "run") == ["b"]
