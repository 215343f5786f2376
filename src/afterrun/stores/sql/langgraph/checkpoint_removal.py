"""Removal of superseded checkpoints: their writes, values that nothing refers to any more, links to them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import sqlalchemy as sa

from afterrun.core.errors import UnitFailure
from afterrun.core.facts import Key, Unit
from afterrun.core.tree import chunks
from afterrun.stores.sql.binding import Binding
from afterrun.stores.sql.dialect import Column
from afterrun.stores.sql.langgraph.checkpoint_rows import CheckpointReader, members_of
from afterrun.stores.sql.langgraph.places import (
    at_keys,
    at_members,
    given_keys,
    given_members,
    threads_of,
)
from afterrun.stores.sql.langgraph.readings import Versions
from afterrun.stores.sql.langgraph.saver import CHECKPOINTS, KEY, Saver
from afterrun.stores.sql.langgraph.shared import Name, SharedValues
from afterrun.stores.sql.parts import plain_table
from afterrun.stores.sql.removal import Released
from afterrun.stores.sql.transaction import LOCKED

CHUNK: Final = 10_000
"""Keys of one statement."""

LONG: Final = 1_000
"""Checkpoints of a thread from which its references are counted once rather than in every batch."""


class CheckpointRemoval:
    """The statements that remove, count and weigh superseded checkpoints."""

    def __init__(self, binding: Binding, saver: Saver, reader: CheckpointReader) -> None:
        """Compile them: writes first, the checkpoint's own row last. ``reader`` knows what follows what."""
        self._reader = reader
        self._dialect = dialect = binding.dialect
        names = (saver.writes, CHECKPOINTS)
        self._parts = [(name, plain_table(binding, name)) for name in names]
        self.deletes = [(name, sa.delete(table).where(self._among(table))) for name, table in self._parts]
        self.shared = SharedValues(binding, saver.blobs) if saver.blobs is not None else None
        rows = plain_table(binding, CHECKPOINTS)
        key = [rows.c[name] for name in KEY]
        version = saver.version(key[-1])
        version = sa.literal_column("0") if version is None else version
        self._tell = sa.delete(rows).where(self._among(rows)).returning(version)
        self._lead_on = (
            sa.update(rows)
            .where(at_members(dialect, rows))
            .values(parent_checkpoint_id=sa.bindparam("parent", type_=sa.types.Text()))
        )
        self._hold = (
            sa.select(*key, version)
            .where(at_members(dialect, rows))
            .with_for_update(skip_locked=True, key_share=True, of=rows)
        )
        self._given: tuple[Sequence[Key], Mapping[str, object]] = (), given_members(dialect, ())
        writes = self._parts[0][1]
        self.written: sa.Select[Any] = (
            sa.select(sa.literal_column("1")).where(at_members(dialect, writes)).limit(1)
        )
        above = [rows.c.thread_id, rows.c.checkpoint_ns, rows.c.parent_checkpoint_id]
        self.following = sa.select(*key).where(
            dialect.keys_in(rows.c.thread_id, "threads"), dialect.rows_in(above).is_(sa.true())
        )

    def _among(self, table: sa.FromClause) -> Column:
        return at_members(self._dialect, table)

    def remove(
        self,
        units: Sequence[Unit],
        *,
        max_rows: int,
        released: Released | None = None,  # noqa: ARG002 - shared values go at once, within their thread
    ) -> Mapping[str, int]:
        """Remove all rows of these units, within the dialect's lock; return them by table.

        Raises `UnitFailure` of kind ``oversized`` beyond ``max_rows``: the caller rolls back.
        """
        keys = members_of(units)
        removed = dict.fromkeys((name for name, _ in self.deletes), 0)
        free = self._free_values(keys)
        for chunk in chunks(keys, CHUNK):
            given = self.given(chunk)
            for name, statement in self.deletes:
                removed[name] += self._remove(name, statement, given)
            if sum(removed.values()) > max_rows:
                raise UnitFailure("oversized", f"more than {max_rows} rows in one batch")
        if self.shared is not None:
            threads = threads_of(keys)
            removed[self.shared.name] = (
                self.shared.remove(threads) if free is None else self.shared.remove_named(threads[0], free)
            )
        if sum(removed.values()) > max_rows:
            raise UnitFailure("oversized", f"more than {max_rows} rows in one batch")
        return removed

    def given(self, keys: Sequence[Key]) -> Mapping[str, object]:
        """Return the parameters for some members; a batch asks for the same ones several times."""
        if self._given[0] != keys:
            self._given = keys, given_members(self._dialect, keys)
        return self._given[1]

    def prepare(self) -> None:
        """Count the references of a long thread, before a batch of it: its locks would be held long."""
        reading = self._reader.reading
        if self.shared is None or reading.references is not None or not isinstance(reading.mark, Versions):
            return
        if reading.mark.rows > LONG:
            reading.references = self.shared.references(reading.mark.thread)

    def _free_values(self, keys: Sequence[Key]) -> list[Name] | None:
        """Return the values that only these checkpoints refer to, if references were counted."""
        references = self._reader.used.references
        if self.shared is None or references is None:
            return None
        return [name for chunk in chunks(keys, CHUNK) for name in self.shared.taken_off(chunk, references)]

    def _remove(self, name: str, statement: sa.Delete, given: Mapping[str, object]) -> int:
        """Run one removal; where the versions of a thread's rows are added up, take off those that go."""
        if name != CHECKPOINTS or not self._reader.adds_up:
            return self._dialect.change(statement, given)
        versions = [int(row[0]) for row in self._dialect.execute(self._tell, given)]
        self._reader.add(-len(versions), -sum(versions))
        return len(versions)

    def lead_on(self, units: Sequence[Unit]) -> None:
        """Lead the links of checkpoints that stay on, but for those that another transaction holds.

        A link that leads nowhere does no harm.
        """
        parents: dict[Key, list[Key]] = {}
        for key, parent in self._reader.links.led_on(frozenset(members_of(units))):
            parents.setdefault(parent, []).append(key)
        led = {
            key: parent
            for parent, keys in parents.items()
            for chunk in chunks(keys, CHUNK)
            for key in self._led(chunk, parent)
        }
        self._reader.end(led)

    def _led(self, keys: Sequence[Key], parent: Key) -> Sequence[Key]:
        """Let these checkpoints follow another one, or none; return those that could be changed."""
        free: Sequence[Key] = keys
        if self._dialect.locks_rows:
            rows = self._dialect.execute(self._hold, given_members(self._dialect, keys))
            self._reader.add(0, -sum(int(row[-1]) for row in rows))
            free = [tuple(row[:-1]) for row in rows]
        name = parent[-1] if isinstance(parent, tuple) else None
        given = given_members(self._dialect, free)
        self._dialect.change(self._lead_on, {**given, "parent": name})
        if self._reader.adds_up:
            self._reader.add(0, sum(int(row[-1]) for row in self._dialect.execute(self._hold, given)))
        return free

    def is_followed(self, gone: Sequence[Key]) -> bool:
        """Say whether a checkpoint follows one of these that did not when they were looked at."""
        known = self._reader.links.followers
        return any(
            tuple(row) not in known
            for chunk in chunks(gone, CHUNK)
            for row in self._dialect.execute(self.following, given_keys(self._dialect, chunk))
        )

    def is_written(self, gone: Sequence[Key]) -> bool:
        """Say whether anything was written to these checkpoints since they went."""
        return any(self._dialect.execute(self.written, self.given(chunk)) for chunk in chunks(gone, CHUNK))

    def count(self, units: Iterable[Unit]) -> Mapping[str, int]:
        """Return the rows by table that `remove` would take."""
        keys = members_of(units)
        found = {
            name: sum(int(row[0]) for row in self._rows(keys, table, [sa.func.count()]))
            for name, table in self._parts
        }
        if self.shared is not None:
            found[self.shared.name] = self.shared.count(keys)
        return found

    def weigh(self, units: Sequence[Unit]) -> Sequence[int]:
        """Return the rows of each unit, but for shared values, of which most serve several."""
        weights: Counter[Key] = Counter()
        keys = members_of(units)
        for _, table in self._parts:
            key = [table.c[name] for name in KEY]
            for *found, count in self._rows(keys, table, [*key, sa.func.count()], group=key):
                weights[tuple(found)] += int(count)
        return [sum(weights[member] for member in unit.members) for unit in units]

    def measure(self, units: Iterable[Unit]) -> tuple[int, int]:
        """Return bytes of content and number of rows of these units, but for shared values."""
        keys = members_of(units)
        size = rows = 0
        for _, table in self._parts:
            total = sa.func.coalesce(sa.func.sum(self._dialect.length(list(table.c))), 0)
            for found in self._rows(keys, table, [total, sa.func.count()]):
                size += int(found[0])
                rows += int(found[1])
        return size, rows

    def _rows(
        self,
        keys: Sequence[Key],
        table: sa.FromClause,
        columns: Sequence[Column],
        *,
        group: Sequence[Column] = (),
    ) -> Iterable[Sequence[Any]]:
        statement = sa.select(*columns).select_from(table).where(at_keys(self._dialect, table))
        statement = statement.group_by(*group) if group else statement
        for chunk in chunks(keys, CHUNK):
            yield from self._dialect.execute(statement, given_keys(self._dialect, chunk))


