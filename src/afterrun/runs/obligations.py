"""Open work, in one table: written in the transaction that opens it, closed in the one that ends it.

Retention asks this table and no other whether a tree is needed. A row is one piece of work: of a run, or of
one of its generations, by its kind and what it is about. Work that is opened again takes the same row, so the
table does not grow with waits and retries.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from afterrun.core.times import Instant
from afterrun.runs.database import Dialect, Transaction
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
        "kind": kind.value,
        "subject": subject,
        "root_id": run.root,
        "opened_at": transaction.now,
        "lease_until": until,
        "closed_at": None,
    }
    transaction.direct(opening, values)


def opening(dialect: Dialect) -> sa.Insert:
    """Return the statement that opens a piece of work, closed or not."""
    row = {column.name: sa.bindparam(column.name, type_=column.type) for column in obligations.c}
    return dialect.upsert(obligations, KEY, OPENED).values(row)


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


def settle(transaction: Transaction, scope: sa.Select[Any], *kinds: Work) -> None:
    """Close all work of these kinds of runs; ``scope`` selects their ids.

    Without kinds, it is the store's own bookkeeping, as of runs that end.
    """
    chosen = kinds or SETTLED_AT_END
    _close(transaction, obligations.c.run_id.in_(scope), obligations.c.kind.in_(chosen))


def close_ended(transaction: Transaction, scope: sa.Select[Any], kind: Work, table: sa.Table) -> None:
    """Close the work of a kind whose rows in a table have ended, whoever ended them."""
    place = table.c.run_id, table.c.generation, sa.cast(table.c.number, sa.Text())
    ended = sa.select(*place).where(table.c.run_id.in_(scope), table.c.ended_at.is_not(None))
    mine = sa.tuple_(obligations.c.run_id, obligations.c.generation, obligations.c.subject)
    _close(transaction, obligations.c.run_id.in_(scope), obligations.c.kind == kind, mine.in_(ended))


def open_kinds(transaction: Transaction, scope: sa.Select[Any], *, root: str | None = None) -> Sequence[Work]:
    """Return the kinds of open work among runs; to know the ``root`` of all of them makes that faster."""
    found = sa.select(obligations.c.kind).where(obligations.c.run_id.in_(scope))
    found = found.where(obligations.c.closed_at.is_(None))
    if root is not None:
        found = found.where(obligations.c.root_id == root)
    return sorted(Work(kind) for (kind,) in transaction.rows(found.distinct()))


def _close(transaction: Transaction, *where: sa.ColumnElement[bool]) -> None:
    open_ones = sa.update(obligations).where(*where, obligations.c.closed_at.is_(None))
    transaction.change(open_ones.values(closed_at=transaction.now))
