"""The page on scheduling: its example runs, and it has every word that a program can meet."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

from afterrun.core.report import Ended
from afterrun.schedule import Reason, Standing, Why
from cli.kit import count, make_store
from schedule.how_to_kit import blocks, page

PAGE = "scheduling.md"


def test_the_example_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It sweeps a store once, when its host is idle."""
    make_store(tmp_path / "app.sqlite", 40)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AFTERRUN_STATE_DIR", str(tmp_path / "state"))
    for example in blocks(PAGE, "python"):
        exec(compile(example, PAGE, "exec"), {})  # noqa: S102 - our own page
    printed = capsys.readouterr().out.splitlines()
    assert "at work: {'run': 1}" in printed
    assert printed[-1].startswith("completed ")
    assert count(tmp_path / "app.sqlite") == 30


@pytest.mark.parametrize("word", [*Reason, *Why, *get_args(Ended), "refused"])
def test_every_word_is_explained(word: str) -> None:
    """Reasons of requests, reasons why none starts, and endings."""
    assert f"`{word}`" in page(PAGE)


def test_every_state_is_explained() -> None:
    """As a standing says them."""
    states = get_args(get_type_hints(Standing)["state"])
    assert states
    assert [state for state in states if f"`{state}`" not in page(PAGE)] == []


def test_the_pages_lead_to_each_other() -> None:
    """Every how-to that the page names is there, or is named elsewhere in this folder."""
    here = Path(__file__).resolve().parents[2] / "docs"
    linked = re.findall(r"\]\(([a-z/-]+\.md)\)", page(PAGE))
    assert {"howto/dbos-application.md", "howto/fastapi.md"} <= set(linked)
    assert [link for link in linked if not (here / link).exists()] == []
