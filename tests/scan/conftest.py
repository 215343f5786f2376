from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the person's own state and stores out of the tests."""
    monkeypatch.setenv("AFTERRUN_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))
    monkeypatch.delenv("AFTERRUN_STORE", raising=False)
    monkeypatch.delenv("AFTERRUN_SCAN_PATH", raising=False)
