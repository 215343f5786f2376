"""Fixtures of the tests of directories."""

from __future__ import annotations

from pathlib import Path

import pytest

from directory.pi_tree import PiTree


@pytest.fixture
def tree(tmp_path: Path) -> PiTree:
    """Give an empty store of pi-subagents."""
    return PiTree(tmp_path / "store")
