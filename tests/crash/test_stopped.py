"""A removal that is stopped from outside: its lock goes with it, and it ends between two batches if asked."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from afterrun import Retention, StoreLocked, SweepOptions
from afterrun.state import StateDirectory
from crash.aged import MONTH, Request, kept, make_aged, sound, standing
from crash.killing import environment, holding
from dumps import dump_sqlite
from engines.stores import ENGINES, clone_store

pytestmark = pytest.mark.engine


def test_lock_of_a_killed_sweep_is_free_at_once(tmp_path: Path) -> None:
    """SIGKILL leaves the lock's file, not the lock: the next removal needs no repair (promises 4, 9)."""
    store = tmp_path / "store.sqlite"
    before = make_aged(ENGINES[0], store, "delete")
    with Retention(str(store), state=tmp_path / "mine") as mine:
        with holding(Request(store=str(store), state=str(tmp_path / "theirs"))) as process:
            with pytest.raises(StoreLocked):
                mine.prune(MONTH)
            process.send_signal(signal.SIGKILL)
            process.wait()
            report = mine.prune(MONTH)
        assert (report.ended, report.units.removed) == ("completed", 3)
    assert standing(dump_sqlite(store), before) == [False] * 3
    assert kept(dump_sqlite(store)) == kept(before)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_signal_ends_a_removal_after_the_running_batch(number: signal.Signals, tmp_path: Path) -> None:
    """Ctrl-C or a service manager's stop: exit 130, a sound store, a record, and the next one goes on."""
    store = tmp_path / "store.sqlite"
    cloned = clone_store(None, store, runs=2_000, version=ENGINES[0])
    command = [
        str(Path(sys.executable).with_name("afterrun")),
        "prune",
        str(store),
        "--keep-for",
        "30d",
        "--apply",
    ]
    command += ["--no-backup", "--yes", "--batch-units", "1", "--json", "-v"]
    state = tmp_path / "state"
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment() | {"AFTERRUN_STATE_DIR": str(state)},
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline()  # the first line of -v: a page was read or a batch is through
        process.send_signal(number)
        told, _ = process.communicate(timeout=30)
    assert process.returncode == 130
    report = json.loads(told)
    assert report["ended"] == "interrupted"
    removed = report["units"]["tree"]["removed"]
    assert 0 < removed < cloned.units
    assert sound(store, state)
    assert len(dump_sqlite(store)["workflow_status"]) == cloned.runs - removed
    memory = StateDirectory(state).load(f"sqlite:{store.resolve()}")
    assert (memory.records[-1].ended, memory.records[-1].removed) == ("interrupted", removed)
    with Retention(str(store), state=state) as retention:
        rest = retention.prune(MONTH, options=SweepOptions(offline=True))
    assert (rest.ended, rest.units.removed) == ("completed", cloned.units - removed)
