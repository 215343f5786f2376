"""The time that an id tells."""

from __future__ import annotations

import re
from collections.abc import Hashable
from functools import lru_cache
from typing import Final

from afterrun.core.times import YEAR_2000, Instant

UUID6: Final = re.compile(
    r"([0-9a-f]{8})-([0-9a-f]{4})-6([0-9a-f]{3})-[89ab][0-9a-f]{3}-[0-9a-f]{12}", re.ASCII
)
"""A UUID of version 6 the way the engine writes it: its first 60 bits are a time, the high ones first."""

GREGORIAN: Final = 0x01B21DD213814000
"""Steps of 100 ns from the calendar's reform in 1582, where such a time begins, to 1970."""

MAX_TEXT: Final = 36

REMEMBERED: Final = 32_768
"""Ids whose time is remembered: each is looked at several times in a row."""


@lru_cache(maxsize=REMEMBERED)
def uuid6_instant(text: Hashable) -> Instant | None:
    """Return when a UUIDv6 was made; ``None`` for any other text, or a time before the year 2000."""
    if not isinstance(text, str) or len(text) != MAX_TEXT:
        return None
    found = UUID6.fullmatch(text)
    if found is None:
        return None
    steps = int(found[1] + found[2] + found[3], 16) - GREGORIAN
    instant = steps // 10
    return instant if instant >= YEAR_2000 else None


def uuid6_floor(instant: Instant) -> str:
    """Return a text that is less than the id of every checkpoint made at this instant or later."""
    plain = f"{max(instant * 10 + GREGORIAN, 0):015x}"
    return f"{plain[:8]}-{plain[8:12]}-6{plain[12:]}"
