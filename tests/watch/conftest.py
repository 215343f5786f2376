"""Stores and settings for `afterrun watch`, and an environment without ours."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cli.kit import make_store


@pytest.fixture(autouse=True)
def _own_surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep variables of the machine out of the tests; the state directory is the test's own."""
    for name in list(os.environ):
        if name.startswith("AFTERRUN_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AFTERRUN_STATE_DIR", str(tmp_path / "state"))


@pytest.fixture
def stores(tmp_path: Path) -> tuple[Path, Path]:
    """Make two stores of 40 runs: by a policy of 30 days 11 runs of each go."""
    return make_store(tmp_path / "orders.sqlite"), make_store(tmp_path / "mail.sqlite")
