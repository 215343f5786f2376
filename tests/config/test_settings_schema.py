"""The JSON Schema for editors agrees with what is read, and the page with both."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from afterrun import UsageError
from afterrun.config import PolicyText, ServerText, SettingsText, StoreText, TelemetryText, load_settings
from afterrun.core.errors import Exit
from cli.kit import run_cli
from config.conftest import Write

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "configuration.md").read_text(encoding="utf-8")
HEAD = '[policy]\nkeep_for = "30d"\n[stores.a]\nstore = "a.db"\n'
RIGHT = [
    "",
    'interval = "0s"\napprove = true\n',
    '[policy]\nkeep_for = "forever"\nbefore = "2026-01-01T00:00:00Z"\npins = ["a"]\n',
    '[policy]\nkeep_daily = 7\nkeep_yearly = 1\ntimezone = "Europe/Berlin"\nkeep_keys = "forever"\n',
    '[policy]\ncap_units = 5\ncap_bytes = "5 GiB"\n[[policy.rules]]\nmatch = {a = ["b"]}\nkeep_for = "1d"',
    "[policy]\ncap_bytes = 5000",
    f"{HEAD}pause = 1\nmax_seconds = 2.5\npolicy = {{ keep_last = 1, group_by = ['name'] }}\ninherit = false",
    f'{HEAD}[telemetry]\nlog_format = "json"\nlog_level = "debug"\nopentelemetry = false',
    '[server]\napp = "flows.py:app"\nlisten = "unix"\nrunners = 1\nlease = "5s"\nhosts = ["a.example"]',
]
WRONG = [
    "intervall = 1",
    'interval = "1 day"',
    "interval = 24",
    'approve = "true"',
    "[policy]\nkeep_last = 0",
    "[policy]\nkeep_last = true",
    "[policy]\nkeep_weekly = 0",
    '[policy]\nkeep_daily = 1\ntimezone = ""',
    '[policy]\ncap_bytes = "5G"',
    "[policy]\ncap_bytes = 0",
    "[policy]\ncap_bytes = true",
    "[policy]\ncap_units = 0",
    '[policy]\nkeep_for = "1d"\nkeep_keys = "0"',
    *(
        f'[policy]\nkeep_for = "1d"\n[[policy.rules]]\n{rule}'
        for rule in (
            'match = { status = ["a"] }',
            'keep_for = "1d"',
            'match = {}\nkeep_for = "1d"',
            'match = { status = "a" }\nkeep_for = "1d"',
            'match = { status = [] }\nkeep_for = "1d"',
            'match = { status = [""] }\nkeep_for = "1d"',
            'match = { status = ["a"] }\nkeep_for = "1d"\nkeep_last = 1',
        )
    ),
    '[policy]\nkeep_for = "0"',
    "[policy]\ngroup_by = [1]",
    '[policy]\nkeep_last_counts = "all"',
    f"{HEAD}pause = 101",
    f"{HEAD}max_seconds = 0",
    f"{HEAD}stroe = 'x'",
    "[stores.A]\nstore = 'x'",
    "[stores.a]\nstore = ''",
    '[telemetry]\nlog_format = "xml"',
    "[server]\nrunners = 0",
    '[server]\nhosts = ["a b"]',
    '[server]\nhosts = ["a.example:80"]',
    '[server]\ntoken = "x"',
    '[server]\nstore = "x"',
    '[server]\nlease = "soon"',
]


@pytest.fixture
def schema() -> dict[str, Any]:
    """Print the schema."""
    answer = run_cli("config", "schema")
    assert answer.code == Exit.DONE
    jsonschema.Draft202012Validator.check_schema(answer.json)
    return answer.json


@pytest.mark.parametrize("text", RIGHT)
def test_the_schema_takes_what_is_right(schema: dict[str, Any], text: str, write: Write) -> None:
    """An editor marks nothing that is read."""
    load_settings(write(text), environ={})
    jsonschema.validate(tomllib.loads(text), schema)


@pytest.mark.parametrize("text", WRONG)
def test_the_schema_refuses_what_is_refused(schema: dict[str, Any], text: str, write: Write) -> None:
    """An editor marks a fault that a load would say."""
    with pytest.raises(UsageError):
        load_settings(write(text), environ={})
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(tomllib.loads(text), schema)


def test_every_key_is_described_in_the_schema_and_on_the_page(schema: dict[str, Any]) -> None:
    """A key that is added has words for people in both, and the page has no other."""
    models: list[type[BaseModel]] = [SettingsText, PolicyText, StoreText, TelemetryText, ServerText]
    keys = PAGE.partition("## Keys")[2].partition("## Variables")[0]
    parts = re.split(r"^\| key \| default \| meaning \|$", keys, flags=re.MULTILINE)[1:]
    assert len(parts) == len(models)
    for part, model in zip(parts, models, strict=True):
        rows = set(re.findall(r"^\| `(\w+)` \|", part, re.MULTILINE))
        assert rows == {name for name, field in model.model_fields.items() if _is_key(model, name, field)}
        assert all(field.description for field in model.model_fields.values())
    described = [schema, *schema["$defs"].values()]
    assert all(
        "description" in value or "$ref" in value
        for part in described
        for value in part["properties"].values()
    )


def _is_key(model: type[BaseModel], name: str, field: FieldInfo) -> bool:
    """Say whether a key has a row in the table of its own level, or a table of its own."""
    inner = field.annotation
    own = name in {"stores", "tables"} or inner in {PolicyText, TelemetryText, ServerText}
    return not (model is SettingsText and own)


def test_examples_of_the_page_fit_the_schema(schema: dict[str, Any]) -> None:
    """What people copy is right."""
    examples = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    assert len(examples) == 2
    for example in examples:
        jsonschema.validate(tomllib.loads(example), schema)
