"""What the databases do for each statement on a big Prefect store: nothing of a sweep may read it all.

Nearly every column that leads from a row to another is NULL in nearly all rows, which misleads planners that
have counted them.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest
import sqlalchemy as sa

from afterrun.stores import open_store
from afterrun.stores.sql.store import SqlStore
from pg_server import Server
from postgres.pg_plan_kit import plan_of, reads_whole
from sql_kit import statements

from .prefect_clones import grow
from .prefect_fixtures import prefect_postgres
from .prefect_stores import PostgresStore, SqliteStore

__all__ = ["prefect_postgres"]

pytestmark = [pytest.mark.engine, pytest.mark.timeout(300)]

RUNS = 20_000
PG_RUNS = 60_000
"""Below that, a planner may read all rather than look up a page of a thousand, and be right."""
SMALL = re.compile(r"SCAN (raw|rows|\(|json_each|given|CONSTANT|anon_\d+ VIRTUAL|lookup-(flow|deployment) )")
"""What a statement itself has brought along, and the few flows and deployments."""
TINY = ("SCAN log", "SCAN flow_run_input", "SCAN artifact_collection")
"""Tables of a few rows here, of which who has counted them reads all."""


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> SqliteStore:
    """Give a big store in a file."""
    store = SqliteStore(tmp_path_factory.mktemp("plans") / "prefect.db")
    store.fill()
    grow(store, RUNS, analyze=False)
    return store


def all_statements(store: SqlStore) -> Iterator[tuple[str, sa.ClauseElement]]:
    """Yield every statement of pages and batches, those of artifact collections included."""
    yield from statements(store)
    assert store.blobs is not None
    yield from store.blobs.statements()


@pytest.mark.parametrize(
    "statistics", ["", "ANALYZE", "PRAGMA analysis_limit = 1000; ANALYZE"], ids=["none", "all", "some"]
)
def test_no_statement_of_a_sweep_reads_a_whole_table(big: SqliteStore, statistics: str) -> None:
    """Whatever the statistics say, also of columns that are mostly NULL."""
    with closing(sqlite3.connect(big.path)) as connection:
        connection.executescript("ANALYZE sqlite_schema; DELETE FROM sqlite_stat1;")
        connection.executescript(statistics)
    opened = open_store(str(big.path))
    found = {}
    for name, statement in all_statements(opened):
        steps = opened.dialect.explain(statement, {})
        bad = [step for step in steps if step.startswith("SCAN ") and not SMALL.match(step)]
        bad = [step for step in bad if not (statistics and step in TINY)]
        bad += [step for step in steps if "BLOOM FILTER" in step or "AUTOMATIC" in step]
        found.update({name: bad} if bad else {})
    opened.close()
    assert found == {}


FORGOTTEN = """
DELETE FROM pg_statistic USING pg_class AS c
    WHERE starelid = c.oid AND c.relnamespace = 'public'::regnamespace;
UPDATE pg_class SET reltuples = CASE relkind WHEN 'r' THEN -1 ELSE 0 END, relpages = (relkind <> 'r')::int,
    relallvisible = 0 WHERE relkind IN ('r', 'i') AND relnamespace = 'public'::regnamespace
"""
"""Makes a store look as if nobody had ever counted it."""


@pytest.fixture(scope="module")
def pg_big(prefect_postgres: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresStore]:
    """Give a big store on a server."""
    store = PostgresStore(prefect_postgres.create_database(), tmp_path_factory.mktemp("plans"))
    store.fill()
    grow(store, PG_RUNS)
    yield store
    prefect_postgres.drop_database(store.database.name)


@pytest.mark.parametrize("count", [1, 100, 1_000])
@pytest.mark.parametrize("statistics", ["ANALYZE", FORGOTTEN], ids=["all", "none"])
def test_no_statement_on_a_server_reads_a_whole_table(
    pg_big: PostgresStore, statistics: str, count: int
) -> None:
    """Whatever the statistics say, for few runs and for many."""
    pg_big.database.run(statistics, user="postgres")
    runs = "FROM flow_run WHERE end_time IS NOT NULL ORDER BY end_time"
    keys = [str(row[0]) for row in pg_big.rows(f"SELECT id {runs} LIMIT {count}")]
    [[ended, tie]] = pg_big.rows(f"SELECT end_time, id::text {runs} OFFSET {PG_RUNS // 2} LIMIT 1")
    opened = open_store(pg_big.location)
    given = {"keys": opened.dialect.bind_keys(keys), "now": opened.now(), "ended": ended, "tie": tie}
    given |= dict.fromkeys(("bound", "bound0"), ended)
    large = {"flow_run", "flow_run_state", "task_run", "task_run_state", "artifact"}
    found = {}
    for name, statement in all_statements(opened):
        if name.startswith("remaining by"):  # which is about all that is left
            continue
        keyed = (
            {**given, "keys": opened.dialect.bind_keys(["a-report"])} if "artifact_coll" in name else given
        )
        bad = reads_whole(plan_of(opened, statement, keyed), large)
        found.update({name: bad} if bad else {})
    opened.close()
    assert found == {}
