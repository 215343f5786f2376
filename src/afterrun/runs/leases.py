"""Leases: one owner a run. Each has an epoch, and what an owner of a passed epoch writes is refused."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

import sqlalchemy as sa

from afterrun.core.errors import UsageError
from afterrun.core.times import micros, to_datetime
from afterrun.runs.access import hold, hold_as_owner
from afterrun.runs.database import Database, Transaction
from afterrun.runs.errors import LeaseHeld, WrongState
from afterrun.runs.labels import label
from afterrun.runs.lineage import lineage_block, refuse
from afterrun.runs.obligations import close_work, open_work
from afterrun.runs.schema import leases
from afterrun.runs.views import Run
from afterrun.runs.words import LIVE, Work


@dataclass(frozen=True, slots=True)
class Lease:
    """A run that is held. Every change that its owner makes names the epoch."""

    run: str
    epoch: int
    until: datetime


class Leases:
    """Gives out leases."""

    def __init__(self, database: Database) -> None:
        """Work on a store."""
        self._database = database

    def acquire(self, run: str, *, owner: str, keep_for: timedelta) -> Lease:
        """Take a run that nobody holds, or whose lease has ended unrenewed.

        Raises `LeaseHeld`, `RunNotFound`, `WorkBlocked` under a cancelled run, and `WrongState` for one that
        has ended.
        """
        _check(keep_for)
        with self._database.writing() as transaction:
            found = hold(transaction, run)
            if found.status not in LIVE:
                raise WrongState(f"a run that is {found.status} needs no owner", status=found.status)
            refuse(lineage_block(transaction, run))
            return take(transaction, found, owner=owner, keep_for=keep_for)

    def renew(self, lease: Lease, *, keep_for: timedelta) -> Lease:
        """Hold a run for so long from now on. Raises `StaleEpoch` if another owner has taken it."""
        _check(keep_for)
        with self._database.writing() as transaction:
            found = hold_as_owner(transaction, lease.run, lease.epoch)
            until = transaction.now + micros(keep_for)
            own = sa.update(leases).where(leases.c.run_id == lease.run)
            transaction.change(own.values(until=until))
            open_work(transaction, found, Work.LEASE, until=until)
        return Lease(lease.run, lease.epoch, to_datetime(until))

    def release(self, lease: Lease) -> None:
        """Let go of a run. Raises `StaleEpoch` if it is held no more."""
        with self._database.writing() as transaction:
            found = hold_as_owner(transaction, lease.run, lease.epoch)
            let_go(transaction, found)

    def expired(self, *, limit: int = 100) -> list[str]:
        """Return runs whose owner has not renewed its lease in time, those first that wait longest."""
        held = leases.c.released_at.is_(None)
        with self._database.reading() as transaction:
            over = sa.select(leases.c.run_id).where(held, leases.c.until <= transaction.now)
            return [run for (run,) in transaction.rows(over.order_by(leases.c.until).limit(limit))]


def take(transaction: Transaction, run: Run, *, owner: str, keep_for: timedelta) -> Lease:
    """Give a run whose tree is held to an owner. Raises `LeaseHeld`."""
    epoch = _next_epoch(transaction, run.id)
    until = transaction.now + micros(keep_for)
    values = {
        "run_id": run.id,
        "epoch": epoch,
        "owner": label("owner of a lease", owner),
        "acquired_at": transaction.now,
        "until": until,
        "released_at": None,
    }
    changed = ["epoch", "owner", "acquired_at", "until", "released_at"]
    transaction.change(transaction.dialect.upsert(leases, ["run_id"], changed), values)
    open_work(transaction, run, Work.LEASE, until=until)
    return Lease(run.id, epoch, to_datetime(until))


def let_go(transaction: Transaction, run: Run) -> None:
    """End the lease of a run whose tree is held."""
    own = sa.update(leases).where(leases.c.run_id == run.id, leases.c.released_at.is_(None))
    transaction.change(own.values(released_at=transaction.now))
    close_work(transaction, run, Work.LEASE)


def _next_epoch(transaction: Transaction, run: str) -> int:
    """Return the epoch of the next owner. Raises `LeaseHeld`."""
    last = transaction.one(sa.select(leases).where(leases.c.run_id == run))
    if last is None:
        return 1
    if last.released_at is None and last.until > transaction.now:
        raise LeaseHeld(until=last.until)
    return int(last.epoch) + 1


def _check(keep_for: timedelta) -> None:
    if keep_for <= timedelta(0):
        raise UsageError("a lease holds for some time: give a duration above zero")
