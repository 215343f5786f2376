from __future__ import annotations

from pathlib import Path

import pytest

from afterrun.runs import RunStatus, RunStore
from server.server_kit import Server, ended, eventually, lines, start


def test_a_workflow_of_three_steps_runs(location: str, store: RunStore, tmp_path: Path) -> None:
    """What is queued is executed, step by step, and its output is stored."""
    (tmp_path / "open-second").touch()
    run = start(store, "three_steps", str(tmp_path))
    with Server(location, tmp_path):
        assert ended(store, run).status is RunStatus.COMPLETED
    assert store.output_of(run) == b'["first","second","third"]'
    assert lines(tmp_path) == ["first", "second", "third"]


@pytest.mark.parametrize("victim", ["runner", "server"])
def test_a_run_goes_on_after_a_kill_from_its_last_commit(
    victim: str, location: str, store: RunStore, tmp_path: Path
) -> None:
    """A step that was recorded is not done again; the one that ran is."""
    run = start(store, "three_steps", str(tmp_path))
    with Server(location, tmp_path) as server:
        eventually(lambda: "second" in lines(tmp_path))
        if victim == "runner":
            [runner] = server.runners
            runner.kill()
        else:
            server.kill()
            server.start()
        eventually(lambda: lines(tmp_path).count("second") == 2)
        (tmp_path / "open-second").touch()
        assert ended(store, run).status is RunStatus.COMPLETED
    assert lines(tmp_path) == ["first", "second", "second", "third"]
    assert store.output_of(run) == b'["first","second","third"]'
