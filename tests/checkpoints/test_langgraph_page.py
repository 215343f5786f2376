"""The page on LangGraph: its examples run, and it names every reason that the code gives."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from afterrun.cli import main
from afterrun.profiles.langgraph import Stay, keep
from afterrun.stores.sql.langgraph import checkpoint_units, threads
from checkpoints.hostile_kit import Hostile
from checkpoints.packing import checkpoint, pack

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "langgraph.md").read_text(encoding="utf-8")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a folder with a store, in which commands run."""
    store = Hostile(tmp_path / "checkpoints.sqlite")
    for number in range(3):
        store.thread(f"chat-{number}", steps=5)
    store.thread("waiting-0", last={"checkpoint": pack(checkpoint(channel_values={"branch:to:ask": None}))})
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AFTERRUN_STATE_DIR", str(tmp_path / "state"))
    return tmp_path


def test_its_commands_run(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each line of the first example does what the page says."""
    block = re.search(r"```\n(afterrun .*?)```", PAGE, re.DOTALL)
    assert block is not None
    for line in block[1].splitlines():
        words = shlex.split(line)[1:]
        code = main([*words, "--yes"] if "--apply" in words else words)
        told = capsys.readouterr()
        assert code == 0, told.err
        if "explain" in words:
            assert "resumable" in told.out


def test_its_example_in_python_runs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Checkpoints go, and every thread stays."""
    example = re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert example is not None
    exec(compile(example[1], "langgraph.md", "exec"), {})  # noqa: S102 - our own page
    assert "15 checkpoints removed" in capsys.readouterr().out


def test_it_names_every_reason() -> None:
    """A reason that a plan may show stands in one of the tables."""
    stays = [value for module in (keep, checkpoint_units) for value in vars(module).values()]
    names = {stay.name for stay in stays if isinstance(stay, Stay)}
    text = Path(threads.__file__).read_text(encoding="utf-8")
    names |= set(re.findall(r'Reason\(\s*"([a-z-]+)"', text))
    assert names >= {"resumable", "queued-work", "fork-leaf", "delta-channel"}
    assert {name for name in names if f"`{name}`" not in PAGE} == set()
