"""Superseded generations of runs that stay, behind the store protocol: one pass over them beside the trees'.

Where no index has them by their end, a pass goes over all of them in the order of their keys. So does a plan
in any store, since it counts them all; a sweep reads only those that were superseded long ago, if the profile
says how to find them. One that goes with its whole tree is left to that: it must not be counted twice.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import sqlalchemy as sa

from afterrun.core.errors import StoreFailure, UnitFailure, UnitNotFound
from afterrun.core.facts import Key, Scalar, Unit, key_order, key_text, readable
from afterrun.core.store import Census, Cursor, Outside, Page, Stream
from afterrun.core.times import Instant
from afterrun.core.tree import chunks
from afterrun.profiles.generation import Generation
from afterrun.stores.sql.beside import BesideTrees, Leaving
from afterrun.stores.sql.dialect import Column
from afterrun.stores.sql.elsewhere import Reach, Reaching
from afterrun.stores.sql.generation_facts import CHUNK, GenerationFacts, GenerationReader, GenerationRow
from afterrun.stores.sql.literals import one_of
from afterrun.stores.sql.parts import generation_parts
from afterrun.stores.sql.removal import Released, changed, told
from afterrun.stores.sql.store import STATEMENT_PAGE, SqlStore
from afterrun.stores.sql.transaction import LOCKED, SqlTransaction
from afterrun.stores.sql.unchanged import Unchanged

BY_KEY: Final = 0
BY_END: Final = 1
"""Streams: all of them, and those that were superseded."""


class SqlGenerations(BesideTrees):
    """The generations of one SQL store."""

    removal: GenerationRemoval

    def __init__(
        self, store: SqlStore, generation: Generation, *, keep_last: int | None, leaving: Leaving | None
    ) -> None:
        """Compile the statements. ``keep_last`` is the policy's, ``leaving`` tells which runs go whole."""
        super().__init__(store, leaving=leaving)
        self.facts = GenerationFacts(store.facts, generation, keep_last=keep_last or 1)
        self.reader = GenerationReader(self.facts)
        self.removal = GenerationRemoval(self.facts, returned=store.blobs.returned if store.blobs else {})
        self.blobs = None if store.blobs is None else store.blobs.beside(self.removal)
        self._unchanged = Unchanged(self._dialect, self.reader)
        locks = self._dialect.locks_rows
        self._locks = GenerationLocks(self.facts, self.reader) if locks else None

    def streams(self) -> tuple[Stream, ...]:
        """Return the order of their keys, and that of their ends, if an index has the superseded ones so."""
        by_key, generation = Stream("key", indexed=True), self.facts.generation
        if generation.superseded is None:
            return (by_key,)
        return by_key, Stream(generation.end[0].column, indexed=True, swept=True)

    def has_rows(self, stream: int) -> bool:  # noqa: ARG002 - there is one
        """Say whether there is any generation."""
        one: sa.Select[Any] = sa.select(sa.literal_column("1")).select_from(self.facts.table).limit(1)
        return bool(self._dialect.execute(one))

    def page(self, cursor: Cursor, *, cutoff: Instant, limit: int) -> Page:
        """Return the units of the next raw keys, but for current generations, which no policy lets go."""
        mark = self._dialect.mark()
        rows, following = self._read(cursor, cutoff, limit)
        units = self._set_apart(self.reader.build([row for row in rows if not row.is_current]), cutoff)
        self._unchanged.note(units, since=mark)
        return Page(units, len(rows), following)

    def _read(
        self, cursor: Cursor, cutoff: Instant, limit: int
    ) -> tuple[Sequence[GenerationRow], Cursor | None]:
        """Read the next rows of a stream; return the cursor after the last of them if more may follow."""
        if cursor.stream == BY_KEY:
            rows = self.reader.page(_place(cursor), limit=limit)
            return rows, Cursor(BY_KEY, None, _mark(rows)) if len(rows) == limit else None
        found = self.reader.past_page(cursor, _place(cursor), cutoff=cutoff, limit=limit)
        rows = [row for _, row in found]
        return rows, Cursor(BY_END, found[-1][0], _mark(rows)) if len(rows) == limit else None

    def remaining(self, cursor: Cursor, *, cutoff: Instant, streams: Collection[int]) -> int:
        """Count superseded generations after the cursor; an upper bound of what may still go."""
        if not streams:
            return 0
        if BY_END in streams:
            return self._past_after(cursor, cutoff)
        place = _place(cursor)
        facts = self.facts
        statement = sa.select(sa.func.count()).select_from(facts.source).where(self._superseded())
        parameters: dict[str, object] = {}
        if place is not None:
            after = [self._dialect.parameter(f"after{at}", None) for at in range(len(place))]
            statement = statement.where(sa.tuple_(*facts.key) > sa.tuple_(*after))
            parameters = {f"after{at}": self._dialect.bind(value) for at, value in enumerate(place)}
        return int(self._dialect.execute(statement, parameters)[0][0])

    def _past_after(self, cursor: Cursor, cutoff: Instant) -> int:
        """Count those that were superseded, and ended at the cursor's end or later, before the cutoff."""
        facts = self.facts
        statement = sa.select(sa.func.count()).select_from(facts.table).where(facts.past(facts.table))
        given: dict[str, object] = {"bound": facts.bound(cutoff)}
        if cursor.end is not None:
            end = facts.table.c[facts.generation.end[0].column]
            statement = statement.where(end >= self._dialect.parameter("ended", cursor.end))
            given["ended"] = self._dialect.bind(cursor.end)
        return int(self._dialect.execute(statement, given)[0][0])

    def _superseded(self) -> Column:
        facts = self.facts
        return facts.key[1] < facts.runs.c[facts.generation.current]

    def find(self, text: str) -> Unit:
        """Return the generation with this id: that of its run, a slash, and its number."""
        for key in spelled(text):
            units = self.reader.units([key])
            if units:
                return units[0]
        raise UnitNotFound(f"no generation of {self.url} has the id {text[:120]!r}")

    def describe(self, unit: Unit) -> Sequence[Mapping[str, Scalar]]:
        """Return run, number, status and end."""
        return [
            {"run": key_text(row.key), "parent": key_text(row.run), "status": row.status, "end": unit.end}
            for row in self.reader.rows([unit.key])
        ]

    def census(self) -> Census:
        """Count the rows of the table of generations by status, unless the database refuses unknown ones."""
        if self._store.has_checked_statuses:
            return Census({}, {})
        status = self.facts.table.c[self.facts.generation.status]
        rows = self._dialect.execute(
            sa.select(status, sa.func.count()).select_from(self.facts.table).group_by(status)
        )
        counts: Counter[str] = Counter()
        unknown: Counter[str] = Counter()
        for word, count in rows:
            counts[key_text(word)] += int(count)
            if word not in self.facts.statuses:
                unknown[key_text(word)] += int(count)
        return Census(counts, unknown)

    def outside(self, *, cutoff: Instant | None, now: Instant) -> Outside:  # noqa: ARG002 - pages meet all but these
        """Count the current generations, which pages pass by; all of them, where no page is read."""
        facts = self.facts
        current = facts.key[1] == facts.runs.c[facts.generation.current]
        statement = sa.select(sa.func.count()).select_from(facts.source)
        count = int(self._dialect.execute(statement.where(current))[0][0])
        if cutoff is not None:
            return Outside(protected={"current-generation": count} if count else {}, members=count)
        rows = int(self._dialect.execute(statement)[0][0])
        return Outside(
            recent=rows - count, protected={"current-generation": count} if count else {}, members=rows
        )

    def transaction(self, *, seconds: float) -> SqlTransaction:
        """Start a batch."""
        return SqlTransaction(
            self._dialect.locked(seconds),
            self.reader,
            self.removal,
            check=self._store.check_version,
            rows=self._locks or self._unchanged,
            reaching=Reaching(Reach(), self._dialect),
            blobs=self._store.blobs,
        )

    def remarks(self) -> Sequence[str]:
        """Say how many runs that ended were started by generations that may be gone: they stay."""
        facts = self.facts
        if not facts.trees.tree.edges:
            return ()
        parent = facts.binding.table(facts.trees.tree.table, "p")
        several = parent.c[facts.generation.current] > sa.literal_column("1")
        ended = one_of(facts.trees.status, facts.trees.tree.terminal)
        source = facts.trees.with_parents(facts.trees.source)
        statement = sa.select(sa.func.count()).select_from(source)
        statement = statement.where(facts.trees.has_parent(), ended, several)
        count = int(self._dialect.execute(statement)[0][0])
        if not count:
            return ()
        told = (
            f"{count} runs that ended have a parent with several generations; nothing says which of these "
            "started them, so they stay until their whole tree goes"
        )
        return [told]

    def statements(self) -> Mapping[str, str]:
        """Return the SQL of pages, facts, references and removal by name, as the database gets it."""
        facts = self.facts
        found: dict[str, sa.ClauseElement] = {
            "first page": facts.page(after=False, limit=STATEMENT_PAGE),
            "next page": facts.page(after=True, limit=STATEMENT_PAGE),
            "facts": facts.by_key,
        }
        if facts.generation.superseded is not None:
            found["first page of a sweep"] = facts.past_page(Cursor(BY_END), limit=STATEMENT_PAGE)
            found["next page of a sweep"] = facts.past_page(Cursor(BY_END, "", "[]"), limit=STATEMENT_PAGE)
        found.update({f"ends by rows {place}": part for place, part in enumerate(facts.ends, start=1)})
        found.update({f"held by {reason.name}": part for reason, _, part in facts.flags})
        found.update({"locks": self._locks.statement} if self._locks else {})
        found.update({f"removal from {name}": part for name, part in self.removal.deletes})
        return {f"generations, {name}": self._dialect.sql(part) for name, part in found.items()}


