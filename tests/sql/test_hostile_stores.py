"""Stores that were made to mislead: refused in words, or swept without taking what belongs to another."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from itertools import count
from pathlib import Path

import pytest

from afterrun import Budget, StoreUnreadable, SweepOptions
from afterrun.core.batch import Sizer, live_pace
from afterrun.core.errors import Refused
from fakes import FakeClock
from fakes import sweep as sweep_once
from memory import RUNS as RUN_TABLE
from memory import Holding
from own_store import DAY, OLD, PLAIN, RUNS, OwnStore, own_store
from random_stores import SCHEMAS
from sites import NOW_MS, OLD_MS, SqliteSite, fill, keys, live, run
from sql_kit import make

STEPS = 'owned = [{ table = "steps", column = "run" }]\n'
EDGE = 'edges = [{ column = "parent" }]\n'
KEY_COLUMN = 'key_columns = ["run_id"]'
EXPIRED = f"INSERT INTO runs VALUES ('a', 'done', {OLD}, NULL);"


def refusal(store: OwnStore) -> str:
    """Return why an apply is refused; make sure that it changed nothing."""
    before = store.content()
    with store.retention() as retention, pytest.raises(Refused) as caught:
        retention.prune(DAY)
    assert store.content() == before
    return str(caught.value)


# The file


def test_a_file_with_two_names_is_refused(tmp_path: Path) -> None:
    """Promise 4: by its other name, SQLite would not see the journal that the engine writes."""
    store = own_store(tmp_path, RUNS + EXPIRED)
    (tmp_path / "other.sqlite").hardlink_to(store.path)
    with pytest.raises(Refused, match="hard links") as caught:
        store.retention()
    assert caught.value.reason == "hard-link"


@pytest.mark.parametrize("encoding", ["UTF-16le", "UTF-16be"])
def test_a_database_in_another_encoding_is_not_read(tmp_path: Path, encoding: str) -> None:
    """Such a database orders ids differently, so that ties of keep_last would fall to the wrong run."""
    path = tmp_path / "wide.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(f"PRAGMA encoding = '{encoding}'; {RUNS}")
    with pytest.raises(StoreUnreadable, match="UTF-16"):
        OwnStore(path, tmp_path / "own.toml", tmp_path / "state").retention()


# Keys that do not find exactly their rows


@pytest.fixture
def nocase(tmp_path: Path) -> OwnStore:
    """Make a store whose run key ignores letter case while the parent column does not."""
    script = f"""
    CREATE TABLE runs (id TEXT COLLATE NOCASE PRIMARY KEY, status TEXT, ended INTEGER, parent TEXT);
    CREATE INDEX runs_parent ON runs (parent);
    INSERT INTO runs VALUES ('ABC', 'done', {OLD}, NULL), ('kid', 'running', NULL, 'abc');
    """
    return own_store(tmp_path, script, PLAIN + EDGE)


def test_a_key_looser_than_its_references_is_refused(nocase: OwnStore) -> None:
    """Promise 1: the live child is not found from its parent, so nothing goes, and the message says why."""
    told = refusal(nocase)
    assert "runs (id) takes keys for equal that runs (parent) keeps apart" in told
    assert "collations" in told


def test_a_key_looser_than_its_references_can_be_looked_at(nocase: OwnStore) -> None:
    """Plan and explain work, and the plan says what forbids an apply."""
    assert any("collations" in notice for notice in nocase.plan().notices)
    assert nocase.verdicts("ABC")


def test_an_owned_column_that_makes_numbers_of_keys_is_refused(tmp_path: Path) -> None:
    """Promise 5: '5' and '5.0' are two runs, but one number, so a removal would take the other's rows."""
    script = f"""
    {RUNS} CREATE TABLE steps (run INTEGER);
    INSERT INTO runs VALUES ('5', 'running', NULL, NULL), ('5.0', 'done', {OLD}, NULL);
    INSERT INTO steps VALUES ('5');
    """
    assert "steps (run) turns the keys of runs, which are text, into numbers" in refusal(
        own_store(tmp_path, script, PLAIN + STEPS)
    )


