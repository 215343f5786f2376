"""Walk over MessagePack bytes without building what they hold.

An extension type is so many opaque bytes. The walk keeps its own stack, so that nesting costs a bounded list
and never Python's. Every object is at least a byte long, so whoever bounds the size bounds the steps.

A place is an index into the bytes. Each function reads at a place and returns the place behind it; one that
lies behind the end is found by `finish`. All raise `Malformed`, and IndexError where the bytes end.
"""

from __future__ import annotations

from typing import Final

MAX_DEPTH: Final = 512
"""Containers within containers. The engine's own decoder gives up at about twice that."""

MAX_NAME: Final = 4_096
"""Bytes of a name that is read: a channel's or a node's."""

MAX_LISTED: Final = 100_000
"""Entries of a map whose names are read."""


class Malformed(ValueError):
    """The bytes are no MessagePack, or no such as this reader takes."""


_CONTAINER: Final = -1
_SIZED: Final = -2
_INVALID: Final = -3
_SHORT: Final = -4

_SIZES: Final = {
    **dict.fromkeys(range(0x80), 0),  # small numbers
    **dict.fromkeys(range(0x80, 0xA0), _CONTAINER),
    **{lead: lead & 31 for lead in range(0xA0, 0xC0)},  # short texts
    **dict.fromkeys((0xC0, 0xC2, 0xC3), 0),  # nil, false, true
    **dict.fromkeys((0xC4, 0xC5, 0xC6, 0xC7, 0xC8, 0xC9, 0xDA, 0xDB), _SIZED),
    **dict(zip(range(0xCA, 0xD4), (4, 8, 1, 2, 4, 8, 1, 2, 4, 8), strict=True)),  # numbers
    **dict(zip(range(0xD4, 0xD9), (2, 3, 5, 9, 17), strict=True)),  # extension types, their code included
    **dict.fromkeys((0xDC, 0xDD, 0xDE, 0xDF), _CONTAINER),
    **dict.fromkeys(range(0xE0, 0x100), 0),  # small negative numbers
    0xC1: _INVALID,
    0xD9: _SHORT,  # a text of less than 256 bytes
}
SKIP: Final = tuple(_SIZES[lead] for lead in range(256))
"""Bytes after a lead byte, or why that is not known from it alone."""

_LENGTHS: Final = {
    **{lead: (size, 0) for lead, size in ((0xC4, 1), (0xC5, 2), (0xC6, 4), (0xDA, 2), (0xDB, 4))},
    **{lead: (size, 1) for lead, size in ((0xC7, 1), (0xC8, 2), (0xC9, 4))},
}
"""Bytes of the length that follows, and what is to be added to it: an extension's code."""

_COUNTS: Final = {0xDC: (2, 1), 0xDD: (4, 1), 0xDE: (2, 2), 0xDF: (4, 2)}
"""Bytes of the count that follows, and objects an entry has."""

_TEXTS: Final = {0xD9: 1, 0xDA: 2, 0xDB: 4}
_SMALL_MAPS: Final = range(0x80, 0x90)
_LARGE_MAPS: Final = {0xDE: 2, 0xDF: 4}
_SMALL_NUMBERS: Final = 0x80


def skip(data: bytes, place: int) -> int:
    """Pass one whole object, whatever it holds."""
    sizes = SKIP
    size = sizes[data[place]]
    if size >= 0:
        return place + size + 1
    if size != _CONTAINER:
        return _behind(data, place)
    left, place = _inside(data, place)
    above: list[int] = []
    while left or above:
        if not left:
            left = above.pop()
            continue
        left -= 1
        size = sizes[data[place]]
        if size >= 0:
            place += size + 1
        elif size == _SHORT:  # by far the most frequent of those that say their size
            place += data[place + 1] + 2
        elif size == _CONTAINER:
            above.append(left)
            if len(above) > MAX_DEPTH:
                raise Malformed("it is nested too deeply")
            left, place = _inside(data, place)
        else:
            place = _behind(data, place)
    return place


def name(data: bytes, place: int) -> tuple[bytes, int]:
    """Read a text."""
    lead = data[place]
    if SKIP[lead] >= 0 and 0xA0 <= lead < 0xC0:  # noqa: PLR2004  # as the format says: of up to 31 bytes
        start = place + 1
        end = start + SKIP[lead]
    elif lead in _TEXTS:
        start = place + 1 + _TEXTS[lead]
        end = start + int.from_bytes(data[place + 1 : start])
    else:
        raise Malformed("a name is no text")
    if end - start > MAX_NAME or end > len(data):
        raise Malformed("a name is too long")
    return data[start:end], end


def fields(data: bytes, place: int) -> tuple[int, int]:
    """Enter a map: return how many entries it has, and the place of the first."""
    lead = data[place]
    if lead in _SMALL_MAPS:
        return lead & 15, place + 1
    size = _LARGE_MAPS.get(lead)
    if size is None:
        raise Malformed("it is built in another way")
    count = int.from_bytes(data[place + 1 : place + 1 + size])
    if count > MAX_LISTED:
        raise Malformed("it holds too many names")
    return count, place + 1 + size


def entries(data: bytes, place: int, most: int) -> tuple[dict[str, bytes], int]:
    """Read a map: its names, each with the first bytes of its value as they stand, at most so many.

    A name that stands twice is refused: which of the two counts is the decoder's affair.
    """
    sizes = SKIP
    count, place = fields(data, place)
    found: dict[str, bytes] = {}
    for _ in range(count):
        lead = data[place]
        if 0xA0 <= lead < 0xC0:  # noqa: PLR2004  # as the format says: a text of up to 31 bytes
            start = place + lead - 0x9F
            raw = data[place + 1 : start]
        else:
            raw, start = name(data, place)
        size = sizes[data[start]]
        if size >= 0:
            place = start + size + 1
        elif size == _SHORT:
            place = start + data[start + 1] + 2
        else:
            place = skip(data, start)
        found[raw.decode()] = data[start : place if place - start < most else start + most]
    if len(found) != count:
        raise Malformed("a name stands twice")
    return found, place


def small_number(data: bytes, place: int) -> int | None:
    """Return the small number at a place, or nothing for any other value."""
    lead = data[place]
    return lead if lead < _SMALL_NUMBERS else None


def finish(data: bytes, place: int) -> None:
    """Make sure that nothing follows, and that nothing was cut off."""
    if place != len(data):
        raise Malformed("it does not end where it should")


def _inside(data: bytes, place: int) -> tuple[int, int]:
    """Return how many objects a container holds, and the place of the first."""
    lead = data[place]
    if lead < 0x90:  # noqa: PLR2004  # as the format says: a small map
        return 2 * (lead & 15), place + 1
    if lead < 0xA0:  # noqa: PLR2004  # and a small array
        return lead & 15, place + 1
    size, objects = _COUNTS[lead]
    start = place + 1 + size
    return objects * int.from_bytes(data[place + 1 : start]), start


def _behind(data: bytes, place: int) -> int:
    """Return the place behind an object that says its size."""
    lead = data[place]
    if lead == 0xD9:  # noqa: PLR2004  # as the format says: a text of less than 256 bytes
        return place + data[place + 1] + 2
    if lead not in _LENGTHS:
        raise Malformed("it holds a byte that means nothing")
    size, code = _LENGTHS[lead]
    start = place + 1 + size
    return start + code + int.from_bytes(data[place + 1 : start])
