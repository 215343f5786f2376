"""Runs whose parent is missing, found by an index of parents.

To look up the parent of every run in the order of the run table reads the index of keys at random, which took
half of an inspection's time at five gigabytes. By the index of parents each parent is looked up once, in the
order of the keys, and nearly all are there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import sqlalchemy as sa

from afterrun.core.facts import Scalar
from afterrun.core.tree import chunks
from afterrun.stores.sql.binding import RUN
from afterrun.stores.sql.dialect import Column
from afterrun.stores.sql.facts import Facts

PARENTS: Final = 20_000
"""Parents that one statement looks up."""

ROWS: Final = 10_000
"""Row numbers that are yielded together."""


class MissingParents:
    """The lookup of one binding, for a run table with one edge and row numbers. See `usable`."""

    def __init__(self, facts: Facts) -> None:
        """Name the columns; nothing is read yet."""
        self._facts = facts
        self._dialect = facts.dialect
        self._tree = facts.tree
        self.tie: Column = self._dialect.tie(self._tree.table, RUN, facts.key)

    @staticmethod
    def usable(facts: Facts) -> bool:
        """Say whether parents can be found so, and whether that is the same as to look up each run's own.

        They are compared by an index: both columns must be of one kind, and compare text exactly.
        """
        tree, dialect = facts.tree, facts.dialect
        if not dialect.readers_block or len(tree.edges) != 1 or tree.edges[0].via is not None:
            return False
        column, shape = tree.edges[0].column, dialect.shapes[tree.table]
        return (
            facts.binding.index(tree.table, column) is not None
            and dialect.tie(tree.table, RUN, facts.key) is not facts.key
            and not {column, tree.key} & set(shape.loose)
            and shape.kinds.get(column) == shape.kinds.get(tree.key)
        )

    def rows(self) -> Iterator[Sequence[Any]]:
        """Yield the row numbers of all runs whose parent is set and missing, some at a time."""
        after: Scalar = None
        seen = PARENTS
        while seen == PARENTS:
            bounds = {"after": self._dialect.bind(after)}
            [[seen, last, missing]] = self._dialect.execute(self._counted(after), bounds)
            if missing:
                bounds["last"] = self._dialect.bind(last)
                found = [row[0] for row in self._dialect.execute(self._lost(after, last), bounds)]
                yield from chunks(found, ROWS)
            after = last

    def _counted(self, after: Scalar) -> sa.Select[Any]:
        """Return the statement that counts the next parents and the missing ones, and names the last."""
        parent = self._facts.parent
        part = sa.select(parent.label("parent")).select_from(self._facts.runs).where(*self._beyond(after))
        part = self._by_index(part.distinct().order_by(parent).limit(PARENTS))
        rows = part.subquery("rows")
        key = self._key()
        missing = sa.func.coalesce(sa.func.sum(sa.case((key.is_(None), 1), else_=0)), 0)
        joined = rows.outerjoin(self._parents(), key == rows.c.parent)
        return sa.select(sa.func.count(), sa.func.max(rows.c.parent), missing).select_from(joined)

    def _lost(self, after: Scalar, last: Scalar) -> sa.Select[Any]:
        """Return the statement that names the children of these parents whose parent is missing."""
        parent = self._facts.parent
        there = (
            sa.exists().select_from(self._parents()).where(self._key() == parent).correlate(self._facts.runs)
        )
        lost = sa.select(self.tie).select_from(self._facts.runs)
        lost = lost.where(*self._beyond(after), parent <= self._dialect.parameter("last", last), ~there)
        return self._by_index(lost)

    def _beyond(self, after: Scalar) -> list[Column]:
        where: list[Column] = [self._facts.parent.is_not(None)]
        if after is not None:
            where.append(self._facts.parent > self._dialect.parameter("after", after))
        return where

    def _by_index(self, statement: sa.Select[Any]) -> sa.Select[Any]:
        index = self._facts.binding.index(self._tree.table, self._tree.edges[0].column)
        return self._dialect.hint(statement, self._facts.runs, index)

    def _parents(self) -> sa.FromClause:
        return self._facts.binding.table(self._tree.table, "p")

    def _key(self) -> Column:
        return self._parents().c[self._tree.key]
