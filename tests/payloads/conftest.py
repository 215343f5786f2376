"""Fixtures of the tests of blobs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from payloads.blob_kit import PostgresShop, Shop, SqliteShop


@pytest.fixture(params=["sqlite", "postgresql"])
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shop]:
    """Give an empty store of each database."""
    if request.param == "sqlite":
        yield SqliteShop(tmp_path)
    else:
        yield PostgresShop(request.getfixturevalue("database"), tmp_path)
