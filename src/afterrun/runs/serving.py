"""The lease of the store itself: one workflow server a store, fenced by an epoch as owners of runs are."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import sqlalchemy as sa

from afterrun.core.times import micros, to_datetime
from afterrun.runs.database import Database, Transaction
from afterrun.runs.errors import StaleEpoch, StoreServed
from afterrun.runs.labels import label
from afterrun.runs.schema import server_lease

ONLY: Final = 1
"""The number of the one row."""

LEASE: Final = sa.select(server_lease).where(server_lease.c.number == ONLY)


@dataclass(frozen=True, slots=True)
class ServerLease:
    """A store that a server holds."""

    epoch: int
    until: datetime


class Serving:
    """Gives the store to one server at a time."""

    def __init__(self, database: Database) -> None:
        """Work on a store."""
        self._database = database

    def acquire(self, *, owner: str, keep_for: timedelta) -> ServerLease:
        """Take a store that no server holds, or whose server is late. Raises `StoreServed`."""
        with self._database.writing() as transaction:
            last = self._locked(transaction)
            if last.released_at is None and last.until > transaction.now:
                raise StoreServed(until=last.until)
            epoch = int(last.epoch) + 1
            until = transaction.now + micros(keep_for)
            values = {
                "epoch": epoch,
                "owner": label("owner of a lease", owner),
                "acquired_at": transaction.now,
                "until": until,
                "released_at": None,
            }
            transaction.change(sa.update(server_lease).where(server_lease.c.number == ONLY), values)
        return ServerLease(epoch, to_datetime(until))

    def renew(self, lease: ServerLease, *, keep_for: timedelta) -> ServerLease:
        """Hold the store for so long from now on. Raises `StaleEpoch` if another server has it."""
        with self._database.writing() as transaction:
            until = transaction.now + micros(keep_for)
            if not transaction.change(self._own(lease).values(until=until)):
                raise StaleEpoch("another server holds the store: stop, and write nothing more")
        return ServerLease(lease.epoch, to_datetime(until))

    def release(self, lease: ServerLease) -> None:
        """Let go of the store; nothing happens if another server has it."""
        with self._database.writing() as transaction:
            transaction.change(self._own(lease).values(released_at=transaction.now))

    def held_until(self) -> datetime | None:
        """Return until when a server holds the store, if one does."""
        with self._database.reading() as transaction:
            last = transaction.one(LEASE)
            if last is None or last.released_at is not None or last.until <= transaction.now:
                return None
            return to_datetime(last.until)

    def _locked(self, transaction: Transaction) -> sa.Row[Any]:
        """Lock the row of the lease, made where it is missing, so that two servers come one after another."""
        now = transaction.now
        blank = {"number": ONLY, "epoch": 0, "owner": "nobody", "acquired_at": now, "until": now}
        made = transaction.dialect.insert_new(server_lease, ["number"])
        transaction.change(made, {**blank, "released_at": now})
        return transaction.rows(transaction.dialect.locked(LEASE))[0]

    def _own(self, lease: ServerLease) -> sa.Update:
        own = sa.update(server_lease).where(server_lease.c.number == ONLY)
        return own.where(server_lease.c.epoch == lease.epoch, server_lease.c.released_at.is_(None))
