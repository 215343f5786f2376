"""Blobs in a `removed` backup: those that its units refer to, each once, so that rows come back with them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import sqlalchemy as sa

from afterrun.stores.sql.binding import Binding
from afterrun.stores.sql.blobs import SqlBlobs
from afterrun.stores.sql.dialect import Column
from afterrun.stores.sql.parts import Part, plain_table


def blob_parts(
    binding: Binding, blobs: SqlBlobs | None, found: Sequence[Part], *, schema: str | None = None
) -> Sequence[Part]:
    """Return, for each table of blobs that can go, those to which the rows ``found`` of some units refer."""
    rows = {part.name: part for part in found}
    return list(_blob_parts(binding, blobs, rows, schema)) if blobs is not None else []


def _blob_parts(
    binding: Binding, blobs: SqlBlobs, rows: Mapping[str, Part], schema: str | None
) -> Iterator[Part]:
    for table in blobs.tables:
        there = plain_table(binding, table.name, schema=schema)
        key: Column = there.c[table.part.key]
        held = [
            key.in_(sa.select(rows[name].table.c[column]).where(rows[name].where))
            for name, column in table.sources
            if name in rows
        ]
        if held:
            yield Part(table.name, there, sa.or_(*held), there, (key,))


def missing_from(part: Part, binding: Binding, *, key: str, schema: str | None) -> Part:
    """Return those blobs of a part that another database with the same table lacks."""
    other = binding.table(part.name, "afterrun-there", schema=schema)
    same: sa.Select[Any] = sa.select(sa.literal_column("1")).where(other.c[key] == part.table.c[key])
    return replace(part, where=sa.and_(part.where, ~same.correlate(part.table).exists()))
