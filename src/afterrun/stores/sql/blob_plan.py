"""What a plan says of blobs: how many nothing would refer to any more, once all its units are gone.

A page's units refer to blobs, and for each the references of these units are compared with all that there
are. A blob that others refer to as well is remembered on disk: later pages may have the rest of them. So the
count is exact but for what changes while the plan is made.
"""

from __future__ import annotations

import sqlite3
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol

import sqlalchemy as sa

from afterrun.core.blobs import BlobCounts
from afterrun.core.facts import Key, Unit, readable
from afterrun.core.times import Instant
from afterrun.core.tree import chunks
from afterrun.stores.sql.blob_table import BlobTable
from afterrun.stores.sql.dialect import Column, Dialect

WITHIN: Final = 10_000
"""Blobs whose sizes one statement reads."""


class Going(Protocol):
    """Knows which rows go with units of one kind."""

    def going(self, column: tuple[str, str], blobs: sa.FromClause, key: Column) -> Iterator[sa.Select[Any]]:
        """Yield what counts by blob the references in a table's column, of rows that go with units."""

    def bound(self, units: Iterable[Unit]) -> Iterator[object]:
        """Yield the keys of units as parameters of what `going` yields."""


class SqlBlobSurvey:
    """Counts over the pages of one plan, in bounded memory."""

    def __init__(
        self, dialect: Dialect, tables: Sequence[BlobTable], going: Going, *, now: Callable[[], Instant]
    ) -> None:
        """Prepare; nothing is read yet. ``going`` knows which rows go with units."""
        self._tables = [_TableSurvey(dialect, table, going) for table in tables]
        self._now = now

    def add(self, units: Sequence[Unit]) -> None:
        """Take in the units of a page."""
        for table in self._tables:
            table.add(units, now=self._now())

    def counts(self) -> tuple[BlobCounts, Mapping[str, int]]:
        """Return blobs and bytes, and the rows by table."""
        total, rows = BlobCounts(), Counter[str]()
        for table in self._tables:
            total.count += table.counts.count
            total.size += table.counts.size
            rows.update(table.rows)
        return total, rows

    def close(self) -> None:
        """Let go of what was remembered on disk."""
        for table in self._tables:
            table.close()


class _TableSurvey:
    """Counts the blobs of one table."""

    def __init__(self, dialect: Dialect, table: BlobTable, going: Going) -> None:
        self._dialect = dialect
        self._table = table
        self._going = going
        blobs = table.table.alias("afterrun-blobs")
        key = blobs.c[table.part.key]
        self._sources = [part for source in table.sources for part in going.going(source, blobs, key)]
        self.counts = BlobCounts()
        self.rows: Counter[str] = Counter()
        self._shared = sqlite3.connect("", isolation_level=None)  # a file of our own that has no name
        self._closing = weakref.finalize(self, self._shared.close)  # a plan may not be read to its end
        self._shared.execute("PRAGMA journal_mode = OFF")
        self._shared.execute("CREATE TABLE shared (key PRIMARY KEY, missing INTEGER NOT NULL) WITHOUT ROWID")
        self._shared.execute("BEGIN")

    def add(self, units: Sequence[Unit], *, now: Instant) -> None:
        """Count what nothing but these units, and those before them, refers to."""
        going: Counter[Key] = Counter()
        for statement in self._sources:
            for keys in self._going.bound(units):
                for key, count in self._dialect.execute(statement, {"keys": keys}):
                    if readable(key):
                        going[key] += count
        for some in chunks(list(going), WITHIN):
            self._settle(some, going, now)

    def _settle(self, keys: Sequence[Key], going: Mapping[Key, int], now: Instant) -> None:
        known = self._known(keys)
        fresh = self._table.referring([key for key in keys if key not in known])
        left = {key: count - going[key] for key, count in [*known.items(), *fresh.items()] if count}
        self._shared.executemany(
            "INSERT OR REPLACE INTO shared VALUES (?, ?)",
            [(key, max(count, 0)) for key, count in left.items() if count > 0 or key in known],
        )
        sizes, pins = self._table.weighed([key for key, count in left.items() if count <= 0], now=now)
        self.counts.count += len(sizes)
        self.counts.size += sum(sizes)
        self.rows[self._table.name] += len(sizes)
        if self._table.part.pins is not None:
            self.rows[self._table.part.pins.table] += pins

    def _known(self, keys: Sequence[Key]) -> dict[Key, int]:
        """Return what is still missing of the references to blobs that an earlier page met."""
        ask = "SELECT missing FROM shared WHERE key = ?"
        found = ((key, self._shared.execute(ask, (key,)).fetchone()) for key in keys)
        return {key: row[0] for key, row in found if row is not None}

    def close(self) -> None:
        """Let go of what is on disk."""
        self._closing()