MAX_DIGITS: Final = 19
"""Characters of a number that fits any database's integers."""


def spelled(text: str) -> list[Key]:
    """Return the keys that an id, as a person types it, may stand for."""
    run, slash, number = text.rpartition("/")
    if not (slash and _is_number(number)):
        return []
    keys: list[Key] = [(run, int(number))]
    if _is_number(run):
        keys.append((int(run), int(number)))
    return [key for key in keys if readable(key)]


def _is_number(text: str) -> bool:
    return text.isascii() and text.removeprefix("-").isdecimal() and len(text) < MAX_DIGITS


def _place(cursor: Cursor) -> list[Scalar] | None:
    """Return the raw key that a cursor stands on."""
    if cursor.tie is None:
        return None
    place: list[Scalar] = json.loads(str(cursor.tie))
    return place


def _mark(rows: Sequence[GenerationRow]) -> str:
    """Write the last key of a page as one value. Raises `StoreFailure` if it can be no parameter."""
    key = rows[-1].key
    if not readable(key):
        raise StoreFailure(
            "unreadable-key", "the key of a generation is no plain text; nothing more was read"
        )
    return json.dumps(key)


class GenerationRemoval:
    """The statements that remove, count and weigh the rows of generations."""

    def __init__(self, facts: GenerationFacts, *, returned: Mapping[str, Sequence[str]]) -> None:
        """Compile them, in the profile's order. ``returned`` are columns, by table, whose values are told."""
        self._dialect = facts.dialect
        self._returned = returned
        self._parts = [
            (part.name, part.table, part.key) for part in generation_parts(facts.binding, facts.generation)
        ]
        self.deletes = [
            (name, told(sa.delete(table).where(self._dialect.rows_in(key)), table, returned.get(name, ())))
            for name, table, key in self._parts
        ]

    def remove(
        self, units: Iterable[Unit], *, max_rows: int, released: Released | None = None
    ) -> Mapping[str, int]:
        """Remove all rows of these units, within the dialect's lock; return them by table.

        ``released`` takes in the blobs that they referred to. Raises `UnitFailure` of kind ``oversized``
        beyond ``max_rows``: the caller rolls back.
        """
        keys = sorted_keys(units)
        removed = dict.fromkeys((name for name, _ in self.deletes), 0)
        for name, statement in self.deletes:
            for chunk in chunks(keys, CHUNK):
                given = {"keys": self._dialect.bind_rows(chunk)}
                columns = self._returned.get(name, ())
                removed[name] += changed(self._dialect, statement, given, (name, columns), released)
            if sum(removed.values()) > max_rows:
                raise UnitFailure("oversized", f"more than {max_rows} rows in one batch")
        return removed

    def count(self, units: Iterable[Unit]) -> Mapping[str, int]:
        """Return the rows by table that `remove` would take."""
        keys = sorted_keys(units)
        return {
            name: sum(int(row[0]) for row in self._rows(keys, table, key, [sa.func.count()]))
            for name, table, key in self._parts
        }

    def going(self, column: tuple[str, str], blobs: sa.FromClause, key: Column) -> Iterator[sa.Select[Any]]:
        """Yield what counts by blob the references in a table's column, of rows that go with units."""
        for name, table, own in self._parts:
            if name == column[0]:
                source = table.join(blobs, table.c[column[1]] == key)
                columns: list[Column] = [key, sa.func.count()]
                counted = sa.select(*columns).select_from(source)
                yield counted.where(self._dialect.rows_in(own)).group_by(key)

    def bound(self, units: Iterable[Unit]) -> Iterator[object]:
        """Yield the keys of units as parameters of what `going` yields."""
        for chunk in chunks(sorted_keys(units), CHUNK):
            yield self._dialect.bind_rows(chunk)

    def weigh(self, units: Sequence[Unit]) -> Sequence[int]:
        """Return the rows of each unit, over all tables."""
        weights: Counter[Key] = Counter()
        keys = sorted_keys(units)
        for _, table, key in self._parts:
            for *found, count in self._rows(keys, table, key, [*key, sa.func.count()], group=key):
                weights[tuple(found)] += int(count)
        return [weights[unit.key] for unit in units]

    def measure(self, units: Iterable[Unit]) -> tuple[int, int]:
        """Return bytes of content and number of rows of these units."""
        keys = sorted_keys(units)
        size = rows = 0
        for _, table, key in self._parts:
            total = sa.func.coalesce(sa.func.sum(self._dialect.length(list(table.c))), 0)
            for found in self._rows(keys, table, key, [total, sa.func.count()]):
                size += int(found[0])
                rows += int(found[1])
        return size, rows

    def _rows(
        self,
        keys: Sequence[Key],
        table: sa.TableClause,
        key: Sequence[Column],
        columns: Sequence[Column],
        *,
        group: Sequence[Column] = (),
    ) -> Iterable[Sequence[Any]]:
        statement = sa.select(*columns).select_from(table).where(self._dialect.rows_in(key))
        statement = statement.group_by(*group) if group else statement
        for chunk in chunks(keys, CHUNK):
            yield from self._dialect.execute(statement, {"keys": self._dialect.bind_rows(chunk)})


