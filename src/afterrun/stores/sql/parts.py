"""The rows that go with runs: one part a table, payloads first and the run's own row last."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from afterrun.profiles.model import Owned
from afterrun.stores.sql.binding import Binding
from afterrun.stores.sql.dialect import Column


@dataclass(frozen=True, slots=True)
class Part:
    """Rows of one table that go with runs: the table, and the condition that ties them to keys."""

    name: str
    table: sa.TableClause
    where: Column


def parts(binding: Binding, *, schema: str | None = None) -> Sequence[Part]:
    """Return the parts of the store, or of an attached database with the same tables, in order of removal."""
    tree = binding.tree
    found = [_owned(binding, owned, schema) for owned in binding.owned]
    runs = plain_table(binding, tree.table, schema=schema)
    return [*found, Part(tree.table, runs, binding.dialect.keys_in(runs.c[tree.key]))]


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
        return Part(owned.table, table, binding.holds(table, owned.table, owned.column))
    link = binding.table(owned.via.table, "l", schema=schema)
    held = binding.holds(link, owned.via.table, owned.via.owner)
    links = sa.select(link.c[owned.via.key]).where(held)
    among: Column = column.in_(links)
    if binding.is_loose(owned.table, owned.column, like=(owned.via.table, owned.via.key)):
        among = sa.and_(among, binding.dialect.order_key(column).in_(links))
    return Part(owned.table, table, among)
