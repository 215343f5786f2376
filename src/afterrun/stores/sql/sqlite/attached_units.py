"""The rows of one kind of unit, in a store and in the file attached beside it: read, compared and copied."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, Final

import sqlalchemy as sa

from afterrun.core.facts import Key, Unit
from afterrun.core.tree import chunks
from afterrun.stores.sql.backed import Backed
from afterrun.stores.sql.binding import Binding
from afterrun.stores.sql.blob_backup import missing_from
from afterrun.stores.sql.dialect import Column
from afterrun.stores.sql.parts import Part
from afterrun.stores.sql.removal import CHUNK, sorted_keys
from afterrun.stores.sql.sqlite.dialect import SQLite

BACKUP: Final = "afterrun_backup"
"""Name under which the file is attached."""

Reader = Callable[[object], Iterator[object]]


Content = bytes | tuple[Counter[bytes], Counter[bytes]]
"""What the rows of some keys come to in one table; where rows may be listed beside, those that must be there,
and all."""


@dataclass(frozen=True, slots=True)
class Compared:
    """What reads one table here and there. ``beside``: those of the rows there that no other unit lists."""

    live: Reader
    kept: Reader
    beside: Reader | None


def digest(row: object) -> bytes:
    """Return the SHA-256 of a row as it is stored: 1, 1.0, '1' and NULL differ."""
    return hashlib.sha256(repr(row).encode()).digest()


class AttachedUnits:
    """Units of one kind here and there. As a witness, it compares them."""

    def __init__(
        self,
        dialect: SQLite,
        binding: Binding,
        backed: Backed,
        columns: Mapping[str, Sequence[str]],
        beside: Callable[[str, Part], Column | None],
    ) -> None:
        """Compile the statements; ``columns`` are those that are stored, by table.

        ``beside`` tells which rows of a part are units of their own, and so no part of those of this kind.
        """
        self.dialect = dialect
        self._binding = binding
        self.backed = backed
        self.columns = columns
        every = list(zip(backed.parts(), backed.parts(schema=BACKUP), strict=True))
        apart = [[beside(backed.kind, part) for part in parts] for parts in every]
        self.live: Sequence[Part] = [
            _without(live, at[0]) for (live, _), at in zip(every, apart, strict=True)
        ]
        self.kept: Sequence[Part] = [
            _without(kept, at[1]) for (_, kept), at in zip(every, apart, strict=True)
        ]
        self.live_links: Sequence[Part] = backed.links()
        self.kept_links: Sequence[Part] = backed.links(schema=BACKUP)
        self.live_blobs: Sequence[Part] = backed.blobs()
        self.kept_blobs: Sequence[Part] = backed.blobs(schema=BACKUP)
        self._recalled: tuple[Sequence[Key], Sequence[Content]] = ((), ())
        self._live_readers = [dialect.reader(self.select(part)) for part in self.live]
        self._compared = [
            Compared(
                dialect.reader(self.select(live, but=backed.led)),
                dialect.reader(self.select(kept, but=backed.led)),
                None if kept.where is own.where else dialect.reader(self.select(own, but=backed.led)),
            )
            for (live, kept), own in zip(every, self.kept, strict=True)
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
        self._recalled = (keys, [self._saved(part, keys) for part in self._compared])

    def differing(self, units: Sequence[Unit]) -> Collection[Key]:
        """Return the keys of those units whose rows here and there are not exactly the same."""
        if not units or self.equal(units):
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

    def equal(self, units: Sequence[Unit]) -> bool:
        """Say whether here and there are the same rows of these units, each as often, table by table."""
        keys = sorted_keys(units)
        recalled, contents = self._recalled
        if keys != recalled:  # some were left out since, so that what was read is of too many
            contents = [self._saved(part, keys) for part in self._compared]
        return all(
            self._is_saved(part.live, content, keys)
            for part, content in zip(self._compared, contents, strict=True)
        )

    def _saved(self, part: Compared, keys: Sequence[Key]) -> Content:
        """Read what the attached file holds of some keys in one table."""
        if part.beside is None:
            return self._content(part.kept, keys)
        return self._counted(part.beside, keys), self._counted(part.kept, keys)

    def _is_saved(self, live: Reader, content: Content, keys: Sequence[Key]) -> bool:
        """Say whether the store's rows are those that were saved. One that is listed beside may have gone."""
        if isinstance(content, bytes):
            return self._content(live, keys) == content
        own, every = content
        return own <= self._counted(live, keys) <= every

    def _content(self, reader: Reader, keys: Sequence[Key]) -> bytes:
        """Return one digest of all rows of some keys, in whatever order they come."""
        return hashlib.sha256(b"".join(sorted(map(digest, self._read(reader, keys))))).digest()

    def _counted(self, reader: Reader, keys: Sequence[Key]) -> Counter[bytes]:
        return Counter(map(digest, self._read(reader, keys)))

    def is_empty(self, units: Sequence[Unit]) -> bool:
        """Say whether the store has no row of these units, but for those listed beside that are as saved."""
        keys = sorted_keys(units)
        for reader in self._live_readers:
            with closing(self._read(reader, keys)) as rows:
                if next(rows, None) is not None:
                    return False
        shared = [part for part in self._compared if part.beside is not None]
        return all(self._counted(part.live, keys) <= self._counted(part.kept, keys) for part in shared)

    def lost_links(self, keys: Sequence[Key]) -> str:
        """Return the name of a table of links that stay where one is not what it was, or nothing."""
        for name, live, kept in self._leading:
            if not set(self._read(kept, keys)) <= set(self._read(live, keys)):
                return name
        return ""


def _without(part: Part, listed: Column | None) -> Part:
    """Leave out of a part the rows that are listed beside."""
    return part if listed is None else replace(part, where=sa.and_(part.where, sa.not_(listed)))
