"""Create runs: a root, a child of an attempt, a restart or a continuation of another run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import sqlalchemy as sa

from afterrun.core.errors import StoreFailure, UsageError
from afterrun.core.times import to_datetime
from afterrun.runs import contents
from afterrun.runs.access import hold, hold_as_owner, look_at
from afterrun.runs.database import Dialect, Transaction
from afterrun.runs.direct import insert_of
from afterrun.runs.errors import KeySpent
from afterrun.runs.ids import new_id
from afterrun.runs.labels import label
from afterrun.runs.lineage import lineage_block, refuse, step_block
from afterrun.runs.obligations import open_work
from afterrun.runs.schema import generations, runs, tombstones
from afterrun.runs.views import Attempt, Run
from afterrun.runs.words import GenerationStatus, RunStatus, Work

MAX_KEY: Final = 400
"""Characters of an idempotency key."""

FIRST: Final = 1
"""The number of the first generation."""

RUNNING: Final = f"'{GenerationStatus.RUNNING}'"
"""Its status, as a part of a statement."""

PARENT: Final = ("parent_id", "parent_generation", "parent_step", "parent_attempt")
COLUMNS: Final = (
    "id",
    "root_id",
    *PARENT,
    "restart_of",
    "continuation_of",
    "name",
    "status",
    "generation",
    "idempotency_key",
    "recipient",
    "input_id",
    "created_at",
)
"""Columns of a run that it begins with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What is asked for: a name, where the run hangs, and what it begins with."""

    name: str
    parent: Attempt | None = None
    restart_of: str | None = None
    continuation_of: str | None = None
    idempotency_key: str | None = None
    content: bytes | None = None
    deliver_to: str | None = None
    epoch: int | None = None

    def __post_init__(self) -> None:
        """Refuse words that no list could show."""
        label("name of a run", self.name)
        if self.idempotency_key is not None:
            label("idempotency key", self.idempotency_key, longest=MAX_KEY)
        if self.deliver_to is not None:
            label("recipient of a result", self.deliver_to)
        if self.epoch is not None and self.parent is None:
            raise UsageError("an epoch is that of the parent's lease: give the parent's attempt, too")


@dataclass(frozen=True, slots=True)
class Created:
    """A run that was created, or with ``new=False`` the one that its idempotency key had created before."""

    run: Run
    new: bool


def create(transaction: Transaction, order: Order) -> Created:
    """Create a run, unless its idempotency key created one already. Raises `RunError`."""
    root = _place(transaction, order)
    run = new_id()
    values = {
        "id": run,
        "root_id": root or run,
        "name": order.name,
        "status": RunStatus.QUEUED.value,
        "generation": FIRST,
        "restart_of": order.restart_of,
        "continuation_of": order.continuation_of,
        "idempotency_key": order.idempotency_key,
        "input_id": contents.store(transaction, order.content),
        "recipient": order.deliver_to,
        "created_at": transaction.now,
        **_of_parent(order.parent),
    }
    made = Run(
        id=run,
        root=root or run,
        name=order.name,
        status=RunStatus.QUEUED,
        reason=None,
        generation=FIRST,
        parent=order.parent,
        restart_of=order.restart_of,
        continuation_of=order.continuation_of,
        created_at=to_datetime(transaction.now),
        started_at=None,
        ended_at=None,
    )
    if order.idempotency_key is not None:
        put = transaction.dialect.insert_new(runs, ["idempotency_key"]).returning(runs.c.id)
        if not transaction.rows(put, values):
            return Created(_earlier(transaction, order.idempotency_key), new=False)
        _refuse_spent(transaction, order.idempotency_key)
    with transaction.together():
        if order.idempotency_key is None:
            transaction.direct(_insert_run, values)
        transaction.direct(_insert_generation, {"run_id": run, "created_at": transaction.now})
        open_work(transaction, made, Work.QUEUED)
    return Created(made, new=True)


def _insert_run(_: Dialect) -> sa.Insert:
    return insert_of(runs, *COLUMNS)


def _insert_generation(_: Dialect) -> sa.Insert:
    made = insert_of(generations, "run_id", started_at="created_at")
    return made.values(number=sa.literal_column(str(FIRST)), status=sa.literal_column(RUNNING))


def _place(transaction: Transaction, order: Order) -> str | None:
    """Lock the tree that the run joins, make sure that it may, and return its root, if there is one."""
    root = None
    if order.parent is not None:
        root = hold_as_owner(transaction, order.parent.run, order.epoch).root
        refuse(step_block(transaction, order.parent))
        refuse(lineage_block(transaction, order.parent.run, room=1))
    for earlier in (order.restart_of, order.continuation_of):
        if earlier is None:
            continue
        found = hold(transaction, earlier)
        if root not in (None, found.root):
            raise UsageError("a run restarts or continues a run of its own tree only")
        root = found.root
        refuse(lineage_block(transaction, earlier, room=1))
    return root


def _of_parent(parent: Attempt | None) -> dict[str, object]:
    if parent is None:
        return dict.fromkeys(PARENT)
    return dict(zip(PARENT, (parent.run, parent.generation, parent.step, parent.number), strict=True))


def _earlier(transaction: Transaction, key: str) -> Run:
    """Return the run that a key created before."""
    found = transaction.value(sa.select(runs.c.id).where(runs.c.idempotency_key == key))
    if found is not None:
        return look_at(transaction, found)
    _refuse_spent(transaction, key)
    raise StoreFailure("busy", "the run of this idempotency key was removed at this moment; try again")


def _refuse_spent(transaction: Transaction, key: str) -> None:
    """Refuse a key whose run is over and gone. Asked after the insert, so that no removal comes between."""
    spent = transaction.one(sa.select(tombstones).where(tombstones.c.key == key))
    if spent is not None:
        raise KeySpent(run=spent.run_id, status=spent.status)
