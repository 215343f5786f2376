"""What a workflow server does with many runs at once: takes queued ones, renews, wakes, hands off."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import sqlalchemy as sa

from afterrun.core.times import Instant, micros
from afterrun.runs.access import hold, hold_as_owner
from afterrun.runs.database import Database, Transaction
from afterrun.runs.labels import label
from afterrun.runs.lifecycle import hand_off, wake
from afterrun.runs.lineage import lineage_block
from afterrun.runs.obligations import close_many, open_many
from afterrun.runs.schema import leases, obligations, runs
from afterrun.runs.views import COLUMNS, Run, moment, run_of
from afterrun.runs.words import RunStatus, Work

MANY: Final = 100
"""Runs that one transaction changes at most."""

QUEUED: Final = runs.c.status == sa.literal_column(f"'{RunStatus.QUEUED}'")
"""As the partial index has it."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A running run, and the epoch of its owner's lease."""

    run: Run
    epoch: int


class Claims:
    """Serves one owner of many runs. Each method is one transaction, over `MANY` runs at most."""

    def __init__(self, database: Database) -> None:
        """Work on a store."""
        self._database = database

    def take(
        self, *, owner: str, names: Sequence[str], keep_for: timedelta, limit: int = MANY
    ) -> list[Claim]:
        """Take the queued runs of these names that have waited longest, and begin them.

        A run that somebody else holds, or under which nothing may begin, is passed by.
        """
        label("owner of a lease", owner)
        wanted = sa.select(runs.c.id, runs.c.root_id).where(QUEUED, runs.c.name.in_(names))
        with self._database.writing() as transaction:
            found = transaction.rows(wanted.order_by(runs.c.id).limit(min(limit, MANY)))
            if not found:
                return []
            claims = _claimable(transaction, found)
            if claims:
                _begin(transaction, claims, owner, transaction.now + micros(keep_for))
            return claims

    def renew(self, *, owner: str, keep_for: timedelta) -> dict[str, int]:
        """Hold all runs of an owner for so long from now on; return what it holds, with the epochs."""
        own = sa.and_(leases.c.owner == owner, leases.c.released_at.is_(None))
        with self._database.writing() as transaction:
            until = transaction.now + micros(keep_for)
            transaction.change(sa.update(leases).where(own).values(until=until))
            held = sa.select(leases.c.run_id).where(own)
            open_ones = sa.update(obligations).where(
                obligations.c.run_id.in_(held),
                obligations.c.kind == Work.LEASE,
                obligations.c.closed_at.is_(None),
            )
            transaction.change(open_ones.values(lease_until=until))
            rows = transaction.rows(sa.select(leases.c.run_id, leases.c.epoch).where(own))
            return {row.run_id: row.epoch for row in rows}

    def hand_off(self, run: str, *, epoch: int) -> None:
        """Queue a run again for another owner. Raises `StaleEpoch`, and `RunNotFound`."""
        with self._database.writing() as transaction:
            found = hold_as_owner(transaction, run, epoch)
            if found.status is RunStatus.RUNNING:
                hand_off(transaction, found)

    def abandoned(self, *, prefix: str) -> int:
        """Queue runs of owners whose names begin so and that are known to be gone; return how many."""
        held = leases.c.released_at.is_(None)
        gone = sa.select(leases.c.run_id).join(runs, runs.c.id == leases.c.run_id)
        gone = gone.where(held, leases.c.owner.startswith(prefix, autoescape=True))
        gone = gone.where(runs.c.status == RunStatus.RUNNING)
        return self._each(lambda _: gone, _requeue)

    def late(self, *, names: Sequence[str], owner: str) -> int:
        """Queue runs of these names that other owners have not renewed in time; return how many."""

        def late(transaction: Transaction) -> sa.Select[Any]:
            held = sa.select(leases.c.run_id).join(runs, runs.c.id == leases.c.run_id)
            over = leases.c.released_at.is_(None), leases.c.until <= transaction.now
            others = leases.c.owner != owner, runs.c.name.in_(names)
            return held.where(*over, *others, runs.c.status == RunStatus.RUNNING)

        return self._each(late, _requeue)

    def wake_due(self) -> int:
        """Queue runs that wait for a time that has come; return how many."""

        def due(transaction: Transaction) -> sa.Select[Any]:
            return sa.select(runs.c.id).where(runs.c.wake_at <= transaction.now).order_by(runs.c.wake_at)

        return self._each(due, wake)

    def next_due(self) -> datetime | None:
        """Return the time at which the next run is due."""
        with self._database.reading() as transaction:
            return moment(
                transaction.value(sa.select(sa.func.min(runs.c.wake_at)).where(runs.c.wake_at.is_not(None)))
            )

    def _each(
        self,
        wanted: Callable[[Transaction], sa.Select[Any]],
        change: Callable[[Transaction, Run], bool],
    ) -> int:
        with self._database.writing() as transaction:
            found = transaction.rows(wanted(transaction).limit(MANY))
            return sum(change(transaction, hold(transaction, run)) for (run,) in found)


def _claimable(transaction: Transaction, found: Sequence[sa.Row[Any]]) -> list[Claim]:
    """Hold the trees of queued runs, and return those that may be taken, with the epochs of their leases."""
    roots = sorted({row.root_id for row in found})
    top = sa.select(runs.c.id).where(runs.c.id.in_(roots)).order_by(runs.c.id)
    transaction.rows(transaction.dialect.locked(top))
    clock = transaction.dialect.clock.label("clock")
    last = leases.c.epoch, leases.c.released_at, leases.c.until, clock
    looked = sa.select(*COLUMNS, *last).outerjoin(leases, leases.c.run_id == runs.c.id)
    mine = runs.c.id.in_([row.id for row in found])
    rows = transaction.rows(looked.where(mine, QUEUED).order_by(runs.c.id))
    if rows:
        transaction.tell(rows[0].clock)
    now = transaction.now
    free = [row for row in rows if row.epoch is None or row.released_at is not None or row.until <= now]
    claims = [Claim(run_of(row), (row.epoch or 0) + 1) for row in free]
    return [claim for claim in claims if not _blocked(transaction, claim.run)]


def _blocked(transaction: Transaction, run: Run) -> bool:
    """Say whether nothing may begin under a queued run; above a root there is nothing to forbid it."""
    return run.above is not None and lineage_block(transaction, run.id) is not None


def _begin(transaction: Transaction, claims: Sequence[Claim], owner: str, until: Instant) -> None:
    """Give runs to their owner, and let them go on: a statement a table, however many runs there are."""
    now = transaction.now
    taken = {"owner": owner, "acquired_at": now, "until": until, "released_at": None}
    rows = [{"run_id": claim.run.id, "epoch": claim.epoch, **taken} for claim in claims]
    scope = [claim.run.id for claim in claims]
    begun = sa.update(runs).where(runs.c.id.in_(scope))
    first = sa.func.coalesce(runs.c.started_at, now)
    with transaction.together():
        transaction.change(transaction.dialect.upsert(leases, ["run_id"], ["epoch", *taken]), rows)
        open_many(transaction, [claim.run for claim in claims], Work.LEASE, until=until)
        close_many(transaction, scope, Work.QUEUED, Work.WAITING)
        transaction.change(begun.values(status=RunStatus.RUNNING, wake_at=None, started_at=first))


def _requeue(transaction: Transaction, run: Run) -> bool:
    """Take a run from an owner that is gone or late."""
    if run.status is not RunStatus.RUNNING:
        return False
    hand_off(transaction, run)
    return True
