"""Tie one row table of a profile to a real database, and say why nothing of it may go.

A fault here is of this table alone: runs and other tables are swept all the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import sqlalchemy as sa

from afterrun.core.errors import did_you_mean
from afterrun.profiles.rows import OwnedRows, RowProtection, RowTable
from afterrun.profiles.words import Condition
from afterrun.stores.sql.binding import Binding
from afterrun.stores.sql.dialect import Column
from afterrun.stores.sql.literals import literal, one_of
from afterrun.stores.sql.parts import plain_table

CHANGING: Final = ("CASCADE", "SET NULL", "SET DEFAULT")
"""What a database may do to rows that refer to one that goes, without being asked."""


class ForeignKey(NamedTuple):
    """A foreign key of the database: from columns of ``table`` to ``targets`` of ``referred``."""

    table: str
    columns: tuple[str, ...]
    referred: str
    targets: tuple[str, ...]
    action: str


class RowBinding:
    """The real tables of one row table. With ``problems``, nothing else here may be asked."""

    def __init__(self, binding: Binding, name: str, rows: RowTable) -> None:
        """Compare every name with the reflected schema."""
        self.binding = binding
        self.dialect = binding.dialect
        self.name = name
        self.rows = rows
        self._shapes = self.dialect.shapes
        misfits = list(self._misfits())
        self.problems: list[str] = misfits or [*self._untold(), *self._uneven(), *self._foreign()]
        self.owned: tuple[OwnedRows, ...] = tuple(part for part in rows.owned if part.table in self._shapes)
        self.protect: tuple[RowProtection, ...] = tuple(
            part for part in rows.protect if part.table in self._shapes
        )

    def table(self, alias: str | None = None) -> sa.FromClause:
        """Return the row table; without an alias it can be written to."""
        if alias is None:
            return plain_table(self.binding, self.rows.table)
        return self.binding.table(self.rows.table, alias)

    def plain(self, name: str) -> sa.TableClause:
        """Return another table under its own name."""
        return plain_table(self.binding, name)

    @property
    def index(self) -> str | None:
        """Return the name of the index that orders rows by their end, if there is one."""
        return self.binding.index(self.rows.table, self.rows.end.column)

    @property
    def removed_from(self) -> tuple[str, ...]:
        """Return the real tables that a removal takes rows from."""
        return (*(part.table for part in self.owned), self.rows.table)

    def met(self, column: Column, test: Condition) -> Column:
        """Return a condition that a row must meet to go: what is NULL or makes no sense does not meet it."""
        parts: list[Column] = []
        if test.equals is not None:
            parts.append(column == literal(test.equals))
        if test.in_ is not None:
            parts.append(one_of(column, test.in_))
        if test.not_in is not None:
            parts.append(sa.and_(column.is_not(None), ~one_of(column, test.not_in)))
        if test.null is not None:
            parts.append(column.is_(None) if test.null else column.is_not(None))
        if test.future is not None:
            parts.append(self.dialect.instant(column, test.future) > sa.bindparam("now"))
        return sa.and_(*parts)

    # What does not fit

    def _misfits(self) -> Iterator[str]:
        for table, columns in sorted(self._required().items()):
            shape = self._shapes.get(table)
            if shape is None:
                if table not in self._optional():
                    yield f"there is no table {table}{did_you_mean(table, self._shapes)}"
                continue
            for column in sorted(columns):
                if column not in shape.columns:
                    yield f"the table {table} has no column {column}{did_you_mean(column, shape.columns)}"

    def _optional(self) -> set[str]:
        parts: list[OwnedRows | RowProtection] = [*self.rows.owned, *self.rows.protect]
        return {part.table for part in parts if part.optional}

    def _required(self) -> Mapping[str, set[str]]:
        rows = self.rows
        own = {*rows.key, rows.end.column, *rows.where, *rows.partition}
        own.update([rows.status] if rows.status else [])
        own.update(part.own for part in rows.protect if part.own)
        needed = {rows.table: own}
        for owned in rows.owned:
            needed.setdefault(owned.table, set()).add(owned.column)
        for held in rows.protect:
            needed.setdefault(held.table, set()).update([held.column, *held.where])
        return needed

    def _untold(self) -> Iterator[str]:
        """Yield what keeps rows from being told apart, and triggers that nobody looked at."""
        rows, shape = self.rows, self._shapes[self.rows.table]
        unique = [index.columns for index in self.dialect.indexes(rows.table) if index.unique]
        if not any(set(found) <= set(rows.key) for found in (shape.primary_key or ("",), *unique)):
            yield f"nothing keeps {rows.table} ({', '.join(rows.key)}) unique, so it cannot tell rows apart"
        for table in rows.tables:
            for trigger in self._shapes[table].triggers if table in self._shapes else ():
                if trigger not in self.binding.profile.detect.triggers:
                    yield f"the table {table} has a trigger {trigger!r} that the profile does not know"

    def _uneven(self) -> Iterator[str]:
        """Yield why a key might not find exactly the rows that go with it."""
        shape = self._shapes[self.rows.table]
        for key in self.rows.key:
            if shape.kinds.get(key) == "own":
                yield f"{self.rows.table} ({key}) is of an extension's type, which compares by its own rules"
        for owned in self.rows.owned:
            other = self._shapes.get(owned.table)
            if other is None:
                continue
            if other.kinds.get(owned.column) != shape.kinds.get(self.rows.key[0]):
                yield f"{owned.table} ({owned.column}) holds values of another kind than {self.rows.table}"
            if (owned.column in other.loose) != (self.rows.key[0] in shape.loose):
                yield f"{owned.table} ({owned.column}) takes other keys for equal than {self.rows.table}"

    def _foreign(self) -> Iterator[str]:
        """Yield foreign keys by which the database itself would change rows that nobody counts."""
        for link in self._unnamed():
            place = f"the foreign key of {link.table} ({', '.join(link.columns)}) to {link.referred}"
            if link.action in CHANGING:
                yield (
                    f"{place} is not in the profile, and its {link.action} would change rows of "
                    f"{link.table}: list it under owned, protect or known"
                )
            elif link.referred != self.rows.table:
                yield f"{place} is not in the profile, and such rows go along: list it under known"

    def _unnamed(self) -> Iterator[ForeignKey]:
        """Yield foreign keys to what goes that the profile does not name."""
        rows = self.rows
        known = {(link.table, link.column) for link in rows.known}
        named = {(part.table, part.column) for part in rows.owned}
        named.update((part.table, part.column) for part in rows.protect if not (part.where or part.own))
        for table, shape in sorted(self._shapes.items()):
            for columns, referred, targets, action in shape.foreign_keys:
                if referred not in rows.tables or known.intersection((table, column) for column in columns):
                    continue
                if (referred, targets) == (rows.table, rows.key) and (table, columns[0]) in named:
                    continue
                yield ForeignKey(table, columns, referred, targets, action)

    def strays(self) -> Iterator[ForeignKey]:
        """Yield foreign keys to the row that the profile does not name: what has them holds the row."""
        yield from (link for link in self._unnamed() if link.referred == self.rows.table)

    def notices(self) -> Iterator[str]:
        """Yield what a reader of a plan should know of this table."""
        rows = self.rows
        if rows.note:
            yield rows.note
        if self.index is None:
            yield (
                f"no index serves {rows.table} ({rows.end.column}), so every sweep reads all of "
                f"{rows.table}; one would help"
            )
        for link in self.strays():
            yield (
                f"the profile does not know {link.table} ({', '.join(link.columns)}): rows of {rows.table} "
                "that it refers to stay"
            )
        for table, columns in dict.fromkeys(self._looked_up()):
            if not self.binding.has_index(table, columns):
                yield (
                    f"no index serves {table} ({', '.join(columns)}), so every row removed from {rows.table} "
                    f"reads all of {table}: its owner should index these columns"
                )

    def _looked_up(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        yield from ((part.table, (part.column,)) for part in self.owned)
        yield from ((part.table, (part.column,)) for part in self.protect)
        yield from ((link.table, link.columns) for link in self.strays())
        known = {(link.table, link.column) for link in self.rows.known}
        for table, shape in sorted(self._shapes.items()):
            for columns, referred, _, _ in shape.foreign_keys:
                if referred in self.rows.tables and known.intersection((table, name) for name in columns):
                    yield table, columns
