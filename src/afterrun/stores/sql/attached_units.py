"""The rows of one kind of unit, in a store and in the file attached beside it: read, compared and copied."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, Final

import sqlalchemy as sa

from afterrun.core.facts import Key, Unit
from afterrun.core.tree import chunks
from afterrun.stores.sql.backed import Backed
from afterrun.stores.sql.binding import Binding
from afterrun.stores.sql.blob_backup import missing_from
from afterrun.stores.sql.parts import Part
from afterrun.stores.sql.removal import CHUNK, sorted_keys
from afterrun.stores.sql.sqlite import SQLite

BACKUP: Final = "afterrun_backup"
"""Name under which the file is attached."""

Reader = Callable[[object], Iterator[object]]


def digest(row: object) -> bytes:
    """Return the SHA-256 of a row as it is stored: 1, 1.0, '1' and NULL differ."""
    return hashlib.sha256(repr(row).encode()).digest()


class AttachedUnits:
    """Units of one kind here and there. As a witness, it compares them."""

    def __init__(
        self, dialect: SQLite, binding: Binding, backed: Backed, columns: Mapping[str, Sequence[str]]
    ) -> None:
        """Compile the statements; ``columns`` are those that are stored, by table."""
        self.dialect = dialect
        self._binding = binding
        self.backed = backed
        self.columns = columns
        self.live: Sequence[Part] = backed.parts()
        self.kept: Sequence[Part] = backed.parts(schema=BACKUP)
        self.live_links: Sequence[Part] = backed.links()
        self.kept_links: Sequence[Part] = backed.links(schema=BACKUP)
        self.live_blobs: Sequence[Part] = backed.blobs()
        self.kept_blobs: Sequence[Part] = backed.blobs(schema=BACKUP)
        self._recalled: tuple[Sequence[Key], Sequence[bytes]] = ((), ())
        self._live_readers = [dialect.reader(self.select(part)) for part in self.live]
        self._compared = [
            [dialect.reader(self.select(part, but=backed.led)) for part in side]
            for side in (self.live, self.kept)
        ]
        self._link_readers = [dialect.reader(self.select(part)) for part in self.live_links]
        self._leading = [
            (live.table, dialect.reader(live.statement), dialect.reader(kept.statement))
            for live, kept in zip(backed.leads(), backed.leads(schema=BACKUP), strict=True)
        ]

    def select(self, part: Part, *, but: Collection[str] = ()) -> sa.Select[tuple[object, ...]]:
        """Return the statement that reads the stored columns of a part's rows for some keys."""
        columns = (part.table.c[name] for name in self.columns[part.name] if name not in but)
        return sa.select(*columns).select_from(part.table).where(part.where)

    def rows(self, place: int, keys: Sequence[Key]) -> Iterator[object]:
        """Yield the rows of a live part for some keys; links that stay come after those that go."""
        return self._read([*self._live_readers, *self._link_readers][place], keys)

    def _read(self, reader: Reader, keys: Sequence[Key]) -> Generator[object]:
        for chunk in chunks(keys, CHUNK):
            yield from reader(self.backed.bind(chunk))

    def copy(self, source: Part, target: Part, keys: Sequence[Key], *, size: int = CHUNK) -> int:
        """Copy the rows of a part for some keys, ``size`` keys a statement; return their number."""
        names = list(self.columns[source.name])
        statement = sa.insert(target.table).from_select(names, self.select(source))
        return sum(
            self.dialect.change(statement, {"keys": self.backed.bind(chunk)}) for chunk in chunks(keys, size)
        )

    def recall(self, units: Sequence[Unit]) -> None:
        """Read what the attached file holds of these units, for a comparison that is to come.

        Nobody writes to that file meanwhile, so this is as good as reading it then.
        """
        keys = sorted_keys(units)
        self._recalled = (keys, [self._content(reader, keys) for reader in self._compared[1]])

    def differing(self, units: Sequence[Unit]) -> Collection[Key]:
        """Return the keys of those units whose rows here and there are not exactly the same."""
        if not units or self._equal(sorted_keys(units)):
            return ()
        if len(units) == 1:
            return (units[0].key,)
        half = len(units) // 2
        return (*self.differing(units[:half]), *self.differing(units[half:]))

    def copying_blobs(self, *, back: bool) -> Iterator[tuple[Part, sa.Select[Any], sa.Insert]]:
        """Yield what reads and what copies the blobs that some units refer to, unless they are there already.

        They go into the attached file, or ``back`` into the store; those that are there stay as they are.
        """
        schemas = None, BACKUP
        sides = (self.kept_blobs, self.live_blobs) if back else (self.live_blobs, self.kept_blobs)
        for source, target in zip(*sides, strict=True):
            key = source.key[0].name
            part = missing_from(source, self._binding, key=key, schema=schemas[not back])
            select = self.select(part)
            names = list(self.columns[part.name])
            yield part, select, sa.insert(target.table).from_select(names, select)

    def saved(self, table: str, keys: Sequence[Key]) -> Collection[Key]:
        """Return those of these blobs that the attached file holds."""
        key = next((part.key[0] for part in self.kept_blobs if part.name == table), None)
        if key is None:
            return ()
        statement = sa.select(key).where(self.dialect.keys_in(key))
        return {row[0] for row in self.dialect.execute(statement, {"keys": self.dialect.bind_keys(keys)})}

    def confirm(self, rows: Mapping[str, int]) -> None:
        """Do nothing: the write lock was held since they were compared."""

    def _equal(self, keys: Sequence[Key]) -> bool:
        """Say whether here and there are the same rows of these keys, each as often, table by table."""
        recalled, contents = self._recalled
        if keys != recalled:  # some were left out since, so that what was read is of too many
            contents = [self._content(reader, keys) for reader in self._compared[1]]
        return all(
            self._content(live, keys) == kept for live, kept in zip(self._compared[0], contents, strict=True)
        )

    def _content(self, reader: Reader, keys: Sequence[Key]) -> bytes:
        """Return one digest of all rows of some keys, in whatever order they come."""
        return hashlib.sha256(b"".join(sorted(map(digest, self._read(reader, keys))))).digest()

    def is_empty(self, unit: Unit) -> bool:
        """Say whether the store has no row of a unit."""
        keys = sorted_keys([unit])
        for reader in self._live_readers:
            with closing(self._read(reader, keys)) as rows:
                if next(rows, None) is not None:
                    return False
        return True

    def lost_links(self, keys: Sequence[Key]) -> str:
        """Return the name of a table of links that stay where one is not what it was, or nothing."""
        for name, live, kept in self._leading:
            if not set(self._read(kept, keys)) <= set(self._read(live, keys)):
                return name
        return ""
