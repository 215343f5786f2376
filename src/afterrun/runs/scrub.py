"""Take secrets out of text that is stored in the clear: reasons, names, and what is shown of content.

It looks for names that announce a secret, for the token formats of services, for keys in PEM, and for
credentials in URLs. JSON is read as text, so that what is cut off, or is JSON within JSON, is read as well.
The time is linear in the length. Nothing finds every secret: a display is for people who may see the run.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from afterrun.runs.scrub_formats import HOOK, SHORTEST, TOKEN
from afterrun.runs.scrub_names import LONGEST as LONGEST_NAME
from afterrun.runs.scrub_names import STEMS, Tells, tells
from afterrun.runs.scrub_values import BEHIND, LINE, OPENING, OPTION, PAIR, SCHEMA, Value, is_secret, value_at

LONGEST: Final = 240
"""Characters of a reason that are stored; as many as of any error message."""

GONE: Final = "[removed]"

OPAQUE: Final = re.compile(r"\b(?=[A-Za-z0-9+/_-]*[0-9])(?=[A-Za-z0-9+/_-]*[A-Za-z])[A-Za-z0-9+/_-]{24,}=*")
"""A word that is too long and mixed for one: a key, a token, a digest. Only reasons do without these."""

CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]+")
UNSHOWN: Final = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""What would change how a screen shows the text around it, or no database holds."""

ORDINARY: Final = bytes((9, 10, 13, *range(0x20, 0x7F)))
"""ASCII that may be shown as it is."""

ESCAPED: Final = re.compile(rb"\\(?:[nrtbf]|u[0-9A-Fa-f]{4})")
"""Escapes of JSON: what is before a word is no letter of it."""

USER: Final = re.compile(rb"(?P<all>[^\s/@\"'<>\\]{0,200}:[^\s/@\"'<>\\]{0,500}|[A-Za-z0-9_-]{20,200})@")
STORE_USER: Final = re.compile(rb"(?P<all>[^\s/@:\"'<>\\]{0,200}:[^\s\"'<>\\]{0,500})@")
"""Credentials in a URL; a password of a database may have any sign in it."""

PAGES: Final = (b"http", b"https", b"ws", b"wss")
PEM: Final = re.compile(rb"-----BEGIN[ A-Z0-9]{0,40} PRIVATE KEY(?: BLOCK)?-----")
PEM_END: Final = re.compile(rb"-----END[ A-Z0-9]{0,40} PRIVATE KEY(?: BLOCK)?-----")
LOGIN: Final = re.compile(rb"(?:-u|--user)[ =]{1,3}\\?[\"']?(?P<all>[^\s:\"'\\]{1,100}:[^\s\"'\\]{1,200})")
"""User and password of curl."""

BEARER: Final = re.compile(rb"(?i)bearer[ \t]{1,4}(?P<all>[A-Za-z0-9._~+/-]{8,}=*)")

TOKEN_SIGNS: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.+/=~"
NAME_SIGNS: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"
TOKENS: Final = bytes(0x61 if sign in TOKEN_SIGNS else 0x20 for sign in range(256))
NAMES: Final = bytes(0x61 if sign in NAME_SIGNS else 0x20 for sign in range(256))
"""Text as words of one letter: they are found faster than any pattern would find them."""

RUN: Final = b"a" * SHORTEST
HEADERS: Final = frozenset(b"authorization proxy-authorization cookie set-cookie x-api-key".split())


class Span(NamedTuple):
    """A piece of the text that goes, and what quotes it anew."""

    start: int
    end: int
    quote: bytes = b""


def scrub(reason: str) -> str:
    """Return a reason that may be stored and shown: one line, of 240 characters at most."""
    text = scrub_text(CONTROL.sub(" ", reason[: 4 * LONGEST]))
    text = OPAQUE.sub(GONE, text).strip()
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def scrub_text(text: str, *, whole: bool = True) -> str:
    """Return text without the secrets in it. With ``whole=False`` its last word is cut off, and goes, too."""
    flat = text.encode("latin-1", "replace")  # one byte a character, so that places are the same
    if not whole:
        kept = flat.translate(TOKENS).rstrip(b"a")
        text, flat = text[: len(kept)], flat[: len(kept)]
    if b"\\" in flat:
        flat = ESCAPED.sub(_blank, flat)
    spans = sorted(_found(flat))
    shown = _without(text, spans) if spans else text
    return UNSHOWN.sub("\ufffd", shown) if flat.translate(None, ORDINARY) or not text.isascii() else shown


def _blank(escape: re.Match[bytes]) -> bytes:
    return b" " * len(escape[0])


def _without(text: str, spans: Iterable[Span]) -> str:
    """Return text without these pieces, some of which may be in others."""
    parts, last = [], 0
    for span in spans:
        if span.start >= last:
            quote = span.quote.decode("ascii")
            parts += [text[last : span.start], quote, GONE, quote]
        last = max(last, span.end)
    return "".join((*parts, text[last:]))


