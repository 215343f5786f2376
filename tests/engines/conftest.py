from collections.abc import Iterator
from pathlib import Path

import pytest

from afterrun.profiles.loader import built_in_text
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


@pytest.fixture
def careless(tmp_path: Path) -> Path:
    """Make a profile that reads statuses as the engine's own bulk delete does, and looks at nothing else."""
    kept = built_in_text("duroxide").partition("[[units.tree.protect]]")[0]
    for old, new in (
        ('terminal = ["Completed", "Failed"]', 'terminal = ["Completed", "Failed", "ContinuedAsNew"]'),
        ('live = [["Running"], ["ContinuedAsNew"]]', 'live = [["Running"]]'),
        # PostgreSQL writes no time of its end
        ("end = [{", 'end = [{ column = "cur.started_at", format = "text_utc" }, {'),
    ):
        assert old in kept
        kept = kept.replace(old, new)
    path = tmp_path / "careless.toml"
    path.write_text(kept, encoding="utf-8")
    return path
