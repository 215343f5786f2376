"""The blobs of one store: which are candidates, and how they go."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice

import sqlalchemy as sa

from afterrun.core.blobs import Batch, Gone, Looked, Place
from afterrun.core.errors import StoreFailure, UnitFailure
from afterrun.core.facts import Key, in_order, readable
from afterrun.core.times import Instant
from afterrun.core.tree import chunks
from afterrun.stores.sql.binding import Binding
from afterrun.stores.sql.blob_plan import Going, SqlBlobSurvey
from afterrun.stores.sql.blob_repeats import Repeating
from afterrun.stores.sql.blob_table import BlobTable
from afterrun.stores.sql.removal import CHUNK, Released, Removal


class SqlBlobs:
    """All blobs of one store, and the candidates among them."""

    def __init__(self, binding: Binding, *, now: Callable[[], Instant], check: Callable[[], None]) -> None:
        """Compile the statements; within each transaction, ``check`` may refuse."""
        self.tables = [BlobTable(binding, part) for part in binding.profile.blobs]
        self._binding = binding
        self._dialect = binding.dialect
        self._now = now
        self._check = check
        self._repeating = [
            Repeating(binding, part, part.repeats) for part in binding.profile.blobs if part.repeats
        ]
        self._by_name = {table.name: table for table in self.tables}
        self._waiting: dict[str, dict[Key, None]] = {table.name: {} for table in self.tables}

    @property
    def returned(self) -> Mapping[str, Sequence[str]]:
        """Return the columns, by table, that hold the keys of blobs in rows that go with runs."""
        found: dict[str, list[str]] = {}
        for table in self.tables:
            for name, column in table.sources:
                if column not in found.setdefault(name, []):
                    found[name].append(column)
        return found

    def keep_right(self, released: Released) -> None:
        """Let blobs that repeat a removed row repeat the newest that is left, before the commit."""
        for repeating in self._repeating:
            repeating.keep_right(list(released.keys.get(repeating.source, ())))

    def take_in(self, released: Released) -> None:
        """Make candidates of what committed removals referred to."""
        for table in self.tables:
            keys: set[Key] = set()
            for source in table.sources:
                keys.update(released.keys.get(source, ()))
            self._waiting[table.name].update(dict.fromkeys(in_order(filter(readable, keys))))

    @property
    def waiting(self) -> int:
        """Return the number of candidates."""
        return sum(map(len, self._waiting.values()))

    def take(self, most: int) -> Batch:
        """Take the next candidates of the first table that has any."""
        name, waiting = next((name, keys) for name, keys in self._waiting.items() if keys)
        keys = list(islice(waiting, most))
        for key in keys:
            del waiting[key]
        return Batch(name, in_order(keys))

    def put_back(self, batch: Batch) -> None:
        """Let candidates wait again, before all others."""
        self._waiting[batch.table] = dict.fromkeys(batch.keys) | self._waiting[batch.table]

    def remove(self, batch: Batch, *, seconds: float) -> Gone:
        """Remove those candidates that nothing needs, in one transaction."""
        table, now = self._by_name[batch.table], self._now()
        sizes: list[int] = []
        rows: Counter[str] = Counter()
        asked = since = time.monotonic()
        with self._dialect.locked(seconds):
            since = time.monotonic()
            self._check()
            for chunk in chunks(batch.keys, CHUNK):
                found, went = table.remove(chunk, now=now)
                sizes.extend(found)
                rows.update(went)
        held = time.monotonic() - since
        return Gone(len(sizes), sum(sizes), rows, held, since - asked)

    def look(self, place: Place, *, limit: int) -> Looked:
        """Make candidates of the next blobs that nothing needs and that are old enough."""
        if place.table >= len(self.tables):
            return Looked(None)
        table, following = self.tables[place.table], Place(place.table + 1)
        if table.kept:
            return Looked(following)
        page = table.page(place.after, limit=limit, now=self._now())
        self._waiting[table.name].update(dict.fromkeys(page.old))
        following = following if page.last is None else Place(place.table, page.last)
        return Looked(following, page.young, page.ageless)

    def survey(self) -> SqlBlobSurvey:
        """Start to count for a plan of run trees."""
        return self.counting(Removal(self._binding))

    def counting(self, going: Going) -> SqlBlobSurvey:
        """Start to count for a plan of units of one kind."""
        tables = [table for table in self.tables if not table.kept]
        return SqlBlobSurvey(self._dialect, tables, going, now=self._now)

    def beside(self, going: Going) -> BlobsOfAKind:
        """Return the same blobs for units of another kind than run trees."""
        return BlobsOfAKind(self, going)

    def statements(self) -> Iterator[tuple[str, sa.ClauseElement]]:
        """Yield what removes, by name."""
        for table in self.tables:
            yield from table.statements()
        for repeating in self._repeating:
            yield from repeating.statements()

    def notices(self) -> Iterator[str]:
        """Say what a reader of a plan should know."""
        for table in self.tables:
            yield from table.notices()

    def obstacles(self) -> Iterator[str]:
        """Say what the database has against removing any blob, beside its rights to remove rows."""
        if not self._dialect.returns_removed:
            yield "this version of the database does not tell what it removes: SQLite does from 3.35 on"
        for table in self.tables if self._dialect.locks_rows else ():
            yield from self._dialect.obstacles([], locked=table.name)

    def unremovable(self) -> Iterator[str]:
        """Say why the database would refuse to remove blobs, whatever they are."""
        for name, statement in self.statements():
            try:
                self._dialect.explain(statement, {"keys": self._dialect.bind_keys([]), "now": 0})
            except (UnitFailure, StoreFailure) as failure:
                yield f"blobs cannot be removed ({name}): {failure}"

    def faults(self) -> Iterator[str]:
        """Count blobs that nothing refers to, and references to blobs that are gone."""
        now = self._now()
        for table in self.tables:
            yield from table.faults(now=now)

    def needing(self) -> set[str]:
        """Return all tables whose rows decide whether a blob stays."""
        pins = {table.part.pins.table for table in self.tables if table.part.pins}
        return pins | {link.table for table in self.tables for link in table.links}


class BlobsOfAKind:
    """The blobs of a store, for units of one kind: they differ in what a plan counts."""

    def __init__(self, blobs: SqlBlobs, going: Going) -> None:
        """Take the store's blobs; candidates are one with those of all other kinds."""
        self._blobs = blobs
        self._going = going
        self.take = blobs.take
        self.put_back = blobs.put_back
        self.remove = blobs.remove
        self.look = blobs.look

    @property
    def waiting(self) -> int:
        """Return the number of candidates."""
        return self._blobs.waiting

    def survey(self) -> SqlBlobSurvey:
        """Start to count for a plan."""
        return self._blobs.counting(self._going)
