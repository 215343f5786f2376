from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from datasource.pairs import FilePairs, Pair, Pairs, ServerPairs, server_pairs
from pg_server import Server


@pytest.fixture(scope="session")
def on_server(postgres: Server) -> ServerPairs:
    """Give the pairs of this test process's PostgreSQL server."""
    return server_pairs(postgres)


@pytest.fixture(params=["sqlite", "postgresql"])
def pairs(request: pytest.FixtureRequest) -> Pairs:
    """Give what makes pairs of either kind."""
    if request.param == "sqlite":
        return FilePairs()
    made: ServerPairs = request.getfixturevalue("on_server")
    return made


@pytest.fixture
def pair(pairs: Pairs, tmp_path: Path) -> Iterator[Pair]:
    """Give a store and its datasource, of either kind."""
    made = pairs.make(tmp_path)
    yield made
    pairs.drop(made)


@pytest.fixture
def server_pair(on_server: ServerPairs, tmp_path: Path) -> Iterator[Pair]:
    """Give a store and its datasource on PostgreSQL."""
    made = on_server.make(tmp_path)
    yield made
    on_server.drop(made)


@pytest.fixture
def file_pair(tmp_path: Path) -> Pair:
    """Give a store and its datasource in files."""
    return FilePairs().make(tmp_path)
