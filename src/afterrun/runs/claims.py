"""What a workflow server does with many runs at once: takes queued ones, renews, wakes, hands off."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

import sqlalchemy as sa

from afterrun.core.times import Instant, micros
from afterrun.runs.access import hold, hold_as_owner, roots_held
from afterrun.runs.database import Database, Dialect, Transaction
from afterrun.runs.labels import label
from afterrun.runs.lifecycle import hand_off, wake
from afterrun.runs.lineage import lineage_block
from afterrun.runs.obligations import open_work
from afterrun.runs.schema import leases, obligations, runs
from afterrun.runs.views import COLUMNS, Run, moment, run_from
from afterrun.runs.words import OF_RUN, RunStatus, Work

MANY: Final = 100
"""Runs that one transaction changes at most."""

QUEUED: Final = runs.c.status == sa.literal_column(f"'{RunStatus.QUEUED}'")
"""As the partial index has it."""

RUN: Final = len(COLUMNS)
"""Columns that tell of a run, before those that tell of its lease."""

NOW: Final[sa.BindParameter[int]] = sa.bindparam("now", type_=sa.BigInteger())


@dataclass(frozen=True, slots=True)
class Claim:
    """A running run, and the epoch of its owner's lease."""

    run: Run
    epoch: int


class Look(NamedTuple):
    """What is told of the last lease of a queued run."""

    epoch: int | None
    released_at: Instant | None
    until: Instant | None
    clock: Instant | None

    def free(self, now: Instant) -> bool:
        """Say whether nobody holds the run."""
        return self.epoch is None or self.released_at is not None or (self.until or now) <= now


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
        with self._database.writing() as transaction:
            wanted = {"names": transaction.dialect.listed(names), "most": min(limit, MANY)}
            found = transaction.direct(_queued, wanted)
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


def _claimable(transaction: Transaction, found: Sequence[tuple[Any, ...]]) -> list[Claim]:
    """Hold the trees of queued runs, and return those that may be taken, with the epochs of their leases."""
    ids, roots = zip(*found, strict=True)
    listed = transaction.dialect.listed
    wanted = {"ids": listed(ids), "roots": listed(sorted(set(roots)))}
    _, rows = transaction.direct_behind(roots_held, _looked, wanted)
    looks = [(run_from(row[:RUN]), Look(*row[RUN:])) for row in rows]
    for _, look in looks[:1]:
        transaction.tell(look.clock)
    now = transaction.now
    claims = [Claim(run, (look.epoch or 0) + 1) for run, look in looks if look.free(now)]
    return [claim for claim in claims if not _blocked(transaction, claim.run)]


def _queued(dialect: Dialect) -> sa.Select[Any]:
    named = dialect.among(runs.c.name, "names")
    wanted = sa.select(runs.c.id, runs.c.root_id).where(QUEUED, named)
    return wanted.order_by(runs.c.id).limit(sa.bindparam("most", type_=sa.BigInteger()))


def _looked(dialect: Dialect) -> sa.Select[Any]:
    last = leases.c.epoch, leases.c.released_at, leases.c.until
    looked = sa.select(*COLUMNS, *last, dialect.clock).outerjoin(leases, leases.c.run_id == runs.c.id)
    return looked.where(dialect.among(runs.c.id, "ids"), QUEUED).order_by(runs.c.id)


def _blocked(transaction: Transaction, run: Run) -> bool:
    """Say whether nothing may begin under a queued run; above a root there is nothing to forbid it."""
    return run.above is not None and lineage_block(transaction, run.id) is not None


def _begin(transaction: Transaction, claims: Sequence[Claim], owner: str, until: Instant) -> None:
    """Give runs to their owner, and let them go on; no statement is waited for."""
    now = transaction.now
    lease = {"owner": owner, "acquired_at": now, "until": until, "released_at": None}
    scope = {"ids": transaction.dialect.listed([claim.run.id for claim in claims]), "now": now}
    with transaction.together():
        for claim in claims:
            transaction.direct(_lease, {"run_id": claim.run.id, "epoch": claim.epoch, **lease})
            open_work(transaction, claim.run, Work.LEASE, until=until)
        transaction.direct(_wait_no_more, scope)
        transaction.direct(_begun, scope)


def _lease(dialect: Dialect) -> sa.Insert:
    row = {column.name: sa.bindparam(column.name, type_=column.type) for column in leases.c}
    return dialect.upsert(leases, ["run_id"], [name for name in row if name != "run_id"]).values(row)


def _wait_no_more(dialect: Dialect) -> sa.Update:
    mine = dialect.among(obligations.c.run_id, "ids"), obligations.c.closed_at.is_(None)
    whole = obligations.c.generation == OF_RUN, obligations.c.subject == sa.literal_column("''")
    kinds: list[sa.ColumnElement[str]] = [
        sa.literal_column(f"'{kind}'") for kind in (Work.QUEUED, Work.WAITING)
    ]
    waiting = sa.update(obligations).where(*mine, *whole, obligations.c.kind.in_(kinds))
    return waiting.values(closed_at=NOW)


def _begun(dialect: Dialect) -> sa.Update:
    values = {"status": sa.literal_column(f"'{RunStatus.RUNNING}'"), "wake_at": sa.null()}
    first = sa.func.coalesce(runs.c.started_at, NOW)
    return sa.update(runs).where(dialect.among(runs.c.id, "ids")).values(started_at=first, **values)


def _requeue(transaction: Transaction, run: Run) -> bool:
    """Take a run from an owner that is gone or late."""
    if run.status is not RunStatus.RUNNING:
        return False
    hand_off(transaction, run)
    return True
