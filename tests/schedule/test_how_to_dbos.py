"""The how-to for a DBOS application, followed with the real engine."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from afterrun import Retention
from engines.stores import ENGINES, age_runs, clone_store
from schedule.how_to_kit import await_rows, commands, howto_bin, running, write_app

pytestmark = [pytest.mark.engine, pytest.mark.timeout(600)]

PAGE = "howto/dbos-application.md"
RUNS = 4_000
SETTLED = 2.0
"""Seconds within which a host that is told to end has settled its sweep."""


@pytest.fixture(scope="module")
def path() -> Path:
    """Give the folder of commands of an environment with DBOS and afterrun."""
    return howto_bin(ENGINES[0])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Give a folder with the application of the page in it."""
    write_app(PAGE, tmp_path)
    return tmp_path


def line_with(word: str) -> list[str]:
    """Return the shell line of the page that has a word in it."""
    return next(words for words in commands(PAGE) if word in words)


def statuses(folder: Path) -> dict[str, int]:
    """Count the runs of the store by status."""
    with closing(sqlite3.connect(folder / "app.sqlite")) as connection:
        return dict(
            connection.execute("SELECT status, count(*) FROM workflow_status GROUP BY status").fetchall()
        )


def removed(line: str) -> int:
    """Return how many units an outcome's line says are gone."""
    found = re.match(r"sweep \w+ ([0-9]+)", line)
    assert found is not None
    return int(found[1])


def faults(folder: Path) -> list[str]:
    """Return what the checks of the store find."""
    with Retention(str(folder / "app.sqlite"), state=folder / "state", writable=False) as retention:
        return list(retention.verify())


def test_the_page_can_be_followed(folder: Path, path: Path) -> None:
    """The first sweep asks; after a look and an approval the old runs go, and none goes again that day."""
    start, approved = commands(PAGE)[0], line_with("--approved")
    with running(start, folder, path=path) as app:
        app.hear(r"^sweep guard 0 no sweep of this store is on record yet")
        for number in range(5):
            app.say(f"file-{number}.txt 0.01")
        await_runs(folder, 5)
        with running(line_with("plan"), folder, path=path) as plan:
            plan.hear("0 trees would go|nothing would go|would go")
        app.end()
    assert app.process.returncode == 0, app.lines
    assert age_runs(folder / "app.sqlite", 40) == 5
    with running(approved, folder, path=path) as app:
        assert removed(app.hear("^sweep completed")) == 5
        app.say("new.txt 0.01")
        await_runs(folder, 1)
        app.end()
    assert statuses(folder) == {"SUCCESS": 1}
    with running(approved, folder, path=path) as app:
        app.end()
    assert not [line for line in app.lines if line.startswith("sweep")]


def await_runs(folder: Path, number: int) -> None:
    """Wait until so many runs have succeeded."""
    while statuses(folder).get("SUCCESS", 0) < number:
        pass


def test_a_workflow_that_begins_ends_the_sweep_for_as_long_as_it_runs(folder: Path, path: Path) -> None:
    """The sweep goes on when the application is idle again, and the workflow finds nothing amiss."""
    cloned = clone_store(None, folder / "app.sqlite", runs=RUNS, version=ENGINES[0], shape="tree")
    with running(line_with("--approved"), folder, path=path) as app:
        await_rows(folder / "app.sqlite", RUNS)
        app.say("new.txt 3")
        first = removed(app.hear("^sweep interrupted"))
        assert statuses(folder).get("PENDING") == 1, "the workflow runs"
        left = sum(statuses(folder).values())
        second = removed(app.hear("^sweep completed"))
        assert left > 1
        assert statuses(folder) == {"SUCCESS": 1}
        app.end()
    assert first + second == cloned.units
    assert faults(folder) == []


def test_a_signal_settles_the_sweep_before_the_engine_ends(folder: Path, path: Path) -> None:
    """What went is gone, what is left is whole, and the next start finishes."""
    cloned = clone_store(None, folder / "app.sqlite", runs=RUNS, version=ENGINES[0], shape="tree")
    with running(line_with("--approved"), folder, path=path) as app:
        await_rows(folder / "app.sqlite", RUNS)
        assert app.settle("^sweep interrupted") < SETTLED
        app.end()
        assert app.process.returncode == 0, app.lines
    first = removed(next(line for line in app.lines if line.startswith("sweep interrupted")))
    assert 0 < first < cloned.units
    assert faults(folder) == []
    with running(line_with("--approved"), folder, path=path) as app:
        assert removed(app.hear("^sweep completed")) == cloned.units - first
        app.end()
    assert statuses(folder) == {}
