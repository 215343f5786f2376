"""Settings of roles and databases, and tables of others, that could change what is read or removed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import psycopg
import pytest
from psycopg import sql

from afterrun import Refused, Retention
from crash.aged import MONTH
from memory import RUNS, STEPS
from pg_dumps import insert_rows
from pg_server import SUPERUSER, Database
from postgres.statement_tap import driver_of, tapped
from sites import DAY_MS, SCHEMA, empty_store, live, run, step

ODD: Final = {
    "search_path": "elsewhere, dbos",
    "statement_timeout": "3s",
    "lock_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "idle_session_timeout": "1h",
    "transaction_timeout": "1h",
    "default_transaction_isolation": "serializable",
    "datestyle": "Postgres, MDY",
    "timezone": "America/St_Johns",
    "intervalstyle": "sql_standard",
    "extra_float_digits": "-15",
    "bytea_output": "escape",
    "standard_conforming_strings": "off",
    "quote_all_identifiers": "on",
    "transform_null_equals": "on",
    "array_nulls": "off",
    "plan_cache_mode": "force_generic_plan",
    "enable_indexscan": "off",
    "jit": "on",
    "jit_above_cost": "0",
    "client_encoding": "LATIN1",
    "client_min_messages": "debug5",
}
"""Whatever somebody may set for a role; those that a server does not know are left out."""

OURS: Final = {
    "search_path": "pg_catalog, pg_temp",
    "row_security": "off",
    "statement_timeout": "0",
    "lock_timeout": "1500ms",
    "idle_in_transaction_session_timeout": "2s",
    "idle_session_timeout": "0",
    "transaction_timeout": "0",
    "DateStyle": "ISO, MDY",
    "TimeZone": "UTC",
    "IntervalStyle": "postgres",
    "extra_float_digits": "1",
    "bytea_output": "hex",
    "standard_conforming_strings": "on",
    "default_transaction_isolation": "read committed",
    "jit": "off",
}

HIJACKED: Final = """
CREATE SCHEMA elsewhere;
CREATE TABLE elsewhere.workflow_status (LIKE dbos.workflow_status);
CREATE FUNCTION elsewhere.coalesce_all(text) RETURNS text LANGUAGE sql AS 'SELECT NULL::text';
CREATE FUNCTION elsewhere.count() RETURNS int LANGUAGE sql AS 'SELECT 1';
CREATE FUNCTION elsewhere.unnest(text[]) RETURNS SETOF text LANGUAGE sql AS 'SELECT ''x''';
CREATE FUNCTION elsewhere.same(text, text) RETURNS boolean LANGUAGE sql AS 'SELECT true';
CREATE OPERATOR elsewhere.= (LEFTARG = text, RIGHTARG = text, FUNCTION = elsewhere.same);
"""
"""Names that stand for something else where they are looked up first."""


@pytest.fixture
def store(database: Database) -> Database:
    """Give a store with two expired trees, one of which a live run holds."""
    database.refill(empty_store(database.server, 125))
    (now,) = database.rows("SELECT (extract(epoch FROM now()) * 1000)::bigint")[0]
    old = {"completed_at": now - 100 * DAY_MS}
    runs = [run("x", **old), run("y", "x", **old), run("held", **old), live("waiter")]
    rows = [(RUNS, row) for row in runs] + [(STEPS, step("y")), (STEPS, step("waiter", 7, "held"))]
    with database.connect(SUPERUSER) as connection:
        insert_rows(connection, SCHEMA, rows)
    return database


def ids(database: Database, table: str = RUNS) -> set[object]:
    """Return the ids of runs in a table."""
    return {key for (key,) in database.rows(f"SELECT workflow_uuid FROM {SCHEMA}.{table}", user=SUPERUSER)}


def let(database: Database, role: str, settings: Mapping[str, str]) -> None:
    """Give a role settings, as far as the server knows them."""
    with database.connect(SUPERUSER) as connection:
        known = {name.lower() for (name,) in connection.execute("SELECT name FROM pg_settings").fetchall()}
        for name, value in settings.items():
            if name in known:
                words = sql.SQL(", ").join(map(sql.Literal, value.split(", ")))
                connection.execute(
                    sql.SQL("ALTER ROLE {} SET {} = {}").format(
                        sql.Identifier(role), sql.Identifier(name), words
                    )
                )


def test_settings_of_a_role_change_nothing_of_what_is_read(
    store: Database, role: str, tmp_path: Path
) -> None:
    """Whatever somebody has set: the session has settings of its own, and all names mean the store's."""
    store.run(
        f'GRANT USAGE ON SCHEMA {SCHEMA} TO "{role}"; GRANT ALL ON ALL TABLES IN SCHEMA {SCHEMA} TO "{role}"'
    )
    store.run(HIJACKED + f'; GRANT USAGE ON SCHEMA elsewhere TO "{role}"')
    let(store, role, ODD)
    with Retention(store.url(role), state=tmp_path / "state") as retention:
        driver = driver_of(retention.store)
        shown = dict(driver.execute("SELECT name, current_setting(name) FROM pg_settings").fetchall())
        assert {name: shown[name] for name in OURS if name in shown} == {
            name: value for name, value in OURS.items() if name in shown
        }
        assert retention.explain("held", MONTH).verdict.value == "protected"
        report = retention.prune(MONTH)
        assert (report.ended, report.units.removed) == ("completed", 1)
        assert list(retention.verify()) == []
        assert retention.inspect()
    assert ids(store) == {"held", "waiter"}
    assert ids(store, STEPS) == {"waiter"}


