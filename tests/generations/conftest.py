"""A store of loops for each database."""

from __future__ import annotations

from pathlib import Path

import pytest

from generations.loops import Loops, PostgresLoops, SqliteLoops, make


@pytest.fixture(params=["sqlite", "postgres"])
def loops(request: pytest.FixtureRequest, tmp_path: Path) -> Loops:
    """Give an empty store of loops."""
    store: Loops
    if request.param == "sqlite":
        store = SqliteLoops(tmp_path)
    else:
        store = PostgresLoops(tmp_path, request.getfixturevalue("database"))
    make(store)
    return store
