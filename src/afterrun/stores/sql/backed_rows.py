"""Rows of row tables as backups see them: each is a unit of its own, with the rows that go along."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from typing import Any

import sqlalchemy as sa

from afterrun.core.errors import Refused
from afterrun.core.facts import Key, Reason, Unit, key_text, readable
from afterrun.core.row_tables import kind_of
from afterrun.stores.sql.backed import Leads, Way, fits
from afterrun.stores.sql.dialect import Column
from afterrun.stores.sql.ids import spelled
from afterrun.stores.sql.parts import Part, plain_table
from afterrun.stores.sql.row_binding import RowBinding
from afterrun.stores.sql.store import SqlStore


class BackedRows:
    """The rows of one row table. Raises `Refused` where the table does not fit the profile.

    Runs, and rows of other tables, may have some of the same rows. A backup holds these once, under the row
    that they go with by a row policy.
    """

    led: Collection[str] = ()

    def __init__(self, store: SqlStore, name: str) -> None:
        """Tie the profile's table to the store's."""
        self._dialect = store.dialect
        self._store = store
        self.name = name
        self.rows = store.profile.units.rows[name]
        self.binding = RowBinding(store.binding, name, self.rows)
        if self.binding.problems:
            raise Refused("schema", f"rows of {name} cannot be put back: {self.binding.problems[0]}")
        self.kind = kind_of(name)
        self.width = len(self.rows.key)
        self.is_back = (
            f"the store has a row of {self.rows.table} with this key, or rows that go with it, again, and "
            "they differ"
        )
        self._weights = [self._weighing(part.table, part.column) for part in self.binding.owned]

    def tied(self, table: str) -> Sequence[str]:
        """Return the columns by which rows of a real table are tied to a row; nothing for another table."""
        if table == self.rows.table:
            return self.rows.key
        return next(((part.column,) for part in self.binding.owned if part.table == table), ())

    def parts(self, *, schema: str | None = None) -> Sequence[Part]:
        """Return the rows in order of removal."""
        return [self._part(name, schema) for name in self.binding.removed_from]

    def _part(self, name: str, schema: str | None) -> Part:
        table = plain_table(self._store.binding, name, schema=schema)
        key: tuple[Column, ...] = tuple(table.c[column] for column in self.tied(name))
        among = self._dialect.keys_in(key[0]) if self.width == 1 else self._dialect.rows_in(key)
        return Part(name, table, among, table, key)

    def links(self, *, schema: str | None = None) -> Sequence[Part]:  # noqa: ARG002 - there are none
        """Return nothing: all rows hold the key themselves."""
        return ()

    def leads(self, *, schema: str | None = None) -> Sequence[Leads]:  # noqa: ARG002 - there are none
        """Return nothing."""
        return ()

    def blobs(self, *, schema: str | None = None) -> Sequence[Part]:  # noqa: ARG002 - there are none
        """Return nothing: row policies remove no blobs."""
        return ()

    @property
    def ways(self) -> Sequence[Way]:
        """Return the columns that hold the key."""
        return [(name, tuple(self.tied(name))) for name in self.binding.removed_from]

    def bind(self, keys: Sequence[Key]) -> object:
        """Return keys as a parameter."""
        return self._dialect.bind_keys(keys) if self.width == 1 else self._dialect.bind_rows(keys)

    def _weighing(self, name: str, column: str) -> sa.Select[Any]:
        table = plain_table(self._store.binding, name)
        key: Column = table.c[column]
        columns: list[Column] = [key, sa.func.count()]
        counted = sa.select(*columns).select_from(table)
        return counted.where(self._dialect.keys_in(key)).group_by(key)

    def weigh(self, units: Sequence[Unit]) -> Sequence[int]:
        """Return each row with those that go along."""
        keys = [unit.key for unit in units]
        weights = dict.fromkeys(map(key_text, keys), 1)
        for statement in self._weights:
            for key, count in self._dialect.execute(statement, {"keys": self.bind(keys)}):
                if key_text(key) in weights:
                    weights[key_text(key)] += int(count)
        return [weights[key_text(key)] for key in keys]

    def spelled(self, text: str) -> Sequence[Key]:
        """Return the keys that an id may stand for; one of several columns is a JSON list."""
        if self.width == 1:
            return spelled(text)
        with suppress(ValueError):
            found = json.loads(text)
            key = tuple(found) if isinstance(found, list) else found
            if fits(key, width=self.width) and readable(key):
                return [key]
        return ()

    def obstacle(self, units: Sequence[Unit]) -> Reason | None:  # noqa: ARG002 - the database itself says it
        """Return nothing: what a row refers to is asked by its foreign keys."""
        return None


def uncopied(rows: RowBinding) -> Iterator[str]:
    """Yield why a backup of the rows that go cannot have all of them: some go by the database's cascade."""
    for table in cascading(rows):
        yield (
            f"rows of {table} go with those of {rows.rows.table} by a foreign key of the database's own, and "
            "a backup of the rows that go would lack them: list the table under owned in the profile, or use "
            "--backup-kind whole"
        )


def cascading(rows: RowBinding) -> Sequence[str]:
    """Return the tables whose rows the database itself takes along, by foreign keys that a profile knows."""
    shapes, own = rows.dialect.shapes, rows.rows.tables
    found = [
        link.table
        for link in rows.rows.known
        if link.table in shapes and link.table not in own
        for columns, referred, _, action in shapes[link.table].foreign_keys
        if link.column in columns and referred in own and action == "CASCADE"
    ]
    return list(dict.fromkeys(found))
