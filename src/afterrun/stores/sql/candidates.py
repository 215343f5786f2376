"""Pages of candidates: raw keys of an index by end time, in order, with the facts of the runs behind them.

One stream for each end source. Where no index serves the order, one scan reads a window of many raw keys and
pages are cut from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import sqlalchemy as sa

from afterrun.core.facts import Row, Status
from afterrun.core.store import Cursor, Stream
from afterrun.core.times import Instant
from afterrun.stores.sql.dialect import Column
from afterrun.stores.sql.facts import Facts, to_row
from afterrun.stores.sql.literals import one_of

WINDOW: Final = 50_000
"""Raw keys that one scan without an index reads ahead."""

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


class Candidates:
    """Reads candidates of one binding, stream by stream."""

    def __init__(self, facts: Facts) -> None:
        """Compile the statements of every stream."""
        self._facts = facts
        self._tree = facts.tree
        self._dialect = facts.dialect
        self._window: _Window | None = None
        self.streams = tuple(
            Stream(source.column, self.index(source.column) is not None, source.rare)
            for source in self._tree.end
        )

    def index(self, column: str) -> str | None:
        """Return the index of the run table that orders an end source, if there is one."""
        if column not in self._facts.runs.c:  # a lookup's column orders no index of the run table
            return None
        return self._facts.binding.index(self._tree.table, column)

    def page(self, cursor: Cursor, *, cutoff: Instant, limit: int) -> RawPage:
        """Return the next raw keys after the cursor, of which those that are ended roots come as rows."""
        if self.streams[cursor.stream].indexed:
            rows = self._read(cursor, cutoff, limit)
            return self._cut(cursor.stream, rows, last=len(rows) < limit)
        return self._from_window(cursor, cutoff, limit)

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
        roots = [
            to_row(row[RAW_AT:]) for row in rows if not row[2] and statuses.get(row[RAW_AT + 2]) in ended
        ]
        cursor = None if last else Cursor(stream, rows[-1][0], rows[-1][1])
        return RawPage(roots, len(rows), cursor)

    def _read(self, cursor: Cursor, cutoff: Instant, limit: int) -> Sequence[Any]:
        """Read raw keys after the cursor: first those that tie with its time, then the later ones.

        A cursor with a time and no tie stands before all keys of that time.
        """
        rows: list[Any] = []
        parameters = {
            "bound": self._dialect.bound(cutoff, self._tree.end[cursor.stream].format),
            "ended": self._dialect.bind(cursor.end),
            "tie": self._dialect.bind(cursor.tie),
        }
        if cursor.tie is not None:
            tied = self.statement(cursor.stream, "tied", limit, cursor=cursor)
            rows.extend(self._dialect.execute(tied, parameters))
        if len(rows) < limit:
            after = "first" if cursor.end is None else "since" if cursor.tie is None else "later"
            later = self.statement(cursor.stream, after, limit - len(rows), cursor=cursor)
            rows.extend(self._dialect.execute(later, parameters))
        return rows

    def statement(self, stream: int, position: str, limit: int, *, cursor: Cursor = START) -> sa.Select[Any]:
        """Return the page statement: raw keys in a sub-select with LIMIT, everything else outside it.

        ``position`` says where it starts: ``first``, ``tied`` with the cursor's time, ``since`` or ``later``.
        """
        facts, tree = self._facts, self._tree
        raw = self._raw(stream, position, limit, cursor)
        inner_tie = self._dialect.tie(tree.table, "u", facts.key)
        source = facts.with_parents(self._join_raw(raw, inner_tie))
        return (
            sa.select(raw.c.ended, raw.c.tie, facts.has_parent().label("child"), *facts.columns)
            .select_from(source)
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

    def _raw(self, stream: int, position: str, limit: int, cursor: Cursor) -> sa.Subquery:
        tree, binding = self._tree, self._facts.binding
        runs = binding.table(tree.table, "k")
        source = runs if self.streams[stream].indexed else binding.with_lookups(runs)
        column = binding.address(runs, tree.end[stream].column)
        tie = self._dialect.tie(tree.table, "k", runs.c[tree.key])
        where: list[Any] = [column.is_not(None), column < sa.bindparam("bound")]
        ended = self._dialect.parameter("ended", cursor.end)
        if position == "tied":
            where += [column == ended, tie > self._dialect.parameter("tie", cursor.tie)]
        elif position == "since":
            where.append(column >= ended)
        elif position == "later":
            where.append(column > ended)
        for earlier in tree.end[:stream]:
            where.append(binding.address(runs, earlier.column).is_(None))
        if not self.streams[stream].indexed:
            where.append(one_of(binding.address(runs, tree.status), tree.terminal))
        statement: sa.Select[Any] = (
            sa.select(column.label("ended"), tie.label("tie")).select_from(source).where(*where)
        )
        index = self.index(tree.end[stream].column)
        statement = self._dialect.hint(statement, runs, index)
        return statement.order_by(column, tie).limit(limit).subquery("raw")

    def has_rows(self, stream: int) -> bool:
        """Say whether a stream has any ended row, of whatever age."""
        tree, binding = self._tree, self._facts.binding
        runs = binding.runs()
        source = binding.with_lookups(runs)
        where: list[Column] = [
            binding.address(runs, earlier.column).is_(None) for earlier in tree.end[:stream]
        ]
        where.append(one_of(binding.address(runs, tree.status), tree.terminal))
        statement: sa.Select[Any] = (
            sa.select(sa.literal_column("1")).select_from(source).where(*where).limit(1)
        )
        return bool(self._dialect.execute(statement))