def _found(flat: bytes) -> Iterator[Span]:
    """Yield what goes."""
    yield from _tokens(flat)
    yield from _named(flat)
    if b"://" in flat:
        yield from _users(flat)
        yield from (_group(found) for found in HOOK.finditer(flat))
    if b"-----BEGIN" in flat:
        yield from _keys(flat)
    if b"curl" in flat:
        yield from (_group(found) for found in LOGIN.finditer(flat))


def _group(found: re.Match[bytes]) -> Span:
    return Span(*found.span(found.lastindex or 0))


def _tokens(flat: bytes) -> Iterator[Span]:
    """Yield the tokens of services: they are looked for in long words only."""
    words = flat.translate(TOKENS)
    place = words.find(RUN)
    while place >= 0:
        end = words.find(b" ", place)
        end = len(flat) if end < 0 else end
        yield from (Span(*token.span()) for token in TOKEN.finditer(flat, place, end))
        place = words.find(RUN, end)


def _users(flat: bytes) -> Iterator[Span]:
    """Yield credentials in URLs."""
    place = flat.find(b"://")
    while place >= 0:
        start = place + 3
        scheme = flat[max(0, place - 5) : place].lower()
        found = (USER if scheme.endswith(PAGES) else STORE_USER).match(flat, start)
        if found:
            yield Span(*found.span("all"))
        place = flat.find(b"://", start)


def _keys(flat: bytes) -> Iterator[Span]:
    """Yield private keys; one without an end goes up to the end of the text."""
    place = 0
    for begin in PEM.finditer(flat):
        if begin.start() >= place:
            end = PEM_END.search(flat, begin.end())
            place = end.end() if end else len(flat)
            yield Span(begin.start(), place)


def _named(flat: bytes) -> Iterator[Span]:
    """Yield values behind names that announce a secret."""
    lower = flat.lower()
    places = sorted({place for stem in STEMS for place in _places(lower, stem)})
    words = flat.translate(NAMES) if places else b""
    past = -1
    for place in places:
        if place < past:
            continue
        start = words.rfind(b" ", max(0, place - LONGEST_NAME), place) + 1
        end = words.find(b" ", place)
        end = len(flat) if end < 0 else end
        past = end
        if end - start > LONGEST_NAME:
            continue
        span = _announced(flat, start, end)
        if span:
            yield span
            past = span.end


def _places(lower: bytes, stem: bytes) -> Iterator[int]:
    place = lower.find(stem)
    while place >= 0:
        yield place
        place = lower.find(stem, place + len(stem))


def _announced(flat: bytes, start: int, end: int) -> Span | None:
    """Return the secret that a name announces, if it does and one is there."""
    name = flat[start:end]
    told = tells(name)
    if told is Tells.NOTHING:
        told = _spoken(flat, start, name)
    if told is Tells.NOTHING:
        return None
    behind = BEHIND.match(flat, end)
    if behind:
        return _value(flat, name, told, behind)
    return _beside(flat, start, end, name, told)


def _spoken(flat: bytes, start: int, name: bytes) -> Tells:
    """Return what a name of two words tells, such as "API key"."""
    if name.lower() != b"key":
        return Tells.NOTHING
    before = flat[max(0, start - 12) : start].split()
    return tells(before[-1] + b"_key") if before and flat[start - 1 : start] == b" " else Tells.NOTHING


def _value(flat: bytes, name: bytes, told: Tells, behind: re.Match[bytes]) -> Span | None:
    close = behind["close"] or b""
    at = behind.end()
    if flat[at : at + 1] in OPENING and (told is not Tells.SECRET or SCHEMA.match(flat, at)):
        return None
    if not close and name.lower() in HEADERS:  # a header is the whole line
        line = LINE.match(flat, at)
        return Span(*line.span()) if line else None
    value = value_at(flat, at)
    if value is None or not is_secret(flat[value.start : value.end], told, quoted=bool(value.quote)):
        return None
    if not value.quote and _is_code(flat, name, value):
        return None
    anew = close if close and not value.quote and behind["sign"] == b":" else b""
    return Span(value.start, value.end, anew)


def _is_code(flat: bytes, name: bytes, value: Value) -> bool:
    """Say whether a value is a call, or a variable that code hands on under its own name."""
    return flat[value.end : value.end + 1] == b"(" or flat[value.start : value.end].lower() == name.lower()


def _beside(flat: bytes, start: int, end: int, name: bytes, told: Tells) -> Span | None:
    """Return a secret that stands beside its name: an option's, a header's in a list, or a bearer's."""
    bearer = BEARER.match(flat, start) if name.lower() == b"bearer" else None
    if bearer:
        return Span(*bearer.span("all"))
    option = OPTION.match(flat, end)
    pair = None if option else PAIR.match(flat, end)
    value: Value | None = None
    if (option and name.startswith(b"--")) or (pair and name.lower() in HEADERS):
        value = value_at(flat, (option or pair).end())  # type: ignore[union-attr]
    elif option and (end == len(flat) or told is Tells.SECRET or name.lower() == b"token"):
        value = value_at(flat, option.end())
        told = Tells.MAYBE
    if value is None or not is_secret(flat[value.start : value.end], told, quoted=bool(value.quote)):
        return None
    return Span(value.start, value.end)
