"""Walk over MessagePack bytes without building what they hold.

An extension type is so many opaque bytes. The walk keeps its own stack, so that nesting costs a bounded list
and never Python's; each object is one step, and steps are bounded, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

MAX_DEPTH: Final = 512
"""Containers within containers. The engine's own decoder gives up at about twice that."""

MAX_STEPS: Final = 2_000_000
"""Objects walked over in one payload: about half a second."""

MAX_NAME: Final = 4_096
"""Bytes of a name that is read: a channel's or a node's."""

MAX_LISTED: Final = 100_000
"""Entries of a map or an array whose names are read."""


class Malformed(ValueError):  # named for what the payload is, as the errors of the core are
    """The bytes are no MessagePack, or no such as this reader takes."""


_CONTAINER: Final = -1
_SIZED: Final = -2
_INVALID: Final = -3
_SHORT: Final = -4

_SIZES: Final = {
    **dict.fromkeys(range(0x80), 0),  # small numbers
    **dict.fromkeys(range(0x80, 0xA0), _CONTAINER),
    **{lead: lead & 31 for lead in range(0xA0, 0xC0)},  # short texts
    0xC0: 0,
    0xC1: _INVALID,
    0xC2: 0,
    0xC3: 0,
    **dict.fromkeys((0xC4, 0xC5, 0xC6, 0xC7, 0xC8, 0xC9, 0xDA, 0xDB), _SIZED),
    0xD9: _SHORT,
    0xCA: 4,
    0xCB: 8,
    0xCC: 1,
    0xCD: 2,
    0xCE: 4,
    0xCF: 8,
    0xD0: 1,
    0xD1: 2,
    0xD2: 4,
    0xD3: 8,
    0xD4: 2,
    0xD5: 3,
    0xD6: 5,
    0xD7: 9,
    0xD8: 17,  # extension types of fixed size, their code included
    **dict.fromkeys((0xDC, 0xDD, 0xDE, 0xDF), _CONTAINER),
    **dict.fromkeys(range(0xE0, 0x100), 0),  # small negative numbers
}
SKIP: Final = tuple(_SIZES[lead] for lead in range(256))
"""Bytes after a lead byte, or why that is not known from it alone."""

_LENGTHS: Final = {
    0xC4: (1, 0),
    0xC5: (2, 0),
    0xC6: (4, 0),
    0xC7: (1, 1),
    0xC8: (2, 1),
    0xC9: (4, 1),
    0xDA: (2, 0),
    0xDB: (4, 0),
}
"""Bytes of the length that follows, and what is to be added to it: an extension's code."""

_COUNTS: Final = {0xDC: (2, 1), 0xDD: (4, 1), 0xDE: (2, 2), 0xDF: (4, 2)}
"""Bytes of the count that follows, and objects an entry has."""

_TEXTS: Final = {0xD9: 1, 0xDA: 2, 0xDB: 4}


class Walker:
    """A place in a payload. Each method reads at that place and moves on. All raise `Malformed`."""

    __slots__ = ("_data", "_steps", "place")

    def __init__(self, data: bytes) -> None:
        """Start at the first byte."""
        self._data = data
        self._steps = 0
        self.place = 0

    def skip(self) -> None:  # noqa: C901  # one loop: a call for each value would double its time
        """Pass one whole object, whatever it holds."""
        data, place, sizes = self._data, self.place, SKIP
        left = 1
        above: list[int] = []
        steps = self._steps
        try:
            while True:
                size = sizes[data[place]]
                steps += 1
                left -= 1
                if size >= 0:
                    place += size + 1
                elif size == _SHORT:  # by far the most frequent of those that say their size
                    place += data[place + 1] + 2
                elif size == _CONTAINER:
                    inside, place = _inside(data, place)
                    if inside:
                        above.append(left)
                        left = inside
                        if len(above) > MAX_DEPTH:
                            raise Malformed("it is nested too deeply")
                else:
                    place = _behind(data, place)
                while not left:
                    if not above:
                        return
                    left = above.pop()
                if steps > MAX_STEPS:
                    raise Malformed("it holds too many values")
        except IndexError:
            raise Malformed("it ends too early") from None
        finally:
            self.place = place
            self._steps = steps

    def end(self) -> None:
        """Make sure that nothing follows, and that nothing was cut off."""
        if self.place != len(self._data):
            raise Malformed("it does not end where it should")

    def entries(self, most: int) -> dict[str, bytes]:
        """Read a map: its names, each with the first bytes of its value as they stand, at most so many.

        A name that stands twice is refused: which of the two counts is the decoder's affair.
        """
        count = self._enter(0x80, (0xDE, 0xDF))
        data, place, sizes = self._data, self.place, SKIP
        found: dict[str, bytes] = {}
        try:
            for _ in range(count):
                self.place = place
                name = self.text()
                start = place = self.place
                size = sizes[data[place]]
                if size >= 0:
                    place += size + 1
                elif size == _SHORT:
                    place += data[place + 1] + 2
                else:
                    self.skip()
                    place = self.place
                found[name] = data[start : min(place, start + most)]
        except IndexError:
            raise Malformed("it ends too early") from None
        self.place = place
        if place > len(data):
            raise Malformed("it ends too early")
        if len(found) != count:
            raise Malformed("a name stands twice")
        return found

    def text(self) -> str:
        """Read a name."""
        data, place = self._data, self.place
        if place >= len(data):
            raise Malformed("it ends too early")
        lead = data[place]
        if 0xA0 <= lead < 0xC0:  # noqa: PLR2004  # as the format says: a text of up to 31 bytes
            size, start = lead - 0xA0, place + 1
        elif lead in _TEXTS:
            start = place + 1 + _TEXTS[lead]
            size = int.from_bytes(data[place + 1 : start])
        else:
            raise Malformed("a name is no text")
        if size > MAX_NAME or start + size > len(data):
            raise Malformed("a name is too long")
        self.place = start + size
        try:
            return data[start : self.place].decode()
        except UnicodeDecodeError:
            raise Malformed("a name is no UTF-8") from None

    def small(self) -> int | None:
        """Read a small number; pass anything else and return ``None``."""
        lead = self._data[self.place : self.place + 1]
        self.skip()
        return lead[0] if lead and lead[0] < 0x80 else None  # noqa: PLR2004  # as the format says

    def names(self) -> Iterator[str]:
        """Enter a map; yield its names, each with the place at its value, which the caller must pass.

        A name that stands twice is refused, as by `entries`.
        """
        seen: set[str] = set()
        for _ in range(self._enter(0x80, (0xDE, 0xDF))):
            name = self.text()
            if name in seen:
                raise Malformed("a name stands twice")
            seen.add(name)
            yield name

    def _enter(self, small: int, large: tuple[int, int]) -> int:
        data, place = self._data, self.place
        if place >= len(data):
            raise Malformed("it ends too early")
        lead = data[place]
        if lead & 0xF0 == small:
            self.place = place + 1
            return lead & 15
        if lead not in large:
            raise Malformed("it is built in another way")
        size = 2 if lead == large[0] else 4
        self.place = place + 1 + size
        count = int.from_bytes(data[place + 1 : self.place])
        if count > MAX_LISTED:
            raise Malformed("it holds too many names")
        return count


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
    if lead not in _LENGTHS:
        raise Malformed("it holds a byte that means nothing")
    size, code = _LENGTHS[lead]
    start = place + 1 + size
    return start + code + int.from_bytes(data[place + 1 : start])
