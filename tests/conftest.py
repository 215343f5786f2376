"""Fixtures that many tests share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sites import SqliteSite


@pytest.fixture
def sqlite_site(tmp_path: Path) -> Iterator[SqliteSite]:
    """Give an empty SQLite store with the newest schema, open, with its clock stopped."""
    site = SqliteSite(tmp_path / "app.sqlite")
    yield site
    site.retention.close()
