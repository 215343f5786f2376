"""Open work, in one table: written in the transaction that opens it, closed in the one that ends it.

Retention asks this table and no other whether a tree is needed. A row is one piece of work: of a run, or of
one of its generations, by its kind and what it is about. Work that is opened again takes the same row, so the
table does not grow with waits and retries.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa

from afterrun.core.times import Instant
from afterrun.runs.database import Transaction
from afterrun.runs.schema import obligations
from afterrun.runs.views import Run
from afterrun.runs.words import OF_RUN, SETTLED_AT_END, Work

KEY = ("run_id", "generation", "kind", "subject")
OPENED = ("opened_at", "lease_until", "closed_at")


def open_work(
    transaction: Transaction,
    run: Run,
    kind: Work,
    *,
    generation: int = OF_RUN,
    subject: str = "",
    until: Instant | None = None,
) -> None:
    """Open a piece of work. ``until`` is when it stops to count by itself; ``None`` is never."""
    values = {
        "run_id": run.id,
        "generation": generation,
        "kind": kind,
        "subject": subject,
        "root_id": run.root,
        "opened_at": transaction.now,
        "lease_until": until,
        "closed_at": None,
    }
    transaction.change(transaction.dialect.upsert(obligations, KEY, OPENED), values)


def close_work(
    transaction: Transaction, run: Run, *kinds: Work, generation: int = OF_RUN, subject: str = ""
) -> None:
    """Close pieces of work, if they are open."""
    _close(
        transaction,
        obligations.c.run_id == run.id,
        obligations.c.generation == generation,
        obligations.c.subject == subject,
        obligations.c.kind.in_(kinds),
    )


def settle(transaction: Transaction, scope: sa.Select[Any]) -> None:
    """Close the store's own bookkeeping of runs that end. ``scope`` selects their ids."""
    _close(transaction, obligations.c.run_id.in_(scope), obligations.c.kind.in_(SETTLED_AT_END))


def open_kinds(transaction: Transaction, root: str, scope: sa.Select[Any]) -> Iterable[Work]:
    """Return the kinds of open work among runs of one tree."""
    open_ones = sa.and_(obligations.c.root_id == root, obligations.c.closed_at.is_(None))
    found = sa.select(obligations.c.kind).where(open_ones, obligations.c.run_id.in_(scope))
    return sorted(Work(kind) for (kind,) in transaction.rows(found.distinct()))


def _close(transaction: Transaction, *where: sa.ColumnElement[bool]) -> None:
    open_ones = sa.update(obligations).where(*where, obligations.c.closed_at.is_(None))
    transaction.change(open_ones.values(closed_at=transaction.now))
