"""A folder for settings, and an environment without ours."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

Write = Callable[[str], Path]


@pytest.fixture(autouse=True)
def _own_surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep variables of the machine out of the tests."""
    for name in list(os.environ):
        if name.startswith("AFTERRUN_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AFTERRUN_STATE_DIR", str(tmp_path / "state"))


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a settings file."""

    def written(text: str) -> Path:
        path = tmp_path / "afterrun.toml"
        path.write_text(text, encoding="utf-8")
        return path

    return written