def test_a_session_that_only_looks_cannot_write(store: Database, tmp_path: Path) -> None:
    """Not even by mistake: the server refuses."""
    with Retention(store.url(), state=tmp_path / "state", writable=False) as retention:
        assert retention.plan(MONTH).units.expired == 1
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            driver_of(retention.store).execute(f"DELETE FROM {SCHEMA}.{RUNS}".encode())
    assert len(ids(store)) == 4


def test_where_foreign_keys_are_turned_off_nothing_is_removed(store: Database, tmp_path: Path) -> None:
    """A session that fires no triggers checks no foreign keys: what refers to a run would lose it."""
    let(store, "app", {"session_replication_role": "replica"})
    try:
        with Retention(store.url(), state=tmp_path / "state") as retention:
            assert retention.plan(MONTH).units.expired == 1
            with pytest.raises(Refused, match="session_replication_role"):
                retention.prune(MONTH)
    finally:
        store.run("ALTER ROLE app RESET session_replication_role", user=SUPERUSER)
    assert len(ids(store)) == 4


@pytest.mark.parametrize("moment", ["before the lock", "before the commit"])
def test_a_row_of_an_unknown_table_without_a_foreign_key_keeps_its_run(
    store: Database, tmp_path: Path, moment: str
) -> None:
    """A column by which the engine refers to runs is enough, up to our last look."""
    store.run(f"CREATE TABLE {SCHEMA}.notes (workflow_uuid text, note text)")
    pattern = "SKIP LOCKED" if moment == "before the lock" else f'^DELETE FROM "{SCHEMA}"."{RUNS}"'
    with Retention(store.url(), state=tmp_path / "state") as retention, tapped(retention.store) as tap:
        tap.once("before", pattern, lambda: store.run(f"INSERT INTO {SCHEMA}.notes VALUES ('y', 'n')"))
        report = retention.prune(MONTH)
        assert tap.all_done
        assert (report.units.removed, report.units.deferred + report.units.skipped.total()) == (0, 1)
        assert retention.explain("y", MONTH).verdict.value == "blocked"
    assert ids(store) == {"x", "y", "held", "waiter"}


def test_a_foreign_key_that_is_checked_at_commit_makes_no_orphan(store: Database, tmp_path: Path) -> None:
    """Its transaction asks for the run only when it ends: then it waits for us, and fails."""
    store.run(
        f"CREATE TABLE {SCHEMA}.bills (run text REFERENCES {SCHEMA}.{RUNS} DEFERRABLE INITIALLY DEFERRED)"
    )
    with store.connect(autocommit=False) as engine:
        engine.execute(f"INSERT INTO {SCHEMA}.bills VALUES ('y')".encode())
        with Retention(store.url(), state=tmp_path / "state") as retention:
            assert retention.prune(MONTH).units.removed == 1
        with pytest.raises(psycopg.errors.ForeignKeyViolation):
            engine.commit()
    assert ids(store) == {"held", "waiter"}


def test_an_unknown_foreign_key_that_comes_in_time_keeps_its_run(store: Database, tmp_path: Path) -> None:
    """Inserted and committed while we remove, through a key that the profile does not know."""
    store.run(f"CREATE TABLE {SCHEMA}.bills (run text REFERENCES {SCHEMA}.{RUNS} ON DELETE SET NULL)")
    with Retention(store.url(), state=tmp_path / "state") as retention, tapped(retention.store) as tap:
        tap.once("before", "SKIP LOCKED", lambda: store.run(f"INSERT INTO {SCHEMA}.bills VALUES ('y')"))
        report = retention.prune(MONTH)
    assert report.units.skipped == {"recheck: unknown-reference:bills": 1}
    assert store.rows(f"SELECT run FROM {SCHEMA}.bills") == [("y",)]
