"""Removal of whole threads. A thread has no row that stands for it, so what goes is counted instead."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from afterrun.core.errors import UnitFailure
from afterrun.core.facts import Key, Unit
from afterrun.core.tree import chunks
from afterrun.stores.sql.binding import Binding
from afterrun.stores.sql.langgraph.saver import CHECKPOINTS, KEY
from afterrun.stores.sql.langgraph.threads import ThreadReader
from afterrun.stores.sql.parts import parts
from afterrun.stores.sql.removal import CHUNK, Released, Removal, sorted_keys
from afterrun.stores.sql.transaction import LOCKED


class ThreadRemoval(Removal):
    """The statements that remove, count and weigh all rows of threads."""

    def __init__(self, binding: Binding) -> None:
        """Compile them."""
        super().__init__(binding)
        self.expected: dict[Key, int] | None = None
        """Rows of each thread as they were when it was looked at under its locks, where there are such."""
        self._weights = [
            sa.select(part.table.c.thread_id, sa.func.count())
            .where(part.where)
            .group_by(part.table.c.thread_id)
            for part in parts(binding)
        ]

    def _weighing(self) -> sa.Select[Any]:
        """Return nothing that is run: each table is counted by itself."""
        return sa.select(sa.literal_column("1"))

    def weigh(self, units: Sequence[Unit]) -> Sequence[int]:
        """Return the rows of each thread, over all tables."""
        weights: Counter[Key] = Counter()
        for chunk in chunks(sorted_keys(units), CHUNK):
            for statement in self._weights:
                keys = {"keys": self._dialect.bind_keys(chunk)}
                weights.update({row[0]: int(row[1]) for row in self._dialect.execute(statement, keys)})
        return [weights[unit.key] for unit in units]

    def remove(
        self, units: Iterable[Unit], *, max_rows: int, released: Released | None = None
    ) -> Mapping[str, int]:
        """Remove all rows of these threads.

        Raises `UnitFailure` if other rows went than were looked at: the caller rolls back.
        """
        going = list(units)
        removed = super().remove(going, max_rows=max_rows, released=released)
        if self.expected is not None:
            expected = sum(self.expected[unit.key] for unit in going)
            if sum(removed.values()) != expected:
                raise UnitFailure("serialization", "a thread was written to while it was removed")
        return removed


class ThreadLocks:
    """Locks on the checkpoints of threads, for a database where others write beside a batch.

    Nothing keeps the engine from adding rows to a thread meanwhile. So rows are counted under the locks,
    compared with what went, and asked for once more before the commit.
    """

    def __init__(self, binding: Binding, reader: ThreadReader, removal: ThreadRemoval) -> None:
        """Compile the statements."""
        self._dialect = binding.dialect
        self._reader = reader
        self._removal = removal
        rows = binding.table(CHECKPOINTS, "u")
        locked = (
            sa.select(rows.c.thread_id)
            .where(self._dialect.keys_in(rows.c.thread_id))
            .order_by(*(rows.c[name] for name in KEY))
            .with_for_update(skip_locked=True, of=rows)
            .subquery("locked")
        )
        self.statement = sa.select(locked.c.thread_id, sa.func.count()).group_by(locked.c.thread_id)
        self._saved = (
            sa.select(rows.c.thread_id, sa.func.count())
            .where(self._dialect.keys_in(rows.c.thread_id))
            .group_by(rows.c.thread_id)
        )
        self._left = [sa.select(part.table.c.thread_id).where(part.where).limit(1) for part in parts(binding)]

    def units(self, units: Sequence[Unit]) -> Sequence[Unit]:
        """Lock all checkpoints and read the threads again; what another transaction holds is protected."""
        keys = sorted_keys(units)
        held = self._counts(self.statement, keys)
        saved = self._counts(self._saved, keys)
        weights = self._removal.weigh(units)  # before they are read: what comes later makes a difference
        self._removal.expected = {unit.key: rows for unit, rows in zip(units, weights, strict=True)}
        return [
            unit if held[unit.key] == saved[unit.key] else unit._replace(protected=(LOCKED, *unit.protected))
            for unit in self._reader.units(keys)
        ]

    def _counts(self, statement: sa.Executable, keys: Sequence[Key]) -> Counter[Key]:
        found: Counter[Key] = Counter()
        for chunk in chunks(keys, CHUNK):
            rows = self._dialect.execute(statement, {"keys": self._dialect.bind_keys(chunk)})
            found.update({row[0]: int(row[1]) for row in rows})
        return found

    def newcomers(self, units: Sequence[Unit]) -> bool:
        """Say whether rows of these threads have come since they were removed."""
        keys = [self._dialect.bind_keys(chunk) for chunk in chunks(sorted_keys(units), CHUNK)]
        return any(self._dialect.execute(left, {"keys": some}) for left in self._left for some in keys)
