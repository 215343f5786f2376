"""PostgreSQL for tests: one server a test process, started by the first test that asks for it.

`postgres` is the server, `database` an empty database of the test's own. The environment variable AFTERRUN_PG
chooses the major version; a test asks for others by
``@pytest.mark.parametrize("postgres", majors(), indirect=True)``.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest

import pg_proxy
from pg_binaries import choose, installations
from pg_proxy import Proxy
from pg_server import Database, Server

_role_numbers = count(1)


@pytest.fixture(scope="session")
def postgres(request: pytest.FixtureRequest) -> Iterator[Server]:
    """Give the PostgreSQL server of this test process."""
    if not installations():
        pytest.skip("needs PostgreSQL, which the development extra or Debian's package brings")
    with Server(choose(getattr(request, "param", None))) as server:
        yield server


@pytest.fixture(scope="session")
def standby(postgres: Server) -> Iterator[Server]:
    """Give a hot standby of the server; `pg_server.await_replay` waits for it."""
    with Server(postgres.binaries, follows=postgres) as server:
        yield server


@pytest.fixture(scope="session")
def proxy(postgres: Server) -> Iterator[Proxy]:
    """Give a PgBouncer in transaction mode, in front of the server."""
    if pg_proxy.program() is None:
        pytest.skip("needs PgBouncer, which only root can install (make tools)")
    with Proxy(postgres) as server:
        yield server


@pytest.fixture
def database(postgres: Server) -> Iterator[Database]:
    """Give an empty database that goes with the test."""
    made = postgres.create_database()
    yield made
    postgres.drop_database(made.name)


@pytest.fixture
def role(database: Database) -> Iterator[str]:
    """Give the name of a role without any right but to log in; it goes with the test."""
    name = f"role-{next(_role_numbers)}"
    database.server.create_role(name)
    yield name
    database.run(f'DROP OWNED BY "{name}"', user="postgres")
    database.server.drop_role(name)
