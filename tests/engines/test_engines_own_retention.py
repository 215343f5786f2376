"""Beside the engine's own retention, which DBOS 3.0 to 3.2 still has: one of the two waits its turn."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

import pytest

from afterrun import StoreLocked
from pg_server import Database

from .retained import LIVE_TREES, MONTH, OLD_DAYS, WATCHED, EngineStore, OnServer, prune, retention, run_ids
from .stores import engine_python

VERSION = "3.2.0"

pytestmark = pytest.mark.engine

COLLECTS = """if True:
    import os, sys
    sys.path.insert(0, sys.argv[2])
    import dbos_workflows as app
    from dbos._dbos import _get_dbos_instance
    from dbos._workflow_commands import garbage_collect

    with app.engine(sys.argv[1], executor=app.BYSTANDER):
        garbage_collect(_get_dbos_instance(), int(sys.argv[3]), None)
    os._exit(0)
"""
"""What Conductor makes the engine do: remove all runs that ended before an instant."""

HOLDERS = """
SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted
    AND (classid::bigint << 32 | objid::bigint) = %s
"""


@pytest.fixture
def made(store: EngineStore) -> OnServer:
    """Make a store of the last version with a retention of its own, all finished runs old."""
    assert isinstance(store, OnServer)
    store.make(VERSION)
    store.age(OLD_DAYS)
    return store


@contextmanager
def collecting(store: OnServer) -> Iterator[subprocess.Popen[bytes]]:
    """Run the engine's own retention, with the same limit of age as ours."""
    cutoff = time.time_ns() // 1_000_000 - 30 * 86_400_000
    demo = Path(__file__).parents[2] / "demo"
    command = [str(engine_python(VERSION)), "-E", "-c", COLLECTS, store.place, str(demo), str(cutoff)]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as process:
        try:
            yield process
            _, told = process.communicate(timeout=60)
            assert process.returncode == 0, told.decode()
        finally:
            process.kill()


def await_holder(database: Database, schema: str, process: subprocess.Popen[bytes]) -> None:
    """Wait until the engine has its lock, by the key that it has in all languages."""
    key = int.from_bytes(sha256(f"dbos.retention.{schema}".encode()).digest()[:8], "big", signed=True)
    deadline = time.monotonic() + 60
    while not database.rows(HOLDERS, key):
        assert process.poll() is None
        assert time.monotonic() < deadline


@pytest.mark.parametrize("kind", ["postgres"])
def test_the_engines_retention_waits_for_ours(made: OnServer) -> None:
    """While we hold its lock the engine's retention skips its round; afterwards it does what it always did.

    That is to remove the finished child of a live parent, so here is seen that it did nothing before.
    """
    rounds: list[set[str]] = []

    def let_the_engine() -> bool:
        if len(rounds) < 2:
            before = run_ids(made)
            with collecting(made):
                pass
            assert run_ids(made) == before
            rounds.append(before)
        return True

    report = prune(made, batch_units=5, gate=let_the_engine)
    assert (report.ended, len(rounds)) == ("completed", 2)
    assert "waiting-parent-child" in rounds[1]
    assert run_ids(made) == LIVE_TREES | WATCHED
    with collecting(made):
        pass
    assert "waiting-parent-child" not in run_ids(made)


@pytest.mark.parametrize("kind", ["postgres", "other schema"])
def test_ours_leaves_at_once_while_the_engines_runs(made: OnServer) -> None:
    """The command ends with exit code 5 and says why; once the engine is done, the next one goes on."""
    runs = run_ids(made)
    afterrun = str(Path(sys.executable).with_name("afterrun"))
    command = [afterrun, "prune", "--keep-for", "30d", "--apply", "--no-backup", "--yes"]
    environment = os.environ | {
        "AFTERRUN_STORE": made.place,
        "AFTERRUN_STATE_DIR": str(made.folder / "other"),
    }
    lock = f'SELECT 1 FROM "{made.schema}".workflow_status WHERE workflow_uuid = %s FOR UPDATE'
    with made.database.connect(autocommit=False) as holding:
        holding.execute(lock.encode(), ["simple-1"])  # which the engine waits for
        with collecting(made) as process:
            await_holder(made.database, made.schema, process)
            done = subprocess.run(
                command, env=environment, capture_output=True, text=True, check=False, timeout=60
            )
            with retention(made) as ours, pytest.raises(StoreLocked, match="own retention"):
                ours.sweep(MONTH, always=True)
            assert run_ids(made) == runs
            holding.rollback()
    assert done.returncode == 5
    assert "the engine's own retention is removing runs" in done.stderr
    assert run_ids(made) < runs
    again = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert again.returncode == 0, again.stderr
