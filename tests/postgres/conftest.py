from collections.abc import Iterator

import pytest

from pg_server import Database, Server


@pytest.fixture(scope="module")
def floor(postgres: Server) -> Iterator[Database]:
    """Give a database for all tests of a module, each of which makes a schema of its own."""
    database = postgres.create_database()
    yield database
    postgres.drop_database(database.name)
