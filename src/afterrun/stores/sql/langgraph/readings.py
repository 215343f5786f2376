"""What was read of threads, and what a removal of ours made of it.

A batch looks at its threads again. Where a database can tell that nobody else has committed since they were
read, that reading stands, and a batch costs what its own checkpoints cost, however long their thread is.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from afterrun.core.facts import Key, Reason, Scalar, Unit
from afterrun.profiles.langgraph import CURRENT, Checkpoint, is_line, uuid6_instant
from afterrun.profiles.langgraph.keep import ROOT, SENDS_INSIDE
from afterrun.stores.sql.langgraph.checkpoint_links import Links
from afterrun.stores.sql.langgraph.checkpoint_units import MOST_ROWS, Held, kept_unit, units_of

REMEMBERED: Final = 50_000
"""Checkpoints that are remembered: some 30 MiB."""

IDS_A_ROW: Final = 4
"""Ids, which are all that is remembered of a plain thread, take as much as one checkpoint of another."""

Led = Mapping[Key, Key]
"""Checkpoints that follow another one than before: after this one, or none."""


class ReadThread(Protocol):
    """One thread as it was read."""

    @property
    def size(self) -> int:
        """Return how much is remembered of it, in checkpoints."""

    def units(self, held: Held) -> Iterable[Unit]:
        """Return a unit for each checkpoint, but for those that go with another; ``held`` by outside."""

    def prepare(self) -> None:
        """Do what takes time for each checkpoint of the thread, before a lock is held."""

    def among(self, keys: Sequence[Key], links: Links, held: Held) -> Iterator[Unit]:
        """Yield the units with these keys that there are, and note in ``links`` what follows what."""

    def remove(self, gone: Collection[Key], led: Led) -> None:
        """Take in that these members went, and where the links of others lead since."""


def read_thread(thread: Scalar, found: Sequence[Checkpoint], *, keep_forks: bool) -> ReadThread:
    """Make what is remembered of a thread out of all its rows."""
    if len(found) <= MOST_ROWS and is_line(found):
        return Line(thread, [row.id for row in found])
    return Branched(thread, found, keep_forks=keep_forks)


class Line:
    """A thread of one graph that never forked: each checkpoint follows the one before it."""

    def __init__(self, thread: Scalar, ids: list[str]) -> None:
        """Take all ids, the oldest first."""
        self._thread = thread
        self._ids = ids

    @property
    def size(self) -> int:
        """Return what its ids take."""
        return len(self._ids) // IDS_A_ROW

    def units(self, held: Held) -> Iterator[Unit]:
        """Yield the units, the oldest first."""
        thread, newer = self._thread, len(self._ids)
        blocked: tuple[Reason, ...] = ()
        for name in self._ids[:-1]:
            newer -= 1
            key = (thread, ROOT, name)
            end = uuid6_instant(name)
            if held:
                blocked = tuple(held.get(name, ()))
            yield Unit(key, (key,), end, end, True, (), blocked, (), True, True, thread, newer)  # noqa: FBT003 - by place, as it is the hot path
        yield kept_unit((thread, ROOT, self._ids[-1]), CURRENT, 0)

    def prepare(self) -> None:
        """Do nothing: the order of ids tells everything."""

    def among(self, keys: Sequence[Key], links: Links, held: Held) -> Iterator[Unit]:
        """Yield the units with these keys, found by their place."""
        ids, thread, last = self._ids, self._thread, len(self._ids) - 1
        for key in keys:
            place = self._place(key)
            if place is None:
                continue
            name = ids[place]
            if place:
                links.above[key] = (thread, ROOT, ids[place - 1])
            if place == last:
                yield kept_unit((thread, ROOT, name), CURRENT, 0)
                continue
            follower = (thread, ROOT, ids[place + 1])
            links.above[follower] = links.followers[follower] = key
            end, blocked = uuid6_instant(name), tuple(held.get(name, ())) if held else ()
            yield Unit(key, (key,), end, end, True, (), blocked, (), True, True, thread, last - place)  # noqa: FBT003 - by place, as it is the hot path

    def _place(self, key: Key) -> int | None:
        if not isinstance(key, tuple) or key[1] != ROOT or not isinstance(key[2], str):
            return None
        place = bisect_left(self._ids, key[2])
        return place if place < len(self._ids) and self._ids[place] == key[2] else None

    def remove(self, gone: Collection[Key], led: Led) -> None:  # noqa: ARG002 - a line stays one
        """Leave these out: what followed them follows the one before them."""
        names = {key[2] for key in gone if isinstance(key, tuple)}
        self._ids = [name for name in self._ids if name not in names]


class Branched:
    """Any other thread: its rows."""

    def __init__(self, thread: Scalar, rows: Sequence[Checkpoint], *, keep_forks: bool) -> None:
        """Take all rows."""
        self._thread = thread
        self._rows = rows
        self._keep_forks = keep_forks
        self._units: Mapping[Key, Unit] | None = None
        self._by_key: Mapping[Key, Checkpoint] | None = None
        self._following: Mapping[Key, Sequence[Checkpoint]] = {}

    @property
    def size(self) -> int:
        """Return the number of rows."""
        return len(self._rows)

    def units(self, held: Held) -> Iterable[Unit]:
        """Return the units."""
        return units_of(self._thread, self._rows, held, keep_forks=self._keep_forks)

    def prepare(self) -> None:
        """Make the units, and find out what follows what."""
        if self._units is None:
            self._units = {unit.key: unit for unit in self.units({})}
        if self._by_key is None:
            self._by_key = {self._key(row): row for row in self._rows}
            following: defaultdict[Key, list[Checkpoint]] = defaultdict(list)
            for row in self._rows:
                if row.parent is not None:
                    following[self._thread, row.namespace, row.parent].append(row)
            self._following = following

    def _key(self, row: Checkpoint) -> Key:
        return (self._thread, row.namespace, row.id)

    def among(self, keys: Sequence[Key], links: Links, held: Held) -> Iterator[Unit]:
        """Yield the units with these keys."""
        self.prepare()
        units, by_key = self._units or {}, self._by_key or {}
        if held:
            units = {unit.key: unit for unit in self.units(held)}
        for unit in (units[key] for key in keys if key in units):
            for member in unit.members:
                row = by_key[member]
                above = (self._thread, row.namespace, row.parent)
                if above in by_key:
                    links.above[member] = above
                for follower in self._following.get(member, ()):
                    links.follow(self._key(follower), member, old=follower.version != SENDS_INSIDE)
            yield unit

    def remove(self, gone: Collection[Key], led: Led) -> None:
        """Leave these out, and let others follow what they do now."""
        left = [row for row in self._rows if self._key(row) not in gone]
        self._rows = [self._led(row, led) for row in left]
        self._units = self._by_key = None

    def _led(self, row: Checkpoint, led: Led) -> Checkpoint:
        key = self._key(row)
        if key not in led:
            return row
        parent = led[key]
        return row._replace(parent=str(parent[-1]) if isinstance(parent, tuple) else None)


def among(threads: Mapping[Scalar, ReadThread], keys: Sequence[Key], links: Links, held: Held) -> list[Unit]:
    """Return the units with these keys among those of some threads, and note what follows what."""
    wanted: defaultdict[Scalar, list[Key]] = defaultdict(list)
    for key in keys:
        if isinstance(key, tuple) and key[0] in threads:
            wanted[key[0]].append(key)
    return [unit for name, some in wanted.items() for unit in threads[name].among(some, links, held)]


class Versions(NamedTuple):
    """All rows of one thread, added up: how many there are, and the sum of their versions."""

    thread: Key
    rows: int
    total: int

    def after(self, rows: int, total: int) -> Versions:
        """Return what they come to once so much was added."""
        return self._replace(rows=self.rows + rows, total=self.total + total)


class Reading:
    """Threads as they were read.

    Attributes:
        mark: what the database showed then that changes with its content, if it shows such a thing.
        led: where the links of some of their checkpoints lead since the batch that is at work.
        references: how many checkpoints refer to each shared value, once that was counted.
        threads: by id.
    """

    def __init__(self, mark: object = None) -> None:
        """Begin with no thread."""
        self.mark = mark
        self.led: Led = {}
        self.references: dict[tuple[str, str, str], int] | None = None
        self.threads: dict[Scalar, ReadThread] = {}

    def stands(self, mark: object) -> bool:
        """Say whether nothing was committed since."""
        return mark is not None and mark == self.mark

    def add(self, threads: Mapping[Scalar, ReadThread]) -> None:
        """Take in more threads, before those that are in it, unless that were too much.

        They were read while the same mark was shown.
        """
        size = sum(thread.size for found in (self.threads, threads) for thread in found.values())
        if size <= REMEMBERED:
            self.threads = {**threads, **self.threads}

    def last(self) -> Mapping[Scalar, ReadThread]:
        """Return the last of its threads."""
        return dict(list(self.threads.items())[-1:])

    def prepare(self) -> None:
        """Do what takes long before a lock is held."""
        for thread in self.threads.values():
            thread.prepare()

    def remove(self, gone: Iterable[Key]) -> None:
        """Take in what went with a batch."""
        parts: defaultdict[Scalar, set[Key]] = defaultdict(set)
        for key in gone:
            if isinstance(key, tuple) and key[0] in self.threads:
                parts[key[0]].add(key)
        for name, some in parts.items():
            self.threads[name].remove(some, self.led)
