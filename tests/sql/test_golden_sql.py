"""Every statement that the built-in profiles become, for each schema that was read from the engine.

`AFTERRUN_WRITE_GOLDEN=1 pytest tests/sql/test_golden_sql.py` writes the files anew; look at the difference
before you keep it.
"""

from __future__ import annotations

import os
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from afterrun.stores import open_store
from afterrun.stores.sql.store import SqlStore
from random_stores import VERSIONS, create_store
from sql_kit import aggregates, statements

GOLDEN = Path(__file__).parent / "golden"
HOW = "-- Written by: AFTERRUN_WRITE_GOLDEN=1 pytest tests/sql/test_golden_sql.py\n"

READ = re.compile(r'(?:FROM|JOIN|,) "workflow_status"(?!\.)')
"""A place where a statement reads the run table; a column's name has a point behind it."""

TIMES = {
    r"page by .*": 3,  # raw keys, facts, parents
    r"remaining by .*": 2,  # runs, parents
    r"facts by .*": 1,
    r"attached": 2,  # runs, parents
    r"held by cross-tree-reference": 2,  # a part for each partial index of live runs
    r"held by fork-base": 2,  # forks, and whether they live
    r"weigh": 1,
    r"(count|delete) workflow_status": 1,
    r"(count|delete) .*": 0,
    r"census": 1,
    r"newest": 1,
    r"newest kept": 2,
    r"groups": 2,
    r"outside 0": 2,  # classes: runs, parents
    r"outside 1": 4,  # roots with their parents, children, all rows
    r"has rows .*": 1,
    r"orphans .*": 1,
    r"newest .*": 1,
}
"""How often each statement reads the run table; the first pattern that fits counts.

Once more would be a copy of the table that SQLAlchemy added by itself, with no condition on it: SQLite would
take any row of it and say nothing.
"""


@pytest.fixture(params=VERSIONS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SqlStore]:
    """Open an empty store of each schema."""
    path = tmp_path / "store.sqlite"
    create_store(path, request.param)
    opened = open_store(str(path))
    yield opened
    opened.close()


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
    path = GOLDEN / f"dbos-{store.schema().version}.sql"
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
