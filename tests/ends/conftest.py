"""A store of jobs for each database."""

from __future__ import annotations

from pathlib import Path

import pytest

from generations.loops import Loops, PostgresLoops, SqliteLoops


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Loops:
    """Give an empty database; the test makes the tables."""
    if request.param == "sqlite":
        return SqliteLoops(tmp_path)
    return PostgresLoops(tmp_path, request.getfixturevalue("database"))
