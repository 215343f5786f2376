"""Pages of candidates: raw keys of an index by end time, in order, with the facts of the runs behind them.

One stream for each end source. Where no index serves the order, one scan reads a window of many raw keys and
pages are cut from it. Where an index has no order among equal times, a page ends with a whole time, and of a
time that fills more than a page the keys are read ahead.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import sqlalchemy as sa

from afterrun.core.facts import Row, Scalar, Status, readable
from afterrun.core.store import Cursor, Stream
from afterrun.core.times import Instant
from afterrun.profiles.model import EndSource, Tree
from afterrun.stores.sql.dialect import Column
from afterrun.stores.sql.facts import Facts
from afterrun.stores.sql.literals import one_of

WINDOW: Final = 50_000
"""Raw keys that one scan without an index, or one sort of equal times, reads ahead."""

START: Final = Cursor()

RAW_AT: Final = 3
"""Columns before the facts in a page's select list: raw end, tie, whether the parent exists."""


class RawPage(NamedTuple):
    """Root rows of a page, raw keys passed, and the last of them (``None`` when there are no more)."""

    roots: Sequence[Row]
    scanned: int
    cursor: Cursor | None


@dataclass(slots=True)
class _Window:
    """Rows read ahead by a scan, and the cursor before the first of them."""

    start: Cursor
    cutoff: Instant
    rows: Sequence[Any]
    last: bool


@dataclass(slots=True)
class _Ties:
    """Keys of runs that ended at one time, read ahead, and the cursor before the first of them."""

    start: Cursor
    cutoff: Instant
    keys: deque[Scalar]
    last: bool


