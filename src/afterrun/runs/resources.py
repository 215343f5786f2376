"""Managed resources: what exists outside of the store for a run, from the request for it to its release.

A reconciler asks for a resource as often as it likes: under one request key, one finite run is started, which
makes the resource. It belongs to the tree of the run that needs the resource, and is cancelled with it; the
resource itself stays somebody's to release.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from afterrun.core.times import to_datetime
from afterrun.runs.access import hold, hold_as_owner, look_at
from afterrun.runs.creation import MAX_KEY, Order, create
from afterrun.runs.database import Database, Transaction
from afterrun.runs.endings import RESUMABLE
from afterrun.runs.errors import FingerprintMismatch, NotFound, WrongState
from afterrun.runs.labels import label
from afterrun.runs.lifecycle import retry
from afterrun.runs.numbers import next_number
from afterrun.runs.obligations import close_work, open_work
from afterrun.runs.side_tables import managed_resources as resources
from afterrun.runs.views import Attempt, Run, moment
from afterrun.runs.words import LIVE, PAGE, Work


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """A resource of a run. ``starter`` is the run that makes it; what became of that is its status."""

    run: str
    number: int
    kind: str
    address: str
    request_key: str
    fingerprint: str
    starter: str | None
    opened_at: datetime
    released_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Request:
    """What is asked for, but for the run that needs it."""

    kind: str
    address: str
    request_key: str
    fingerprint: str

    def __post_init__(self) -> None:
        label("kind of a resource", self.kind)
        label("address of a resource", self.address, longest=MAX_KEY)
        label("request key of a resource", self.request_key)
        label("fingerprint of a resource", self.fingerprint)


class Resources:
    """Keeps managed resources. Raises as `Steps` does."""

    def __init__(self, database: Database) -> None:
        """Work on a store."""
        self._database = database

    def ensure(  # noqa: PLR0913 - a request has that many parts
        self,
        of: str | Attempt,
        kind: str,
        address: str,
        *,
        request_key: str,
        fingerprint: str,
        start: str,
        content: bytes | None = None,
        again: bool = False,
        epoch: int | None = None,
    ) -> Resource:
        """Ask for a resource of a live run; the first request starts the run named ``start`` that makes it.

        That one is a child of an attempt, or else a continuation of the run, whose lease is not asked for
        then. The same key with the same fingerprint gives the same resource, also when it is released since;
        with another fingerprint, kind or address it raises `FingerprintMismatch`. ``again`` queues a starter
        again that failed.
        """
        request = _Request(kind=kind, address=address, request_key=request_key, fingerprint=fingerprint)
        attempt = of if isinstance(of, Attempt) else None
        run = of if isinstance(of, str) else of.run
        with self._database.writing() as transaction:
            found = hold(transaction, run) if attempt is None else hold_as_owner(transaction, run, epoch)
            known = transaction.one(_keyed(run, request_key))
            if known is not None:
                _refuse_other(known, request)
                if again:
                    _start_again(transaction, known)
                return _resource(known)
            _refuse_ended(found)
            order = Order(
                name=start,
                parent=attempt,
                continuation_of=run if attempt is None else None,
                idempotency_key=_starter_key(run, request_key),
                content=content,
                epoch=epoch if attempt is not None else None,
            )
            starter = create(transaction, order).run
            return _insert(transaction, found, request, starter)

    def release(self, resource: Resource) -> None:
        """Note that a resource is gone. Raises `WrongState` while the run that makes it is live."""
        with self._database.writing() as transaction:
            run = hold(transaction, resource.run)
            row = _row(transaction, resource.run, resource.number)
            if row.starter_id is not None:
                _refuse_starting(look_at(transaction, row.starter_id))
            if row.released_at is None:
                gone = sa.update(resources).where(_is(resource.run, resource.number))
                transaction.change(gone.values(released_at=transaction.now))
            close_work(transaction, run, Work.RESOURCE, subject=str(resource.number))

    def held(self, *, limit: int = PAGE) -> list[Resource]:
        """Return the resources of all runs that are not released, the oldest first."""
        wanted = sa.select(resources).where(resources.c.released_at.is_(None))
        order = resources.c.opened_at, resources.c.run_id, resources.c.number
        with self._database.reading() as transaction:
            return [_resource(row) for row in transaction.rows(wanted.order_by(*order).limit(limit))]

    def of(self, run: str, *, after: int | None = None, limit: int = PAGE) -> list[Resource]:
        """Return resources of a run in the order of their requests, those ``after`` a number, as a page."""
        wanted = sa.select(resources).where(resources.c.run_id == run)
        if after is not None:
            wanted = wanted.where(resources.c.number > after)
        with self._database.reading() as transaction:
            look_at(transaction, run)
            rows = transaction.rows(wanted.order_by(resources.c.number).limit(limit))
        return [_resource(row) for row in rows]


def _starter_key(run: str, request_key: str) -> str:
    """Return the idempotency key of the run that makes a resource: no application gives the same one."""
    return f"resource of {run}: {hashlib.sha256(request_key.encode()).hexdigest()}"


def _insert(transaction: Transaction, run: Run, request: _Request, starter: Run) -> Resource:
    number = next_number(transaction, resources, run_id=run.id)
    transaction.insert(
        resources,
        run_id=run.id,
        number=number,
        kind=request.kind,
        address=request.address,
        request_key=request.request_key,
        fingerprint=request.fingerprint,
        starter_id=starter.id,
        opened_at=transaction.now,
    )
    open_work(transaction, run, Work.RESOURCE, subject=str(number))
    return _resource(_row(transaction, run.id, number))


def _start_again(transaction: Transaction, row: sa.Row[Any]) -> None:
    """Queue the run that makes a resource again if it failed, unless the resource is released."""
    if row.released_at is None and look_at(transaction, str(row.starter_id)).status in RESUMABLE:
        retry(transaction, row.starter_id)


def _refuse_other(known: sa.Row[Any], request: _Request) -> None:
    told = known.kind, known.address, known.fingerprint
    if told != (request.kind, request.address, request.fingerprint):
        raise FingerprintMismatch(
            "this request key asked for another resource before, or for the same one with another "
            "fingerprint: nothing was started; a changed resource needs a request key of its own"
        )


def _refuse_ended(run: Run) -> None:
    if run.status not in LIVE:
        raise WrongState(f"a run that is {run.status} needs no resource", status=run.status)


def _refuse_starting(starter: Run) -> None:
    if starter.status in LIVE:
        raise WrongState(
            "the run that makes the resource goes on: wait for its end, or cancel it first",
            status=starter.status,
        )


def _keyed(run: str, request_key: str) -> sa.Select[Any]:
    return sa.select(resources).where(resources.c.run_id == run, resources.c.request_key == request_key)


def _is(run: str, number: int) -> sa.ColumnElement[bool]:
    return sa.and_(resources.c.run_id == run, resources.c.number == number)


def _row(transaction: Transaction, run: str, number: int) -> sa.Row[Any]:
    found = transaction.one(sa.select(resources).where(_is(run, number)))
    if found is None:
        raise NotFound("the run has no such resource")
    return found


def _resource(row: sa.Row[Any]) -> Resource:
    return Resource(
        run=row.run_id,
        number=row.number,
        kind=row.kind,
        address=row.address,
        request_key=row.request_key,
        fingerprint=row.fingerprint,
        starter=row.starter_id,
        opened_at=to_datetime(row.opened_at),
        released_at=moment(row.released_at),
    )
