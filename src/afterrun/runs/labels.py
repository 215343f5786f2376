"""Names that people give: short and printable, so that any list can show them and any database hold them.

They are stored in the clear, so none holds a secret.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from afterrun.core.errors import UsageError
from afterrun.runs.scrub import scrub_text

LONGEST: Final = 200
"""Characters of a label."""


@lru_cache(maxsize=4_096)
def label(what: str, text: str, *, longest: int = LONGEST) -> str:
    """Return a label that is fit to be stored as it is. Raises `UsageError`, which does not repeat it."""
    _check(what, text, longest)
    if scrub_text(text) != text:
        raise UsageError(f"the {what} is stored in the clear and looks like a secret: give it as content")
    return text


def spoken(what: str, text: str, *, longest: int = LONGEST) -> str:
    """Return what somebody says for people to read, without the secrets in it. Raises `UsageError`."""
    _check(what, text, longest)
    return scrub_text(text)[:longest]


def _check(what: str, text: str, longest: int) -> None:
    if not text or len(text) > longest or not text.isprintable():
        raise UsageError(f"the {what} is printable text of 1 to {longest} characters")
