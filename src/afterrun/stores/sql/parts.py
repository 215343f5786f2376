"""The rows that go with units: one part a table, payloads first and the row that a unit is known by last."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from afterrun.profiles.generation import Generation
from afterrun.profiles.model import Owned
from afterrun.stores.sql.binding import Binding
from afterrun.stores.sql.dialect import Column


@dataclass(frozen=True, slots=True)
class Part:
    """Rows of one table that go with units: the table, and the condition that ties them to keys.

    ``key`` are the columns that hold the key of the member that a row belongs to. They are in ``source``: the
    table itself, or its join with the table that leads to it.
    """

    name: str
    table: sa.TableClause
    where: Column
    source: sa.FromClause
    key: tuple[Column, ...]


def parts(binding: Binding, *, schema: str | None = None) -> Sequence[Part]:
    """Return the parts of the store, or of an attached database with the same tables, in order of removal."""
    tree = binding.tree
    found = [_owned(binding, owned, schema) for owned in binding.owned]
    runs = plain_table(binding, tree.table, schema=schema)
    key: Column = runs.c[tree.key]
    return [*found, Part(tree.table, runs, binding.dialect.keys_in(key), runs, (key,))]


def plain_table(binding: Binding, name: str, *, schema: str | None = None) -> sa.TableClause:
    """Return a table under its own name, so that it can be written to."""
    table = binding.table(name, schema=schema)
    if not isinstance(table, sa.TableClause):
        raise TypeError(name)
    return table


def _owned(binding: Binding, owned: Owned, schema: str | None) -> Part:
    table = plain_table(binding, owned.table, schema=schema)
    column: Column = table.c[owned.column]
    if owned.via is None:
        return Part(owned.table, table, binding.holds(table, owned.table, owned.column), table, (column,))
    link = binding.table(owned.via.table, "l", schema=schema)
    held = binding.holds(link, owned.via.table, owned.via.owner)
    links = sa.select(link.c[owned.via.key]).where(held)
    among = binding.dialect.among(column, links)
    leading = binding.table(owned.via.table, "afterrun-link", schema=schema)
    on: Column = leading.c[owned.via.key] == column
    if binding.is_loose(owned.table, owned.column, like=(owned.via.table, owned.via.key)):
        exact = binding.dialect.order_key
        among = sa.and_(among, binding.dialect.among(exact(column), links))
        on = sa.and_(on, exact(leading.c[owned.via.key]) == exact(column))
    return Part(owned.table, table, among, table.join(leading, on), (leading.c[owned.via.owner],))


def generation_parts(
    binding: Binding, generation: Generation, *, schema: str | None = None
) -> Sequence[Part]:
    """Return the parts of generations, in the same order: their own rows come last."""
    return [
        _of_generations(binding, name, columns, schema)
        for name, columns in _generation_keys(binding, generation)
    ]


def _generation_keys(binding: Binding, generation: Generation) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield the tables that rows of generations go from, with the columns that hold their key."""
    for rows in generation.owned:
        if rows.table in binding.dialect.shapes:
            theirs = {ours: theirs for theirs, ours in rows.on.items()}
            yield rows.table, [theirs[name] for name in generation.key]
    yield generation.table, generation.key


def _of_generations(binding: Binding, name: str, columns: Sequence[str], schema: str | None) -> Part:
    table = plain_table(binding, name, schema=schema)
    key = tuple(table.c[column] for column in columns)
    return Part(name, table, binding.dialect.rows_in(key), table, key)