@pytest.mark.parametrize("key", ["x'ff00'", "CAST(x'ff41' AS TEXT)"])
def test_a_page_that_ends_at_a_key_of_bytes_does_not_lose_the_record(tmp_path: Path, key: str) -> None:
    """Promise 12: a cursor that no file can hold is left out, and the sweep that removed is on record."""
    path = tmp_path / "bytes.sqlite"
    schema = (SCHEMAS / "dbos-125.sql").read_text(encoding="utf-8")
    last = '"creator_xid" TEXT DEFAULT NULL)'
    assert schema.count(last) == 1
    make(path, schema.replace(last, f"{last} WITHOUT ROWID"))
    site = SqliteSite(path)
    site.add(RUN_TABLE, *(run(f"a{number:03}") for number in range(999)))
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            "INSERT INTO workflow_status (workflow_uuid, status, completed_at, updated_at, created_at)"
            f" VALUES ({key}, 'SUCCESS', {OLD_MS + 1}, {OLD_MS}, {OLD_MS})"
        )
    site.add(RUN_TABLE, *(run(f"b{number}", completed_at=OLD_MS + 2 + number) for number in range(9)))
    first_page = SweepOptions(budget=Budget(units=999))
    with site.retention as retention:
        ended = [retention.sweep(DAY, options=first_page, always=True).ended for _ in range(2)]
        state = retention._state.load(retention.store.identity)
    assert ended == ["budget", "completed"]
    assert [record.removed for record in state.records] == [999, 9]


# Schemas that get in the way of statements


@pytest.fixture
def mismatch(tmp_path: Path) -> OwnStore:
    """Make a store with a foreign key that refers to a column which is not unique."""
    return own_store(tmp_path, f"{RUNS} CREATE TABLE notes (run TEXT REFERENCES runs (status)); {EXPIRED}")


def test_a_foreign_key_that_fits_nothing_is_refused(mismatch: OwnStore) -> None:
    """The database would fail every removal, so none is begun."""
    assert "the database removes no row of runs" in refusal(mismatch)


def test_a_foreign_key_that_fits_nothing_is_in_the_plan(mismatch: OwnStore) -> None:
    """Promise 7: what forbids an apply is told before it is tried."""
    assert any("foreign key mismatch" in notice for notice in mismatch.plan().notices)


def test_a_search_table_with_a_key_column_is_an_unknown_reference(tmp_path: Path) -> None:
    """Promise 3: a virtual table that names a run keeps it, like any table that the profile does not know."""
    script = f"""
    {RUNS} CREATE VIRTUAL TABLE found USING fts5(run_id, body); INSERT INTO found VALUES ('a', 'words');
    INSERT INTO runs VALUES ('a', 'done', {OLD}, NULL), ('b', 'done', {OLD}, NULL);
    """
    store = own_store(tmp_path, script, detect=KEY_COLUMN)
    assert store.verdicts("a", "b") == {"a": "blocked unknown-reference:found", "b": "expired"}
    store.prune()
    assert store.left() == ["a"]


class FixedCost(Holding):
    """A store whose batches take the same time whatever they hold."""

    def weighed(self, rows: int) -> float:
        super().weighed(rows)
        return 0.1


def test_many_unknown_tables_do_not_make_batches_collapse(tmp_path: Path) -> None:
    """Promise 6: what a batch costs whatever its size is not answered by ever smaller batches."""
    tables = "".join(
        f"CREATE TABLE x{n} (run TEXT REFERENCES runs (id)); CREATE INDEX x{n}_run ON x{n} (run);"
        for n in range(80)
    )
    many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500) SELECT i FROM n"
    store = own_store(
        tmp_path,
        f"BEGIN; {RUNS} {tables} INSERT INTO runs SELECT i, 'done', {OLD}, NULL FROM ({many}); COMMIT;",
    )
    with store.retention() as retention:
        report = sweep_once(FixedCost(retention.store, seconds_a_row=0.0), DAY, pace=live_pace(0.02)).report
    assert (report.ended, report.units.removed) == ("completed", 500)
    assert report.batches < 60


