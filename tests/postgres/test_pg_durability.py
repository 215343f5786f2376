"""What a report tells as removed stays removed when the server crashes; a batch alone need not."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from afterrun import Retention, SweepOptions
from afterrun.core.events import BatchDone, Event
from crash.aged import MONTH
from pg_server import SUPERUSER, Database, Server
from postgres.statement_tap import driver_of
from sites import DAY_MS, SCHEMA, PostgresSite, fill, run

SETTINGS = {"synchronous_commit": "on", "restart_after_crash": "on"}
"""A commit waits for the disk, unless its session says otherwise."""

FORBID = """
DO $$ DECLARE f regprocedure; BEGIN
    FOR f IN SELECT oid FROM pg_proc WHERE proname = 'pg_logical_emit_message' LOOP
        EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', f);
    END LOOP;
END $$
"""

SECONDS = 30.0
"""How long a server may take to be there again."""


class Crashing:
    """A server whose log is written by nobody but the commits that wait for it."""

    def __init__(self, server: Server) -> None:
        """Hold the process that writes the log in the background."""
        self.server = server
        self._writer = 0
        self._hold()

    def crash(self) -> None:
        """End all processes with what they have in memory; the server recovers by itself."""
        os.kill(self._writer, signal.SIGKILL)
        self._hold()

    def let_go(self) -> None:
        """Let the server work as usual."""
        os.kill(self._writer, signal.SIGCONT)

    def _hold(self) -> None:
        deadline, before = time.monotonic() + SECONDS, self._writer
        while self._writer == before:
            assert time.monotonic() < deadline
            self._writer = self._background_writer() or before
        os.kill(self._writer, signal.SIGSTOP)

    def _background_writer(self) -> int | None:
        try:
            with self.server.connect(user=SUPERUSER) as connection:
                found = connection.execute(
                    "SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'"
                ).fetchone()
        except psycopg.OperationalError:
            return None
        return int(found[0]) if found else None


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """Give a server that the tests may crash."""
    with Server(settings=SETTINGS) as server:
        yield server


@pytest.fixture
def database(server: Server, tmp_path: Path) -> Iterator[Database]:
    """Give a store with two runs that are old by the server's own clock."""
    site = PostgresSite(server, state=tmp_path / "made")
    (now,) = site.database.rows("SELECT (extract(epoch FROM now()) * 1000)::bigint")[0]
    fill(site, [run(key, completed_at=now - 100 * DAY_MS) for key in ("x", "y")])
    site.retention.close()
    site._back.execute("CHECKPOINT")
    site._back.close()
    yield site.database
    server.drop_database(site.database.name)


@pytest.fixture
def crashing(database: Database) -> Iterator[Crashing]:
    """Give the server of the store, its log writer held."""
    made = Crashing(database.server)
    yield made
    made.let_go()


def left(database: Database) -> int:
    """Count the runs that are left."""
    return int(database.rows(f"SELECT count(*) FROM {SCHEMA}.workflow_status")[0][0])


def test_what_was_reported_survives_a_crash_of_the_server(
    database: Database, crashing: Crashing, tmp_path: Path
) -> None:
    """The command waits for the disk once, after the last batch."""
    with Retention(database.url(), state=tmp_path / "state") as retention:
        report = retention.prune(MONTH)
        assert (report.ended, report.units.removed) == ("completed", 2)
        crashing.crash()
    assert left(database) == 0


def test_a_batch_that_nobody_was_told_of_may_come_back_whole(
    database: Database, crashing: Crashing, tmp_path: Path
) -> None:
    """The server crashes right after a commit: the run is there again, and the next removal takes it."""

    def observe(event: Event) -> None:
        if isinstance(event, BatchDone):
            crashing.crash()

    with Retention(database.url(), state=tmp_path / "state") as retention:
        report = retention.prune(MONTH, options=SweepOptions(observer=observe, batch_units=1))
    assert (report.ended, left(database)) == ("failed", 2)
    with Retention(database.url(), state=tmp_path / "state") as retention:
        assert retention.prune(MONTH).units.removed == 2


def test_who_cannot_wait_for_the_disk_does_not_say_that_all_is_done(
    database: Database, crashing: Crashing, tmp_path: Path
) -> None:
    """The connection is lost between the last batch and the wait: the sweep failed."""
    with Retention(database.url(), state=tmp_path / "state") as retention:
        pid = driver_of(retention.store).info.backend_pid

        def observe(event: Event) -> None:
            if isinstance(event, BatchDone):
                database.rows("SELECT pg_terminate_backend(%s, 5000)", pid, user=SUPERUSER)

        report = retention.prune(MONTH, options=SweepOptions(observer=observe))
    assert (report.ended, report.units.removed) == ("failed", 2)


def test_a_role_that_cannot_wait_later_waits_for_each_batch(
    database: Database, crashing: Crashing, tmp_path: Path
) -> None:
    """Without the right to write a mark to the log, each commit is on the disk when it returns."""
    database.run(
        FORBID,
        user=SUPERUSER,
    )

    def observe(event: Event) -> None:
        if isinstance(event, BatchDone):
            crashing.crash()

    with Retention(database.url(), state=tmp_path / "state") as retention:
        report = retention.prune(MONTH, options=SweepOptions(observer=observe, batch_units=1))
    assert (report.ended, left(database)) == ("failed", 1)
