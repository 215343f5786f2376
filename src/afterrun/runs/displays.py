"""The text of content that may be shown: scrubbed, and no longer than anybody would read."""

from __future__ import annotations

import codecs
from typing import Final

from afterrun.runs.scrub import scrub_text

LONGEST: Final = 16 * 1024
"""Characters of a display."""

WINDOW: Final = 24 * 1024
"""Bytes that are looked at: more than are shown, so that a secret at the cut is known as one."""

CUT: Final = "\n[cut]"
"""Ends a display that is only the beginning."""

DECODER: Final = codecs.getincrementaldecoder("utf-8")


def display_of(content: bytes) -> str | None:
    """Return the scrubbed text of content, and ``None`` where it begins as no UTF-8 text."""
    whole = len(content) <= WINDOW
    try:
        text = content.decode() if whole else DECODER().decode(content[:WINDOW])
    except UnicodeDecodeError:
        return None
    shown = scrub_text(text, whole=whole)
    return shown if whole and len(shown) <= LONGEST else shown[:LONGEST] + CUT
