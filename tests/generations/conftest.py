"""A store of loops for each database."""

from __future__ import annotations

from pathlib import Path

import pytest

from generations.loops import Loops, PostgresLoops, SqliteLoops, make
from pg_server import Server


@pytest.fixture(params=["sqlite", "postgres"])
def loops(request: pytest.FixtureRequest, tmp_path: Path) -> Loops:
    """Give an empty store of loops."""
    store: Loops
    if request.param == "sqlite":
        store = SqliteLoops(tmp_path)
    else:
        store = PostgresLoops(tmp_path, request.getfixturevalue("database"))
    make(store)
    return store


@pytest.fixture
def target(loops: Loops, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Name a backup in a folder of its own; `whole` ones are made by the programs of the server's version."""
    if isinstance(loops, PostgresLoops):
        server: Server = request.getfixturevalue("postgres")
        monkeypatch.setenv("AFTERRUN_PG_DUMP", server.binaries.program("pg_dump"))
    folder = loops.folder / "backups"
    folder.mkdir(mode=0o700)
    return folder / "went.backup"
