"""Every statement that the built-in profiles become, for each schema that was read from the engine.

`AFTERRUN_WRITE_GOLDEN=1 pytest tests/sql/test_golden_sql.py` writes the files anew; look at the difference
before you keep it.
"""

from __future__ import annotations

import os
import re
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from afterrun.stores import open_store
from afterrun.stores.sql.store import SqlStore
from pg_server import Server
from random_stores import VERSIONS, create_store
from sites import empty_store
from sql_kit import aggregates, statements

GOLDEN = Path(__file__).parent / "golden"
DATABASES = ("sqlite", "postgresql")
HOW = "-- Written by: AFTERRUN_WRITE_GOLDEN=1 pytest tests/sql/test_golden_sql.py\n"

READ = re.compile(r'(?:FROM|JOIN|,) (?:"dbos"\.)?"workflow_status"(?!\.)')
"""A place where a statement reads the run table; a column's name has a point behind it."""

TIMES = {
    r"page by .*, ties": 1,
    r"page by .*": 3,  # raw keys, facts, parents
    r"remaining by .*": 2,  # runs, parents
    r"facts by .*": 1,
    r"links .*": 1,
    r"attached": 2,  # runs, parents
    r"held by cross-tree-reference": 2,  # a part for each partial index of live runs
    r"held by fork-base": 2,  # forks, and whether they live
    r"lock": 1,
    r"weigh": 1,
    r"(count|delete) workflow_status": 1,
    r"(count|delete) .*": 0,
    r"census": 1,
    r"newest": 1,
    r"newest kept": 2,
    r"newest in slots": 2,
    r"newest of all": 2,
    r"roots": 2,
    r"groups": 2,
    r"outside 0": 2,  # classes: runs, parents
    r"outside 1": 4,  # roots with their parents, children, all rows
    r"has rows .*": 1,
    r"orphans .*": 1,
    r"lost references 0": 3,  # a part for each partial index of live runs, and what is gone
    r"lost references 1": 4,  # and forks
    r"newest .*": 1,
}
"""How often each statement reads the run table; the first pattern that fits counts.

Once more would be a copy of the table that SQLAlchemy added by itself, with no condition on it: SQLite would
take any row of it and say nothing.
"""


@pytest.fixture(
    scope="module", params=[(name, version) for name in DATABASES for version in VERSIONS], ids=str
)
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqlStore]:
    """Open an empty store of each schema in each database."""
    name, version = request.param
    with empty(request, tmp_path_factory.mktemp("golden"), name=name, version=version) as place:
        opened = open_store(place)
        yield opened
        opened.close()


@contextmanager
def empty(request: pytest.FixtureRequest, folder: Path, *, name: str, version: int) -> Iterator[str]:
    """Make an empty store and say where it is."""
    if name == "sqlite":
        create_store(folder / "store.sqlite", version)
        yield str(folder / "store.sqlite")
    else:
        server: Server = request.getfixturevalue("postgres")
        database = server.create_database(template=empty_store(server, version))
        yield database.url()
        server.drop_database(database.name)


def compiled(store: SqlStore) -> dict[str, str]:
    """Return all statements by name, each on one line."""
    found = {name: store.dialect.sql(statement) for name, statement in statements(store)}
    for name, texts in aggregates(store):
        found.update({f"{name} {i}" if len(texts) > 1 else name: text for i, text in enumerate(texts)})
    return {name: re.sub(r"\s+", " ", text).strip() for name, text in found.items()}


def written(found: dict[str, str]) -> str:
    """Return the text of a golden file."""
    parts = (
        f"\n-- {name}\n{textwrap.fill(text, 110, break_long_words=False)};\n" for name, text in found.items()
    )
    return HOW + "".join(parts)


def test_the_statements_are_the_reviewed_ones(store: SqlStore) -> None:
    """The SQL of each read schema is what its golden file says, statement by statement."""
    name = "" if store.dialect.name == "sqlite" else f".{store.dialect.name}"
    path = GOLDEN / f"dbos-{store.schema().version}{name}.sql"
    text = written(compiled(store))
    if os.environ.get("AFTERRUN_WRITE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8"), HOW


def test_each_statement_reads_the_run_table_as_often_as_it_should(store: SqlStore) -> None:
    """No statement has a run table in it that nobody put there."""
    for name, text in compiled(store).items():
        expected = next(count for pattern, count in TIMES.items() if re.fullmatch(pattern, name))
        assert (name, len(READ.findall(text))) == (name, expected), text


def test_no_value_is_a_literal_but_the_words_of_the_profile(store: SqlStore) -> None:
    """Constants in the SQL are the profile's own words, time formats and numbers: nothing from a row."""
    tree = store.profile.units.tree
    words = {*tree.terminal, *(word for group in tree.live for word in group)}
    formats = {"integer", "real", "unknown-end-time", "unreadable-end-time", "future-end-time", "known"}
    for text in compiled(store).values():
        assert set(re.findall(r"'([^']*)'", text)) <= words | formats
