"""What SQLite does for each statement, on stores of 100,000 runs: nothing of a sweep may read them all.

The plans are asked for on stores with and without statistics, since statistics mislead SQLite about indexes
that are mostly NULL.
"""

from __future__ import annotations

import hashlib
import re
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from afterrun import Budget, Policy, Retention, SweepOptions
from afterrun.core.store import Cursor
from afterrun.core.times import Instant
from afterrun.stores import open_store
from afterrun.stores.sql.store import SqlStore
from engines import clones
from engines.clones import Shape
from engines.stores import clone_store, template
from sql_kit import sqlite, statements, traced

pytestmark = pytest.mark.engine

RUNS = 100_000
STATISTICS = {
    "no statistics": "",
    "all rows counted": "ANALYZE",
    "some rows counted": "PRAGMA analysis_limit = 1000; ANALYZE",
}
CUTOFF: Instant = 1_800_000_000_000_000

LIVE_INDEXES = {
    "idx_workflow_status_in_flight",
    "idx_workflow_status_in_flight_v2",
    "idx_workflow_status_delayed",
}
"""Partial indexes that hold live runs and no others: reading one reads what runs now, not what is kept."""

RARE = ("by updated_at", "by updated_at, first", "by updated_at, tied", "by updated_at, later")
"""Statements over runs from before the engine's upgrade: no index serves them, and no sweep that knows there
are none runs them."""

NEWEST = re.compile(r"SCAN \S+ USING (COVERING )?INDEX \S*(created_at|completed_at)\S*")
"""`newest` walks an index from its end and stops at the first row."""


@dataclass(frozen=True)
class Big:
    """A big store, and what is special about it."""

    path: Path
    version: str
    shape: Shape


def big_store(version: str, shape: Shape) -> Path:
    """Return a big store, made once for each state of the template it is copied from."""
    source = template(version)
    digest = hashlib.sha256(Path(clones.__file__).read_bytes()).hexdigest()[:12]
    path = source.parents[1] / "clones" / f"{source.stem}-{digest}-{shape}-{RUNS}.sqlite"
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        draft = path.with_suffix(f".draft-{id(path)}")
        clone_store(source, draft, runs=RUNS, version=version, shape=shape, expired=0.5)
        draft.rename(path)
    return path


@pytest.fixture(scope="module", params=[("3.4.0", "flat"), ("3.4.0", "tree"), ("2.31.1", "tree")], ids=str)
def big(request: pytest.FixtureRequest) -> Big:
    """Give big stores of both schemas and both shapes, without statistics, not to be changed."""
    version, shape = request.param
    return Big(big_store(version, shape), version, shape)


