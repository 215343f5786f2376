"""The facts of generations: what pages, explanations and the check inside a batch ask of superseded rows.

A generation has no tree: it is one row with rows of its own, judged alone. Its key is that of its run and a
number. One select list serves a page of raw keys in the order of the primary key, and given keys.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import compress
from typing import Any, Final, NamedTuple

import sqlalchemy as sa

from afterrun.core.facts import UNREADABLE, Key, Reason, Scalar, Status, Unit, key_text, readable
from afterrun.core.store import Cursor
from afterrun.core.times import Instant
from afterrun.core.tree import chunks
from afterrun.profiles.generation import Generation, GenerationEnd, GenerationProtection, GenerationRows
from afterrun.stores.sql.binding import UnknownReference
from afterrun.stores.sql.dialect import Column
from afterrun.stores.sql.facts import Facts
from afterrun.stores.sql.literals import one_of

GENERATION: Final = "g"
"""Alias of the table of generations in every statement."""

CHUNK: Final = 10_000
"""Keys of one statement."""


class GenerationRow(NamedTuple):
    """One generation as the store has it. ``current`` is the number of its run's current one, if any."""

    run: Scalar
    number: Scalar
    has_run: bool
    current: Scalar
    status: Scalar
    end: Instant | None
    newer: int

    @property
    def key(self) -> Key:
        """Return its key."""
        return (self.run, self.number)

    @property
    def is_current(self) -> bool:
        """Say whether it is its run's current one."""
        return self.has_run and self.current is not None and self.number == self.current


