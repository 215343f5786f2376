"""Rows that belong to no run: left behind by somebody who removed a run in part."""

from __future__ import annotations

from collections.abc import Iterator

import sqlalchemy as sa

from afterrun.stores.sql.binding import Binding


def orphan_counts(binding: Binding) -> Iterator[tuple[str, int]]:
    """Yield each owned table that has rows of no run, and how many."""
    tree = binding.tree
    for owned in binding.owned:
        table = binding.table(owned.table, "t")
        if owned.via is None:
            holder = binding.table(tree.table, "h")
            on, present = holder.c[tree.key] == table.c[owned.column], holder.c[tree.key]
        else:
            holder = binding.table(owned.via.table, "h")
            on, present = holder.c[owned.via.key] == table.c[owned.column], holder.c[owned.via.key]
        statement = (
            sa.select(sa.func.count())
            .select_from(table.outerjoin(holder, on))
            .where(present.is_(None), table.c[owned.column].is_not(None))
        )
        count = int(binding.dialect.execute(statement)[0][0])
        if count:
            yield owned.table, count
