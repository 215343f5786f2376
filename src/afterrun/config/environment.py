"""Variables of the environment that take the place of keys of the settings file.

A variable is named after its key: ``AFTERRUN_INTERVAL``, ``AFTERRUN_TELEMETRY_LOG_FORMAT``. The keys of a
policy need no word of their own: ``AFTERRUN_KEEP_FOR``, ``AFTERRUN_STORES_ORDERS_KEEP_FOR``. Row tables are
named without the file: ``AFTERRUN_ROWS_LOGS_KEEP_FOR``. What is empty counts as not set.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal, get_args, get_origin

from afterrun.config.rows_text import ROWS, named_in
from afterrun.config.text import PolicyText, RowsText, SettingsText, StoreText, Text
from afterrun.core.errors import did_you_mean

PREFIX: Final = "AFTERRUN_"
STORES: Final = f"{PREFIX}STORES_"
OTHER_VARIABLES: Final = (
    "AFTERRUN_CONFIG",
    "AFTERRUN_DATASOURCE",
    "AFTERRUN_DEBUG",
    "AFTERRUN_PG_DUMP",
    "AFTERRUN_SCAN_PATH",
    "AFTERRUN_SEALING_KEY",
    "AFTERRUN_SEALING_KEY_FILE",
    "AFTERRUN_STATE_DIR",
    "AFTERRUN_STORE",
)
"""Variables of ours that stand for no key of the file."""

NEAR: Final = 0.75
"""Likeness from which an unknown variable is taken for a misspelt one: others may have names of their own."""

Place = tuple[str, ...]


@dataclass(slots=True)
class Overrides:
    """Values by their place in the file, the variable each came from, and what is wrong with others."""

    values: dict[Place, object] = field(default_factory=dict)
    variables: dict[Place, str] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)
    """Variables that look like ours and mean nothing here."""

    def applied(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """Return the file's data with these values in it."""
        changed = _copied(data)
        for place, value in self.values.items():
            table = changed
            for part in place[:-1]:
                inner = table.setdefault(part, {})
                if not isinstance(
                    inner, dict
                ):  # the file has something else there, which is a fault of its own
                    break
                table = inner
            else:
                table[place[-1]] = value
        return changed


def variables(stores: Mapping[str, object] | None = None) -> dict[str, tuple[Place, type[Text]]]:
    """Return every variable, with its place and the table it belongs to; for stores of these names."""
    found = dict(_named(PREFIX, (), SettingsText))
    for name in {"<NAME>": None} if stores is None else stores:
        word = name.upper().replace("-", "_")
        found |= _named(f"{STORES}{word}_", ("stores", name), StoreText)
    return found


def _named(prefix: str, place: Place, table: type[Text]) -> Iterator[tuple[str, tuple[Place, type[Text]]]]:
    for key, info in table.model_fields.items():
        inner = info.annotation
        if inner is PolicyText:
            yield from _named(prefix, (*place, key), PolicyText)
        elif isinstance(inner, type) and issubclass(inner, Text):
            yield from _named(f"{prefix}{key.upper()}_", (*place, key), inner)
        elif _kind(inner) is not None:
            yield f"{prefix}{key.upper()}", ((*place, key), table)


def overrides(data: Mapping[str, Any], environ: Mapping[str, str]) -> Overrides:
    """Return what the environment says in place of the file's keys."""
    made = Overrides()
    stores = data.get("stores")
    names = stores if isinstance(stores, dict) else {}
    for one, other in _alike(names):
        made.faults.append(f"stores.{other}: its variables would be those of stores.{one}; rename one")
    known = variables({str(name): None for name in names})
    known |= row_variables(names, environ)
    for variable, text in sorted(environ.items()):
        if not variable.startswith(PREFIX) or variable in OTHER_VARIABLES or not text:
            continue
        if variable in known:
            _take(made, variable, known[variable], text)
        elif fault := _misspelt(variable, known):
            made.faults.append(fault)
        else:
            made.ignored.append(variable)
    return made


def row_variables(stores: Iterable[object], environ: Iterable[str]) -> dict[str, tuple[Place, type[Text]]]:
    """Return those of these variables that name a row table, which the file need not name."""
    named = {PREFIX: ()} | {
        f"{STORES}{store.upper().replace('-', '_')}_": ("stores", store) for store in map(str, stores)
    }
    return {
        variable: ((*place, "tables", table, key), RowsText)
        for prefix, place in named.items()
        for variable, table, key in named_in(prefix, environ)
    }


def _alike(names: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    seen: dict[str, str] = {}
    for name in map(str, names):
        word = name.upper().replace("-", "_")
        if word in seen:
            yield seen[word], name
        seen[word] = name


def _take(made: Overrides, variable: str, known: tuple[Place, type[Text]], text: str) -> None:
    place, table = known
    kind = _kind(table.model_fields[place[-1]].annotation)
    try:
        made.values[place] = _value(text, kind)
    except ValueError as error:
        made.faults.append(f"the variable {variable}: {error}")
    made.variables[place] = variable


def _misspelt(variable: str, known: Mapping[str, object]) -> str:
    """Say what is wrong with an unknown variable that can only be meant for us, or is nearly one of ours."""
    if variable.startswith(f"{PREFIX}{ROWS}"):
        keys = ", ".join(key.upper() for key in RowsText.model_fields)
        return f"the variable {variable}: it names a row table and ends in none of {keys}"
    if variable.startswith(STORES):
        return f"the variable {variable}: no store and key has this name{did_you_mean(variable, known)}"
    words = {name.removeprefix(PREFIX): name for name in known}
    near = difflib.get_close_matches(variable.removeprefix(PREFIX), words, n=1, cutoff=NEAR)
    if not near:
        return ""
    return f"the variable {variable}: there is none of this name (did you mean {words[near[0]]!r}?)"


def _kind(annotation: Any) -> type | None:  # noqa: ANN401 - typing has no type for annotations
    """Return what the text of a variable is read as; ``None`` for what no variable can say."""
    types = _types_in(annotation)
    if {int, str} <= types:  # text can say both
        return str
    return next((kind for kind in (list, bool, int, float, str) if kind in types), None)


def _types_in(annotation: Any) -> set[type]:  # noqa: ANN401 - the same
    """Return the plain types that may stand at a key: a list only if it is one of text."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _types_in(parts[0])
    if origin is Literal:
        return {str}
    if origin is list:
        return {list} if _types_in(parts[0]) == {str} else set()
    if parts:
        return set().union(*map(_types_in, parts))
    return {annotation} if isinstance(annotation, type) else set()


def _value(text: str, kind: type | None) -> object:
    if kind is bool:
        if text not in {"true", "false"}:
            raise ValueError("write true or false")
        return text == "true"
    if kind is int or kind is float:
        try:
            return kind(text)
        except ValueError:
            raise ValueError("write a number") from None
    return [part.strip() for part in text.split(",")] if kind is list else text


def _copied(data: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _copied(value) if isinstance(value, dict) else value for name, value in data.items()}
