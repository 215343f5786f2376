"""A removal of three trees in one batch, ended at each of its statements: whole trees, or none of them."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import pytest

from afterrun import Retention, SweepOptions
from afterrun.state import StateDirectory
from crash.aged import EXPIRED, MONTH, OLD_DAYS, TREES, kept, owned, standing
from dumps import Dump
from engines.pg_stores import SCHEMA, age_pg_runs, make_pg_store
from engines.stores import ENGINES, run_engine
from pg_dumps import dump_postgres, insert_rows
from pg_server import SUPERUSER, Database
from postgres.pg_victim import Errand, When, pg_victims, statements_of_a_batch
from postgres.statement_tap import driver_of

pytestmark = [pytest.mark.engine, pytest.mark.slow]

SOAK: Final = os.environ.get("AFTERRUN_SOAK") == "1"
VERSIONS: Final = ENGINES if SOAK else ENGINES[:1]
WHOLE: Final = SweepOptions(offline=True)
SENT: Final = ("COMMIT",) if not SOAK else ("",)
"""Beginnings of the statements whose answer nobody hears: that of the commit alone, or of each."""


class Scene:
    """A real store whose expired trees are put back after each removal, and a way to look at it."""

    def __init__(self, database: Database, version: str, state: Path) -> None:
        """Make the store, age three trees and remember all rows."""
        make_pg_store(version, database)
        assert age_pg_runs(database, OLD_DAYS, sorted(EXPIRED)) == len(EXPIRED)
        self.database = database
        self.version = version
        self.state = state
        self._back = database.connect(SUPERUSER)
        self._back.execute("SET session_replication_role = replica")
        self.before = self.dump()

    def dump(self) -> Dump:
        """Return all rows, once nobody else is connected."""
        self._await_alone()
        return dump_postgres(self._back, SCHEMA)

    def check(self) -> bool:
        """Say whether the three trees stand; all or none of them must, and everything else."""
        after = self.dump()
        assert kept(after) == kept(self.before)
        there = standing(after, self.before)
        assert len(set(there)) == 1, "one batch, torn apart"
        return there[0]

    def put_back(self) -> None:
        """Put the trees back where they are gone."""
        if not self.check():
            lost = owned(self.before, EXPIRED)
            insert_rows(self._back, SCHEMA, ((table, row) for table, rows in lost.items() for row in rows))
        assert self.check()

    def finish(self, *, expected: int) -> None:
        """Run the next removal: it ends the work, and finds no fault."""
        with Retention(self.database.url(), state=self.state) as retention:
            report = retention.prune(MONTH, options=WHOLE)
            faults = list(retention.verify())
        assert (report.ended, report.units.removed, report.units.deferred) == ("completed", expected, 0)
        assert faults == []
        assert self.check() is False

    def close(self) -> None:
        """Let go of the store."""
        self._back.close()

    def _await_alone(self) -> None:
        """Wait until the server has noticed that its client is gone."""
        alone = "SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = 'afterrun'"
        deadline = time.monotonic() + 20.0
        while self._back.execute(alone).fetchone() != (True,):
            assert time.monotonic() < deadline, "the server still works for a dead client"
            time.sleep(0.005)


@pytest.fixture(params=VERSIONS)
def scene(request: pytest.FixtureRequest, database: Database, tmp_path: Path) -> Iterator[Scene]:
    """Give a real store with three expired trees."""
    made = Scene(database, request.param, tmp_path / "state")
    yield made
    made.close()


def batch_of(scene: Scene) -> Sequence[str]:
    """Run one removal to its end, put the trees back, and return the statements of its only batch."""
    statements: list[str] = []
    with Retention(scene.database.url(), state=scene.state) as retention:
        driver_of(retention.store).cursor_factory = statements_of_a_batch(statements.append)
        report = retention.prune(MONTH, options=WHOLE)
    assert (report.batches, report.units.removed) == (1, len(TREES))
    scene.put_back()
    assert statements[-1] == "COMMIT"
    return statements


@pytest.mark.timeout(1_200)
def test_killed_at_any_statement_a_removal_leaves_whole_trees(scene: Scene) -> None:
    """SIGKILL before each statement, and with it on its way: the next removal ends the work (promise 4)."""
    batch = batch_of(scene)
    cuts: list[tuple[int, When]] = [(number, "before") for number in range(len(batch))]
    cuts += [(number, "sent") for number, text in enumerate(batch) if text.startswith(SENT)]
    outlived: dict[tuple[int, When], bool] = {}
    with pg_victims() as victims:
        for number, when in cuts:
            errand = Errand(store=scene.database.url(), state=str(scene.state), number=number, when=when)
            victims.start(errand)
            assert victims.wait() == -signal.SIGKILL, (number, when)
            outlived[number, when] = scene.check()
            scene.finish(expected=len(TREES) if outlived[number, when] else 0)
            scene.put_back()
    last = len(batch) - 1
    assert [cut for cut, there in outlived.items() if not there] == [(last, "sent")]
    answer = run_engine(scene.version, "open", scene.database.url(schema=SCHEMA), timeout=60.0)
    assert answer["opened"] == 1
    recovered = run_engine(scene.version, "recover", scene.database.url(schema=SCHEMA))
    assert (recovered["stuck"], recovered["new"]) == ([], "SUCCESS")


@pytest.mark.timeout(1_200)
def test_a_connection_ended_at_any_statement_leaves_whole_trees(scene: Scene) -> None:
    """`pg_terminate_backend` before each statement: the sweep says so, and the next one ends the work."""
    batch = batch_of(scene)
    for number in range(len(batch)):
        with Retention(scene.database.url(), state=scene.state) as retention:
            driver, passed = driver_of(retention.store), 0

            def hear(_text: str, process: int = driver.info.backend_pid, at: int = number) -> None:
                nonlocal passed
                if passed == at:
                    end = "SELECT pg_terminate_backend(%s, 10000)"
                    assert scene.database.rows(end, process, user=SUPERUSER) == [(True,)]
                passed += 1

            driver.cursor_factory = statements_of_a_batch(hear)
            report = retention.prune(MONTH, options=WHOLE)
            identity = retention.store.identity
        assert (report.ended, report.units.removed) == ("failed", 0), batch[number]
        assert report.message.startswith("lost-connection: "), batch[number]
        record = StateDirectory(scene.state).load(identity).records[-1]
        assert (record.ended, record.why) == ("failed", "lost-connection")
        assert scene.check() is True
    scene.finish(expected=len(TREES))
