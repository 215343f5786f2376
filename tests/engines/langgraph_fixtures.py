"""A real LangGraph store for each test, and what the engine makes of one that nobody touched."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pg_server import Database, Server

from .langgraph_stores import Kind, PostgresStore, SqliteStore, Store, run_langgraph

KINDS = ("sqlite", "postgresql")


class Untouched(NamedTuple):
    """What the engine reads of a made store, and what comes of it when it goes on."""

    read: dict[str, Any]
    proceeded: dict[str, Any]


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    """Name the database that the tests of a module run on, one after the other."""
    given: Kind = request.param
    return given


@pytest.fixture(scope="module")
def _checkpoint_database(kind: Kind, request: pytest.FixtureRequest) -> Iterator[Database | None]:
    """Give a database for the tests of a module, each of which fills it anew."""
    if kind == "sqlite":
        yield None
        return
    server: Server = request.getfixturevalue("postgres")
    made = server.create_database()
    yield made
    server.drop_database(made.name)


@pytest.fixture(scope="module")
def untouched(
    kind: Kind, _checkpoint_database: Database | None, tmp_path_factory: pytest.TempPathFactory
) -> Untouched:
    """Let the engine read a made store and go on with it."""
    made = _store(_checkpoint_database, tmp_path_factory.mktemp(f"untouched-{kind}"))
    made.fill()
    return Untouched(run_langgraph("read", made), run_langgraph("proceed", made))


@pytest.fixture
def made(_checkpoint_database: Database | None, tmp_path: Path) -> Store:
    """Give a store with every situation."""
    store = _store(_checkpoint_database, tmp_path)
    store.fill()
    return store


def _store(database: Database | None, folder: Path) -> Store:
    if database is None:
        return SqliteStore(folder / "checkpoints.sqlite")
    return PostgresStore(database, folder)