class GenerationLocks:
    """Locks on superseded rows alone, for a database where others write beside a batch."""

    def __init__(self, facts: GenerationFacts, reader: GenerationReader) -> None:
        """Compile the statement that locks, in the order of keys, so that two batches cannot deadlock."""
        self._dialect = facts.dialect
        self._reader = reader
        self.statement = (
            sa.select(*facts.key)
            .select_from(facts.table)
            .where(self._dialect.rows_in(facts.key))
            .order_by(*facts.key)
            .with_for_update(skip_locked=True, of=facts.table)
        )

    def units(self, units: Sequence[Unit]) -> list[Unit]:
        """Lock the rows and read them again; what another transaction holds is protected meanwhile."""
        keys = sorted_keys(units)
        held = {
            tuple(row)
            for chunk in chunks(keys, CHUNK)
            for row in self._dialect.execute(self.statement, {"keys": self._dialect.bind_rows(chunk)})
        }
        return [
            unit if unit.key in held else unit._replace(protected=(LOCKED, *unit.protected))
            for unit in self._reader.units(keys)
        ]

    def newcomers(self, units: Sequence[Unit]) -> bool:
        """Say whether a reference to these generations has come since they were read."""
        return self._reader.held(sorted_keys(units))


def sorted_keys(units: Iterable[Unit]) -> list[Key]:
    """Return the keys of units in order: neighbours in an index are changed together."""
    keys = [unit.key for unit in units]
    try:
        return sorted(keys)  # type: ignore[type-var]  # each a run and a number, but in a hostile store
    except TypeError:
        return sorted(keys, key=key_order)
