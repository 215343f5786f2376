"""`afterrun verify` on PostgreSQL: what the server knows of broken indexes, keys and unfinished work."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from afterrun.core.errors import Exit
from afterrun.stores.sql.postgres import checks as postgres_checks
from cli.kit import run_cli
from pg_server import SUPERUSER, Database
from postgres.pg_bloat import fill, may_read
from sites import SCHEMA

ORDER = """
CREATE FUNCTION public.ordered(a text, b text) RETURNS int LANGUAGE sql IMMUTABLE
    AS 'SELECT {sign}bttextcmp(a, b)'
"""
CLASS = """
CREATE OPERATOR CLASS public.own FOR TYPE text USING btree AS OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =,
    OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 public.ordered(text, text)
"""


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the person's own state out of the tests."""
    monkeypatch.setenv("AFTERRUN_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.delenv("AFTERRUN_STORE", raising=False)


@pytest.fixture
def store(database: Database) -> Database:
    """Make a small store without a fault."""
    fill(database, old=20, young=20, emptied=False)
    return database


def faults(database: Database, user: str = "app") -> list[str]:
    """Return the faults that are told; the exit code is 1 if there are any."""
    answer = run_cli("verify", database.url(user), "--json")
    problems = answer.json["problems"]
    assert isinstance(problems, list)
    assert answer.code == (Exit.ERROR if problems else Exit.DONE)
    assert answer.json["ok"] is not bool(problems)
    return problems


def test_a_sound_store_has_no_faults(store: Database) -> None:
    """Nothing is told of a store as the engine made it."""
    assert faults(store) == []


def test_what_an_interrupted_index_build_left_is_told(store: Database) -> None:
    """An index that could not be built concurrently stays, costs writes and serves nobody."""
    with store.connect() as owner, pytest.raises(psycopg.errors.UniqueViolation):
        owner.execute(f"CREATE UNIQUE INDEX CONCURRENTLY half ON {SCHEMA}.workflow_status (name)")
    [fault] = faults(store)
    assert fault.startswith("indexes: half of workflow_status is not valid")
    assert "DROP INDEX" in fault


def test_keys_that_were_never_checked_or_are_turned_off_are_told(store: Database) -> None:
    """A foreign key that is NOT VALID, and one whose triggers are off, keep nothing."""
    key = f"FOREIGN KEY (workflow_uuid) REFERENCES {SCHEMA}.workflow_status"
    store.run(f"ALTER TABLE {SCHEMA}.workflow_input ADD CONSTRAINT unchecked {key} NOT VALID")
    store.run(f"ALTER TABLE {SCHEMA}.streams DISABLE TRIGGER ALL", user=SUPERUSER)
    found = faults(store)
    assert [fault.partition(",")[0] for fault in found] == [
        "foreign keys: unchecked of workflow_input is NOT VALID",
        "foreign keys: 1 of streams are not enforced",
    ]


@pytest.fixture
def prepared(store: Database) -> Iterator[Database]:
    """Leave a prepared transaction that touched a table of the store, and one that did not."""
    for name, statement in (
        ("ours", f"UPDATE {SCHEMA}.workflow_status SET name = 'other' WHERE workflow_uuid = 'old-1'"),
        ("foreign", "CREATE TABLE public.fresh (id int)"),
    ):
        with store.connect(autocommit=False) as client:
            client.execute(statement.encode())
            client.execute(f"PREPARE TRANSACTION '{name}'".encode())
    yield store
    for name in ("ours", "foreign"):
        store.run(f"ROLLBACK PREPARED '{name}'")


def test_a_transaction_that_nobody_finished_is_told(
    prepared: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is counted once it is old, only if it holds locks on the store, and without its name."""
    assert faults(prepared) == []
    monkeypatch.setattr(postgres_checks, "PREPARED_SECONDS", 0)
    [fault] = faults(prepared)
    assert fault.startswith("interrupted work: 1 prepared transactions hold locks on tables of this store")
    assert "ours" not in fault


def test_a_damaged_index_is_told_where_amcheck_is_there(store: Database, role: str) -> None:
    """An index whose order is broken is found by the extension, if this role may use it."""
    may_read(store, role)
    store.run(ORDER.format(sign="") + ";" + CLASS, user=SUPERUSER)
    store.run(
        "CREATE EXTENSION amcheck SCHEMA public;"
        f"CREATE INDEX broken ON {SCHEMA}.workflow_status (workflow_uuid public.own)",
        user=SUPERUSER,
    )
    assert faults(store, SUPERUSER) == []
    store.run(ORDER.format(sign="-").replace("CREATE", "CREATE OR REPLACE"), user=SUPERUSER)
    assert faults(store, role) == []
    [fault] = faults(store, SUPERUSER)
    assert fault.startswith("integrity: the index broken of workflow_status is damaged")


def test_a_role_that_may_only_read_can_verify(store: Database, role: str) -> None:
    """No check needs more than the right to read."""
    may_read(store, role)
    store.run(f"INSERT INTO {SCHEMA}.operation_outputs (workflow_uuid, function_id) VALUES ('gone', 1)")
    assert faults(store, role) == ["orphans: 1 rows of operation_outputs belong to no run"]
