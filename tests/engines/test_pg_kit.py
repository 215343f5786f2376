"""The kit on PostgreSQL: real engines make, recover and delete stores there as other tests rely on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from pg_dumps import column_types
from pg_server import Database, Server
from random_stores import SCHEMAS

from .clones import CloneOptions, Shape
from .pg_clones import run_tables
from .pg_stores import SCHEMA, age_pg_runs, clone_pg_store, make_pg_store
from .stores import ALL_ENGINES, ENGINES, clone_store, run_engine
from .test_kit import FAILED, LIVE, query

pytestmark = pytest.mark.engine

every_version = pytest.mark.parametrize("version", ALL_ENGINES)
both_lines = pytest.mark.parametrize("version", ENGINES)

OBJECTS = """
SELECT 'column', table_name || '.' || column_name, data_type || ' ' || is_nullable
    || coalesce(' ' || column_default, '')
    FROM information_schema.columns WHERE table_schema = 'dbos'
UNION ALL SELECT 'index', indexname, indexdef FROM pg_indexes WHERE schemaname = 'dbos'
UNION ALL SELECT 'constraint', conname, pg_get_constraintdef(oid) FROM pg_constraint
    WHERE connamespace = 'dbos'::regnamespace AND contype IN ('p', 'u', 'f', 'c')
UNION ALL SELECT 'trigger', tgname, pg_get_triggerdef(oid) || tgenabled::text FROM pg_trigger
    WHERE NOT tgisinternal
UNION ALL SELECT 'function', proname, pg_get_functiondef(oid) FROM pg_proc
    WHERE pronamespace = 'dbos'::regnamespace
UNION ALL SELECT 'version', 'dbos', version::text FROM dbos.dbos_migrations
ORDER BY 1, 2, 3
"""
"""Everything that a store's schema is made of, in the server's own words."""


def counts(database: Database) -> dict[str, int]:
    """Count the rows of every table that has a run's id."""
    with database.connect() as connection:
        tables = run_tables(connection, SCHEMA)
    return {table: database.rows(f'SELECT count(*) FROM {SCHEMA}."{table}"')[0][0] for table in tables}


def statuses(database: Database, schema: str = SCHEMA) -> Mapping[str, str]:
    """Return the status of every run."""
    return dict(database.rows(f'SELECT workflow_uuid, status FROM "{schema}".workflow_status'))


@pytest.mark.parametrize(
    ("version", "schema"), [*((version, SCHEMA) for version in ALL_ENGINES), (ENGINES[0], "My Engine")]
)
def test_a_store_on_postgresql_holds_every_situation(version: str, database: Database, schema: str) -> None:
    """Every named run is there with the status its situation asks for, in the schema that was asked for."""
    made = make_pg_store(version, database, schema=schema)
    ids = [run_id for situation in made["ids"].values() for run_id in situation]
    assert statuses(database, schema) == dict.fromkeys(ids, "SUCCESS") | FAILED | LIVE == made["statuses"]
    assert made["dbos"] == version
    url = database.url(schema=schema)
    assert run_engine(version, "status", url, "crashed")["statuses"] == {"crashed": "PENDING"}


@every_version
def test_the_recorded_schema_is_the_engines_own(version: str, database: Database, postgres: Server) -> None:
    """What `sites` makes empty stores of has each column, index, key, trigger and function of the engine."""
    make_pg_store(version, database)
    number = database.rows("SELECT version FROM dbos.dbos_migrations")[0][0]
    recorded = postgres.create_database()
    recorded.run((SCHEMAS / f"dbos-{number}.postgresql.sql").read_text(encoding="utf-8"))
    assert recorded.rows(OBJECTS) == database.rows(OBJECTS)
    postgres.drop_database(recorded.name)


@both_lines
def test_recover_finishes_what_waits_on_postgresql(version: str, database: Database) -> None:
    """On an untouched store every parked run ends, the parent with its child's result."""
    make_pg_store(version, database)
    answer = run_engine(version, "recover", database.url())
    assert set(answer["statuses"]) == set(LIVE) - {"delayed-1"}
    assert set(answer["statuses"].values()) == {"SUCCESS"}
    assert answer["results"]["waiting-parent"] == "a message: worked on [worked on []]"
    assert (answer["stuck"], answer["new"], answer["queue"]["delayed-1"]) == ([], "SUCCESS", "DELAYED")


