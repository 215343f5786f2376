"""Removal: one DELETE for each owned table, the run's own table last. Counting uses the same conditions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import sqlalchemy as sa

from afterrun.core.errors import UnitFailure
from afterrun.core.facts import Key, Unit
from afterrun.core.tree import chunks
from afterrun.stores.sql.binding import Binding
from afterrun.stores.sql.dialect import Column
from afterrun.stores.sql.parts import Part, parts, plain_table

CHUNK: Final = 10_000
"""Keys of one statement; more are cut, so that no array grows without bound."""


class Removal:
    """The statements that remove, count and weigh the rows of units."""

    def __init__(self, binding: Binding) -> None:
        """Compile them, in the profile's order."""
        self._binding = binding
        self._dialect = binding.dialect
        self._tree = binding.tree
        self._parts = parts(binding)
        self.deletes = [(part.name, sa.delete(part.table).where(part.where)) for part in self._parts]
        self._counts = [
            (part.name, sa.select(sa.func.count()).select_from(part.table).where(part.where))
            for part in self._parts
        ]
        self._measures = [self._measuring(part) for part in self._parts]
        self._weigh = self._weighing()
        self._counts_first = self._counts[-1:] if binding.runs_cascade() else []

    def remove(self, units: Iterable[Unit], *, max_rows: int) -> Mapping[str, int]:
        """Remove all rows of these units, within the dialect's lock.

        Returns rows by table. Raises `UnitFailure` of kind ``oversized`` beyond ``max_rows``: the caller
        rolls back.
        """
        keys = sorted_keys(units)
        before = self._counted(self._counts_first, keys)  # a cascade's rows are in no DELETE's count
        removed = dict.fromkeys((name for name, _ in self.deletes), 0)
        for name, statement in self.deletes:
            # Runs may refer to each other, so all of a tree go in one statement.
            size = CHUNK if name != self._tree.table else max(len(keys), 1)
            for chunk in chunks(keys, size):
                removed[name] += self._dialect.change(statement, {"keys": self._binding.bind_keys(chunk)})
            removed[name] = before.get(name, removed[name])
            if sum(removed.values()) > max_rows:
                raise UnitFailure("oversized", f"more than {max_rows} rows in one batch")
        return removed

    def count(self, units: Iterable[Unit]) -> Mapping[str, int]:
        """Return the rows by table that `remove` would take."""
        return self._counted(self._counts, sorted_keys(units))

    def _counted(
        self, statements: Sequence[tuple[str, sa.Select[Any]]], keys: Sequence[Key]
    ) -> Mapping[str, int]:
        counted = dict.fromkeys((name for name, _ in statements), 0)
        for name, statement in statements:
            for chunk in chunks(keys, CHUNK):
                rows = self._dialect.execute(statement, {"keys": self._binding.bind_keys(chunk)})
                counted[name] += int(rows[0][0])
        return counted

    def weigh(self, units: Sequence[Unit]) -> Sequence[int]:
        """Return the rows of each unit, over all tables."""
        weights: dict[Key, int] = {}
        for chunk in chunks(sorted_keys(units)):
            weights.update(
                (row[0], int(row[1]))
                for row in self._dialect.execute(self._weigh, {"keys": self._binding.bind_keys(chunk)})
            )
        return [sum(weights.get(member, 0) for member in unit.members) for unit in units]

    def _weighing(self) -> sa.Select[Any]:
        """Return one statement that gives, for each run, the number of all rows that go with it."""
        runs = self._binding.runs()
        key = runs.c[self._tree.key]
        total: Column = sa.literal_column("1")
        for owned in self._binding.owned:
            table = self._binding.table(owned.table, "t")
            source, on = table, key == table.c[owned.column]
            if owned.via is not None:
                link = self._binding.table(owned.via.table, "l")
                source = table.join(link, link.c[owned.via.key] == table.c[owned.column])
                on = key == link.c[owned.via.owner]
            counted = sa.select(sa.func.count()).select_from(source).where(on).correlate(runs)
            total = total + counted.scalar_subquery()
        return sa.select(key, total).where(self._dialect.keys_in(key))

    def measure(self, units: Iterable[Unit]) -> tuple[int, int]:
        """Return bytes of content and number of rows of these units."""
        size = rows = 0
        parameters = {"keys": self._binding.bind_keys(sorted_keys(units))}
        for statement in self._measures:
            found = self._dialect.execute(statement, parameters)[0]
            size += int(found[0])
            rows += int(found[1])
        return size, rows

    def _measuring(self, part: Part) -> sa.Select[Any]:
        length = self._dialect.length(list(part.table.c))
        columns: list[Column] = [sa.func.coalesce(sa.func.sum(length), 0), sa.func.count()]
        return sa.select(*columns).select_from(part.table).where(part.where)

    def idempotency_keys(self, units: Sequence[Unit]) -> int:
        """Count the idempotency keys that go with these units."""
        name = self._tree.idempotency_key
        if name is None:
            return 0
        if name == self._tree.key:
            return sum(len(unit.members) for unit in units)
        runs = plain_table(self._binding, self._tree.table)
        where = self._dialect.keys_in(runs.c[self._tree.key])
        statement = sa.select(sa.func.count(runs.c[name])).where(where)
        return sum(
            int(self._dialect.execute(statement, {"keys": self._binding.bind_keys(chunk)})[0][0])
            for chunk in chunks(sorted_keys(units), CHUNK)
        )


def sorted_keys(units: Iterable[Unit]) -> list[Key]:
    """Return the keys of all members in order: neighbours in an index are changed together."""
    return sorted((member for unit in units for member in unit.members), key=str)
