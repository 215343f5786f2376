"""A shop for each database."""

from __future__ import annotations

from pathlib import Path

import pytest

from generations.loops import Loops, PostgresLoops, SqliteLoops
from pg_server import Server
from row_policies.tables import Shop, make


@pytest.fixture(params=["sqlite", "postgres"])
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Shop:
    """Give an empty store."""
    store: Loops
    if request.param == "sqlite":
        store = SqliteLoops(tmp_path)
    else:
        store = PostgresLoops(tmp_path, request.getfixturevalue("database"))
    make(store)
    return Shop(store)


@pytest.fixture
def target(shop: Shop, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Name a backup in a folder of its own; `whole` ones are made by the programs of the server's version."""
    if isinstance(shop.store, PostgresLoops):
        server: Server = request.getfixturevalue("postgres")
        monkeypatch.setenv("AFTERRUN_PG_DUMP", server.binaries.program("pg_dump"))
    folder = shop.store.folder / "backups"
    folder.mkdir(mode=0o700)
    return folder / "went.backup"
