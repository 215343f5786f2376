"""Which engine's store this is, and whether its schema was read: told from names alone."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from afterrun.core.errors import ProfileError
from afterrun.core.store import Schema
from afterrun.profiles import Profile, TableShape, detect, load_built_in, load_profile, shape_digest
from afterrun.stores import open_store
from engines.stores import ALL_ENGINES, template
from random_stores import VERSIONS, create_store

DBOS = load_built_in("dbos")


def profile(name: str, *tables: str) -> Profile:
    """Make a profile that is told by these tables."""
    listed = ", ".join(f'"{table}"' for table in tables)
    return load_profile(
        f"""
        name = "{name}"
        engine = "{name}"
        detect = {{ tables = [{listed}], version = {{ table = "v", column = "n" }} }}
        [units.tree]
        table = "runs"
        key = "id"
        status = "status"
        terminal = ["done"]
        end = [{{ column = "ended", format = "epoch_ms" }}]
        """,
        source=name,
    )


ONE = profile("one", "runs", "steps")
TWO = profile("two", "runs", "tasks")


def test_the_profile_whose_tables_all_exist_is_taken() -> None:
    """Other tables of the same database do not disturb."""
    assert detect(["tasks", "runs", "users"], [ONE, TWO]) is TWO


def test_a_store_that_no_profile_fits_is_told() -> None:
    """A part of a profile's tables is not enough."""
    with pytest.raises(ProfileError, match="no profile fits this store"):
        detect(["runs"], [ONE, TWO])


def test_a_store_that_several_profiles_fit_is_not_guessed() -> None:
    """Two engines in one database are for the user to tell apart."""
    with pytest.raises(ProfileError, match="several profiles fit this store: one, two; say which"):
        detect(["runs", "steps", "tasks"], [ONE, TWO])


def test_no_profiles_fit_nothing() -> None:
    """An empty list is no match."""
    with pytest.raises(ProfileError, match="no profile"):
        detect(["runs"], [])


# The shape's digest

SHAPES = {
    "runs": TableShape(("id", "status"), ("id",)),
    "steps": TableShape(("id", "run"), ("id",), ((("run",), "runs", ("id",), "CASCADE"),)),
    "users": TableShape(("id", "name"), ("id",)),
}


def test_the_digest_ignores_the_order_of_names_and_tables_of_others() -> None:
    """Columns in another order, and tables that cannot refer to a run, make no other shape."""
    other = {
        "users": TableShape(("id", "email")),
        "steps": TableShape(("run", "id"), ("id",), SHAPES["steps"].foreign_keys),
        "runs": TableShape(("status", "id"), ("id",)),
    }
    assert shape_digest(ONE, other) == shape_digest(ONE, SHAPES)


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("runs", TableShape(("id", "status", "more"), ("id",))),
        ("runs", TableShape(("id",), ("id",))),
        ("runs", TableShape(("id", "status"), ("status",))),
        ("runs", TableShape(("id", "status"), ("id",), triggers=("t",))),
        ("steps", TableShape(("id", "run"), ("id",))),
        ("steps", TableShape(("id", "run"), ("id",), ((("run",), "runs", ("id",), "SET NULL"),))),
        ("users", TableShape(("id", "run"), ("id",), ((("run",), "runs", ("id",), "NO ACTION"),))),
    ],
)
def test_the_digest_changes_with_all_that_decides_what_removal_means(name: str, shape: TableShape) -> None:
    """A column, a key, a trigger, a foreign key or its action makes another shape."""
    assert shape_digest(ONE, SHAPES | {name: shape}) != shape_digest(ONE, SHAPES)


# Versions that were read


def altered(path: Path, script: str) -> Schema:
    """Change a store and return what is told of its schema."""
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(script)
    opened = open_store(str(path))
    schema = opened.schema()
    opened.close()
    return schema


def digest(path: Path) -> str:
    """Return the digest of a store's shape."""
    opened = open_store(str(path))
    found = shape_digest(DBOS, opened.dialect.shapes)
    opened.close()
    return found


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> int:
    """Give each schema version that was read."""
    return int(request.param)


@pytest.fixture
def store(tmp_path: Path, version: int) -> Path:
    """Write an empty store of each schema."""
    path = tmp_path / "store.sqlite"
    create_store(path, version)
    return path


def test_the_listed_digests_are_those_of_the_recorded_schemas(store: Path, version: int) -> None:
    """The profile lists what `shape_digest` gives for each schema that was read."""
    assert DBOS.detect.read[str(version)] == digest(store)


