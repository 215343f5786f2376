"""A real Prefect store for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pg_server import Database, Server

from .prefect_stores import PostgresStore, SqliteStore, Store, capable

KINDS = ("sqlite", "postgresql")


@pytest.fixture(scope="session")
def prefect_postgres() -> Iterator[Server]:
    """Give a PostgreSQL server that has what Prefect needs of one."""
    binaries = capable()
    if binaries is None:
        pytest.skip("needs a PostgreSQL with pg_trgm: Debian's postgresql package has it, the wheel has not")
    with Server(binaries) as server:
        yield server


@pytest.fixture(scope="module", params=KINDS)
def _prefect_database(request: pytest.FixtureRequest) -> Iterator[Database | None]:
    """Give a database for the tests of a module, each of which fills it anew; none where it is a file."""
    if request.param == "sqlite":
        yield None
        return
    server: Server = request.getfixturevalue("prefect_postgres")
    made = server.create_database()
    yield made
    server.drop_database(made.name)


@pytest.fixture
def made(_prefect_database: Database | None, tmp_path: Path) -> Store:
    """Give a store with every situation."""
    store: Store = SqliteStore(tmp_path / "prefect.db")
    if _prefect_database is not None:
        store = PostgresStore(_prefect_database, tmp_path)
    store.fill()
    return store