class GenerationFacts:
    """The statements for generations of one binding. Building them runs nothing.

    ``keep_last`` is how many newer generations of the same run anybody asks about.
    """

    def __init__(self, facts: Facts, generation: Generation, *, keep_last: int) -> None:
        """Compile the profile into statements."""
        self.trees = facts
        self.binding = facts.binding
        self.dialect = facts.dialect
        self.generation = generation
        self.keep_last = keep_last
        self.table = self.binding.table(generation.table, GENERATION)
        self.key: list[Column] = [self.table.c[name] for name in generation.key]
        self.runs = self.binding.runs()
        self.source = self.with_runs(self.table)
        self.columns = [
            *self.key,
            facts.key.is_not(None).label("has_run"),
            self.runs.c[generation.current].label("current"),
            self.table.c[generation.status].label("status"),
            self._own_end().label("ended"),
            self._newer().label("newer"),
        ]
        self.by_key = sa.select(*self.columns).select_from(self.source).where(self._in_keys(self.key))
        self.ends = [self._end_of_rows(end, end.rows) for end in generation.end if end.rows]
        self.flags = [*self._protections(), *self._unknown()]
        self.statuses: Mapping[Scalar, Status] = {
            **dict.fromkeys(generation.terminal, Status.TERMINAL),
            **dict.fromkeys(generation.live, Status.LIVE),
        }

    def with_runs(self, source: sa.FromClause) -> sa.FromClause:
        """Join the run that each generation is of."""
        return source.outerjoin(self.runs, self.trees.key == self.key[0])

    def _in_keys(self, columns: Sequence[Column]) -> Column:
        return self.dialect.rows_in(columns)

    def _own_end(self) -> Column:
        own = [end for end in self.generation.end if end.rows is None]
        ends = [self.dialect.instant(self.table.c[end.column], end.format) for end in own]
        return ends[0] if len(ends) == 1 else sa.func.coalesce(*ends)

    def _newer(self) -> Column:
        """Count the newer generations of the same run, but no further than anybody asks.

        One is there whatever the policy: the current one.
        """
        if self.keep_last <= 1:
            return sa.literal_column("1")
        other = self.binding.table(self.generation.table, "x")
        run, number = (other.c[name] for name in self.generation.key)
        some: sa.Select[Any] = (
            sa.select(sa.literal_column("1").label("one"))
            .select_from(other)
            .where(run == self.key[0], number > self.key[1])
            .correlate(self.table)
            .limit(self.keep_last)
        )
        return sa.select(sa.func.count()).select_from(some.subquery("some")).scalar_subquery()

    def _end_of_rows(self, end: GenerationEnd, rows: GenerationRows) -> sa.Select[Any]:
        """Return what finds the newest time among the rows of each generation."""
        other = self.binding.table(rows.table, "e")
        key = self._their_key(other, rows)
        return (
            sa.select(*key, self.dialect.newest(other.c[end.column], end.format))
            .select_from(other)
            .where(self._in_keys(key))
            .group_by(*key)
        )

    def _their_key(self, other: sa.FromClause, rows: GenerationRows) -> list[Column]:
        """Return the columns of other rows that hold the key of a generation."""
        theirs = {ours: theirs for theirs, ours in rows.on.items()}
        return [other.c[theirs[name]] for name in self.generation.key]

    def _protections(self) -> Iterator[tuple[Reason, bool, sa.Select[Any]]]:
        for protection in self.generation.protect:
            if protection.rows is None:
                yield Reason(protection.reason), False, self._own_condition(protection)
            elif protection.rows.table in self.dialect.shapes:
                detail = f"a row of {protection.rows.table} refers to it"
                yield Reason(protection.reason, detail), False, self._reference(protection, protection.rows)

    def _own_condition(self, protection: GenerationProtection) -> sa.Select[Any]:
        tests = [self.trees.condition(self.table.c[name], test) for name, test in protection.where.items()]
        return sa.select(*self.key).select_from(self.table).where(self._in_keys(self.key), *tests)

    def _reference(self, protection: GenerationProtection, rows: GenerationRows) -> sa.Select[Any]:
        other = self.binding.table(rows.table, "r")
        key = self._their_key(other, rows)
        tests = [self.trees.condition(other.c[name], test) for name, test in protection.where.items()]
        return sa.select(*key).select_from(other).where(self._in_keys(key), *tests)

    def _unknown(self) -> Iterator[tuple[Reason, bool, sa.Select[Any]]]:
        """Yield what finds rows of tables that the profile does not know and that may need a generation."""
        for reference in self.binding.unknown_references():
            if reference.owner in self.generation.tables:
                yield self._unknown_rows(reference)
        names = {name.casefold() for name in self.generation.key}
        for table in sorted(self._strangers()):
            columns = {column.casefold(): column for column in self.dialect.shapes[table].columns}
            if names <= columns.keys():
                other = self.binding.table(table, "r")
                key = [other.c[columns[name.casefold()]] for name in self.generation.key]
                yield _why(table), True, sa.select(*key).select_from(other).where(self._in_keys(key))

    def _strangers(self) -> set[str]:
        return {reference.table for reference in self.binding.unknown_references()}

    def _unknown_rows(self, reference: UnknownReference) -> tuple[Reason, bool, sa.Select[Any]]:
        owner = self.binding.table(reference.owner, "o")
        other = self.binding.table(reference.table, "r")
        on = zip(reference.columns, reference.targets, strict=True)
        pairs = [owner.c[target] == other.c[column] for column, target in on]
        rows = next((rows for rows in self.generation.owned if rows.table == reference.owner), None)
        own = [owner.c[name] for name in self.generation.key]
        key = own if rows is None else self._their_key(owner, rows)
        source = owner.join(other, sa.and_(*pairs))
        return _why(reference.table), True, sa.select(*key).select_from(source).where(self._in_keys(key))

    def raw(self, *, after: bool, limit: int) -> sa.Subquery:
        """Return raw keys in order, from the start or after the parameters ``after0`` and ``after1``."""
        other = self.binding.table(self.generation.table, "k")
        key: list[Column] = [other.c[name] for name in self.generation.key]
        statement: sa.Select[Any] = sa.select(*key).select_from(other)
        if after:
            places = [self.dialect.parameter(f"after{place}", None) for place in range(len(key))]
            statement = statement.where(sa.tuple_(*key) > sa.tuple_(*places))
        return statement.order_by(*key).limit(limit).subquery("raw")

    def page(self, *, after: bool, limit: int) -> sa.Select[Any]:
        """Return the statement of a page: raw keys in a sub-select with LIMIT, their facts outside it."""
        raw = self.raw(after=after, limit=limit)
        source, keys = self._with_raw(raw)
        return sa.select(*self.columns).select_from(source).order_by(*keys)

    def past_page(self, cursor: Cursor, *, limit: int) -> sa.Select[Any]:
        """Return the statement of a page of superseded generations, by their ends: these come first."""
        other = self.binding.table(self.generation.table, "k")
        end: Column = other.c[self.generation.end[0].column]
        order = [end, *(other.c[name] for name in self.generation.key)]
        statement: sa.Select[Any] = sa.select(end.label("raw_end"), *order[1:]).select_from(other)
        statement = statement.where(self.past(other))
        if cursor.tie is not None:
            names = ("after0", "after1")
            places = [self.dialect.parameter("ended", cursor.end)]
            places += [self.dialect.parameter(name, None) for name in names]
            statement = statement.where(sa.tuple_(*order) > sa.tuple_(*places))
        raw = statement.order_by(*order).limit(limit).subquery("raw")
        source, keys = self._with_raw(raw)
        return sa.select(raw.c.raw_end, *self.columns).select_from(source).order_by(raw.c.raw_end, *keys)

    def past(self, table: sa.FromClause) -> Column:
        """Return the condition that a generation was superseded, and ended before the parameter ``bound``."""
        words = [word for word in (self.generation.superseded,) if word is not None]
        old: Column = table.c[self.generation.end[0].column] < sa.bindparam("bound")
        return sa.and_(one_of(table.c[self.generation.status], words), old)

    def bound(self, cutoff: Instant) -> object:
        """Return the parameter of `past`."""
        end = self.generation.end[0]
        return self.dialect.bound(cutoff, self.table.c[end.column], end.format)

    def _with_raw(self, raw: sa.Subquery) -> tuple[sa.FromClause, list[Column]]:
        """Put raw keys before generations and their runs; return the keys, too."""
        keys: list[Column] = [raw.c[name] for name in self.generation.key]
        pairs = [ours == theirs for ours, theirs in zip(self.key, keys, strict=True)]
        return self.with_runs(raw.join(self.table, sa.and_(*pairs))), keys


