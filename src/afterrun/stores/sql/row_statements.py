"""The statements of one row table. All have the verdict of `row_verdict` in them, and one layout of columns.

The layout: the key, the end as an instant, the partition if `keep_latest` asks for it; a page has the verdict
after that, and then the raw values by which it is ordered.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from afterrun.core.facts import Key, Scalar
from afterrun.core.row_tables import Place
from afterrun.core.times import Instant
from afterrun.stores.sql.dialect import Column
from afterrun.stores.sql.literals import literal
from afterrun.stores.sql.row_binding import RowBinding
from afterrun.stores.sql.row_verdict import GOES, RowVerdict

ROW = "e"
"""Alias of the row table where it is only read."""


class RowStatements:
    """Compiles them; building them runs nothing. ``ranked``: the partition of each row is wanted."""

    def __init__(self, rows: RowBinding, verdict: RowVerdict, *, ranked: bool) -> None:
        """Build what does not depend on a place."""
        self._rows = rows
        self._dialect = rows.dialect
        self._verdict = verdict
        self._width = len(rows.rows.key)
        self._partition = rows.rows.partition if ranked else ()
        self._read = rows.table(ROW)
        self._keys: list[Column] = [self._read.c[name] for name in rows.rows.key]
        self._ended = self._read.c[rows.rows.end.column]
        self._ties = self._tie_columns()
        self.indexed = rows.index is not None
        self.first = self._page(*self._range())
        self.newest = self._newest()
        self.candidates = self._candidates()
        own = rows.plain(rows.rows.table)
        may_go = self._verdict.of(own) == literal(GOES)
        self.delete = sa.delete(own).where(self._among(own), may_go)
        self.owned = [(part.table, sa.delete(table).where(where)) for part, table, where in self._owned()]
        self.owned_counts = [
            (part.table, sa.select(sa.func.count()).select_from(table).where(where))
            for part, table, where in self._owned()
        ]
        self.measures = [
            self._measuring(own, self._among(own)),
            *(self._measuring(table, where) for _, table, where in self._owned()),
        ]
        self.fresh = self._fresh()
        self.looks_first = bool(self.owned) or ranked or self._dialect.locks_rows

    # The layout

    def key(self, row: Sequence[Any]) -> Key:
        """Return the key of a row."""
        return row[0] if self._width == 1 else tuple(row[: self._width])

    def end(self, row: Sequence[Any]) -> Instant:
        """Return when it ended."""
        return int(row[self._width])

    def partition(self, row: Sequence[Any]) -> tuple[Scalar, ...]:
        """Return the partition that ``keep_latest`` counts it in."""
        start = self._width + 1
        return tuple(row[start : start + len(self._partition)])

    def verdict_of(self, row: Sequence[Any]) -> int:
        """Return the verdict of a row of a page."""
        return int(row[self._width + 1 + len(self._partition)])

    def place(self, row: Sequence[Any]) -> Place:
        """Return where the page that ends with this row ended."""
        return tuple(row[self._width + 2 + len(self._partition) :])

    def _columns(self, table: sa.FromClause) -> list[Column]:
        parts = [self._dialect.order_key(table.c[name]) for name in self._partition]
        return [
            *(table.c[name].label(f"key{place}") for place, name in enumerate(self._rows.rows.key)),
            self._verdict.end(table).label("instant"),
            *(part.label(f"part{place}") for place, part in enumerate(parts)),
        ]

    # Pages

    def _tie_columns(self) -> list[Column]:
        """Return what orders rows that ended at one time: the number of a row, or its whole key."""
        tie = self._dialect.tie(self._rows.rows.table, ROW, self._keys[0])
        return self._keys if tie is self._keys[0] else [tie]

    def _range(self) -> list[Column]:
        """Return the condition under which a page meets a row: by the index, or for every row without."""
        if not self.indexed:
            return []
        return [self._ended.is_not(None), self._ended < sa.bindparam("bound")]

    def _page(self, *where: Column, ties_only: bool = False) -> sa.Select[Any]:
        order = [self._ended, *self._ties] if self.indexed else self._ties
        statement: sa.Select[Any] = sa.select(
            *self._columns(self._read),
            self._verdict.of(self._read).label("verdict"),
            *(column.label(f"place{at}") for at, column in enumerate(order)),
        )
        statement = statement.select_from(self._read).where(*where)
        statement = self._dialect.hint(statement, self._read, self._rows.index)
        return statement.order_by(*(self._ties if ties_only else order)).limit(sa.bindparam("most"))

    def positions(self, place: Place) -> Sequence[sa.Select[Any]]:
        """Return what reads on after a place: the rows that tie with it, then the later ones."""
        given = self._given(place)
        after = self._after(given[1:] if self.indexed else given)
        if not self.indexed:
            return [self._page(after)]
        tied = self._page(*self._range(), self._ended == given[0], after, ties_only=True)
        return [tied, self._page(*self._range(), self._ended > given[0])]

    def _given(self, place: Place) -> list[Column]:
        return [self._dialect.parameter(f"place{at}", value) for at, value in enumerate(place)]  # type: ignore[arg-type]

    def _after(self, given: Sequence[Column]) -> Column:
        if len(given) == 1:
            return self._ties[0] > given[0]
        return sa.tuple_(*self._ties) > sa.tuple_(*given)

    def given(self, place: Place) -> Mapping[str, object]:
        """Return a place as the parameters of `positions`."""
        return {f"place{at}": self._dialect.bind(value) for at, value in enumerate(place)}  # type: ignore[arg-type]

    # Counts

    def beyond(self, *, pages: bool) -> sa.Select[Any]:
        """Return what counts, by verdict, the rows that no page meets; all of them, where no page is read."""
        verdict = self._verdict.of(self._read).label("verdict")
        columns: list[Column] = [verdict, sa.func.count()]
        statement = sa.select(*columns).select_from(self._read)
        if pages:
            met = sa.case((sa.and_(*self._range()), literal(0)), else_=literal(1))
            statement = statement.where(met == literal(1))
        return statement.group_by(sa.literal_column("1"))

    def _measuring(self, table: sa.TableClause, where: Column) -> sa.Select[Any]:
        length = self._dialect.length(list(table.c))
        columns: list[Column] = [sa.func.coalesce(sa.func.sum(length), 0), sa.func.count()]
        return sa.select(*columns).select_from(table).where(where)

    def _newest(self) -> sa.Select[Any]:
        keys = [self._dialect.order_key(column).desc() for column in self._keys]
        order = [self._verdict.end(self._read).desc(), *keys]
        parts = [self._dialect.order_key(self._read.c[name]) for name in self._partition]
        position = sa.func.row_number().over(partition_by=parts or None, order_by=order).label("position")
        ranked = (
            sa.select(position, *self._columns(self._read))
            .select_from(self._read)
            .where(self._verdict.counts(self._read))
            .subquery("ranked")
        )
        columns = list(ranked.c)[1:]
        return sa.select(*columns).where(ranked.c.position == sa.bindparam("count"))

    def backlog(self, place: Place | None) -> sa.Select[Any]:
        """Return what counts the rows from a place on: by the index alone, or else by what each row says."""
        where = self._range() or [self._verdict.cheap(self._read) == literal(GOES)]
        if place is not None:
            given = self._given(place)
            where.append(self._ended >= given[0] if self.indexed else self._after(given))
        statement = sa.select(sa.func.count()).select_from(self._read).where(*where)
        return self._dialect.hint(statement, self._read, self._rows.index)

    def _candidates(self) -> sa.Select[Any]:
        some = sa.select(literal(1)).select_from(self._read).where(*self._range())
        some = self._dialect.hint(some, self._read, self._rows.index).limit(sa.bindparam("most"))
        return sa.select(sa.func.count()).select_from(some.subquery("some"))

    # Removal

    def _among(self, table: sa.FromClause) -> Column:
        columns = [table.c[name] for name in self._rows.rows.key]
        return self._dialect.keys_in(columns[0]) if self._width == 1 else self._dialect.rows_in(columns)

    def bind(self, keys: Sequence[Key]) -> object:
        """Return keys as the parameter of removals and counts."""
        return self._dialect.bind_keys(keys) if self._width == 1 else self._dialect.bind_rows(keys)

    def _owned(self) -> Iterator[tuple[Any, sa.TableClause, Column]]:
        for part in self._rows.owned:
            table = self._rows.plain(part.table)
            yield part, table, self._dialect.keys_in(table.c[part.column])

    def _fresh(self) -> sa.Select[Any]:
        """Return what looks once more, within the batch, and locks rows where others write beside it."""
        may_go = self._verdict.of(self._read) == literal(GOES)
        statement = sa.select(*self._columns(self._read)).select_from(self._read)
        statement = statement.where(self._among(self._read), may_go)
        if not self._dialect.locks_rows:
            return statement
        return statement.order_by(*self._keys).with_for_update(skip_locked=True, of=self._read)

    def going_in(self, table: sa.FromClause, where: Column) -> sa.Select[Any]:
        """Return which rows under a condition of this table may go."""
        may_go = self._verdict.of(table) == literal(GOES)
        return sa.select(*self._columns(table)).select_from(table).where(where, may_go)

    def tried(self) -> Iterator[sa.ClauseElement]:
        """Yield the statements that show whether the database can do what is asked."""
        yield self.first
        yield self.fresh
        yield from (delete for _, delete in self.owned)
        yield self.delete

    def named(self) -> Iterator[tuple[str, sa.ClauseElement]]:
        """Yield the statements that people may want to read, by name."""
        yield "first page", self.first
        yield "check", self.fresh
        yield from ((f"removal from {name}", delete) for name, delete in self.owned)
        yield f"removal from {self._rows.rows.table}", self.delete