@both_lines
def test_a_remade_store_forgets_what_was_done_to_it(version: str, database: Database, tmp_path: Path) -> None:
    """The engine deletes and runs anew by id; a store made again is as it was at first."""
    made = make_pg_store(version, database)
    ids = tmp_path / "ids"
    ids.write_text("simple-1\n", encoding="utf-8")
    assert run_engine(version, "rerun", database.url(), "simple-1")["executed"] is False
    assert run_engine(version, "delete", database.url(), ids)["deleted"] == 1
    assert run_engine(version, "rerun", database.url(), "simple-1")["executed"] is True
    assert make_pg_store(version, database) == made
    assert statuses(database) == made["statuses"]


@every_version
def test_ageing_on_postgresql_moves_finished_runs_only(version: str, database: Database) -> None:
    """All times of finished runs move, those of live ones and of exceptions stay; ids alone move ids."""
    made = make_pg_store(version, database)
    times = f"SELECT workflow_uuid, created_at, completed_at FROM {SCHEMA}.workflow_status"
    before = {row[0]: row[1:] for row in database.rows(times)}
    moved = age_pg_runs(database, 40.0, but=["simple-1"])
    after = {row[0]: row[1:] for row in database.rows(times)}
    changed = {run_id for run_id in before if before[run_id] != after[run_id]}
    assert changed == set(made["statuses"]) - set(LIVE) - {"simple-1"}
    assert moved == len(changed)
    assert before["simple-2"][1] - after["simple-2"][1] == 40 * 86_400_000
    assert age_pg_runs(database, 1.0, ["simple-1", "no-such-run"]) == 1
    steps = f"SELECT count(*) FROM {SCHEMA}.operation_outputs WHERE completed_at_epoch_ms < %s"
    assert database.rows(f"{steps} AND workflow_uuid = 'simple-2'", before["simple-2"][0]) == [(5,)]


@every_version
@pytest.mark.parametrize("shape", ["flat", "tree"])
def test_a_clone_on_postgresql_is_that_on_sqlite(
    version: str, database: Database, tmp_path: Path, shape: Shape
) -> None:
    """Ids, parents and times are the same for the same options; so is the number of rows of each table."""
    options: CloneOptions = {"shape": shape, "expired": 0.5, "now_ms": 1_800_000_000_000, "seed": 7}
    there = clone_pg_store(database, runs=1_000, version=version, **options)
    path = tmp_path / "store.sqlite"
    here = clone_store(None, path, runs=1_000, version=version, **options)
    assert there.rows == here.rows == counts(database)
    numbers = ("runs", "units", "expired_runs", "expired_units")
    assert [getattr(there, name) for name in numbers] == [getattr(here, name) for name in numbers]
    runs = "SELECT workflow_uuid, parent_workflow_id, status, completed_at FROM {} ORDER BY workflow_uuid"
    expected = query(path, runs.format("workflow_status"))
    assert sorted(database.rows(runs.format(f"{SCHEMA}.workflow_status"))) == sorted(expected)
    links = "SELECT workflow_uuid, function_id, child_workflow_id FROM {} WHERE child_workflow_id IS NOT NULL"
    expected = query(path, links.format("operation_outputs"))
    assert sorted(database.rows(links.format(f"{SCHEMA}.operation_outputs"))) == sorted(expected)


@both_lines
def test_a_clone_has_the_engines_own_schema_and_goes_by_its_own_delete(
    version: str, database: Database, tmp_path: Path
) -> None:
    """Indexes, keys and triggers are back as they were; the engine takes the clone for its own store."""
    make_pg_store(version, database)
    before = database.rows(OBJECTS)
    clone = clone_pg_store(database, runs=1_500, version=version, shape="tree")
    assert database.rows(OBJECTS) == before
    ids = tmp_path / "ids"
    found = database.rows(f"SELECT workflow_uuid FROM {SCHEMA}.workflow_status")
    ids.write_text("\n".join(run_id for (run_id,) in found), encoding="utf-8")
    again = run_engine(version, "rerun", database.url(), found[0][0])
    assert (again["executed"], again["result"]) == (False, "worked on simple-1")
    assert run_engine(version, "delete", database.url(), ids)["deleted"] == clone.runs
    assert set(counts(database).values()) == {0}


@both_lines
def test_a_clone_of_a_run_with_a_message_on_postgresql(version: str, database: Database) -> None:
    """Messages are cloned too, each under an id of its own; statistics are gathered or not, as asked."""
    clone = clone_pg_store(database, runs=50, version=version, run_id="receiver-1", analyze=False)
    assert clone.rows["notifications"] == 50
    ids = f"SELECT count(DISTINCT destination_uuid), count(DISTINCT message_uuid) FROM {SCHEMA}.notifications"
    assert database.rows(ids) == [(50, 50)]
    with database.connect() as connection:
        assert set(column_types(connection, SCHEMA)) >= set(clone.rows)