@pytest.mark.parametrize("held", [0.025, 0.03, 0.039, 0.1])
def test_batches_that_are_a_little_too_slow_do_not_dwindle(held: float) -> None:
    """Promise 6: steps that are each too small to tell come to half in the end, and that tells."""
    sizer = Sizer(live_pace(0.02), most=10_000)
    for _ in range(200):
        sizer.learn(rows=sizer.rows, held=held, full=True)
    assert sizer.rows > 60


def test_batches_still_shrink_where_their_rows_are_what_takes_the_time() -> None:
    """Promise 6: a small step that brings a small gain is no sign that the time lies elsewhere."""
    sizer = Sizer(live_pace(0.02), most=10_000)
    for _ in range(200):
        sizer.learn(rows=sizer.rows, held=0.005 + sizer.rows * 1e-4, full=False)
    assert 0.005 + sizer.rows * 1e-4 <= 0.02


# What an engine does while a sweep is under way


def meddling(site: SqliteSite, *, at: int, statement: str, seconds: float = 0.0) -> SweepOptions:
    """Return options by which the engine runs a statement, and time passes, before batch number ``at``."""
    clock = FakeClock()
    site.retention._clock = clock  # type: ignore[assignment]
    asked = count(1)

    def gate() -> bool:
        if next(asked) == at:
            clock.seconds += seconds
            with closing(sqlite3.connect(site.path)) as connection, connection:
                connection.execute(statement)
        return True

    return SweepOptions(batch_units=1, gate=gate)


UNKNOWN = f"""
INSERT INTO workflow_status (workflow_uuid, status, created_at, updated_at)
VALUES ('new', 'HIBERNATED', {NOW_MS}, {NOW_MS})
"""


@pytest.mark.parametrize(("seconds", "removed"), [(60.0, 3), (59.0, 8)])
def test_a_status_that_appears_under_way_stops_the_sweep_at_the_next_census(
    sqlite_site: SqliteSite, seconds: float, removed: int
) -> None:
    """Promise 3: it may be a run that needs others; what went before stays on report and record."""
    fill(sqlite_site, [run(f"r{number}") for number in range(8)])
    options = meddling(sqlite_site, at=4, statement=UNKNOWN, seconds=seconds)
    report = sqlite_site.retention.prune(DAY, options=options)
    assert report.units.removed == removed == 9 - len(keys(sqlite_site))
    assert ("HIBERNATED" in report.message, report.ended) == (
        (True, "failed") if removed < 8 else (False, "completed")
    )
    (record,) = sqlite_site.retention._state.load(sqlite_site.store.identity).records
    assert (record.ended, record.removed) == (report.ended, removed)


def test_what_a_second_census_counts_is_not_subtracted_twice(sqlite_site: SqliteSite) -> None:
    """Promise 10: the guard takes its share of the runs that are there."""
    fill(sqlite_site, [run(f"r{number}") for number in range(8)])
    fill(sqlite_site, [live(f"live{number}") for number in range(5)])
    sqlite_site.retention.prune(DAY, options=meddling(sqlite_site, at=6, statement="SELECT 1", seconds=60.0))
    assert sqlite_site.retention._state.load(sqlite_site.store.identity).history("").runs == 5


def test_a_schema_version_that_changes_under_way_stops_the_sweep(sqlite_site: SqliteSite) -> None:
    """Promise 3: after an upgrade of the engine, the rest means what nobody has read, and stays."""
    fill(sqlite_site, [run(f"r{number}") for number in range(8)])
    options = meddling(sqlite_site, at=4, statement="UPDATE dbos_migrations SET version = 999")
    report = sqlite_site.retention.prune(DAY, options=options)
    assert (report.ended, report.units.removed, len(keys(sqlite_site))) == ("failed", 3, 5)
    assert report.message.startswith("schema-changed")
