"""Fixtures of the API: a host that runs nothing, and who speaks to it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from afterrun.runs import RunStore, sqlite
from afterrun.runs.keys import VARIABLE
from api.api_kit import Caller, QueueingHost
from runs.runs_kit import KEYS


@pytest.fixture(autouse=True)
def _volatile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spare the disk: no test here is about a power failure."""
    monkeypatch.setattr(sqlite, "SETTINGS", (*sqlite.SETTINGS, "synchronous = OFF"))


@pytest.fixture(autouse=True)
def _sealed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give every store of a test its key, as an application's environment does."""
    monkeypatch.setenv(VARIABLE, KEYS.text())


@pytest.fixture(scope="session")
def _empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make an empty store once: its migrations take longer than most tests."""
    path = tmp_path_factory.mktemp("empty") / "runs.sqlite"
    RunStore.open(str(path), sealing=KEYS).close()
    return path


@pytest.fixture
def host(tmp_path: Path, _empty_store: Path) -> Iterator[QueueingHost]:
    """Give a host over an empty store, with a folder for backups."""
    location = str(shutil.copy(_empty_store, tmp_path / "runs.sqlite"))
    backups = tmp_path / "backups"
    backups.mkdir()
    with RunStore.open(location) as store:
        yield QueueingHost(location, store, tmp_path / "state", backups=backups)


@pytest.fixture
def caller(host: QueueingHost) -> Caller:
    """Give somebody who has the token."""
    return Caller(host.app)
