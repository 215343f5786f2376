"""Fixtures of run stores: each test runs on SQLite and on PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from afterrun.runs import RunStore, sqlite
from afterrun.runs.keys import VARIABLE
from pg_server import SUPERUSER, Database, Server
from runs.runs_kit import KEYS, Home


@pytest.fixture(autouse=True)
def _volatile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spare the disk: no test here is about a power failure."""
    monkeypatch.setattr(sqlite, "SETTINGS", (*sqlite.SETTINGS, "synchronous = OFF"))


@pytest.fixture(autouse=True)
def _sealed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give every store of a test its key, as an application's environment does."""
    monkeypatch.setenv(VARIABLE, KEYS.text())


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_home(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Home]:
    """Give a place for a store that is not made yet."""
    if request.param == "sqlite":
        path = str(tmp_path / "runs.sqlite")
        yield Home("sqlite", path, tmp_path, path)
        return
    server: Server = request.getfixturevalue("postgres")
    database = server.create_database()
    yield Home("postgresql", database.url(), tmp_path, database.url(SUPERUSER))
    server.drop_database(database.name)


@pytest.fixture(params=["sqlite", "postgresql"])
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Home]:
    """Give a place with an empty store."""
    if request.param == "sqlite":
        path = str(tmp_path / "runs.sqlite")
        RunStore.open(path).close()
        yield Home("sqlite", path, tmp_path, path)
        return
    server: Server = request.getfixturevalue("postgres")
    database = server.create_database(template=server.template("runs", _fill))
    yield Home("postgresql", database.url(), tmp_path, database.url(SUPERUSER))
    server.drop_database(database.name)


@pytest.fixture
def store(home: Home) -> Iterator[RunStore]:
    """Give an open store; its clock begins 100 days before the tests' now."""
    with home.open() as opened:
        yield opened


def _fill(database: Database) -> None:
    RunStore.open(database.url()).close()
