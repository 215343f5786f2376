"""Fixtures of servers: each test runs on SQLite and on PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from afterrun.runs import RunStore, sqlite
from afterrun.runs.keys import VARIABLE
from pg_server import Database
from pg_server import Server as PgServer
from runs.runs_kit import KEYS


@pytest.fixture(autouse=True)
def _volatile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spare the disk: no test here is about a power failure."""
    monkeypatch.setattr(sqlite, "SETTINGS", (*sqlite.SETTINGS, "synchronous = OFF"))


@pytest.fixture(autouse=True)
def _sealed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give every store of a test its key, as an application's environment does."""
    monkeypatch.setenv(VARIABLE, KEYS.text())


@pytest.fixture(params=["sqlite", "postgresql"])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Give the place of an empty run store."""
    if request.param == "sqlite":
        RunStore.open(str(tmp_path / "runs.sqlite")).close()
        yield str(tmp_path / "runs.sqlite")
        return
    server: PgServer = request.getfixturevalue("postgres")
    database = server.create_database(template=server.template("runs", _fill))
    yield database.url()
    server.drop_database(database.name)


@pytest.fixture
def store(location: str) -> Iterator[RunStore]:
    """Give the open store."""
    with RunStore.open(location) as opened:
        yield opened


def _fill(database: Database) -> None:
    RunStore.open(database.url()).close()
