"""The reference page shows the JSON that `inspect` and `reclaim` really print."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from cli.kit import make_store, run_cli

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")


def words(value: object) -> object:
    """Return the keys of an object at every level, for lists those of the first entry."""
    if isinstance(value, dict):
        return {name: words(part) for name, part in value.items()}
    if isinstance(value, list):
        return [words(value[0])] if value and isinstance(value[0], dict) else []
    return None


@pytest.mark.parametrize(
    ("title", "command"), [("an inspection", ("inspect",)), ("a reclaim", ("reclaim", "--apply"))]
)
def test_the_example_has_the_words_of_a_real_answer(
    tmp_path: Path, title: str, command: tuple[str, ...]
) -> None:
    """Every key of the example is printed, and every printed key is in the example."""
    section = PAGE.split(f"\n## JSON of {title}\n")[1]
    example = json.loads(re.findall(r"```json\n(.*?)```", section, re.DOTALL)[0])
    store = make_store(tmp_path / "store.sqlite")
    run_cli("prune", store, "--keep-for", "2d", "--apply", "--no-backup", "--yes")
    real = run_cli(*command, store, "--json").json
    real["room"] = example.get("room")
    if title == "an inspection":
        del real["room"]
        real["reclaim"]["room"] = []
        real["stays"]["blocked"] = {}
    assert words(example) == words(real)
