"""Keys of rows that are units of their own, a table for each kind: in a backup file, or in SQLite's `temp`.

Such a row may belong to a run as well. What of a run's rows is listed here is not copied with the run, and is
not missed when the run goes after it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.sql import operators
from sqlalchemy.sql.elements import quoted_name

from afterrun.core.facts import Key, Unit, readable
from afterrun.core.row_tables import row_unit
from afterrun.stores.sql.backed_rows import BackedRows
from afterrun.stores.sql.dialect import Column
from afterrun.stores.sql.parts import Part
from afterrun.stores.sql.sqlite.schema import quoted

LISTS: Final = "afterrun_rows_"
"""What the names of these tables begin with; the name of the row table follows."""

PAGE: Final = 500
"""Keys that are read at once."""


class RowList:
    """The rows of one kind: a collection of their keys."""

    def __init__(self, driver: sqlite3.Connection, backed: BackedRows, *, schema: str) -> None:
        """Name the table; it need not be there yet."""
        self._driver = driver
        self.backed = backed
        self.schema = schema
        self.name = f"{LISTS}{backed.name}"
        self._columns = [f"key{place}" for place in range(backed.width)]
        self._table = f"{schema}.{quoted(self.name)}"
        self._same = " AND ".join(f"{column} = ?" for column in self._columns)

    @property
    def made_by(self) -> str:
        """Return what makes the table. Its columns have no type, so that 5 and '5' stay two."""
        named = ", ".join(self._columns)
        declared = ", ".join(f"{column} NOT NULL" for column in self._columns)
        return f"({declared}, PRIMARY KEY ({named})) WITHOUT ROWID"

    def holds(self, table: sa.FromClause, columns: Sequence[str]) -> Column:
        """Return the condition that a row is listed, or tied by these columns to one that is."""
        own: list[sa.ColumnClause[Any]] = [sa.column(name) for name in self._columns]
        name = quoted_name(self.name, quote=True)
        listed = sa.table(name, *own, schema=self.schema).alias("afterrun-listed")
        pairs = zip(self._columns, columns, strict=True)
        # the plus takes a column's type away, which would keep the index from being used
        same = [listed.c[mine] == _plain(table.c[theirs]) for mine, theirs in pairs]
        return sa.exists().select_from(listed).where(*same).correlate(table)

    def adding(self, part: Part) -> sa.Insert:
        """Return what lists the rows of a part of the row table."""
        target = sa.table(
            quoted_name(self.name, quote=True), *map(sa.column, self._columns), schema=self.schema
        )
        found = sa.select(*part.key).select_from(part.table).where(part.where)
        return sa.insert(target).from_select(self._columns, found)

    def add(self, keys: Sequence[Key]) -> None:
        """List rows by their keys."""
        marks = ", ".join("?" * len(self._columns))
        self._driver.executemany(f"INSERT INTO {self._table} VALUES ({marks})", map(_values, keys))  # noqa: S608 - our own names

    def __contains__(self, key: object) -> bool:
        """Say whether a row is listed."""
        ask = f"SELECT 1 FROM {self._table} WHERE {self._same}"  # noqa: S608 - our own names
        return self._driver.execute(ask, _values(key)).fetchone() is not None

    def __len__(self) -> int:
        """Count them."""
        return int(self._driver.execute(f"SELECT count(*) FROM {self._table}").fetchone()[0])  # noqa: S608 - our own names

    def __iter__(self) -> Iterator[Key]:
        """Yield their keys, a page at a time."""
        for units in self.pages():
            yield from (unit.key for unit in units)

    def all(self) -> Iterator[tuple[Any, ...]]:
        """Yield the keys as they are stored."""
        yield from self._driver.execute(f"SELECT * FROM {self._table}")  # noqa: S608 - our own names

    def pages(self) -> Iterator[Sequence[Unit]]:
        """Yield the rows as units, in the order of their keys; a key that no row can have is left out."""
        named = ", ".join(self._columns)
        ask = f"SELECT * FROM {self._table} {{where}} ORDER BY {named} LIMIT {PAGE}"  # noqa: S608 - our own names
        after = f"WHERE ({named}) > ({', '.join('?' * len(self._columns))})"
        found = self._driver.execute(ask.format(where="")).fetchall()
        while found:
            keys = [row[0] if len(row) == 1 else tuple(row) for row in found]
            yield [row_unit(key) for key in keys if readable(key)]
            found = self._driver.execute(ask.format(where=after), found[-1]).fetchall()

    def find(self, text: str) -> Unit | None:
        """Return the row with this id."""
        return next((row_unit(key) for key in self.backed.spelled(text) if key in self), None)


class RowLists:
    """The lists of all kinds, in one schema."""

    def __init__(self, driver: sqlite3.Connection, kinds: Mapping[str, BackedRows], *, schema: str) -> None:
        """Name the tables."""
        self._driver = driver
        self.kinds = {kind: RowList(driver, backed, schema=schema) for kind, backed in kinds.items()}

    @property
    def script(self) -> str:
        """Return what makes the tables in a file of their own."""
        return "".join(f"CREATE TABLE {quoted(one.name)} {one.made_by};\n" for one in self.kinds.values())

    def make_in_temp(self) -> None:
        """Make the tables where this connection alone sees them, and take earlier ones away."""
        for one in self.kinds.values():
            self._driver.execute(f"DROP TABLE IF EXISTS temp.{quoted(one.name)}")
            self._driver.execute(f"CREATE TABLE temp.{quoted(one.name)} {one.made_by}")

    def beside(self, kind: str, part: Part) -> Column | None:
        """Return the condition that another kind lists a row of a part of this one; ``None`` if none can."""
        found = [
            one.holds(part.table, columns)
            for other, one in self.kinds.items()
            if other != kind and (columns := one.backed.tied(part.name))
        ]
        return sa.or_(*found) if found else None


def _values(key: object) -> tuple[Any, ...]:
    return key if isinstance(key, tuple) else (key,)


def _plain(column: Column) -> Column:
    return sa.UnaryExpression(column, operator=operators.custom_op("+"))
