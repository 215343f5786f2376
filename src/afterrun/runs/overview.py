"""A run at a glance: how much of everything it has, and what is open. No content is read for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa

from afterrun.runs.access import look_at
from afterrun.runs.database import Transaction
from afterrun.runs.schema import (
    approvals,
    decisions,
    generations,
    obligations,
    pins,
    results,
    runs,
    steps,
    tasks,
)
from afterrun.runs.side_tables import checkpoints, effects, follow_ups, managed_resources, messages, turns
from afterrun.runs.views import Run
from afterrun.runs.words import Work

PARTS: Final = (
    *(generations, steps, tasks, approvals, decisions, effects, messages, turns, follow_ups, checkpoints),
    *(managed_resources, results, pins),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """A run, how many ``children`` and ``parts`` of each kind it has, and its open ``work`` by kind.

    All are its own: what its children have is theirs. ``parts`` names each kind, also one of which there is
    none.
    """

    run: Run
    children: int
    parts: Mapping[str, int]
    work: Mapping[Work, int]


def overview_of(transaction: Transaction, run: str) -> Overview:
    """Look at a run. Raises `RunNotFound`."""
    found = look_at(transaction, run)
    children, *parts = tuple(transaction.rows(COUNTS, {"run": run})[0])
    return Overview(
        run=found,
        children=children,
        parts=dict(zip((table.name for table in PARTS), parts, strict=True)),
        work={Work(row.kind): row.open for row in transaction.rows(OPEN, {"run": run})},
    )


def _counts() -> sa.Select[Any]:
    run: sa.BindParameter[str] = sa.bindparam("run")
    counted = [
        sa.select(sa.func.count()).select_from(column.table).where(column == run).scalar_subquery()
        for column in (runs.c.parent_id, *(table.c.run_id for table in PARTS))
    ]
    return sa.select(*counted)


COUNTS: Final = _counts()
OPEN: Final = (
    sa.select(obligations.c.kind, sa.func.count().label("open"))
    .where(obligations.c.run_id == sa.bindparam("run"), obligations.c.closed_at.is_(None))
    .group_by(obligations.c.kind)
    .order_by(obligations.c.kind)
)
