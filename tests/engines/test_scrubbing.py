"""What engines really store is shown as it is: their JSON has ids, keys and tokens that are no secrets."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from afterrun.runs.scrub import scrub_text
from engines import prefect_stores, stores

pytestmark = pytest.mark.engine

FEW = 0.001
"""Share of an engine's values in which something may be taken for a secret."""


def _values(store: Path) -> Iterator[str]:
    with closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as database:
        for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            for row in database.execute(f'SELECT * FROM "{name}"'):
                yield from (value for value in row if isinstance(value, str) and value)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("engine", ["dbos", "prefect"])
def test_hardly_anything_that_an_engine_stores_is_taken_for_a_secret(engine: str) -> None:
    """What remains are examples of passwords in the schemas of blocks, which Prefect keeps."""
    store = stores.template("3.4.0") if engine == "dbos" else prefect_stores.template()
    values = list(_values(store))
    taken = [value for value in values if scrub_text(value) != value]
    assert len(values) > 1_000
    assert len(taken) <= FEW * len(values)