class GenerationReader:
    """Reads generations by their facts."""

    def __init__(self, facts: GenerationFacts) -> None:
        """Bind the statements to their database."""
        self._facts = facts
        self._dialect = facts.dialect

    def page(self, after: Sequence[Scalar] | None, *, limit: int) -> list[GenerationRow]:
        """Return the next rows in the order of their keys, current ones included."""
        statement = self._facts.page(after=after is not None, limit=limit)
        places = {f"after{place}": self._dialect.bind(value) for place, value in enumerate(after or ())}
        return [_row(row) for row in self._dialect.execute(statement, places)]

    def past_page(
        self, cursor: Cursor, after: Sequence[Scalar] | None, *, cutoff: Instant, limit: int
    ) -> list[tuple[Scalar, GenerationRow]]:
        """Return the next superseded rows that ended before the cutoff, each after its end as stored."""
        given: dict[str, object] = {"bound": self._facts.bound(cutoff)}
        if after is not None:
            given["ended"] = self._dialect.bind(cursor.end)
            given |= {f"after{place}": self._dialect.bind(value) for place, value in enumerate(after)}
        found = self._dialect.execute(self._facts.past_page(cursor, limit=limit), given)
        return [(row[0], _row(row[1:])) for row in found]

    def rows(self, keys: Sequence[Key]) -> list[GenerationRow]:
        """Return the rows with these keys."""
        return [
            _row(row)
            for chunk in chunks(keys, CHUNK)
            for row in self._dialect.execute(self._facts.by_key, {"keys": self._dialect.bind_rows(chunk)})
        ]

    def units(self, keys: Sequence[Key]) -> list[Unit]:
        """Return the units with these keys, as they are now."""
        return self.build(self.rows(keys))

    def build(self, rows: Sequence[GenerationRow]) -> list[Unit]:
        """Return the units of these rows."""
        keys = [row.key for row in rows]
        known = [readable(key) for key in keys]
        ends = self._ends(
            [key for row, key, fit in zip(rows, keys, known, strict=True) if fit and row.end is None]
        )
        flags = self._flags(keys if all(known) else list(compress(keys, known)))
        return [
            self._unit(row, key, ends, flags.get(key, ()), fit=fit)
            for row, key, fit in zip(rows, keys, known, strict=True)
        ]

    def held(self, keys: Sequence[Key]) -> bool:
        """Say whether anything holds generations with these keys, whether they are still there or not."""
        return bool(self._flags(keys))

    def _ends(self, keys: Sequence[Key]) -> Mapping[Key, Instant]:
        """Return the newest time among the rows of those that have none of their own."""
        found: dict[Key, Instant] = {}
        for statement in self._facts.ends:
            missing = [key for key in keys if key not in found]
            for run, number, newest in self._run(statement, missing):
                if newest is not None:
                    found[run, number] = newest
        return found

    def _flags(self, keys: Sequence[Key]) -> Mapping[Key, Collection[tuple[Reason, bool]]]:
        found: defaultdict[Key, dict[tuple[Reason, bool], None]] = defaultdict(dict)
        for reason, blocks, statement in self._facts.flags:
            for row in self._run(statement, keys, now=self._dialect.now()):
                found[tuple(row)][reason, blocks] = None
        return found

    def _run(self, statement: sa.Select[Any], keys: Sequence[Key], **more: object) -> Iterable[Sequence[Any]]:
        for chunk in chunks(keys, CHUNK):
            yield from self._dialect.execute(statement, {"keys": self._dialect.bind_rows(chunk), **more})

    def _unit(
        self,
        row: GenerationRow,
        key: Key,
        ends: Mapping[Key, Instant],
        flags: Collection[tuple[Reason, bool]],
        *,
        fit: bool,
    ) -> Unit:
        run, number, _, current, word, end, newer = row
        end = ends.get(key) if end is None else end
        status = self._facts.statuses.get(word, Status.UNKNOWN)
        ended = status is Status.TERMINAL and end is not None and end >= 0
        if ended and fit and not flags and _is_superseded(number, current):
            return Unit(key, (key,), end, end, False, (), (), (), True, True, run, newer)  # noqa: FBT003 - by place, as it is the hot path
        known = None if end == UNREADABLE or status is not Status.TERMINAL else end
        protected = [reason for reason, blocks in flags if not blocks]
        blocked = [reason for reason, blocks in flags if blocks]
        blocked += _broken(row)
        if status is Status.LIVE:
            protected.append(Reason("live-member", f"{key_text(key)} is {row.status!r}"))
        elif status is Status.UNKNOWN:
            blocked.append(Reason("unknown-status", f"{key_text(key)} has status {row.status!r}"))
        elif end is None:
            blocked.append(Reason("unknown-end-time", f"{key_text(key)} has no end time"))
        elif end == UNREADABLE:
            blocked.append(Reason("unreadable-end-time", f"{key_text(key)} has no usable end time"))
        if not blocked and not _is_superseded(number, current):
            protected.append(Reason("current-generation", f"{key_text(row.run)} is in it"))
        return Unit(
            key,
            (key,),
            known,
            known,
            successful=False,
            blocked=tuple(blocked),
            protected=tuple(protected),
            settled=known is not None,
            run=row.run,
            newer=row.newer,
        )


def _is_superseded(number: Scalar, current: Scalar) -> bool:
    return isinstance(number, int) and isinstance(current, int) and number < current


def _broken(row: GenerationRow) -> Iterator[Reason]:
    """Yield why nothing tells whether a generation is superseded."""
    if not readable(row.key):
        yield Reason("unreadable-key", "its key is NULL or no plain text")
    if not row.has_run:
        yield Reason("lineage-broken", f"there is no run {key_text(row.run)}")
    elif not isinstance(row.number, int) or not isinstance(row.current, int):
        yield Reason("unreadable-generation", "its number, or that of the current one, is no whole number")


def _why(table: str) -> Reason:
    return Reason(f"unknown-reference:{table}", f"a row of {table}, which the profile does not know")


def _row(row: Sequence[Any]) -> GenerationRow:
    return GenerationRow(row[0], row[1], bool(row[2]), *row[3:])
