"""Superseded checkpoints of threads that stay, behind the store protocol: a pass beside the threads'."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import sqlalchemy as sa

from afterrun.core.errors import UnitNotFound
from afterrun.core.facts import Scalar, Unit, key_text
from afterrun.core.store import Census, Cursor, Outside, Page, Stream
from afterrun.core.times import Instant
from afterrun.stores.sql.beside import BesideTrees, Leaving
from afterrun.stores.sql.elsewhere import Reach, Reaching
from afterrun.stores.sql.langgraph.checkpoint_removal import (
    CheckpointLinks,
    CheckpointLocks,
    CheckpointRemoval,
)
from afterrun.stores.sql.langgraph.checkpoint_rows import CheckpointReader
from afterrun.stores.sql.langgraph.places import spelled
from afterrun.stores.sql.langgraph.saver import CHECKPOINTS
from afterrun.stores.sql.langgraph.store import ThreadStore
from afterrun.stores.sql.store import STATEMENT_PAGE
from afterrun.stores.sql.transaction import Locks, SqlTransaction


class CheckpointStore(BesideTrees):
    """The checkpoints of one store."""

    removal: CheckpointRemoval
    blobs: None = None

    def __init__(self, store: ThreadStore, *, leaving: Leaving | None, keep_forks: bool = True) -> None:
        """Compile the statements. ``leaving`` tells which threads go whole; `keep_forks` as in a policy."""
        super().__init__(store, leaving=leaving)
        self._reader = CheckpointReader(store.binding, store.saver, keep_forks=keep_forks)
        self.removal = CheckpointRemoval(store.binding, store.saver, self._reader)
        self._locks: Locks = CheckpointLinks(self._reader, self.removal)
        if self._dialect.locks_rows:
            self._locks = CheckpointLocks(store.binding, self._reader, self.removal)

    def statements(self) -> Mapping[str, str]:
        """Return the SQL of pages, facts and removal by name, as the database gets it."""
        found: dict[str, sa.ClauseElement] = {
            "first page": self._reader.next_rows(STATEMENT_PAGE, None),
            "next page": self._reader.next_rows(STATEMENT_PAGE, ""),
            "facts": self._reader.by_thread,
            **{f"removal from {name}": part for name, part in self.removal.deletes},
        }
        if self.removal.shared is not None:
            found[f"removal from {self.removal.shared.name}"] = self.removal.shared.delete
        return {f"checkpoints, {name}": self._dialect.sql(part) for name, part in found.items()}

    def remarks(self) -> Sequence[str]:
        """Say nothing more than the counts do."""
        return ()

    def streams(self) -> tuple[Stream, ...]:
        """Return the one order of candidates: that of their threads."""
        return (Stream("thread_id", indexed=True),)

    def has_rows(self, stream: int) -> bool:
        """Say whether there is any checkpoint."""
        return self._store.has_rows(stream)

    def page(self, cursor: Cursor, *, cutoff: Instant, limit: int) -> Page:
        """Return the units of the next whole threads, those that stay among them."""
        units, scanned, last = self._reader.page(cursor.tie, limit)
        following = None if last is None else Cursor(0, None, last)
        return Page(self._set_apart(units, cutoff), scanned, following)

    def remaining(self, cursor: Cursor, *, cutoff: Instant, streams: Collection[int]) -> int:  # noqa: ARG002 - no index knows of time
        """Count the checkpoints after the cursor; an upper bound of what may still go."""
        if not streams:
            return 0
        thread = self._store.binding.table(CHECKPOINTS, "k").c.thread_id
        where = [] if cursor.tie is None else [thread > self._dialect.parameter("after", cursor.tie)]
        statement = sa.select(sa.func.count(thread)).where(*where)
        given = {} if cursor.tie is None else {"after": self._dialect.bind(cursor.tie)}
        return int(self._dialect.execute(statement, given)[0][0])

    def find(self, text: str) -> Unit:
        """Return the checkpoint with this id: of its thread, its namespace, its own, with slashes between."""
        for key in spelled(text):
            units = self._reader.units([key])
            if units:
                return units[0]
        raise UnitNotFound(f"no checkpoint of {self.url} has the id {text[:120]!r}")

    def describe(self, unit: Unit) -> Sequence[Mapping[str, Scalar]]:
        """Return key, thread, and time of each member."""
        return [
            {"run": key_text(member), "parent": key_text(unit.run), "status": "saved", "end": unit.end}
            for member in unit.members
        ]

    def census(self) -> Census:
        """Count checkpoints: they have no states that an engine could add to."""
        count = self._saved()
        return Census({"saved": count} if count else {}, {})

    def _saved(self) -> int:
        rows = self._store.binding.table(CHECKPOINTS, "k")
        return int(self._dialect.execute(sa.select(sa.func.count()).select_from(rows))[0][0])

    def outside(self, *, cutoff: Instant | None, now: Instant) -> Outside:  # noqa: ARG002 - pages meet all
        """Count nothing, as pages meet every checkpoint; all of them, where no page is read."""
        count = 0 if cutoff is not None else self._saved()
        return Outside(recent=count, members=count)

    def transaction(self, *, seconds: float) -> SqlTransaction:
        """Start a batch."""
        self._reader.prepare()
        self.removal.prepare()
        return SqlTransaction(
            self._dialect.locked(seconds),
            self._reader,
            self.removal,
            check=self._store.check_version,
            rows=self._locks,
            reaching=Reaching(Reach(), self._dialect),
            went=self._reader.went,
        )
