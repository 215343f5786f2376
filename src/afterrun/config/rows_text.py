"""The rules for row tables that a settings file and its variables come to."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from afterrun.config.text import RowsText
from afterrun.core.errors import AfterrunError
from afterrun.core.row_rules import RowRules

ROWS: Final = "ROWS_"
"""Word before the name of a row table in a variable."""


def merged_tables(general: Mapping[str, RowsText], own: Mapping[str, RowsText]) -> dict[str, RowsText]:
    """Return the rules of all these tables, those of ``own`` key by key in place of the general ones."""
    named = {name: general[name].merged(rules) if name in general else rules for name, rules in own.items()}
    return {**general, **named}


def rules_of(tables: Mapping[str, RowsText]) -> dict[str, RowRules]:
    """Return the rules by table. Raises `UsageError`."""
    return {name: text.rules() for name, text in tables.items()}


def faults_of(tables: Mapping[str, RowsText], *, place: str) -> Iterator[str]:
    """Yield what is wrong with the rules of tables, each with its place in the file."""
    for name, text in tables.items():
        try:
            text.rules()
        except AfterrunError as error:
            yield f"{place}.{name}: {error}"


def named_in(prefix: str, variables: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    """Yield those of these variables that name a key of a table's rules, with the table and the key."""
    keys = "|".join(key.upper() for key in RowsText.model_fields)
    pattern = re.compile(rf"{re.escape(prefix)}{ROWS}([A-Z][A-Z0-9_]{{0,39}})_({keys})", re.ASCII)
    for variable in variables:
        found = pattern.fullmatch(variable)
        if found is not None:
            table, key = found.groups()
            yield variable, table.lower().replace("_", "-"), key.lower()
