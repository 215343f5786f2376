"""What a sweep of many runs costs: entries read, memory that is looked at again, and newcomers seen."""

from __future__ import annotations

import gc
import random
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from afterrun.core.facts import Key, Reason, key_order
from afterrun.core.store import Cursor
from afterrun.stores.directory import discovery, order
from afterrun.stores.directory.entries import MALFORMED, Entry, EntryTable, broken
from afterrun.stores.directory.order import in_order, names_in_order
from afterrun.stores.directory.result_units import ResultUnits
from directory.pi_tree import Pass, PiTree, opened

LIMIT = 3.0
"""Entries that a sweep reads, as times the number of entries."""


@pytest.fixture(params=["counted", "not counted"])
def links(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run a test where the file system counts the links of folders, and as if it did not."""
    if request.param == "not counted":
        monkeypatch.setattr(discovery, "OWN_LINKS", -1_000_000)
    return str(request.param)


class Once:
    """A gate that does something once, before a batch of this number."""

    def __init__(self, number: int, act: Callable[[], object]) -> None:
        self._left = number
        self._act = act

    def __call__(self) -> bool:
        self._left -= 1
        if self._left == 0:
            self._act()
        return True


def nested(tree: PiTree, parent: str, name: str, **fields: Any) -> Path:  # noqa: ANN401 - of a status
    """Make a run in the folder of another one's nested runs."""
    return tree.run(name, under=tree.root / "nested-subagent-runs" / parent, **fields)


@pytest.mark.parametrize("below", [0, 2])
def test_entries_read_grow_with_the_runs_alone(below: int, links: str, tree: PiTree) -> None:
    """Sixty units in sixty batches, single runs or trees: at most three times the number of entries."""
    del links
    for number in range(60):
        tree.run(f"r{number}", files=2)
        for child in range(below):
            nested(tree, f"r{number}", f"r{number}-{child}", files=2)
    number = sum(1 for folder in (tree.runs, tree.root / "nested-subagent-runs") for _ in folder.rglob("*"))
    with opened(tree.root) as store:
        report = Pass(tree.root, batch_units=1).over(store)[0]
        assert report.units.removed == 60
        assert report.batches == 60
        assert store.site.entries_read <= LIMIT * number


@pytest.mark.parametrize("place", ["beside", "nested"])
@pytest.mark.parametrize("members", [1, 2])
def test_a_child_that_came_after_the_scan_keeps_its_tree(
    place: str, members: int, links: str, tree: PiTree
) -> None:
    """Started under a run that is about to go, in either place: that run stays whole, and others go."""
    del links
    for name in ("a", "b"):
        tree.run(name)
        if members > 1:
            nested(tree, name, f"{name}-child")

    def start() -> None:
        if place == "beside":
            tree.run("new", state="running", parentWorkflowRunId="b")
        else:
            nested(tree, "b", "new", state="running")

    work = Pass(tree.root, batch_units=1, gate=Once(1, start))
    report = work.run()[0]
    assert report.units.removed == 1
    assert tree.names() - {"new"} == {"b"}
    assert tree.tombstones() == []


def test_a_child_that_comes_between_two_batches_is_seen(tree: PiTree) -> None:
    """Our own removals change the number of links, too; that of others is told apart."""
    for number in range(5):
        tree.run(f"r{number}")

    def start() -> None:
        tree.run("new", state="running", parentWorkflowRunId="r4")

    report = Pass(tree.root, batch_units=1, gate=Once(4, start)).run()[0]
    assert report.units.removed == 4
    assert tree.names() == {"r4", "new"}


def test_a_newcomer_whose_status_is_not_written_yet_is_read_again(tree: PiTree) -> None:
    """It becomes a child once its status says whose."""
    for number in range(4):
        tree.run(f"r{number}")
    empty = tree.runs / "new"

    def written() -> None:
        empty.rmdir()
        tree.run("new", state="running", parentWorkflowRunId="r3")

    begin, end = Once(2, empty.mkdir), Once(3, written)
    report = Pass(tree.root, batch_units=1, gate=lambda: begin() and end()).run()[0]
    assert report.units.removed == 3
    assert tree.names() == {"r3", "new"}


@pytest.mark.parametrize("trash", [None, timedelta(0)])
def test_the_folders_of_nested_runs_go_with_the_last_of_them(trash: timedelta | None, tree: PiTree) -> None:
    """An empty one for each tree would stay for ever; one with something in it does stay."""
    for name in ("a", "b"):
        tree.run(name)
        for number in range(2):
            nested(tree, name, f"{name}-{number}")
    kept = tree.root / "nested-subagent-runs" / "b" / "notes.txt"
    kept.write_text("somebody's")
    Pass(tree.root).run(trash=trash)
    with opened(tree.root) as store, store.sweep_lock():
        pass  # what was in the trash is reaped
    assert tree.names() == set()
    assert list((tree.root / "nested-subagent-runs").rglob("*")) == [kept.parent, kept]


def test_what_is_remembered_of_runs_is_forgotten_by_the_collector(tree: PiTree) -> None:
    """Entries and looks are plain tuples: a search for cycles does not go through them again."""
    for number in range(20):
        tree.run(f"r{number}")
    with opened(tree.root) as store:
        now = store.now()
        store.runs.page(Cursor(), cutoff=now, limit=100)
        for _ in range(3):  # what is in a tuple is forgotten before the tuple is
            gc.collect()
        kept = [*store.runs.index.entries._kept.values(), *store.runs._looks._kept.values()]
        assert len(kept) == 40
        assert not any(map(gc.is_tracked, kept))


def test_an_entry_comes_out_as_it_was_put_in() -> None:
    """Faults are reasons again, and a table can be emptied."""
    good = Entry(("runs", "a"), "a", "done", 5, 7, (), None, ("b",), ("x", 1), (("p",), ()), 4)
    bad = broken(("runs", "b"), Reason("unsafe-name", "why"))
    table = EntryTable([("a", good), ("b", bad)])
    assert dict(table) == {"a": good, "b": bad}
    assert isinstance(table["b"].faults[0], Reason)
    assert (table.state("a"), table.state("b"), "c" in table) == ("done", MALFORMED, False)
    table.clear()
    assert len(table) == 0


def test_sorting_in_pieces_is_sorting(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the order of every store, over any number of pieces."""
    monkeypatch.setattr(order, "PIECE", 7)
    some = random.Random(5)
    keys: list[Key] = [f"{some.random()}-é" for _ in range(100)]
    assert in_order(iter(keys)) == sorted(keys, key=key_order)
    names = [str(key) for key in keys]
    assert names_in_order(iter(names)) == sorted(names)
    assert in_order([]) == []


def test_the_trash_is_read_once_while_results_go(tree: PiTree, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many batches of results there are, and also for what went to the trash just before."""
    for number in range(3):
        tree.run(f"r{number}")
        tree.result(f"r{number}.json", f"r{number}")
    for number in range(12):
        tree.result(f"gone{number}.json", f"gone{number}")
    read = ResultUnits._read_tombstones
    calls = []

    def counted(units: ResultUnits) -> frozenset[str] | None:
        calls.append(units)
        return read(units)

    monkeypatch.setattr(ResultUnits, "_read_tombstones", counted)
    runs, results = Pass(tree.root, batch_units=1).run(trash=timedelta(days=1))
    assert (runs.units.removed, results.units.removed) == (3, 12)
    assert dict(results.units.protected) == {"run-tombstone-present": 3}
    assert len(calls) == 1
