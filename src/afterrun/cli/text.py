"""Text that is safe to show: names from stores, messages, sizes, JSON."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Final

from afterrun.core.times import SECOND, Instant, iso

STEP: Final = 1024
LONGEST: Final = 200
"""Characters of a name shown to people; JSON has all of it."""

_PASSWORD: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*:/{1,3}[^\s:/]*):\S*@")
_CUT_PASSWORD: Final = re.compile(
    r"([A-Za-z][A-Za-z0-9+.-]*:/{1,2}[^\s:/]+):(?!\d{1,5}\b|\S*@)\S+?(?=['\"]?(?:[\s,;)]|$))"
)
"""The same in a word that was cut before its @; a number there is a port."""


def visible(value: object, *, limit: int | None = None) -> str:
    r"""Write a value so that a terminal shows it and does nothing else.

    Control characters, line ends, escape sequences, bidirectional marks and lone surrogates become ``\xNN``,
    ``\uNNNN`` or ``\UNNNNNNNN``. Longer text than ``limit`` is cut, with a mark.
    """
    text = str(value)
    if limit is not None and len(text) > limit:
        text = f"{text[:limit]}..."
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _escape(char) for char in text)


def _escape(char: str) -> str:
    code = ord(char)
    if "\udc80" <= char <= "\udcff":  # a byte that is no UTF-8, as Python carries it
        code -= 0xDC00
    if code < 1 << 8:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 1 << 16 else f"\\U{code:08x}"


def message_lines(text: str) -> list[str]:
    """Return the lines of a message, each safe to show, without the password of any URL in it."""
    return [visible(line) for line in masked(text).split("\n")]


def masked(text: str) -> str:
    """Replace the password of a URL, also of one that was cut."""
    return _CUT_PASSWORD.sub(r"\1:***", _PASSWORD.sub(r"\1:***@", text))


def to_json(value: object) -> str:
    """Write one line of JSON in ASCII: strict, and harmless to a terminal."""
    text = json.dumps(_plain(value), ensure_ascii=True, allow_nan=False)
    return text.replace("\x7f", "\\u007f")


def _plain(value: object) -> object:
    if isinstance(value, str):
        return "".join(_escape(char) if "\ud800" <= char <= "\udfff" else char for char in value)
    if isinstance(value, Mapping):
        return {_plain(str(name)): _plain(part) for name, part in value.items()}
    if isinstance(value, bytes):
        return f"x'{value.hex()}'"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Sequence):
        return [_plain(part) for part in value]
    return value


def size(count: int) -> str:
    """Write bytes for people, in powers of 1024."""
    if count < STEP:
        return f"{count} B"
    amount = count / STEP
    for unit in ("KiB", "MiB", "GiB"):
        if amount < STEP:
            return f"{amount:.1f} {unit}"
        amount /= STEP
    return f"{amount:.1f} TiB"


def moment(instant: Instant | None, *, otherwise: str = "unknown") -> str:
    """Write an instant in UTC with its zone."""
    return iso(instant) or otherwise


def distance(instant: Instant, now: Instant) -> str:
    """Say roughly how long ago, or in how long, something is."""
    amount = abs(instant - now) // SECOND
    for word, width in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if amount >= 2 * width:
            return f"{amount // width} {word} {'from now' if instant > now else 'ago'}"
    return f"{amount} seconds {'from now' if instant > now else 'ago'}"


def seconds(value: float) -> str:
    """Write a measured time."""
    return f"{value:.1f} s" if value >= 1 else f"{value * 1000:.0f} ms"
