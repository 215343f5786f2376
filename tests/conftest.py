"""Fixtures that many tests share."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from pg_server import Server
from sites import PostgresSite, SqliteSite

pytest_plugins = ["pg_fixtures"]

# A shell lets what it starts in the background ignore these, and whatever that starts inherits it.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)


@pytest.fixture
def sqlite_site(tmp_path: Path) -> Iterator[SqliteSite]:
    """Give an empty SQLite store with the newest schema, open, with its clock stopped."""
    site = SqliteSite(tmp_path / "app.sqlite")
    yield site
    site.retention.close()


@pytest.fixture(scope="module")
def _postgres_site(postgres: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresSite]:
    """Make one store for the tests of a module: a database takes longer than most of them."""
    site = PostgresSite(postgres, state=tmp_path_factory.mktemp("state"))
    yield site
    site.close()


@pytest.fixture
def postgres_site(_postgres_site: PostgresSite, tmp_path: Path) -> PostgresSite:
    """Give an empty PostgreSQL store with the newest schema, open, with its clock stopped.

    Its rows are the test's own; its tables are not to be altered.
    """
    _postgres_site.renew(state=tmp_path / "app.state")
    return _postgres_site
