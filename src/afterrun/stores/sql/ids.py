"""Ids of runs as people type them: a key may be a text or a number."""

from __future__ import annotations

import re
from typing import Final

from afterrun.core.facts import Key, readable

NUMBER: Final = re.compile(r"-?[0-9]{1,19}", re.ASCII)
"""Text that may be the id of a run whose key is a number."""

MAX_INTEGER: Final = 2**63 - 1
"""Greatest integer of any database."""


def spelled(text: str) -> list[Key]:
    """Return the keys that an id may stand for."""
    keys: list[Key] = [text]
    if NUMBER.fullmatch(text) and abs(int(text)) <= MAX_INTEGER:
        keys.append(int(text))
    return [key for key in keys if readable(key)]
