from pathlib import Path

import pytest

from .kit import make_store


@pytest.fixture(autouse=True)
def _own_surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the person's own settings, state and terminal out of the tests."""
    monkeypatch.setenv("AFTERRUN_STATE_DIR", str(tmp_path / "state"))
    for name in ("AFTERRUN_STORE", "AFTERRUN_DEBUG", "COLUMNS", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Make a store of 40 runs, ended 1 to 40 days ago, and a live one."""
    return make_store(tmp_path / "store.sqlite")
