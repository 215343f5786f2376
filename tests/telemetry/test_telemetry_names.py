"""The table of names: the page, the code and what is really told agree."""

from __future__ import annotations

import logging
import re
from dataclasses import fields
from pathlib import Path
from typing import get_args

import pytest

from afterrun.core.errors import UnitFailure
from afterrun.core.events import Event
from afterrun.telemetry import NAMES, Name
from afterrun.telemetry.names import EVENTS, UNIT_FAULTS, WORDS
from cli.kit import make_store

PAGE = Path(__file__).resolve().parents[2] / "docs" / "telemetry.md"
ROW = re.compile(r"^\| `([^`]+)` \| ([a-z A-Z]+) \| (.*?) \| (.*?) \| (.*) \|$", re.MULTILINE)


def row_of(name: Name) -> tuple[str, ...]:
    """Return the row that a name has on the page."""
    return (
        name.name,
        name.signal,
        ", ".join(f"`{field}`" for field in name.fields),
        name.unit,
        name.said,
    )


def test_the_page_has_every_name_and_no_other() -> None:
    """The table is that of the code: name, signal, fields, unit and meaning, in one order."""
    rows = [tuple(part.strip() for part in row) for row in ROW.findall(PAGE.read_text(encoding="utf-8"))]
    assert rows == [row_of(name) for name in NAMES]


def test_no_name_stands_for_two_things() -> None:
    """A name is told from every other within its signal."""
    told = [(name.signal, name.name) for name in NAMES]
    assert len(told) == len(set(told))


def test_every_core_event_is_in_the_table_with_all_its_fields() -> None:
    """An event or field that is added to the core has to be named."""
    assert set(EVENTS) == set(get_args(Event))
    for event, (name, _) in EVENTS.items():
        assert name.fields == tuple(field.name for field in fields(event))


def test_text_fields_have_their_words() -> None:
    """A field that holds text says which words it may hold."""
    text = {field.name for event in EVENTS for field in fields(event) if field.type not in {"int", "float"}}
    assert text == set(WORDS)
    assert all(word in str(UnitFailure.__doc__) for word in UNIT_FAULTS)


def test_every_word_of_a_field_is_on_the_page() -> None:
    """Who filters by a word finds all of them."""
    page = PAGE.read_text(encoding="utf-8")
    assert [word for words in WORDS.values() for word in words if f"`{word}`" not in page] == []


def test_the_example_of_the_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the page shows for a program that embeds afterrun works on a real store."""
    make_store(tmp_path / "app.sqlite")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AFTERRUN_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setattr(logging, "basicConfig", lambda **_: None)  # pytest has configured it already
    (example,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    exec(compile(example, "telemetry.md", "exec"), {})  # noqa: S102 - our own page
    assert 'afterrun_units_removed_total{store="orders"} 11.0' in capsys.readouterr().out
