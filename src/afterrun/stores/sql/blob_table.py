"""Blobs in a SQL database: candidates, and the transaction that removes what nothing refers to.

SQLite has one write lock: check and removal are one statement under it. PostgreSQL locks rows: the blobs are
locked in one statement, passing by those that another transaction holds, and checked and removed in the next
one, which sees what was committed until then. A writer that stores a blob and its reference in one
transaction, and locks the blob's row where it finds it stored already, is never left without its blob.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import sqlalchemy as sa

from afterrun.core.facts import UNREADABLE, Key, Scalar, readable
from afterrun.core.times import DAY, Instant
from afterrun.profiles.blobs import Blobs, Pins
from afterrun.stores.sql.binding import Binding
from afterrun.stores.sql.blob_links import Link, keeping, links_of, sources, strangers, unindexed
from afterrun.stores.sql.dialect import Column
from afterrun.stores.sql.literals import literal
from afterrun.stores.sql.parts import plain_table

MIN_AGE: Final[Instant] = DAY
"""Age from which a full pass takes a blob that nothing refers to: its writer may be about to."""

YOUNG, OLD, AGELESS = 0, 1, 2
"""Ages of a blob, as a statement gives them."""


class Page(NamedTuple):
    """Blobs in the order of their keys: of those that nothing needs, the old ones and how many others.

    ``last`` is the last key, if there may be more.
    """

    old: Sequence[Key]
    young: int
    ageless: int
    last: Scalar


class BlobTable:
    """The statements about one table of blobs. ``kept`` says why none of it can go; empty if they can."""

    def __init__(self, binding: Binding, part: Blobs) -> None:
        """Compile them, with all references that the schema has now."""
        self.part = part
        self.name = part.table
        self.links: Sequence[Link] = links_of(binding, part)
        self.kept = "; ".join(keeping(binding, part, self.links))
        self.sources = [] if self.kept else list(sources(binding, part, self.links))
        self._binding = binding
        self._dialect = binding.dialect
        self.table = plain_table(binding, part.table)
        self.key: Column = self.table.c[part.key]
        self.size = self._size()
        if self.kept:
            return
        self.unneeded = [self.lacks(link) for link in self.links]
        self._free = [*self.unneeded, *self._unpinned()]
        self._among = self._dialect.keys_in(self.key)
        lock = sa.select(self.key).where(self._among).order_by(self.key)
        self._lock = lock.with_for_update(skip_locked=True)
        self.free = sa.select(self.key, self.size).where(self._among, *self._free)
        self.delete = sa.delete(self.table).where(self._among, *self._free).returning(self.key, self.size)
        self._unpin, self._stale = self._stale_pins()

    def _size(self) -> Column:
        if self.part.size is not None:
            return self.table.c[self.part.size]
        return self._dialect.length(list(self.table.c))

    def lacks(self, link: Link) -> Column:
        """Return the condition that no row of a reference needs a blob: one probe of its index a blob."""
        other = self._binding.table(link.table, "afterrun-needs")
        pairs = zip(link.columns, link.targets, strict=True)
        probe = sa.select(literal(1)).select_from(other)
        probe = probe.where(*(other.c[column] == self.table.c[target] for column, target in pairs))
        return self._none(probe, other, self._binding.index(link.table, link.columns[0]))

    def _none(self, probe: sa.Select[Any], other: sa.FromClause, index: str | None) -> Column:
        one = self._dialect.hint(probe.limit(sa.literal_column("1")), other, index)
        found: Column = one.correlate(self.table).scalar_subquery()
        return found.is_(None)

    def _unpinned(self) -> Iterator[Column]:
        """Yield the condition that no pin counts: none whose lease is in the future, or unknown."""
        pins = self.part.pins
        if pins is None:
            return
        other = self._binding.table(pins.table, "afterrun-pins")
        probe = sa.select(literal(1)).select_from(other)
        probe = probe.where(other.c[pins.column] == self.key, self._counts(pins, other.c[pins.until]))
        yield self._none(probe, other, self._binding.index(pins.table, pins.column))

    def _counts(self, pins: Pins, until: Column) -> Column:
        lease = self._dialect.instant(until, pins.format)
        over = sa.and_(lease > literal(UNREADABLE), lease <= sa.bindparam("now"))
        return sa.case((over, literal(0)), else_=literal(1)) == literal(1)

    def _stale_pins(self) -> tuple[sa.Delete | None, sa.Select[Any] | None]:
        """Return what removes and what counts the pins of blobs that count no more."""
        pins = self.part.pins
        if pins is None:
            return None, None
        table = plain_table(self._binding, pins.table)
        stale = self._dialect.keys_in(table.c[pins.column]), sa.not_(self._counts(pins, table.c[pins.until]))
        return sa.delete(table).where(*stale), sa.select(sa.func.count()).select_from(table).where(*stale)

    def statements(self) -> Iterator[tuple[str, sa.ClauseElement]]:
        """Yield what removes, by name."""
        if self.kept:
            return
        if self._dialect.locks_rows:
            yield f"lock of {self.name}", self._lock
        if self._unpin is not None:
            yield f"pins of {self.name} that count no more", self._unpin
        yield f"removal from {self.name}", self.delete

    def remove(self, keys: Sequence[Key], *, now: Instant) -> tuple[Sequence[int], Counter[str]]:
        """Remove those of these blobs that nothing needs, within the dialect's lock.

        Returns the bytes of each, and rows by table.
        """
        rows: Counter[str] = Counter()
        if self._dialect.locks_rows:
            keys = [
                row[0] for row in self._dialect.execute(self._lock, {"keys": self._dialect.bind_keys(keys)})
            ]
        if self._unpin is not None and self.part.pins is not None:
            # pins that count no more may have a foreign key to their blob, so they go before it
            keys = [row[0] for row in self._dialect.execute(self.free, self._given(keys, now))]
            rows[self.part.pins.table] += self._dialect.change(self._unpin, self._given(keys, now))
        gone = self._dialect.execute(self.delete, self._given(keys, now))
        rows[self.name] += len(gone)
        return [_bytes(row[1]) for row in gone], rows

    def referring(self, keys: Sequence[Key]) -> Mapping[Key, int]:
        """Return how many rows refer to each of these blobs, of those that are there."""
        counts: Counter[Key] = Counter()
        for link in self.links:
            other = self._binding.table(link.table, "afterrun-needs")
            pairs = zip(link.columns, link.targets, strict=True)
            on = sa.and_(*(other.c[column] == self.table.c[target] for column, target in pairs))
            columns: list[Column] = [self.key, sa.func.count()]
            counted = sa.select(*columns).select_from(self.table.join(other, on))
            counted = counted.where(self._among).group_by(self.key)
            counted = self._dialect.hint(counted, other, self._binding.index(link.table, link.columns[0]))
            for key, count in self._dialect.execute(counted, {"keys": self._dialect.bind_keys(keys)}):
                counts[key] += int(count)
        return counts

    def weighed(self, keys: Sequence[Key], *, now: Instant) -> tuple[Sequence[int], int]:
        """Return the bytes of those of these blobs that no lease holds, and how many pins go with them."""
        if not keys:
            return [], 0
        found = self._dialect.execute(
            sa.select(self.key, self.size).where(self._among, *self._unpinned()), self._given(keys, now)
        )
        pins = 0
        if self._stale is not None:
            held = self._given([row[0] for row in found], now)
            pins = int(self._dialect.execute(self._stale, held)[0][0])
        return [_bytes(row[1]) for row in found], pins

    def _given(self, keys: Sequence[Key], now: Instant) -> dict[str, object]:
        given: dict[str, object] = {"keys": self._dialect.bind_keys(keys)}
        return given if self.part.pins is None else given | {"now": now}

    def page(self, after: Scalar, *, limit: int, now: Instant) -> Page:
        """Look at the next blobs. Each statement is a snapshot of its own; what it finds is checked again."""
        keys = sa.select(self.key).where(self.key.is_not(None)).order_by(self.key)
        keys = keys.limit(sa.literal_column(str(limit)))
        given: dict[str, object] = {}
        if after is not None:
            keys = keys.where(self.key > self._dialect.parameter("after", after))
            given["after"] = self._dialect.bind(after)
        found = [row[0] for row in self._dialect.execute(keys, given)]
        among = self._given([key for key in found if readable(key)], now)
        statement = sa.select(self.key, self._age(now)).where(self._among, *self._free)
        free = self._dialect.execute(statement, among)
        return Page(
            [row[0] for row in free if row[1] == OLD],
            sum(row[1] == YOUNG for row in free),
            sum(row[1] == AGELESS for row in free),
            found[-1] if len(found) == limit else None,
        )

    def _age(self, now: Instant) -> Column:
        created = self.part.created
        if created is None:
            return literal(AGELESS)
        made = self._dialect.instant(self.table.c[created.column], created.format)
        old = sa.and_(made > literal(0), made < literal(now - MIN_AGE))
        return sa.case((old, literal(OLD)), (made > literal(0), literal(YOUNG)), else_=literal(AGELESS))

    def faults(self, *, now: Instant) -> Iterator[str]:
        """Count blobs that nothing needs, but for those of the last day, and references to none."""
        for link in self.links:
            count = 0 if link.foreign else self._dangling(link)
            if count:
                yield f"blobs: {count} rows of {link.place} refer to blobs of {self.name} that are gone"
        if self.kept:
            return
        stray = sa.select(sa.func.count()).select_from(self.table)
        stray = stray.where(*self._free, self._age(now) != literal(YOUNG))
        given: dict[str, object] = {} if self.part.pins is None else {"now": now}
        count = int(self._dialect.execute(stray, given)[0][0])
        if count:
            cure = "a sweep looks for them now and then" if self.part.created else "nothing tells their age"
            yield f"blobs: {count} rows of {self.name} are referred to by nothing; {cure}"

    def _dangling(self, link: Link) -> int:
        other = self._binding.table(link.table, "afterrun-needs")
        pairs = list(zip(link.columns, link.targets, strict=True))
        on = sa.and_(*(other.c[column] == self.table.c[target] for column, target in pairs))
        lost = sa.select(sa.func.count()).select_from(other.outerjoin(self.table, on))
        lost = lost.where(self.key.is_(None), *(other.c[column].is_not(None) for column, _ in pairs))
        return int(self._dialect.execute(lost)[0][0])

    def notices(self) -> Iterator[str]:
        """Say what a reader of a plan should know of these blobs."""
        if self.kept:
            yield f"no blob of {self.name} goes, since it cannot be told what needs it: {self.kept}"
        yield from strangers(self._binding, self.part, self.links)
        yield from unindexed(self._binding, self.part, self.links)


def _bytes(value: object) -> int:
    """Return a size as it is stored, or 0 where that makes no sense."""
    return int(value) if isinstance(value, int | float) and value > 0 else 0
