from __future__ import annotations

import re
from pathlib import Path

import pytest

from afterrun.cli import main
from afterrun.runs import RunStatus, RunStore
from afterrun.runs.keys import VARIABLE

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "agent.md"


def test_the_agent_of_the_how_to_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its blocks are one program that does what the page says, a dead runner included."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AFTERRUN_STATE_DIR", str(tmp_path / "state"))
    page = PAGE.read_text("utf-8")
    [command, setting] = re.findall(r"^(?:afterrun|export) (.*)$", page, re.MULTILINE)[:2]
    assert main(command.split()) == 0
    monkeypatch.delenv(VARIABLE)
    monkeypatch.setenv(*setting.split("="))
    capsys.readouterr()
    program = "\n".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL))
    exec(compile(program, "agent.py", "exec"), {"__name__": "agent"})  # noqa: S102 - our own page
    assert capsys.readouterr().out.splitlines() == [
        "asks pending",
        "ended completed",
        "asked again False",
        "protected ['undelivered-result', 'grace', 'keep-for']",
        "life: 42",
        "the universe: 42",
        "recent ['grace', 'keep-for']",
    ]
    with RunStore.open("agent.sqlite") as store:
        [child, *_] = store.newest(limit=2)
        assert {run.status for run in store.newest()} == {RunStatus.COMPLETED}
        assert {step.attempt for run in store.newest() for step in store.steps.of(run.id)} == {1, 2}
        assert child.parent is not None
