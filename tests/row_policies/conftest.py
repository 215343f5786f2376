"""A shop for each database."""

from __future__ import annotations

from pathlib import Path

import pytest

from generations.loops import Loops, PostgresLoops, SqliteLoops
from row_policies.tables import Shop, make


@pytest.fixture(params=["sqlite", "postgres"])
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Shop:
    """Give an empty store."""
    store: Loops
    if request.param == "sqlite":
        store = SqliteLoops(tmp_path)
    else:
        store = PostgresLoops(tmp_path, request.getfixturevalue("database"))
    make(store)
    return Shop(store)
