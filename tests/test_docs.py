"""Documentation that runs: examples of the how-to, and words that pages and code must share."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest
from pydantic import BaseModel

from afterrun.profiles import Profile, blobs, generation, rows, words
from afterrun.profiles import model as profile_model
from afterrun.profiles.registry import EndFormat
from engines.stores import age_runs, make_store

DOCS = Path(__file__).resolve().parent.parent / "docs"


@pytest.mark.engine
def test_the_embedding_guide_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every example of the embedding guide runs in order on a real store and removes what it says."""
    make_store("3.4.0", tmp_path / "app.sqlite")
    age_runs(tmp_path / "app.sqlite", 40)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AFTERRUN_STATE_DIR", str(tmp_path / "state"))
    examples = re.findall(r"```python\n(.*?)```", (DOCS / "embedding.md").read_text("utf-8"), re.DOTALL)
    names: dict[str, object] = {}
    for example in examples:
        exec(compile(example, "embedding.md", "exec"), names)  # noqa: S102 - our own page
    printed = capsys.readouterr().out
    assert len(examples) >= 3
    assert "protected" in printed
    assert "live-member" in printed
    assert re.search(r"^guard ", printed, re.MULTILINE)
    assert re.search(r"^completed [1-9][0-9]* units removed$", printed, re.MULTILINE)


def _keys(model: type[BaseModel], seen: set[type[BaseModel]]) -> set[str]:
    """Return the keys of a model and of all models below it."""
    seen.add(model)
    keys = {field.alias or name for name, field in model.model_fields.items()}
    for module in (profile_model, blobs, generation, rows, words):
        for part in vars(module).values():
            if isinstance(part, type) and issubclass(part, words.Model) and part not in seen:
                keys |= _keys(part, seen)
    return keys


def test_every_key_of_a_profile_is_documented() -> None:
    """A key that the profile model accepts stands in the page on profiles."""
    page = re.sub(r"```.*?```", "", (DOCS / "profiles.md").read_text("utf-8"), flags=re.DOTALL)
    words = set(re.findall(r"[a-z_]+", " ".join(re.findall(r"`([^`]+)`", page))))
    assert _keys(Profile, set()) - words == set()


def test_every_time_format_is_documented() -> None:
    """A spelling of time that the registry knows stands in the page on profiles."""
    page = (DOCS / "profiles.md").read_text("utf-8")
    assert [name for name in get_args(EndFormat) if f"`{name}`" not in page] == []
