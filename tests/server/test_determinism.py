from __future__ import annotations

from pathlib import Path

import pytest

from afterrun.runs import RunStatus, RunStore
from server.server_kit import Hosted, ended, eventually, lines, start

BEGINS = "the workflow no longer matches its record: at call "


@pytest.mark.parametrize(
    ("before", "after", "difference"),
    [
        ("charge", "ask", '2 the record has step "charge", the code asks for decide "ok"'),
        ("charge", "", '2 the record has step "charge", the code asks for receive "receive"'),
        ("", "charge", '2 the record has receive "receive", the code asks for step "charge"'),
    ],
)
def test_changed_code_fails_with_the_first_difference(
    before: str, after: str, difference: str, location: str, store: RunStore, tmp_path: Path
) -> None:
    """A run whose record the code no longer matches goes no further; put right, it goes on."""
    (tmp_path / "code").write_text(before)
    with Hosted(location, tmp_path) as server:
        run = start(store, "changed", str(tmp_path))
        eventually(lambda: store.get(run).status is RunStatus.WAITING)
        [runner] = server.runners
        runner.kill()
        eventually(lambda: server.engine.status().counts["runner_exits"] == 1)
        (tmp_path / "code").write_text(after)
        store.messages.send(run, b'"go on"')
        found = ended(store, run)
        assert (found.status, found.reason) == (RunStatus.FAILED, BEGINS + difference)
        (tmp_path / "code").write_text(before)
        store.resume(run)
        assert ended(store, run).status is RunStatus.COMPLETED
    assert lines(tmp_path).count("first") == 1


def test_code_that_ends_before_its_record_does_not_match(
    location: str, store: RunStore, tmp_path: Path
) -> None:
    """What is recorded and not asked for is a difference, too."""
    (tmp_path / "code").write_text("more")
    with Hosted(location, tmp_path) as server:
        run = start(store, "changed", str(tmp_path))
        store.messages.send(run, b'"one"')
        eventually(lambda: len(store.history.page(run)) == 3)
        eventually(lambda: store.get(run).status is RunStatus.WAITING)
        [runner] = server.runners
        runner.kill()
        eventually(lambda: server.engine.status().counts["runner_exits"] == 1)
        (tmp_path / "code").write_text("")
        store.messages.send(run, b'"two"')
        found = ended(store, run)
    assert found.reason == f'{BEGINS}3 the record has receive "receive", the code ends'
