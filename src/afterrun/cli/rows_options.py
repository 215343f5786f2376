"""What options say of row tables: ``--rows logs=14d`` and ``--rows-latest results=10``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from afterrun.cli.text import masked
from afterrun.config import RowsText
from afterrun.config.text import TABLE_PATTERN
from afterrun.core.errors import UsageError
from afterrun.core.policy import FOREVER, MAX_KEEP_LAST
from afterrun.core.times import parse_duration


def rows_text(
    tables: Mapping[str, RowsText], *, ages: Sequence[str], latest: Sequence[str]
) -> Mapping[str, RowsText]:
    """Return the rules for row tables: those of the file, with what options say in their place.

    Raises `UsageError`.
    """
    said = dict(tables)
    for name, text in (_parted(word, option="--rows") for word in ages):
        said[name] = said.get(name, RowsText()).model_copy(update={"keep_for": _age(text)})
    for name, text in (_parted(word, option="--rows-latest") for word in latest):
        said[name] = said.get(name, RowsText()).model_copy(update={"keep_latest": _count(text)})
    return said


def _parted(word: str, *, option: str) -> tuple[str, str]:
    name, equals, text = word.partition("=")
    if not equals or not re.fullmatch(TABLE_PATTERN, name):
        example = "logs=14d" if option == "--rows" else "logs=1000"
        raise UsageError(f"{option} takes NAME=VALUE, such as {option} {example}: {masked(word)[:40]!r}")
    return name, text.strip()


def _age(text: str) -> str:
    if text != FOREVER.value:
        parse_duration(text)
    return text


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 1 <= int(text[:20]) <= MAX_KEEP_LAST):
        raise UsageError(f"--rows-latest takes a number from 1 to {MAX_KEEP_LAST}: {masked(text)[:40]!r}")
    return int(text)
