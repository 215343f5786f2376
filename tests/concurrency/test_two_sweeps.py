"""Two sweeps of one store at once, from two processes, while its engine works."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from afterrun import Retention, StoreLocked
from crash.aged import MONTH, Journal, Request, make_aged, sound, standing
from crash.killing import holding
from dumps import dump_sqlite
from engines.stores import ENGINES, engine_command

pytestmark = pytest.mark.engine


@pytest.mark.parametrize("journal", ["delete", "wal"])
@pytest.mark.parametrize("version", ENGINES)
def test_second_sweep_leaves_at_once_while_the_engine_works(
    version: str, journal: Journal, tmp_path: Path
) -> None:
    """It raises, or exits with 5, as often as it tries; the engine and the first one go on (promise 9)."""
    store, state = tmp_path / "store.sqlite", tmp_path / "state"
    before = make_aged(version, store, journal)
    first = Request(store=str(store), state=str(state), offline=False)
    work = [str(part) for part in engine_command(version, "work", store, "2")]
    removals = (["sweep"], ["prune", "--apply", "--no-backup", "--yes"])
    codes: list[int] = []
    with subprocess.Popen(work, stdout=subprocess.PIPE, text=True) as engine:
        with holding(first) as sweeping:
            with Retention(str(store), state=state) as second, pytest.raises(StoreLocked):
                second.prune(MONTH)
            while engine.poll() is None or len(codes) < len(removals):
                command = [*removals[len(codes) % len(removals)], str(store), "--keep-for", "30d"]
                codes.append(exit_code(command, state=tmp_path / "elsewhere"))
            assert set(codes) == {5}
            assert standing(dump_sqlite(store), before) == [True] * 3
            told, _ = sweeping.communicate("go on\n", timeout=60)
        assert json.loads(told) == {"ended": "completed", "removed": 3}
        answer = json.loads(engine.communicate(timeout=60)[0].splitlines()[-1])
    assert answer["finished"] > 0
    assert answer["errors"] == answer["lost"] == []
    assert standing(dump_sqlite(store), before) == [False] * 3
    assert sound(store, state)


def exit_code(arguments: list[str], *, state: Path) -> int:
    """Run the command line, with a state of its own: only the lock beside the store keeps two apart."""
    command = [str(Path(sys.executable).with_name("afterrun")), *arguments]
    environment = os.environ | {"AFTERRUN_STATE_DIR": str(state)}
    return subprocess.run(command, env=environment, capture_output=True, check=False, timeout=60).returncode
