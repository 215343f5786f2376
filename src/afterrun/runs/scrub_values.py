"""The value behind a name: where it begins and ends, in JSON, also in JSON within JSON, and in plain text."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from afterrun.runs.scrub_names import Tells

GAP: Final = rb"[ \t\r\n]{0,32}"

QUOTED: Final = rb"\\{0,7}[\"'`]"
SIGN: Final = GAP + rb"(?P<sign>=>|:=|={1,3}|:)" + GAP
NEXT: Final = GAP + rb"," + GAP + rb"\\{0,7}[\"'](?:value|val|Value)\\{0,7}[\"']" + GAP + rb":" + GAP
"""Between the name and the value of an object with a `name` and a `value`."""

XML: Final = rb"[ ]{1,4}value=|>"
BEHIND: Final = re.compile(rb"(?P<close>" + QUOTED + rb")?\]?(?:" + SIGN + rb"|" + NEXT + rb"|" + XML + rb")")
"""Between a name and its value."""

OPTION: Final = re.compile(rb"[ \t]{1,4}")
"""Between an option of a command line and its value."""

PAIR: Final = re.compile(rb"\\{0,7}[\"']" + GAP + rb"," + GAP)
"""Between the two of a pair, as headers are kept in lists."""

QUOTE: Final = re.compile(rb"[bf@]?(?P<quote>\\{0,7}[\"'`])")
SCHEME: Final = re.compile(rb"(?i)(?:bearer|basic|token|digest|apikey|negotiate)[ \t]{1,4}(?=[^\s])")
BARE: Final = re.compile(rb"[^\s\"'`,;&<>{}()\[\]\\]+")
LINE: Final = re.compile(rb"[^\r\n\"'`\\]+")
BRACKETS: Final = re.compile(rb"[{}\[\]]")
SCHEMA: Final = re.compile(
    rb"\{\s{0,8}\\{0,7}\"(?:type|\$ref|title|description|anyOf|oneOf|allOf|enum|format|default)\\{0,7}\""
)
"""How JSON Schema describes a value: there is none."""

OPENING: Final = (b"{", b"[")

ABSENT: Final = (
    b"none null nil true false undefined str string bytes int any optional required redacted removed "
    b"hidden missing invalid incorrect wrong expired not is was has the a an for from in and or empty "
    b"unset todo please your must should cannot can will with"
)
EMPTY: Final = frozenset(ABSENT.split())
"""Words that stand where a value would, and are none."""

PLACEHOLDER: Final = re.compile(
    rb"\$\{?\w*\}?|\{\{[^}]*\}\}|<[^>]*>|%\w+%|[*.x]+|\[\w+\]|(?:os\.environ|process\.env|os\.getenv|getenv|secrets\.|"
    rb"self\.|config\.|settings\.|env\.).*|your[-_ ].*"
)
"""What stands for a value, and is none."""

SLASH: Final = ord("\\")
SHORTEST: Final = 3
"""Letters of a secret that is not quoted; "a" and "of" are words of a sentence."""

MIXED: Final = re.compile(rb"(?=[^\s]*[0-9])(?=[^\s]*[A-Za-z])[^\s]{8,}\Z|[^\s]{20,}\Z|[0-9]{6,}\Z")
"""What a value looks like that nobody would take for a word."""


class Value(NamedTuple):
    """A value in the text, and what quotes it."""

    start: int
    end: int
    quote: bytes


def value_at(flat: bytes, start: int) -> Value | None:
    """Return the value that begins here: quoted, a whole object or list, or a word."""
    quoted = QUOTE.match(flat, start)
    if quoted:
        quote = quoted["quote"]
        return Value(quoted.end(), closing(flat, quote, quoted.end()), quote)
    if flat[start : start + 1] in OPENING:
        return Value(start, _balanced(flat, start), b"")
    scheme = SCHEME.match(flat, start)
    word = BARE.match(flat, scheme.end() if scheme else start)
    return Value(start, word.end(), b"") if word else None


def closing(flat: bytes, quote: bytes, start: int) -> int:
    """Return where a quoted text ends: at a quote that is escaped as its first one is, else at the end."""
    sign, level = quote[-1:], len(quote) - 1
    place = flat.find(sign, start)
    while place >= 0:
        first = place
        while first > start and flat[first - 1] == SLASH:
            first -= 1
        slashes = place - first
        if slashes >= level and (slashes - level) % (2 * (level + 1)) == 0:
            return place - level
        if slashes < level:  # a quote of what is around: the text was cut off, or is no JSON
            return first
        place = flat.find(sign, place + 1)
    return len(flat)


def is_secret(value: bytes, tells: Tells, *, quoted: bool) -> bool:
    """Say whether a value is one that nobody should see."""
    if not value or value.lower() in EMPTY or PLACEHOLDER.fullmatch(value):
        return False
    if tells is Tells.SECRET:
        return quoted or len(value) >= SHORTEST or not value.isalpha()
    return MIXED.match(value) is not None


def _balanced(flat: bytes, start: int) -> int:
    """Return the end of an object or list; brackets within its texts are counted, too."""
    depth = 0
    for bracket in BRACKETS.finditer(flat, start):
        depth += 1 if bracket[0] in OPENING else -1
        if depth == 0:
            return bracket.end()
    return len(flat)
