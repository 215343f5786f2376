"""`afterrun inspect` on PostgreSQL: measured bytes, rows from statistics, and what shrinking would take."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from psycopg import sql

from afterrun import Retention
from afterrun.core.errors import Exit
from afterrun.stores.sql.postgres import tables as postgres_tables
from cli.kit import run_cli
from pg_server import SUPERUSER, Database
from postgres.pg_bloat import fill, may_read, snapshot, total
from sites import SCHEMA

LARGE = ("operation_outputs", "workflow_input", "workflow_status")
HOSTILE = 't"; DROP TABLE workflow_status; --\x1b[2J'


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the person's own state out of the tests."""
    monkeypatch.setenv("AFTERRUN_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.delenv("AFTERRUN_STORE", raising=False)


@pytest.fixture
def store(database: Database) -> Database:
    """Make a store of which most rows are dead."""
    fill(database)
    return database


def inspected(database: Database, *words: str, user: str = "app") -> dict[str, Any]:
    """Return what an inspection prints."""
    answer = run_cli("inspect", database.url(user), *words, "--json")
    assert answer.code == Exit.DONE
    return answer.json


def rows_of(found: dict[str, Any]) -> dict[str, int]:
    """Return the rows of the large tables."""
    return {table["name"]: table["rows"] for table in found["tables"] if table["name"] in LARGE}


def test_bytes_are_those_that_the_server_measures(store: Database) -> None:
    """Each table's bytes with its indexes are exact, and carry no mark of an estimate."""
    found = inspected(store)
    assert {table["name"]: table["bytes"] for table in found["tables"]} == {
        table["name"]: total(store, table["name"]) for table in found["tables"]
    }
    [indexes] = store.rows("SELECT pg_indexes_size(%s::regclass)", f"{SCHEMA}.workflow_status")
    assert {table["name"]: table["index_bytes"] for table in found["tables"]}["workflow_status"] == indexes[0]
    shown = [
        line for line in run_cli("inspect", store.url()).out.splitlines() if line.startswith("workflow_st")
    ]
    assert "~" not in shown[0]


def test_space_tells_dead_rows_and_the_last_vacuum(store: Database) -> None:
    """For each table that removals touch: dead rows, the last VACUUM, and what shrinking would take."""
    found = inspected(store)
    tables = {table["name"]: table for table in found["space"]["tables"]}
    assert {name: tables[name]["dead_rows"] for name in LARGE} == {
        "operation_outputs": 4_000,
        "workflow_input": 2_000,
        "workflow_status": 2_000,
    }
    assert all(tables[name]["last_vacuum"].endswith("Z") for name in LARGE)
    assert tables["workflow_status"]["last_autovacuum"] is None
    assert found["reclaim"] == {"method": "plain-vacuum", "worth": True, "room": []}
    told = run_cli("inspect", store.url()).out
    assert "nobody reads or writes the table meanwhile" in told
    assert "pg_repack would free the same" in told


def test_a_rewrite_needs_about_what_it_says(database: Database) -> None:
    """The room that was told is near what VACUUM FULL really leaves of each table."""
    fill(database, old=4_000, young=2_000)
    tables = {table["name"]: table for table in inspected(database)["space"]["tables"]}
    with database.connect() as owner:
        for name in LARGE:
            owner.execute(sql.SQL("VACUUM FULL {}").format(sql.Identifier(SCHEMA, name)))
    for name in LARGE:
        assert tables[name]["rewrite"]["room"] == pytest.approx(total(database, name), rel=0.2)
        assert tables[name]["rewrite"]["frees"] == tables[name]["bytes"] - tables[name]["rewrite"]["room"]


@pytest.mark.parametrize("known", ["deleted since", "lost", "never"])
def test_rows_are_near_the_truth_whatever_the_server_knows(database: Database, known: str) -> None:
    """With running counts, with those of the catalogue alone, and with neither."""
    fill(database, old=3_000, young=3_000, emptied=known == "deleted since")
    kept = 3_000 if known == "deleted since" else 6_000
    if known == "never":
        database.run(f"CREATE TABLE {SCHEMA}.fresh AS SELECT * FROM {SCHEMA}.operation_outputs")
    if known != "deleted since":
        database.rows("SELECT pg_stat_reset()::text", user=SUPERUSER)
    found = inspected(database)
    assert rows_of(found) == pytest.approx(
        {"operation_outputs": 2 * kept, "workflow_input": kept, "workflow_status": kept}, rel=0.05
    )
    if known == "never":
        [fresh] = [table for table in found["tables"] if table["name"] == "fresh"]
        assert fresh["rows"] == pytest.approx(12_000, rel=0.05)
        assert fresh["rows_estimated"] is True


def test_exact_counts_every_row(database: Database) -> None:
    """With --exact, rows are counted and not estimated, however wrong the statistics are."""
    fill(database, old=3_000, young=50, emptied=False)
    database.run(
        f"DELETE FROM {SCHEMA}.operation_outputs WHERE workflow_uuid LIKE 'old-%%' AND function_id = 1"
    )
    database.rows("SELECT pg_stat_reset()::text", user=SUPERUSER)
    found = inspected(database, "--exact")
    assert rows_of(found) == {"operation_outputs": 3_100, "workflow_input": 3_050, "workflow_status": 3_050}
    assert not any(table["rows_estimated"] for table in found["tables"])


def test_large_tables_are_looked_at_in_a_few_pages(store: Database) -> None:
    """Measuring reads no more pages of a table than the sample and the search for its end take."""
    store.run(
        f"INSERT INTO {SCHEMA}.operation_outputs (workflow_uuid, function_id, function_name, output)"
        f" SELECT 'young-1', i, 'step', repeat('x', 1000) FROM generate_series(10, 30000) AS i"
    )
    read = (
        "SELECT sum(heap_blks_read + heap_blks_hit)::int FROM pg_statio_user_tables"
        " WHERE relname = 'operation_outputs'"
    )
    [[pages]] = store.rows(f"SELECT pg_relation_size('{SCHEMA}.operation_outputs') / 8192")
    assert pages > 4_000
    with Retention(store.url(), writable=False) as retention:
        dialect = retention.store.dialect
        with store.connect() as other:
            other.execute("SELECT pg_stat_force_next_flush()")
        [[before]] = store.rows(read)
        dialect.table_sizes(exact=False)
        dialect.space(["operation_outputs"])
        dialect.space([])  # hands in the counts of this session
        [[after]] = store.rows(read)
    assert 0 < after - before < 4 * postgres_tables.SAMPLED


def test_missing_rights_are_a_sentence(store: Database, role: str) -> None:
    """A role that sees nobody's transactions names their owner all the same, and says what to grant."""
    may_read(store, role)
    with snapshot(store):
        found = inspected(store, user=role)
        told = run_cli("inspect", store.url(role))
    [holder] = found["space"]["held_back_by"]
    assert (holder["name"], holder["seconds"], holder["state"]) == ("app", None, "")
    assert any("GRANT pg_read_all_stats (or pg_monitor)" in note for note in found["space"]["notices"])
    assert told.code == Exit.DONE
    assert "GRANT pg_read_all_stats" in told.out


def test_with_the_right_to_monitor_it_says_since_when(store: Database, role: str) -> None:
    """pg_monitor is enough to tell how old the snapshot of another role is."""
    may_read(store, role)
    store.run(f'GRANT pg_monitor TO "{role}"', user=SUPERUSER)
    with snapshot(store):
        found = inspected(store, user=role)
    [holder] = found["space"]["held_back_by"]
    assert holder["seconds"] >= 0
    assert holder["state"] == "idle in transaction"
    assert not any("pg_read_all_stats" in note for note in found["space"]["notices"])


def test_a_table_that_may_not_be_read_is_measured_without_its_content(store: Database, role: str) -> None:
    """Bytes need no right; a table beside the store that is closed to us is no error, even with --exact."""
    may_read(store, role)
    store.run(f"CREATE TABLE {SCHEMA}.closed AS SELECT i FROM generate_series(1, 5000) AS i")
    for words in ((), ("--exact",)):
        found = inspected(store, *words, user=role)
        [closed] = [table for table in found["tables"] if table["name"] == "closed"]
        assert closed["bytes"] == total(store, "closed") > 100_000
        assert closed["rows_estimated"] is True


def test_hostile_names_are_only_names(store: Database) -> None:
    """A table and a column whose names are SQL are measured, and shown escaped."""
    with store.connect() as owner:
        name = sql.Identifier(SCHEMA, HOSTILE)
        owner.execute(sql.SQL("CREATE TABLE {} ({} text)").format(name, sql.Identifier('a"b%s{}')))
        owner.execute(
            sql.SQL("INSERT INTO {} SELECT repeat('x', 900) FROM generate_series(1, 3000)").format(name)
        )
    found = inspected(store)
    [table] = [table for table in found["tables"] if table["name"] == HOSTILE]
    assert table["content_bytes"] == pytest.approx(3_000 * 904, rel=0.05)
    assert "\x1b" not in run_cli("inspect", store.url()).out
    assert store.rows(f"SELECT count(*) FROM {SCHEMA}.workflow_status") == [(200,)]


def test_a_table_without_columns_or_rows_is_no_error(store: Database) -> None:
    """Whatever lies in the schema, an inspection goes through it."""
    store.run(f"CREATE TABLE {SCHEMA}.bare (); CREATE TABLE {SCHEMA}.parted (a int) PARTITION BY LIST (a)")
    sizes = {table["name"]: table["bytes"] for table in inspected(store, "--exact")["tables"]}
    assert sizes["bare"] == sizes["parted"] == 0
