"""Names that people give: short and printable, so that any list can show them and any database hold them."""

from __future__ import annotations

from typing import Final

from afterrun.core.errors import UsageError

LONGEST: Final = 200
"""Characters of a label."""


def label(what: str, text: str, *, longest: int = LONGEST) -> str:
    """Return a label that is fit to be stored. Raises `UsageError`, which does not repeat it."""
    if not text or len(text) > longest or not text.isprintable():
        raise UsageError(f"the {what} is printable text of 1 to {longest} characters")
    return text