class Candidates:
    """Reads candidates of one binding, stream by stream."""

    def __init__(self, facts: Facts) -> None:
        """Compile the statements of every stream."""
        self._facts = facts
        self._tree = facts.tree
        self._dialect = facts.dialect
        self._window: _Window | None = None
        self._ties: _Ties | None = None
        self.sources = (*self._tree.end, *_sources_of(self._tree))
        self.streams = tuple(map(self._stream, range(len(self.sources))))

    def _stream(self, place: int) -> Stream:
        source, swept = self.sources[place], place >= len(self._tree.end)
        return Stream(source.label, self.index(source) is not None, source.rare, swept)

    def index(self, source: EndSource) -> str | None:
        """Return the index of the run table that orders an end source: none does by other rows' columns."""
        if not self._facts.ends.is_own(
            self._facts.runs, source
        ):  # another row's column orders no index of it
            return None
        return self._facts.binding.index(self._tree.table, source.column)

    def page(self, cursor: Cursor, *, cutoff: Instant, limit: int) -> RawPage:
        """Return the next raw keys after the cursor, of which those that are ended roots come as rows."""
        if not self.streams[cursor.stream].indexed:
            return self._from_window(cursor, cutoff, limit)
        if not self._dialect.index_orders_ties:
            return self._by_time(cursor, cutoff, limit)
        rows = self._read(cursor, cutoff, limit)
        return self._cut(cursor.stream, rows, last=len(rows) < limit)

    def _by_time(self, cursor: Cursor, cutoff: Instant, limit: int) -> RawPage:
        """Return a page that ends with the last run of a time, or some of the many that ended at one time.

        To order them all by time and key would mean to sort them all, if statistics say that they are few.
        """
        stream = cursor.stream
        keys = [] if cursor.tie is None else self._tied(cursor, cutoff, limit)
        if keys:
            return self._named(cursor, cutoff, keys)
        rows = self._after(cursor, cutoff, limit + 1)
        if len(rows) <= limit:
            return self._cut(stream, rows, last=True)
        last = Cursor(stream, rows[-1][0])
        whole = [row for row in rows if row[0] != last.end]
        if whole:
            return self._cut(stream, whole, last=False)._replace(cursor=last)
        keys = self._tied(last, cutoff, limit)
        return self._named(last, cutoff, keys or [rows[-1][1]])  # if all are gone, the cursor moves on

    def _tied(self, cursor: Cursor, cutoff: Instant, limit: int) -> list[Scalar]:
        """Return the next keys of the cursor's time."""
        ties = self._ties
        if ties is None or (ties.start, ties.cutoff) != (cursor, cutoff) or not (ties.keys or ties.last):
            most = max(limit, WINDOW)
            found = self._dialect.execute(self.ties(cursor, most), self._parameters(cursor, cutoff))
            ties = self._ties = _Ties(cursor, cutoff, deque(row[0] for row in found), len(found) < most)
        keys = [ties.keys.popleft() for _ in range(min(limit, len(ties.keys)))]
        if keys:
            ties.start = cursor._replace(tie=keys[-1])
        return keys

    def _named(self, cursor: Cursor, cutoff: Instant, keys: Sequence[Scalar]) -> RawPage:
        """Return the page of the runs with these keys that ended at the cursor's time, and still did so."""
        parameters = self._parameters(cursor, cutoff)
        if not all(map(readable, keys)):  # such a key cannot be bound, so its run is met by its place
            position = "alike" if cursor.tie is None else "tied"
            statement = self.statement(cursor.stream, position, len(keys), cursor=cursor)
            rows = self._dialect.execute(statement, parameters)
            if rows:
                return self._cut(cursor.stream, rows, last=False)
        statement = self.statement(cursor.stream, "named", len(keys), cursor=cursor)
        parameters["keys"] = self._facts.binding.bind_keys(keys)
        page = self._cut(cursor.stream, self._dialect.execute(statement, parameters), last=True)
        return RawPage(page.roots, len(keys), cursor._replace(tie=keys[-1]))

    def _from_window(self, cursor: Cursor, cutoff: Instant, limit: int) -> RawPage:
        window = self._window
        if window is None or window.start != cursor or window.cutoff != cutoff:
            rows = self._read(cursor, cutoff, max(limit, WINDOW))
            window = _Window(cursor, cutoff, rows, len(rows) < max(limit, WINDOW))
        head, rest = window.rows[:limit], window.rows[limit:]
        page = self._cut(cursor.stream, head, last=window.last and not rest)
        if rest and page.cursor is not None:
            self._window = _Window(page.cursor, cutoff, rest, window.last)
        else:
            self._window = None
        return page

    def _cut(self, stream: int, rows: Sequence[Any], *, last: bool) -> RawPage:
        statuses = self._facts.binding.model.statuses
        ended = (Status.TERMINAL, Status.SUCCESSFUL)
        found = (row[RAW_AT:] for row in rows if not row[2] and statuses.get(row[RAW_AT + 2]) in ended)
        roots = list(map(self._facts.row, found))
        cursor = None if last else Cursor(stream, rows[-1][0], rows[-1][1])
        return RawPage(roots, len(rows), cursor)

    def _read(self, cursor: Cursor, cutoff: Instant, limit: int) -> Sequence[Any]:
        """Read raw keys after the cursor: first those that tie with its time, then the later ones.

        A cursor with a time and no tie stands before all keys of that time.
        """
        rows: list[Any] = []
        if cursor.tie is not None:
            tied = self.statement(cursor.stream, "tied", limit, cursor=cursor)
            rows.extend(self._dialect.execute(tied, self._parameters(cursor, cutoff)))
        if len(rows) < limit:
            rows.extend(self._after(cursor, cutoff, limit - len(rows)))
        return rows

    def _after(self, cursor: Cursor, cutoff: Instant, limit: int) -> Sequence[Any]:
        """Read raw keys after the cursor and all that tie with it."""
        after = "first" if cursor.end is None else "since" if cursor.tie is None else "later"
        statement = self.statement(cursor.stream, after, limit, cursor=cursor)
        return self._dialect.execute(statement, self._parameters(cursor, cutoff))

    def _parameters(self, cursor: Cursor, cutoff: Instant) -> dict[str, object]:
        return {
            "bound": self._bound(cursor.stream, cutoff),
            "ended": self._dialect.bind(cursor.end),
            "tie": self._dialect.bind(cursor.tie),
        }

    def _bound(self, stream: int, cutoff: Instant) -> object:
        return self._facts.ends.bound(self._facts.runs, self.sources[stream], self.limit(stream, cutoff))

    def limit(self, stream: int, cutoff: Instant) -> Instant:
        """Return the moment before which the times of a stream are met: now, for times to look again."""
        aside = self._tree.aside
        waits = aside is not None and self.sources[stream].column == aside.again
        return self._dialect.now() if waits else cutoff

    def statements(self, stream: int, limit: int) -> Iterator[tuple[str, sa.Select[Any]]]:
        """Yield what the pages of a stream are made of, each with the name of its position."""
        by_time = self.streams[stream].indexed and not self._dialect.index_orders_ties
        for position in ("first", "since", "later", "named") if by_time else ("first", "tied", "later"):
            yield position, self.statement(stream, position, limit)
        if by_time:
            yield "ties", self.ties(Cursor(stream, tie=""), WINDOW)

    def statement(self, stream: int, position: str, limit: int, *, cursor: Cursor = START) -> sa.Select[Any]:
        """Return the page statement: raw keys in a sub-select with LIMIT, everything else outside it.

        ``position`` says where it starts: ``first``, ``tied`` with the cursor's time, ``alike`` at the first
        of that time, ``since`` or ``later``; ``named`` is for given keys that tie with the cursor's time.
        """
        facts, tree = self._facts, self._tree
        named = position == "named"
        raw = self._raw_named(stream) if named else self._raw(stream, position, limit, cursor)
        inner_tie = self._dialect.tie(tree.table, "u", facts.key)
        source = facts.with_parents(self._join_raw(raw, inner_tie))
        ended = self._dialect.parameter("ended", cursor.end)
        return (
            sa.select(raw.c.ended, raw.c.tie, facts.has_parent().label("child"), *facts.columns)
            .select_from(source)
            .where(*([raw.c.ended == ended] if named else []))
            .order_by(raw.c.ended, raw.c.tie)
        )

    def _join_raw(self, raw: sa.Subquery, tie: Column) -> sa.FromClause:
        """Put the raw keys before the facts' own joins."""
        facts = self._facts
        joined: sa.FromClause = raw.join(facts.runs, tie == raw.c.tie)
        source = facts.source
        chain: list[tuple[sa.FromClause, Any]] = []
        while isinstance(source, sa.Join):
            chain.append((source.right, source.onclause))
            source = source.left
        for right, on in reversed(chain):
            joined = joined.outerjoin(right, on)
        return joined

    def ties(self, cursor: Cursor, limit: int) -> sa.Select[Any]:
        """Return the statement for the keys, in order, that tie with the cursor's time and come after it."""
        runs = self._facts.binding.table(self._tree.table, "k")
        column, tie = self._times(cursor.stream, runs)
        position = "alike" if cursor.tie is None else "tied"
        where = [*self._place(column, tie, position, cursor), *self._eligible(cursor.stream, runs)]
        return sa.select(tie).select_from(runs).where(*where).order_by(tie).limit(limit)

    def _times(self, stream: int, runs: sa.FromClause) -> tuple[Column, Column]:
        """Return a stream's time, and what orders runs whose times are equal."""
        tie = self._dialect.tie(self._tree.table, "k", runs.c[self._tree.key])
        return self._facts.ends.raw(runs, self.sources[stream]), tie

    def _raw(self, stream: int, position: str, limit: int, cursor: Cursor) -> sa.Subquery:
        runs = self._facts.binding.table(self._tree.table, "k")
        indexed = self.streams[stream].indexed
        source, eligible = self._source(stream, runs), self._eligible(stream, runs)
        column, tie = self._times(stream, runs)
        if self.sources[stream].rows is not None:
            source = self._worked_out(source, column, tie, eligible)
            column, tie, eligible = source.c.ended, source.c.tie, []
        statement: sa.Select[Any] = (
            sa.select(column.label("ended"), tie.label("tie"))
            .select_from(source)
            .where(*self._place(column, tie, position, cursor), *eligible)
        )
        statement = self._dialect.hint(statement, runs, self.index(self.sources[stream]))
        sorts = position in ("tied", "alike") or not indexed or self._dialect.index_orders_ties
        order = [column, tie] if sorts else [column]
        return statement.order_by(*order).limit(limit).subquery("raw")

    @staticmethod
    def _worked_out(
        source: sa.FromClause, column: Column, tie: Column, eligible: Sequence[Column]
    ) -> sa.Subquery:
        """Return all runs, each time worked out once: the OFFSET keeps it from standing there twice."""
        statement = sa.select(column.label("ended"), tie.label("tie")).select_from(source).where(*eligible)
        return statement.offset(sa.literal_column("0")).subquery("timed")

    def _source(self, stream: int, runs: sa.FromClause) -> sa.FromClause:
        """Return runs with what tells their times up to this stream."""
        ends = self._facts.ends
        if self.streams[stream].swept or all(
            ends.is_own(runs, source) for source in self._tree.end[: stream + 1]
        ):
            return runs if self.streams[stream].indexed else self._facts.binding.with_lookups(runs)
        return ends.join(runs)

    def _raw_named(self, stream: int) -> sa.Subquery:
        """Return given raw keys. Their time is looked at outside, so that they are not found by it.

        The OFFSET keeps it outside: runs that ended at one time are taken for few.
        """
        tree, binding = self._tree, self._facts.binding
        runs = binding.table(tree.table, "k")
        column = self._facts.ends.raw(runs, tree.end[stream])
        earlier = self.earlier(runs, stream)
        ended = sa.case((sa.and_(*earlier), column)) if earlier else column
        tie = self._dialect.tie(tree.table, "k", runs.c[tree.key])
        statement = sa.select(ended.label("ended"), tie.label("tie")).select_from(self._source(stream, runs))
        statement = statement.where(self._dialect.keys_in(runs.c[tree.key]))
        return statement.offset(sa.literal_column("0")).subquery("raw")

    def _place(self, column: Column, tie: Column, position: str, cursor: Cursor) -> list[Column]:
        """Return the conditions under which a raw key is met after the cursor."""
        where: list[Column] = [column.is_not(None), column < sa.bindparam("bound")]
        ended = self._dialect.parameter("ended", cursor.end)
        if position in ("tied", "alike"):
            where.append(column == ended)
        if position == "tied":
            where.append(tie > self._dialect.parameter("tie", cursor.tie))
        elif position == "since":
            where.append(column >= ended)
        elif position == "later":
            where.append(column > ended)
        return where

    def _eligible(self, stream: int, runs: sa.FromClause) -> list[Column]:
        """Return the conditions under which a run is of a stream at all."""
        where = self.earlier(runs, stream)
        if not self.streams[stream].indexed:
            status = self._facts.binding.address(runs, self._tree.status)
            where.append(one_of(status, self._tree.terminal))
        return where

    def earlier(self, runs: sa.FromClause, stream: int) -> list[Column]:
        """Return the conditions that no earlier source knows the end; streams for sweeps have none."""
        earlier = [] if self.streams[stream].swept else self._tree.end[:stream]
        return [self._facts.ends.raw(runs, source).is_(None) for source in earlier]

    def has_rows(self, stream: int) -> bool:
        """Say whether a stream has any ended row, of whatever age."""
        tree, binding = self._tree, self._facts.binding
        runs = binding.runs()
        source = self._facts.ends.join(runs)
        where = self.earlier(runs, stream)
        where.append(one_of(binding.address(runs, tree.status), tree.terminal))
        statement: sa.Select[Any] = (
            sa.select(sa.literal_column("1")).select_from(source).where(*where).limit(1)
        )
        return bool(self._dialect.execute(statement))


def _sources_of(tree: Tree) -> tuple[EndSource, ...]:
    """Return what sweeps go by where trees can be set aside: ends that are due, and times to look again."""
    names = () if tree.aside is None else (tree.aside.due, tree.aside.again)
    return tuple(EndSource(column=name, format="epoch_us") for name in names)
