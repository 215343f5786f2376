"""Runs whose parent is missing count as roots, however it is found out that it is missing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from afterrun.stores.sql.missing_parents import MissingParents
from own_store import PLAIN, OwnStore, own_store
from sql_kit import sqlite

EDGE = PLAIN + 'edges = [{ column = "parent" }]\nmissing = "root"\n'
ROWS = """
INSERT INTO runs VALUES ('a', 'done', 1600000000000, NULL), ('a-1', 'done', 1600000000000, 'a'),
  ('b-1', 'done', 1600000000000, 'B'), ('c-1', 'odd', NULL, 'gone'), ('d-1', 'running', NULL, 'gone'),
  ('d-2', 'running', NULL, 'd-1'), ('B ', 'done', NULL, NULL), (x'41', 'done', 5, x'42'), ('5', 'done', 5, 5);
"""
STAYS = {
    "blocked": {"unknown-status": 1, "unknown-end-time": 1, "unreadable-end-time": 1},
    "protected": {"live-member": 1},
}
"""What no page meets, among roots: c-1; 'B '; the blob; d-1. '5' is its own parent."""

MAKES = {
    "by the index of parents": (
        "CREATE TABLE runs (id TEXT PRIMARY KEY, status TEXT, ended INTEGER, parent TEXT);"
        "CREATE INDEX runs_parent ON runs (parent) WHERE parent IS NOT NULL;"
    ),
    "no index": "CREATE TABLE runs (id TEXT PRIMARY KEY, status TEXT, ended INTEGER, parent TEXT);",
    "no row numbers": (
        "CREATE TABLE runs (id TEXT PRIMARY KEY, status TEXT, ended INTEGER, parent TEXT) WITHOUT ROWID;"
        "CREATE INDEX runs_parent ON runs (parent);"
    ),
}


def made(folder: Path, table: str) -> OwnStore:
    """Make a store with roots, children, and children whose parent is missing."""
    return own_store(folder, f"{table} CREATE INDEX runs_ended ON runs (ended); {ROWS}", EDGE)


def stays(store: OwnStore) -> Mapping[str, Mapping[str, int]]:
    """Return what an inspection says of roots that no page meets."""
    with store.retention(writable=False) as retention:
        found = retention.inspect()
    assert found.runs == {"live": 2, "finished": 6, "unknown": 1}
    return {
        name: {reason: part.count for reason, part in getattr(found.look, name).items()}
        for name in ("blocked", "protected")
    }


@pytest.mark.parametrize("table", MAKES.values(), ids=MAKES)
def test_roots_are_the_same_however_parents_are_looked_up(tmp_path: Path, table: str) -> None:
    """Where the index of parents does not tell, each run's own parent is looked up."""
    store = made(tmp_path, table)
    opened = store.open()
    assert MissingParents.usable(opened.facts) == (table is MAKES["by the index of parents"])
    opened.close()
    assert stays(store) == STAYS


def test_letter_case_decides_as_the_keys_say(tmp_path: Path) -> None:
    """Where the column of parents ignores case, its index does not tell which keys are there."""
    table = MAKES["by the index of parents"].replace("parent TEXT", "parent TEXT COLLATE NOCASE")
    store = made(tmp_path, table)
    opened = store.open()
    assert not MissingParents.usable(opened.facts)
    opened.close()
    assert stays(store) == STAYS


def test_a_parent_of_another_kind_is_looked_up_by_each_run(tmp_path: Path) -> None:
    """Where 5 and '5' may be the same, the order of an index of parents is not that of the keys."""
    table = MAKES["by the index of parents"].replace("parent TEXT", "parent")
    opened = made(tmp_path, table).open()
    assert not MissingParents.usable(opened.facts)
    opened.close()


def test_the_lookup_reads_indexes_alone(tmp_path: Path) -> None:
    """Parents come in the order of their index, each once, and no row of the table is read for them."""
    opened = made(tmp_path, MAKES["by the index of parents"]).open()
    lookup = MissingParents(opened.facts)
    steps = sqlite(opened).explain(lookup._counted("a"), {"after": "a"})
    assert any("SEARCH u USING COVERING INDEX runs_parent (parent>?)" in step for step in steps)
    assert any("SEARCH p USING COVERING INDEX" in step for step in steps)
    assert not any("TEMP B-TREE" in step for step in steps)
    opened.close()


def test_they_come_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However few are looked up and yielded at once, each is found once."""
    monkeypatch.setattr("afterrun.stores.sql.missing_parents.PARENTS", 2)
    monkeypatch.setattr("afterrun.stores.sql.missing_parents.ROWS", 3)
    store = made(tmp_path, MAKES["by the index of parents"])
    script = "".join(
        f"INSERT INTO runs VALUES ('x{number}', 'done', 5, 'gone-{number // 5}');" for number in range(40)
    )
    store.run(script)
    opened = store.open()
    found = [tie for part in MissingParents(opened.facts).rows() for tie in part]
    opened.close()
    assert len(found) == len(set(found)) == 40 + 4
    assert stays_more(store) == 40 + 1


def stays_more(store: OwnStore) -> int:
    """Count the roots with an unreadable end."""
    with store.retention(writable=False) as retention:
        return retention.inspect().look.blocked["unreadable-end-time"].count
