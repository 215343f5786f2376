"""Sizes of tables from samples: tables of every make, and names that mean harm."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from afterrun import Retention
from afterrun.core.inspection import TableSize
from cli.kit import change, make_store, run_cli

SERIES = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {0}) "


def sizes(store: Path, *, exact: bool) -> dict[str, TableSize]:
    """Return the sizes of all tables by name."""
    with Retention(str(store), writable=False) as retention:
        return {table.name: table for table in retention.inspect(exact=exact).tables}


@pytest.mark.parametrize(
    ("made", "filled"),
    [
        pytest.param(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, body TEXT)",
            "INSERT INTO t SELECT i * 9007199254740 , printf('%.*c', 300, 'x') FROM n",
            id="sparse-row-numbers",
        ),
        pytest.param(
            "CREATE TABLE t (id TEXT PRIMARY KEY, body TEXT) WITHOUT ROWID",
            "INSERT INTO t SELECT 'key-' || i, printf('%.*c', 300, 'x') FROM n",
            id="without-rowid",
        ),
        pytest.param(
            "CREATE TABLE t (id TEXT, body BLOB)",
            "INSERT INTO t SELECT i, zeroblob(10000) FROM n",
            id="overflow",
        ),
        pytest.param(
            "CREATE TABLE t (rowid TEXT, _rowid_ TEXT, oid TEXT, body TEXT)",
            "INSERT INTO t SELECT i, i, i, printf('%.*c', 300, 'x') FROM n",
            id="row-number-hidden",
        ),
        pytest.param(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, body TEXT)",
            "INSERT INTO t SELECT i, printf('%.*c', CASE WHEN i % 100 THEN 20 ELSE 20000 END, 'x') FROM n",
            id="few-large-rows",
        ),
    ],
)
def test_every_make_of_table_is_estimated(tmp_path: Path, made: str, filled: str) -> None:
    """Rows and bytes come near the exact ones, whatever the table looks like."""
    store = make_store(tmp_path / "store.sqlite")
    change(store, made, SERIES.format(8_000) + filled)
    guessed, exact = sizes(store, exact=False)["t"], sizes(store, exact=True)["t"]
    assert guessed.rows == pytest.approx(exact.rows, rel=0.1)
    assert guessed.total == pytest.approx(exact.total, rel=0.25)


def test_half_empty_ranges_are_counted_as_such(tmp_path: Path) -> None:
    """Where a removal took every other stretch of rows, the estimate follows."""
    store = make_store(tmp_path / "store.sqlite")
    change(
        store,
        "CREATE TABLE t (id INTEGER PRIMARY KEY, body TEXT)",
        SERIES.format(40_000) + "INSERT INTO t SELECT i, printf('%.*c', 200, 'x') FROM n",
        "DELETE FROM t WHERE id / 1000 % 2 = 0",
    )
    assert sizes(store, exact=False)["t"].rows == pytest.approx(20_000, rel=0.1)


def test_a_partial_index_counts_only_what_it_holds(tmp_path: Path) -> None:
    """The condition is found behind names, text and comments that look like one."""
    store = make_store(tmp_path / "store.sqlite")
    change(
        store,
        'CREATE TABLE t (id INTEGER PRIMARY KEY, "a where b" TEXT)',
        SERIES.format(30_000) + "INSERT INTO t SELECT i, printf('%.*c', 90, 'x') FROM n",
        'CREATE INDEX "some where (1" ON t ("a where b" /* where 0 */) -- where 1\n'
        "WHERE \"a where b\" <> ' where ' AND id % 10 = 0",
    )
    guessed, exact = sizes(store, exact=False)["t"], sizes(store, exact=True)["t"]
    assert guessed.indexes == pytest.approx(exact.indexes, rel=0.4)


def test_hostile_names_are_only_names(tmp_path: Path) -> None:
    """A table whose name is SQL or a control sequence is measured, and shown escaped."""
    store = make_store(tmp_path / "store.sqlite")
    name = 't"; DROP TABLE workflow_status; --\x1b[2J'
    quoted = '"' + name.replace('"', '""') + '"'
    change(store, f"CREATE TABLE {quoted} (a TEXT)", f'CREATE INDEX "i\'x" ON {quoted} (a)')
    assert name in sizes(store, exact=False)
    assert name in sizes(store, exact=True)
    assert "\x1b" not in run_cli("inspect", store).out
    with closing(sqlite3.connect(store)) as database:
        assert database.execute("SELECT count(*) FROM workflow_status").fetchone() == (41,)
