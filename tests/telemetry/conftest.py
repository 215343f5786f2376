"""A store to sweep, and what observers are told of it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from afterrun import Retention
from afterrun.telemetry.logs import LOGGER
from cli.kit import make_store


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Make a store of 40 runs, ended 1 to 40 days ago: 11 of them go."""
    return make_store(tmp_path / "store.sqlite")


@pytest.fixture
def retention(store: Path) -> Iterator[Retention]:
    """Open it."""
    with Retention(str(store), state=store.parent / "state") as opened:
        yield opened


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """Listen to everything that is logged."""
    caplog.set_level(logging.DEBUG, logger=LOGGER.name)
    return caplog
