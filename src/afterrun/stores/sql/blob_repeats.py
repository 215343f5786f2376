"""Rows of blobs that repeat the newest row which refers to them: kept right while such rows go.

In the transaction that removes a row which is repeated, the newest that is left takes its place. Where none
is left, the blob itself goes afterwards, as any blob to which nothing refers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from afterrun.core.facts import Key, readable
from afterrun.core.tree import chunks
from afterrun.profiles.blobs import Blobs, Repeats
from afterrun.stores.sql.binding import Binding
from afterrun.stores.sql.dialect import Column
from afterrun.stores.sql.literals import literal
from afterrun.stores.sql.parts import plain_table
from afterrun.stores.sql.removal import CHUNK


class Repeating:
    """The statements for one table of blobs."""

    def __init__(self, binding: Binding, part: Blobs, repeats: Repeats) -> None:
        """Compile them."""
        self._binding = binding
        self._dialect = binding.dialect
        self._part = part
        self._repeats = repeats
        self.name = part.table
        self.source = next(
            (reference.table, reference.column)
            for reference in part.references
            if reference.table == repeats.table
        )
        self._blobs = plain_table(binding, part.table)
        self._key: Column = self._blobs.c[part.key]
        lost = [self._dialect.keys_in(self._key), sa.not_(self._is_there())]
        self._lock = sa.select(self._key).where(*lost).order_by(self._key).with_for_update()
        self.change = sa.update(self._blobs).where(*lost, self._has_other()).values(self._values())

    def _referring(self, alias: str) -> sa.FromClause:
        return self._binding.table(self._repeats.table, alias)

    def _is_there(self) -> Column:
        rows = self._referring("afterrun-repeated")
        pointer = self._blobs.c[self._repeats.pointer]
        one = sa.select(literal(1)).select_from(rows).where(rows.c[self._repeats.key] == pointer)
        return one.correlate(self._blobs).exists()

    def _has_other(self) -> Column:
        rows = self._referring("afterrun-other")
        one = sa.select(literal(1)).select_from(rows).where(rows.c[self.source[1]] == self._key)
        return one.correlate(self._blobs).exists()

    def _values(self) -> Mapping[Any, Any]:
        """Return what each column takes from the newest row that is left."""
        rows = self._referring("afterrun-newest")
        pairs = {self._repeats.pointer: self._repeats.key, **{name: name for name in self._repeats.columns}}
        return {
            self._blobs.c[ours]: sa.select(rows.c[theirs])
            .where(rows.c[self.source[1]] == self._key)
            .order_by(rows.c[self._repeats.newest].desc(), rows.c[self._repeats.key].desc())
            .limit(sa.literal_column("1"))
            .correlate(self._blobs)
            .scalar_subquery()
            for ours, theirs in pairs.items()
        }

    def statements(self) -> Iterator[tuple[str, sa.ClauseElement]]:
        """Yield what changes rows, by name."""
        yield f"newest of {self.name}", self.change

    def keep_right(self, keys: Sequence[Key]) -> None:
        """Let blobs whose repeated row is gone repeat the newest that is left, within the dialect's lock."""
        for chunk in chunks(sorted(filter(readable, keys), key=str), CHUNK):
            given = {"keys": self._dialect.bind_keys(chunk)}
            if self._dialect.locks_rows:
                # whoever adds a row holds the blob until it is committed, and then the next statement sees it
                self._dialect.execute(self._lock, given)
            self._dialect.change(self.change, given)
