from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa
from alembic.config import Config
from alembic.script import ScriptDirectory

from afterrun.profiles import load_built_in
from afterrun.runs import RunStore
from afterrun.runs.schema import obligations
from afterrun.runs.side_tables import metadata
from afterrun.runs.upgrade import MIGRATIONS, NEWEST, REVISIONS, VERSION_TABLE
from runs.runs_kit import Home


def _described(inspector: sa.Inspector, schema: str | None) -> dict[str, Any]:
    """Return all names and types of a database, in a comparable form."""
    described: dict[str, Any] = {}
    for name in inspector.get_table_names(schema=schema):
        if name == VERSION_TABLE:
            continue
        columns = inspector.get_columns(name, schema=schema)
        keys = inspector.get_foreign_keys(name, schema=schema)
        described[name] = {
            "columns": {column["name"]: (str(column["type"]), column["nullable"]) for column in columns},
            "key": inspector.get_pk_constraint(name, schema=schema)["constrained_columns"],
            "foreign": sorted(
                (key["constrained_columns"], key["referred_table"], key["options"]) for key in keys
            ),
            "indexes": sorted(
                (index["name"], index["column_names"], bool(index["unique"]))
                for index in inspector.get_indexes(name, schema=schema)
            ),
            "checks": sorted(
                (check["name"], check["sqltext"])
                for check in inspector.get_check_constraints(name, schema=schema)
            ),
        }
    return described


def test_migrations_end_where_the_schema_does(empty_home: Home) -> None:
    """A store that went through every revision equals one that is made from the tables at once."""
    RunStore.open(empty_home.location).close()
    with empty_home.database() as database:
        schema = database.dialect.schema
        with database._engine.connect() as connection:
            migrated = _described(sa.inspect(connection), schema)
            connection.commit()
            metadata.drop_all(connection)
            metadata.create_all(connection)
            connection.commit()
            made = _described(sa.inspect(connection), schema)
    assert migrated == made
    assert len(migrated) == len(metadata.tables)


def test_the_known_revisions_are_those_of_the_files() -> None:
    """The list by which a store is told to be old or too new has all revisions, in their order."""
    config = Config()
    config.set_main_option("script_location", MIGRATIONS)
    found = [script.revision for script in ScriptDirectory.from_config(config).walk_revisions()]
    assert tuple(reversed(found)) == REVISIONS


def test_every_foreign_key_has_an_index(home: Home) -> None:
    """No removal makes the database read a table for a row that refers to what goes."""
    with home.retention() as retention:
        assert list(retention.store.binding.unindexed_references()) == []
        assert list(retention.store.binding.unknown_references()) == []


def test_no_foreign_key_cascades(home: Home) -> None:
    """The order of removal is the profile's, and what it forgets fails instead of going unseen."""
    with home.database() as database, database._engine.connect() as connection:
        inspector = sa.inspect(connection)
        for name in metadata.tables:
            for key in inspector.get_foreign_keys(name, schema=database.dialect.schema):
                assert key["options"].get("ondelete") is None


def test_a_kind_of_work_that_nobody_knows_is_refused_by_the_database(home: Home, store: RunStore) -> None:
    """Even from behind, no obligation has a kind for which retention has no reason."""
    run = store.create("agent").run.id
    values = {"run_id": run, "root_id": run, "generation": 0, "kind": "whim", "subject": "", "opened_at": 1}
    refused = pytest.raises(sa.exc.IntegrityError, match="ck_obligations_kind")
    with home.database() as database, database._engine.connect() as connection, refused:
        connection.execute(sa.insert(obligations), values)


def test_the_schema_is_the_one_that_the_profile_was_read_from(home: Home) -> None:
    """Retention knows this very shape, on both databases: no column of it is news."""
    with home.retention() as retention:
        assert retention.store.digest == load_built_in("native").detect.read[NEWEST]
