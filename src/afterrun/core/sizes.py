"""Amounts of bytes as people write them."""

from __future__ import annotations

import re
from typing import Final

from afterrun.core.errors import UsageError

UNITS: Final[dict[str, int]] = {
    "B": 1,
    **{f"{letter}iB": 1024**power for power, letter in enumerate("KMGT", start=1)},
    **{f"{letter}B": 1000**power for power, letter in enumerate("kMGT", start=1)},
}
"""Binary units are named apart from decimal ones, so that neither is taken for the other."""

_SIZE: Final = re.compile(r"([0-9]{1,18})\s*([A-Za-z]*)", re.ASCII)


def parse_size(text: str) -> int:
    """Read ``5GiB``: one whole number, and a unit unless it is bytes. Raises `UsageError`."""
    match = _SIZE.fullmatch(text.strip())
    units = {unit.casefold(): size for unit, size in UNITS.items()}
    size = units.get((match[2] or "B").casefold()) if match is not None else None
    if match is None or size is None:
        raise UsageError(
            f"{text[:40]!r} is no size: write a whole number and one of {', '.join(UNITS)}, such as 5GiB"
        )
    amount = int(match[1])
    return amount * size


def format_size(size: int) -> str:
    """Write a size the way `parse_size` reads it, in the largest binary unit that is exact."""
    exact = [unit for unit, bytes_ in UNITS.items() if unit.endswith("iB") and size and size % bytes_ == 0]
    unit = exact[-1] if exact else "B"
    return f"{size // UNITS[unit]}{unit}"
