from collections.abc import Iterator
from pathlib import Path

import pytest

from pg_server import Database, Server

from .retained import EngineStore, InFile, Kind, OnServer


@pytest.fixture(scope="module")
def _database(request: pytest.FixtureRequest) -> Iterator[Database]:
    """Give a database for the tests of a module, each of which fills it anew."""
    server: Server = request.getfixturevalue("postgres")
    made = server.create_database()
    yield made
    server.drop_database(made.name)


@pytest.fixture
def store(kind: Kind, tmp_path: Path, request: pytest.FixtureRequest) -> EngineStore:
    """Name the store that a test works on; the test makes it."""
    if kind == "sqlite":
        return InFile(tmp_path / "store.sqlite")
    schema = {} if kind == "postgres" else {"schema": "My Engine"}
    return OnServer(request.getfixturevalue("_database"), tmp_path, **schema)
