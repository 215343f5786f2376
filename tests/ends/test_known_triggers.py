"""Triggers that a profile knows do their work within a batch: their functions find the tables of a store."""

from __future__ import annotations

from pathlib import Path

import pytest

from afterrun.stores.sql.postgres.dialect import Postgres
from afterrun.stores.sql.store import SqlStore
from ends.jobs import Job, fill, left, make, note_shape, open_jobs, prune
from generations.loops import PostgresLoops
from pg_server import Database

TRIGGER = """
ALTER TABLE ticks DROP CONSTRAINT ticks_job_fkey;
ALTER TABLE ticks ADD FOREIGN KEY (job) REFERENCES jobs (id);
CREATE FUNCTION unlink() RETURNS trigger LANGUAGE plpgsql AS
    'BEGIN UPDATE ticks SET job = NULL WHERE job = OLD.id; RETURN OLD; END';
CREATE TRIGGER unlink_ticks BEFORE DELETE ON jobs FOR EACH ROW EXECUTE FUNCTION unlink();
"""


@pytest.fixture
def store(database: Database, tmp_path: Path) -> PostgresLoops:
    """Give a store whose trigger names its tables as its own sessions do, which the profile knows."""
    made = PostgresLoops(tmp_path, database)
    make(made)
    made.run(TRIGGER)
    path = tmp_path / "jobs.toml"
    known = '[detect]\ntriggers = ["unlink_ticks"]'
    path.write_text(path.read_text(encoding="utf-8").replace("[detect]", known), encoding="utf-8")
    note_shape(made)
    return made


def test_a_known_trigger_finds_its_tables(store: PostgresLoops) -> None:
    """Its function names them without a schema: the engine's own sessions have it in their search path."""
    fill(store, [Job(1), Job(2, events=[1])])
    store.run("INSERT INTO ticks VALUES ('nightly', 1), ('hourly', 2)")
    assert prune(store).units.removed == 1
    assert left(store) == {2}
    assert sorted(store.rows("SELECT task, job FROM ticks")) == [("hourly", 2), ("nightly", None)]


def test_the_search_path_is_that_of_a_batch_alone(store: PostgresLoops) -> None:
    """Whatever reads outside a batch finds the server's own names only."""
    fill(store, [Job(1)])
    with open_jobs(store) as retention:
        opened = retention.store
        assert isinstance(opened, SqlStore)
        assert isinstance(opened.dialect, Postgres)
        driver = opened.dialect.driver
        outside = driver.execute("SHOW search_path").fetchall()
        with opened.transaction(seconds=5):
            inside = driver.execute("SHOW search_path").fetchall()
        after = driver.execute("SHOW search_path").fetchall()
    assert outside == after == [("pg_catalog, pg_temp",)]
    assert inside == [("pg_catalog, public, pg_temp",)]