class CheckpointLinks:
    """The end of a batch on a database with one write lock: nothing comes beside it, and links are led on."""

    def __init__(self, reader: CheckpointReader, removal: CheckpointRemoval) -> None:
        """Take what reads and what removes."""
        self._reader = reader
        self._removal = removal

    def units(self, units: Sequence[Unit]) -> Sequence[Unit]:
        """Read the units again."""
        return self._reader.recheck([unit.key for unit in units])

    def newcomers(self, units: Sequence[Unit]) -> bool:
        """Lead the links of checkpoints that stay on; nothing can have come."""
        self._removal.lead_on(units)
        return False


class CheckpointLocks:
    """Locks on superseded checkpoints alone: the head of a thread is never held."""

    def __init__(self, binding: Binding, reader: CheckpointReader, removal: CheckpointRemoval) -> None:
        """Compile the statement that locks, in the order of keys, so that two batches cannot deadlock."""
        self._dialect = binding.dialect
        self._reader = reader
        self._removal = removal
        rows = binding.table(CHECKPOINTS, "u")
        key = [rows.c[name] for name in KEY]
        self.statement = (
            sa.select(*key)
            .where(at_members(self._dialect, rows))
            .order_by(*key)
            .with_for_update(skip_locked=True, of=rows)
        )
        self._counted = sa.select(sa.func.count()).select_from(self.statement.subquery("locked"))

    def units(self, units: Sequence[Unit]) -> Sequence[Unit]:
        """Lock the members and read the units again; what another transaction holds is protected."""
        members = members_of(units)
        passed = self._passed(members)
        fresh = self._reader.recheck([unit.key for unit in units])
        if not passed:
            return fresh
        return [
            unit if passed.isdisjoint(unit.members) else unit._replace(protected=(LOCKED, *unit.protected))
            for unit in fresh
        ]

    def _passed(self, members: Sequence[Key]) -> set[Key]:
        """Lock rows, and return those that another transaction holds, or that are gone."""
        passed: set[Key] = set()
        for chunk in chunks(members, CHUNK):
            keys = self._removal.given(chunk)
            if int(self._dialect.execute(self._counted, keys)[0][0]) < len(chunk):
                held = {tuple(row) for row in self._dialect.execute(self.statement, keys)}
                passed.update(key for key in chunk if key not in held)
        return passed

    def newcomers(self, units: Sequence[Unit]) -> bool:
        """Say whether a checkpoint or a write has come since that needs one of those that went.

        If not, lead the links of those that stay on.
        """
        keys = members_of(units)
        if self._removal.is_written(keys) or self._removal.is_followed(keys):
            return True
        self._removal.lead_on(units)
        return False