@pytest.mark.engine
@pytest.mark.parametrize("engine", ALL_ENGINES)
def test_the_listed_digests_are_those_of_real_stores(engine: str) -> None:
    """A store that the engine itself made has the listed version and shape."""
    path = template(engine)
    opened = open_store(str(path))
    schema = opened.schema()
    opened.close()
    assert (schema.read, schema.problems) == (True, ())
    assert DBOS.detect.read[schema.version] == digest(path)


NEXT = "UPDATE dbos_migrations SET version = 9999"


def test_an_unlisted_version_of_an_equal_shape_counts_as_read(store: Path) -> None:
    """A migration that changed no table, key or trigger needs no new profile."""
    assert altered(store, NEXT) == Schema("9999", read=True, problems=(), notices=altered(store, "").notices)


@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE workflow_status ADD COLUMN lease TEXT",
        "ALTER TABLE workflow_status RENAME COLUMN serialization TO format",
        "ALTER TABLE streams ADD COLUMN consumer TEXT",
        "CREATE TABLE holds (workflow_uuid TEXT)",
        "CREATE TABLE holds (run TEXT REFERENCES workflow_status(workflow_uuid))",
    ],
)
def test_an_unlisted_version_of_another_shape_is_refused(store: Path, change: str) -> None:
    """Promise 3: nothing is removed from a schema that nobody has read."""
    schema = altered(store, f"{NEXT}; {change}")
    assert not schema.read
    assert len(schema.problems) == 1
    assert "the schema version 9999 was never read" in schema.problems[0]


def test_a_schema_that_was_not_read_can_be_admitted(store: Path) -> None:
    """A person may take the risk; what is unknown in it still blocks what it touches."""
    altered(store, f"{NEXT}; CREATE TABLE holds (workflow_uuid TEXT)")
    opened = open_store(str(store), schema_unverified=True)
    schema = opened.schema()
    opened.close()
    assert (schema.read, schema.problems) == (False, ())
    assert any("the table holds" in notice for notice in schema.notices)


def test_a_listed_version_of_another_shape_is_read_and_its_unknown_parts_block(store: Path) -> None:
    """The number says what tables mean; what an application added is unknown all the same."""
    schema = altered(
        store,
        """
        ALTER TABLE workflow_status ADD COLUMN note TEXT;
        CREATE TABLE invoices (id INTEGER, run TEXT REFERENCES workflow_status(workflow_uuid));
        CREATE TABLE audits (workflow_id TEXT);
        """,
    )
    assert (schema.read, schema.problems) == (True, ())
    told = [notice for notice in schema.notices if "does not know the table" in notice]
    assert {re.findall(r"table (\w+)", notice)[0] for notice in told} == {"audits", "invoices"}


def test_a_trigger_on_a_listed_version_is_refused(store: Path) -> None:
    """Promise 3: what a trigger does to a removal is unknown."""
    schema = altered(
        store, "CREATE TRIGGER watch AFTER DELETE ON streams BEGIN DELETE FROM notifications; END"
    )
    assert schema.read
    (problem,) = schema.problems
    assert problem.startswith("the table streams has a trigger 'watch' that the profile does not know: ")


def test_a_store_without_a_version_is_known_by_its_shape_alone(store: Path) -> None:
    """An empty version table is no version; the shape still tells."""
    assert altered(store, "DELETE FROM dbos_migrations").read
    schema = altered(store, "CREATE TABLE holds (workflow_uuid TEXT)")
    assert (schema.version, schema.read) == ("unknown", False)


def test_an_empty_digest_matches_no_shape(store: Path, version: int, tmp_path: Path) -> None:
    """A version that is listed without a digest is known by its number, and lends it to no other."""
    text = re.sub(
        r'^("\d+" = )"[0-9a-f]{16}"', r'\1""', Path(_source()).read_text(encoding="utf-8"), flags=re.MULTILINE
    )
    own = tmp_path / "own.toml"
    own.write_text(text, encoding="utf-8")
    assert set(load_profile(text, source="own").detect.read.values()) == {""}
    opened = open_store(str(store), profile=str(own))
    listed = opened.schema().read
    opened.close()
    with closing(sqlite3.connect(store)) as connection:
        connection.executescript(NEXT)
    opened = open_store(str(store), profile=str(own))
    unlisted = opened.schema().read
    opened.close()
    assert (listed, unlisted) == (True, False)


def _source() -> str:
    return str(Path(detect.__code__.co_filename).with_name("dbos.toml"))
