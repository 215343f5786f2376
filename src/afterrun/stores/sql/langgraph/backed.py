"""Superseded checkpoints, as backups see them, where each has all its values itself."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final

import sqlalchemy as sa

from afterrun.core.facts import Key, Reason, Unit
from afterrun.stores.sql.backed import Leads, Way
from afterrun.stores.sql.langgraph.checkpoint_removal import CheckpointRemoval
from afterrun.stores.sql.langgraph.checkpoint_rows import CheckpointReader
from afterrun.stores.sql.langgraph.places import spelled
from afterrun.stores.sql.langgraph.saver import CHECKPOINTS, KEY
from afterrun.stores.sql.langgraph.store import ThreadStore
from afterrun.stores.sql.parts import Part, plain_table

GONE: Final = Reason("run-is-gone", "its thread is not in the store: restore that thread first")
NOT_SUPERSEDED: Final = Reason(
    "not-superseded", "no newer checkpoint of its graph is in the store: the engine would go on from it"
)


class BackedCheckpoints:
    """Superseded checkpoints with all that tasks wrote to them.

    One that stays and followed one that went follows another since. So links are no part of a comparison,
    and what comes back is what the backup has; what stayed is left as it is.
    """

    kind = "generation"
    width = len(KEY)
    is_back = "the store has this checkpoint, or rows of it, again, and they differ"
    led: Collection[str] = ("parent_checkpoint_id",)

    def __init__(self, store: ThreadStore) -> None:
        """Compile what asks for newer checkpoints."""
        self._binding = store.binding
        self._dialect = store.dialect
        self._names = (store.saver.writes, CHECKPOINTS)
        reader = CheckpointReader(store.binding, store.saver)
        self._removal = CheckpointRemoval(store.binding, store.saver, reader)
        rows = store.binding.table(CHECKPOINTS, "n")
        one: sa.Select[Any] = sa.select(sa.literal_column("1")).select_from(rows).limit(1)
        self._any = one.where(rows.c.thread_id == self._dialect.parameter("thread", None))
        self._newer = self._any.where(
            rows.c.checkpoint_ns == self._dialect.parameter("space", None),
            rows.c.checkpoint_id > self._dialect.parameter("name", None),
        )

    def parts(self, *, schema: str | None = None) -> Sequence[Part]:
        """Return the rows that go with checkpoints."""
        found = []
        for name in self._names:
            table = plain_table(self._binding, name, schema=schema)
            key = tuple(table.c[column] for column in KEY)
            found.append(Part(name, table, self._dialect.rows_in(key), table, key))
        return found

    def links(self, *, schema: str | None = None) -> Sequence[Part]:  # noqa: ARG002 - there are none
        """Return nothing: all rows of a checkpoint hold its key themselves."""
        return ()

    def leads(self, *, schema: str | None = None) -> Sequence[Leads]:  # noqa: ARG002 - there are none
        """Return nothing."""
        return ()

    def blobs(self, *, schema: str | None = None) -> Sequence[Part]:  # noqa: ARG002 - there are none
        """Return nothing: a checkpoint has its values itself."""
        return ()

    @property
    def ways(self) -> Sequence[Way]:
        """Return the columns that hold the key of a checkpoint."""
        return [(name, KEY) for name in self._names]

    def bind(self, keys: Sequence[Key]) -> object:
        """Return keys of checkpoints as a parameter."""
        return self._dialect.bind_rows(keys)

    def weigh(self, units: Sequence[Unit]) -> Sequence[int]:
        """Return the rows of each unit."""
        return self._removal.weigh(units)

    def spelled(self, text: str) -> Sequence[Key]:
        """Return the keys of checkpoints that an id may stand for."""
        return spelled(text)

    def obstacle(self, units: Sequence[Unit]) -> Reason | None:
        """Say if the thread of one is gone, or if it would be the newest of its graph."""
        for unit in units:
            thread, space, name = unit.key if isinstance(unit.key, tuple) else (unit.key, "", "")
            given = {"thread": self._dialect.bind(thread)}
            if not self._dialect.execute(self._any, given):
                return GONE
            given |= {"space": self._dialect.bind(space), "name": self._dialect.bind(name)}
            if not self._dialect.execute(self._newer, given):
                return NOT_SUPERSEDED
        return None
