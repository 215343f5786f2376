"""Removal: one DELETE for each table, in the order of `cascades`. Counting uses the same conditions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import sqlalchemy as sa
from sqlalchemy.sql.dml import ReturningDelete

from afterrun.core.errors import UnitFailure
from afterrun.core.facts import Key, Unit
from afterrun.core.tree import chunks
from afterrun.stores.sql.binding import Binding
from afterrun.stores.sql.cascades import order_of
from afterrun.stores.sql.dialect import Column, Dialect, Rows
from afterrun.stores.sql.parts import Part, parts, plain_table

CHUNK: Final = 10_000
"""Keys of one statement; more are cut, so that no array grows without bound."""

Deletion: TypeAlias = "sa.Delete | ReturningDelete[Any]"


class Released:
    """Keys of blobs that removed rows referred to, by the table and column that held them."""

    def __init__(self) -> None:
        """Start empty."""
        self.keys: dict[tuple[str, str], set[Key]] = {}

    def note(self, table: str, columns: Sequence[str], rows: Rows) -> None:
        """Take in rows of one table; they begin with these columns."""
        for place, column in enumerate(columns):
            found = {row[place] for row in rows}
            self.keys.setdefault((table, column), set()).update(found - {None})


class Removal:
    """The statements that remove, count and weigh the rows of units."""

    def __init__(self, binding: Binding, *, returned: Mapping[str, Sequence[str]] | None = None) -> None:
        """Compile them, in the order of removal. ``returned``: columns, by table, whose values are told."""
        self._returned = returned or {}
        self._binding = binding
        self._dialect = binding.dialect
        self._tree = binding.tree
        order = order_of(binding)
        self._taken, self._still = order.taken, order.still
        self._parts = sorted(parts(binding), key=lambda part: order.tables.index(part.name))
        self._before: dict[str, sa.Select[Any]] = {}
        self.deletes = [(part.name, self._removing(part)) for part in self._parts]
        self._counts = [
            (part.name, sa.select(sa.func.count()).select_from(part.table).where(part.where))
            for part in self._parts
        ]
        self._measures = [self._measuring(part) for part in self._parts]
        self._weigh = self._weighing()
        self._counts_first = [count for count in self._counts if count[0] in self._taken]

    def _removing(self, part: Part) -> Deletion:
        """Return the removal of a part; it tells the columns asked for, unless they must be read before it.

        A row that another one takes along is returned by no removal.
        """
        delete = sa.delete(part.table).where(part.where)
        names = self._returned.get(part.name, ())
        if names and part.name in self._taken:
            columns = [part.table.c[name] for name in names]
            self._before[part.name] = sa.select(*columns).select_from(part.table).where(part.where)
            return delete
        return told(delete, part.table, names)

    def remove(
        self, units: Iterable[Unit], *, max_rows: int, released: Released | None = None
    ) -> Mapping[str, int]:
        """Remove all rows of these units, within the dialect's lock.

        Returns rows by table; ``released`` takes in the blobs that they referred to. Raises `UnitFailure`, of
        kind ``oversized`` beyond ``max_rows``, and ``serialization`` where a row that stays lost what it
        refers to: the caller rolls back.
        """
        versions = self._versions()
        removed = self._removed(sorted_keys(units), max_rows, released)
        if self._versions() != versions:
            raise UnitFailure("serialization", "a row that stays came to refer to one that was removed")
        return removed

    def _versions(self) -> int:
        count = self._dialect.new_versions
        return 0 if count is None or not self._still else count(self._still)

    def _removed(self, keys: Sequence[Key], max_rows: int, released: Released | None) -> Mapping[str, int]:
        before = self._counted(self._counts_first, keys)  # a cascade's rows are in no DELETE's count
        self._tell_first(keys, released)
        removed = dict.fromkeys((name for name, _ in self.deletes), 0)
        for name, statement in self.deletes:
            # Runs may refer to each other, so all of a tree go in one statement.
            size = CHUNK if name != self._tree.table else max(len(keys), 1)
            for chunk in chunks(keys, size):
                removed[name] += self._remove(name, statement, chunk, released)
            removed[name] = before.get(name, removed[name])
            if sum(removed.values()) > max_rows:
                raise UnitFailure("oversized", f"more than {max_rows} rows in one batch")
        return removed

    def _tell_first(self, keys: Sequence[Key], released: Released | None) -> None:
        """Read what rows that may be taken along refer to."""
        if released is None:
            return
        for name, statement in self._before.items():
            for chunk in chunks(keys, CHUNK):
                rows = self._dialect.execute(statement, {"keys": self._binding.bind_keys(chunk)})
                released.note(name, self._returned[name], rows)

    def _remove(self, name: str, statement: Deletion, keys: Sequence[Key], released: Released | None) -> int:
        """Run one removal; return how many rows it counted. Of what was taken along it finds none.

        Unless the database's triggers are off: then nothing is taken along, and goes here.
        """
        parameters = {"keys": self._binding.bind_keys(keys)}
        columns = () if name in self._before else self._returned.get(name, ())
        return changed(self._dialect, statement, parameters, (name, columns), released)

    def going(self, column: tuple[str, str], blobs: sa.FromClause, key: Column) -> Iterator[sa.Select[Any]]:
        """Yield what counts by blob the references in a table's column, of rows that go with units."""
        for part in self._parts:
            if part.name == column[0]:
                source = part.table.join(blobs, part.table.c[column[1]] == key)
                columns: list[Column] = [key, sa.func.count()]
                yield sa.select(*columns).select_from(source).where(part.where).group_by(key)

    def bound(self, units: Iterable[Unit]) -> Iterator[object]:
        """Yield the keys of units as parameters of what `going` yields."""
        for chunk in chunks(sorted_keys(units), CHUNK):
            yield self._binding.bind_keys(chunk)

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
            on = self._dialect.same_key(table.c[owned.column], key)
            if owned.via is not None:
                link = self._binding.table(owned.via.table, "l")
                mine = self._dialect.same_key(link.c[owned.via.owner], key)
                links = sa.select(link.c[owned.via.key]).where(mine)
                on = self._dialect.among(table.c[owned.column], links.correlate(runs))
            counted = sa.select(sa.func.count()).select_from(table).where(on).correlate(runs)
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


def told(statement: sa.Delete, table: sa.TableClause, names: Sequence[str]) -> Deletion:
    """Let a removal tell these columns of the rows that it takes."""
    return statement.returning(*(table.c[name] for name in names)) if names else statement


def changed(
    dialect: Dialect,
    statement: Deletion,
    parameters: Mapping[str, object],
    told: tuple[str, Sequence[str]],
    released: Released | None,
) -> int:
    """Run a removal and return its rows; ``told`` are its table and the columns that it tells."""
    table, columns = told
    if not columns:
        return dialect.change(statement, parameters)
    rows = dialect.execute(statement, parameters)
    if released is not None:
        released.note(table, columns, rows)
    return len(rows)


def sorted_keys(units: Iterable[Unit]) -> list[Key]:
    """Return the keys of all members in order: neighbours in an index are changed together."""
    return sorted((member for unit in units for member in unit.members), key=str)