@pytest.fixture(scope="module")
def scratch(big: Big, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a copy of a big store that may be given statistics."""
    path = tmp_path_factory.mktemp("plans") / "store.sqlite"
    copy(big.path, path)
    return path


@pytest.fixture(params=STATISTICS, ids=str)
def store(scratch: Path, request: pytest.FixtureRequest) -> Path:
    """Give a big store with one kind of statistics."""
    with closing(sqlite3.connect(scratch)) as connection:
        connection.executescript("ANALYZE sqlite_schema; DELETE FROM sqlite_stat1;")
        connection.executescript(STATISTICS[request.param])
    return scratch


def copy(source: Path, path: Path) -> None:
    """Copy a store; the pages go from the system's cache."""
    path.write_bytes(source.read_bytes())


def real_scans(steps: Sequence[str], tables: Sequence[str]) -> list[str]:
    """Return the steps that read a whole table, by its name or by one of the aliases of our statements."""
    ours = re.compile(r"(raw|rows|ranked|reached|anon_\d+|CONSTANT|\(|json_each)")
    scans = [step for step in steps if step.startswith("SCAN ") and not ours.match(step[5:])]
    return [step for step in scans if step.rsplit(" ", 1)[-1] not in LIVE_INDEXES and tables]


def faults(steps: Sequence[str], tables: Sequence[str]) -> list[str]:
    """Return the steps that no statement of a sweep may have."""
    return [*real_scans(steps, tables), *(s for s in steps if "BLOOM FILTER" in s or "AUTOMATIC" in s)]


def test_no_statement_of_a_sweep_reads_a_whole_table(store: Path) -> None:
    """Page, facts, flags, weighing, counting and removal use indexes, whatever the statistics say."""
    opened = open_store(str(store))
    found = {
        name: bad
        for name, statement in statements(opened)
        if not name.endswith(RARE)
        and (bad := faults(opened.dialect.explain(statement, {}), list(opened.dialect.shapes)))
    }
    opened.close()
    assert found == {}


def test_the_check_of_plans_can_fail(store: Path) -> None:
    """The census, the count of groups and the page over an unindexed source are seen to read everything."""
    opened = open_store(str(store))
    rare = opened.candidates.statement(1, "first", 1_000)
    table = opened.binding.runs()
    count = sa.select(sa.func.count()).select_from(table).group_by(table.c.status)
    tables = list(opened.dialect.shapes)
    assert not opened.streams()[1].indexed
    assert real_scans(opened.dialect.explain(rare, {}), tables)
    assert real_scans(opened.dialect.explain(count, {}), tables)
    opened.close()


def plans(store: SqlStore, statements: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Return the statements whose plan has a fault, each with its faults."""
    tables = list(store.dialect.shapes)
    told = []
    for text in statements:
        steps = [row[3] for row in sqlite(store)._driver.execute(f"EXPLAIN QUERY PLAN {text}")]
        if bad := faults(steps, tables):
            told.append((text, bad))
    return told


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """Name afterrun's own folder."""
    return tmp_path / "state"


@pytest.mark.parametrize("budget", [None, 300], ids=["whole pass", "cut off"])
def test_a_sweep_that_removes_reads_everything_once(big: Big, state: Path, budget: int | None) -> None:
    """In all that a real sweep runs, only the census reads without a key, and one part at a time."""
    path = state.parent / "store.sqlite"
    copy(big.path, path)
    policy = Policy(keep_for=timedelta(days=59) if budget is None else timedelta(days=31))
    with Retention(str(path), state=state) as retention:
        retention.sweep(
            Policy(keep_for=timedelta(days=3000)), always=True
        )  # notes that the rare stream is empty
        options = SweepOptions(offline=True, budget=Budget(units=budget))
        with traced(retention.store) as seen:
            report = retention.sweep(policy, options=options, always=True)
        bad = plans(retention.store, seen)
    assert report.ended == ("completed" if budget is None else "budget")
    assert report.units.removed > 100
    assert any(text.startswith("DELETE") for text in seen)
    told = [("GROUP BY" in text, "LIMIT" in text, len(scans)) for text, scans in bad]
    assert told == [(True, True, 1)], bad


def test_an_empty_sweep_costs_the_same_whatever_is_kept(tmp_path: Path, state: Path) -> None:
    """With nothing to remove, the number of statements does not grow, and none reads a table."""
    counted: list[int] = []
    for runs in (1_000, 10_000):
        path = tmp_path / f"{runs}.sqlite"
        clone_store(None, path, runs=runs, version="3.4.0", shape="tree", expired=0.0)
        with Retention(str(path), state=state) as retention:
            policy = Policy(keep_for=timedelta(days=30))
            retention.sweep(policy, always=True)
            with traced(retention.store) as seen:
                report = retention.sweep(policy)
            bad = plans(retention.store, seen)
        assert (report.ended, report.units.scanned, report.units.removed) == ("completed", 0, 0)
        assert [scans for _, scans in bad if not all(map(NEWEST.fullmatch, scans))] == []
        counted.append(len(seen))
    assert counted[0] == counted[1] <= 6


def test_one_page_is_read_with_the_same_number_of_statements_anywhere(big: Big) -> None:
    """A page in the middle of a stream costs no more statements than the first, but for the ties."""
    opened = open_store(str(big.path))
    with traced(opened) as first:
        page = opened.page(Cursor(), cutoff=CUTOFF, limit=1_000)
    cursor = page.cursor
    for _ in range(20):
        assert cursor is not None
        cursor = opened.page(cursor, cutoff=CUTOFF, limit=1_000).cursor
    assert cursor is not None
    with traced(opened) as later:
        opened.page(cursor, cutoff=CUTOFF, limit=1_000)
    opened.close()
    assert len(later) <= len(first) + 1 <= 10
