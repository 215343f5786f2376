"""Loops of a real duroxide that continue as new for ever: sweeps beside them and after a kill take none."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from afterrun import Policy
from afterrun.profiles.loader import built_in_text

from .duroxide_stores import PostgresStore, SqliteStore, Store, command, ids, prune, run_duroxide

pytestmark = pytest.mark.engine

LOOPS = 8
KILLS = 8
SWEEPS = 3
EVERYTHING = Policy(keep_for=timedelta(milliseconds=1), grace=timedelta(0))
"""Lets go what has ended at all: age is no protection here."""

GAP = """
SELECT i.instance_id FROM instances i JOIN executions e
    ON e.instance_id = i.instance_id AND e.execution_id = i.current_execution_id
WHERE e.status = 'ContinuedAsNew' AND EXISTS (
    SELECT 1 FROM orchestrator_queue q WHERE q.instance_id = i.instance_id)
"""
"""Loops between two generations: the next one is no more than a message."""


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """Name an empty place for a store."""
    if request.param == "sqlite":
        return SqliteStore(tmp_path / "store.sqlite")
    return PostgresStore(request.getfixturevalue("database"), tmp_path)


@pytest.fixture
def careless(tmp_path: Path) -> Path:
    """Make a profile that reads statuses as the engine's own bulk delete does, and looks at nothing else."""
    kept = built_in_text("duroxide").partition("[[units.tree.protect]]")[0]
    for old, new in (
        ('terminal = ["Completed", "Failed"]', 'terminal = ["Completed", "Failed", "ContinuedAsNew"]'),
        ('live = [["Running"], ["ContinuedAsNew"]]', 'live = [["Running"]]'),
        # PostgreSQL writes no time of its end
        ("end = [{", 'end = [{ column = "cur.started_at", format = "text_utc" }, {'),
    ):
        assert old in kept
        kept = kept.replace(old, new)
    path = tmp_path / "careless.toml"
    path.write_text(kept, encoding="utf-8")
    return path


@contextmanager
def working(store: Store) -> Iterator[None]:
    """Run the engine with its loops on their way, and kill it in the middle of its work."""
    words = command("loop", store, "--loops", str(LOOPS))
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            told = next((line for line in process.stdout or () if line.startswith("{")), "{}")
            assert len(json.loads(told)["running"]) == LOOPS
            yield
        finally:
            process.kill()


def test_no_sweep_takes_a_living_loop(store: Store, careless: Path) -> None:
    """Beside the worker, after it was killed, and between two generations: all loops stay and go on.

    Without the protections the same sweep takes every loop that stands between two generations.
    """
    loops = {f"loop-{number}" for number in range(LOOPS)}
    between: set[str] = set()
    for _ in range(KILLS):
        with working(store):
            for _ in range(SWEEPS):
                assert prune(store, EVERYTHING, offline=False).units.removed == 0
        between = {row[0] for row in store.rows(GAP)}
        assert prune(store, EVERYTHING).units.removed == 0
        assert ids(store) == loops
        if between:
            break
    assert between
    copied = store.copy("careless")
    assert prune(copied, EVERYTHING, profile=careless).units.removed == len(between)
    assert ids(copied) == loops - between
    went = run_duroxide("advance", store, "--loops", str(LOOPS))
    assert all(after > before for before, after in zip(went["before"], went["after"], strict=True))


@pytest.mark.parametrize("store", ["sqlite"], indirect=True)
def test_a_message_for_an_instance_that_is_gone_stops_the_engine(store: Store, careless: Path) -> None:
    """Why messages protect: a timer that lost a race and fires after its instance went stops all others."""
    store.fill()
    store.change("UPDATE orchestrator_queue SET visible_at = 1 WHERE instance_id = 'hasty'")
    sound = store.copy("sound")
    assert prune(sound, EVERYTHING).units.removed == 5
    assert run_duroxide("recover", sound)["results"] == {"eternal": "stopped", "waiter": "told again"}
    assert prune(store, EVERYTHING, profile=careless).units.removed > 5
    with pytest.raises(RuntimeError, match="timed out"):
        run_duroxide("recover", store, "--wait", "1.5")
