"""Superseded checkpoints of threads that stay, behind the store protocol: a pass beside the threads'."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import sqlalchemy as sa

from afterrun.core.errors import UnitNotFound
from afterrun.core.facts import Scalar, Unit, key_text, readable
from afterrun.core.store import Census, Cursor, Outside, Page, Schema, Stream
from afterrun.core.times import Instant
from afterrun.stores.sql.elsewhere import Reach, Reaching
from afterrun.stores.sql.generations import LEAVING, Leaving
from afterrun.stores.sql.langgraph.checkpoint_removal import (
    CheckpointLinks,
    CheckpointLocks,
    CheckpointRemoval,
)
from afterrun.stores.sql.langgraph.checkpoint_rows import CheckpointReader
from afterrun.stores.sql.langgraph.saver import CHECKPOINTS
from afterrun.stores.sql.langgraph.store import ThreadStore
from afterrun.stores.sql.store import STATEMENT_PAGE
from afterrun.stores.sql.transaction import Locks, SqlTransaction
from afterrun.stores.sql.uncounted import Uncounted


class CheckpointStore(Uncounted):
    """The checkpoints of one store. It owns nothing: the store is closed by whoever opened it."""

    kind = "generation"
    group_columns: tuple[str, ...] = ()
    blobs: None = None

    def __init__(self, store: ThreadStore, *, leaving: Leaving | None, keep_forks: bool = True) -> None:
        """Compile the statements. ``leaving`` tells which threads go whole; `keep_forks` as in a policy."""
        self._store = store
        self._dialect = store.dialect
        self._reader = CheckpointReader(store.binding, store.saver, keep_forks=keep_forks)
        self.removal = CheckpointRemoval(store.binding, store.saver, self._reader)
        self._locks: Locks = CheckpointLinks(self._reader, self.removal)
        if self._dialect.locks_rows:
            self._locks = CheckpointLocks(store.binding, self._reader, self.removal)
        self._leaving = leaving

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

    @property
    def url(self) -> str:
        """Return where the store is, with any password masked."""
        return self._store.url

    @property
    def identity(self) -> str:
        """Return what names this very store."""
        return self._store.identity

    @property
    def profile_name(self) -> str:
        """Return the profile's name."""
        return self._store.profile_name

    @property
    def hold(self) -> float:
        """Return the seconds a live batch should hold locks."""
        return self._store.hold

    def schema(self) -> Schema:
        """Return the schema of the store."""
        return self._store.schema()

    def now(self) -> Instant:
        """Read the clock of the store."""
        return self._store.now()

    def newest(self, now: Instant) -> Instant | None:
        """Return the newest credible time of any checkpoint."""
        return self._store.newest(now)

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

    def _set_apart(self, units: Sequence[Unit], cutoff: Instant) -> Sequence[Unit]:
        """Leave to their threads what goes with them."""
        if self._leaving is None:
            return units
        old = {unit.run for unit in units if unit.end is not None and unit.end < cutoff}
        gone = set(self._leaving(old)) if old else set()
        return [
            unit._replace(protected=(LEAVING, *unit.protected)) if unit.run in gone else unit
            for unit in units
        ]

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
        rest, slash, name = text.rpartition("/")
        for place in (at for at, char in enumerate(rest) if char == "/") if slash else ():
            key = (rest[:place], rest[place + 1 :], name)
            if readable(key) and (units := self._reader.units([key])):
                return units[0]
        raise UnitNotFound(f"no checkpoint of {self.url} has the id {text[:120]!r}")

    def known(self, texts: Collection[str]) -> frozenset[str]:
        """Return those of these ids that a thread has, or a checkpoint."""
        threads = self._store.known(texts)
        return threads | {text for text in texts if text not in threads and self._has(text)}

    def _has(self, text: str) -> bool:
        try:
            self.find(text)
        except UnitNotFound:
            return False
        return True

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

    def weigh(self, units: Sequence[Unit]) -> Sequence[int]:
        """Return the rows of each unit."""
        return self.removal.weigh(units)

    def count(self, units: Sequence[Unit]) -> Mapping[str, int]:
        """Return the rows by table that removing these units would take."""
        return self.removal.count(units)

    def measure(self, units: Sequence[Unit]) -> tuple[int, int]:
        """Return bytes and rows of these units."""
        return self.removal.measure(units)

    def forgets(self, units: Sequence[Unit]) -> int:  # noqa: ARG002 - their threads stay
        """Return 0: no key goes with a checkpoint."""
        return 0

    def transaction(self, *, seconds: float) -> SqlTransaction:
        """Start a batch."""
        return SqlTransaction(
            self._dialect.locked(seconds),
            self._reader,
            self.removal,
            check=self._store.check_version,
            rows=self._locks,
            reaching=Reaching(Reach(), self._dialect),
        )

    def settle(self) -> None:
        """Write back what a commit left for later."""
        self._store.settle()
