"""Take hold of a run before it is changed: its tree stands still, and only its owner writes.

Every change of a run locks the root of its tree first, so that changes of one tree come one after another,
and a sweep passes the tree by. Trees do not wait for each other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final

import sqlalchemy as sa

from afterrun.runs.database import Dialect, Make, Transaction
from afterrun.runs.errors import RunNotFound, StaleEpoch, WrongState
from afterrun.runs.schema import leases, runs
from afterrun.runs.views import COLUMNS, Run, run_of
from afterrun.runs.words import RunStatus

BY_ID: Final = sa.select(*COLUMNS).where(runs.c.id == sa.bindparam("run"))
ROOT_OF: Final = sa.select(runs.c.root_id).where(runs.c.id == sa.bindparam("run"))
BACK: Final = (
    sa.update(runs).where(runs.c.id == sa.bindparam("root")).values(due_at=runs.c.ended_at, look_at=sa.null())
)
LEASE_OF: Final = sa.select(leases.c.epoch, leases.c.released_at).where(
    leases.c.run_id == sa.bindparam("run")
)
"""Statements of every change, made once."""


def look_at(transaction: Transaction, run: str) -> Run:
    """Return a run. Raises `RunNotFound`."""
    rows = transaction.rows(BY_ID, {"run": run})
    if not rows:
        raise RunNotFound(run)
    return run_of(rows[0])


def hold(transaction: Transaction, run: str) -> Run:
    """Lock a run's tree and return the run as it is now. Raises `RunNotFound`.

    A tree that a sweep set aside is one that sweeps look at again: whatever changes now may let it go.
    """
    lock_tree(transaction, run)
    return look_at(transaction, run)


def held(transaction: Transaction, run: str, make: Make, **values: object) -> Sequence[tuple[Any, ...]]:
    """Lock a run's tree, and return what a statement then says of ``:run``: both on one way to a server."""
    tops, rows = transaction.direct_behind(_top, make, {"run": run, **values})
    _let_look(transaction, tops)
    return rows


def lock_tree(transaction: Transaction, run: str) -> None:
    """Lock the root of a run's tree, which is the same for ever; what is read afterwards is as it is now."""
    _let_look(transaction, transaction.direct(_top, {"run": run}))


def hold_trees(transaction: Transaction, roots: Collection[str]) -> None:
    """Lock the roots of trees in the order of their ids."""
    transaction.direct(roots_held, {"roots": transaction.dialect.listed(sorted(set(roots)))})


def roots_held(dialect: Dialect) -> sa.ClauseElement:
    """Return the statement that locks ``:roots``."""
    top = sa.select(runs.c.id).where(dialect.among(runs.c.id, "roots"))
    return dialect.locked(top.order_by(runs.c.id))


def _let_look(transaction: Transaction, tops: Sequence[tuple[Any, ...]]) -> None:
    """Let sweeps look again at a tree that one has set aside."""
    for root, set_aside in tops:
        if set_aside is not None:
            transaction.change(BACK, {"root": root})


def _top(dialect: Dialect) -> sa.ClauseElement:
    aside = runs.alias("aside")
    root = sa.select(aside.c.root_id).where(aside.c.id == sa.bindparam("run")).scalar_subquery()
    return dialect.locked(sa.select(runs.c.id, runs.c.look_at).where(runs.c.id == root))


def hold_as_owner(transaction: Transaction, run: str, epoch: int | None) -> Run:
    """Lock a run's tree for its owner, and return the run.

    ``epoch`` is that of the owner's lease; without one, nobody may hold the run. Raises `RunNotFound` and
    `StaleEpoch`.
    """
    found = hold(transaction, run)
    refuse_stale(
        {row.epoch for row in transaction.rows(LEASE_OF, {"run": run}) if row.released_at is None}, epoch
    )
    return found


def refuse_stale(held: Collection[int], epoch: int | None) -> None:
    """Refuse a writer that is not the one who holds the run, if anybody does. Raises `StaleEpoch`."""
    if epoch is None and held:
        raise StaleEpoch("a lease holds the run: write with the epoch of that lease")
    if epoch is not None and epoch not in held:
        raise StaleEpoch("the lease of this epoch is over: another owner has the run, or it was let go")


def expect(run: Run, statuses: Iterable[RunStatus], doing: str) -> None:
    """Refuse to go on with a run in another state. Raises `WrongState`."""
    refuse_state(run.status, statuses, doing)


def refuse_state(status: str, statuses: Iterable[RunStatus], doing: str) -> None:
    """Refuse to go on with a run in another state. Raises `WrongState`."""
    wanted = tuple(statuses)
    if status not in wanted:
        raise WrongState(
            f"a run that is {status} cannot {doing}: it would have to be {' or '.join(wanted)}",
            status=status,
        )


def change_run(transaction: Transaction, run: str, **values: Any) -> None:  # noqa: ANN401 - columns of any type
    """Change columns of a run."""
    transaction.change(sa.update(runs).where(runs.c.id == run), values)
