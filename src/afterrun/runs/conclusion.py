"""Complete an ordinary run in few statements: it has nothing open, no key, and nobody who gets its result.

What is not ordinary takes the general way of `lifecycle`. Both leave the same rows, as a test makes sure.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import sqlalchemy as sa

from afterrun.runs import contents
from afterrun.runs.access import held, look_at, refuse_stale
from afterrun.runs.contents import FOUND, Found
from afterrun.runs.database import Dialect, Transaction
from afterrun.runs.endings import own_work
from afterrun.runs.lifecycle import finish, wake
from afterrun.runs.schema import blobs, generations, leases, obligations, runs
from afterrun.runs.words import SETTLED_AT_END, GenerationStatus, RunStatus, Work

SIDE: Final = (Work.EFFECT, Work.TURN, Work.CHECKPOINT)
"""Kinds of open work that a run's end changes beside the store's own bookkeeping."""

RUN: Final[sa.BindParameter[str]] = sa.bindparam("run", type_=sa.Text())
MOMENT: Final[sa.BindParameter[int]] = sa.bindparam("moment", type_=sa.BigInteger())


class Asked(NamedTuple):
    """What decides whether a run is ordinary."""

    status: str
    generation: int
    parent: str | None
    key: str | None
    recipient: str | None
    epoch: int | None
    open: bool
    clock: int | None


def complete(transaction: Transaction, run: str, *, output: bytes | None, epoch: int) -> None:
    """Complete a running run, as `finish` does. Raises as it does."""
    address = None if output is None else transaction.sealing.address(output)
    told = held(transaction, run, _state, address=address)
    found = Asked(*told[0][:FOUND]) if told else None
    if found is None or found.status != RunStatus.RUNNING or found.key or found.recipient or found.open:
        finish(transaction, run, RunStatus.COMPLETED, output=output, epoch=epoch)
        return
    transaction.tell(found.clock)
    refuse_stale(() if found.epoch is None else (found.epoch,), epoch)
    output_id = None
    if output is not None and address is not None:
        output_id = contents.put(transaction, output, address, Found(*told[0][FOUND:]))
    values = {"run": run, "moment": transaction.now, "of_generation": found.generation, "output": output_id}
    transaction.direct_all((_end_generation, _release, _settle, _end), values)
    if found.parent is not None:
        wake(transaction, look_at(transaction, found.parent))


def _state(dialect: Dialect) -> sa.Select[Any]:
    side = sa.exists().where(
        obligations.c.run_id == RUN, obligations.c.closed_at.is_(None), obligations.c.kind.in_(_words(SIDE))
    )
    owner = sa.and_(leases.c.run_id == runs.c.id, leases.c.released_at.is_(None))
    columns = runs.c.status, runs.c.generation, runs.c.parent_id, runs.c.idempotency_key, runs.c.recipient
    asked = sa.select(
        *columns, leases.c.epoch, sa.or_(own_work(RUN), side), dialect.clock, *dialect.look(blobs)
    )
    return asked.select_from(runs.outerjoin(leases, owner)).where(runs.c.id == RUN)


def _end_generation(_: Dialect) -> sa.Update:
    current = sa.update(generations).where(
        generations.c.run_id == RUN, generations.c.number == sa.bindparam("of_generation")
    )
    return current.values(status=_word(GenerationStatus.COMPLETED), ended_at=MOMENT)


def _release(_: Dialect) -> sa.Update:
    own = sa.update(leases).where(leases.c.run_id == RUN, leases.c.released_at.is_(None))
    return own.values(released_at=MOMENT)


def _settle(_: Dialect) -> sa.Update:
    own = obligations.c.kind.in_(_words(SETTLED_AT_END))
    open_ones = sa.update(obligations).where(
        obligations.c.run_id == RUN, obligations.c.closed_at.is_(None), own
    )
    return open_ones.values(closed_at=MOMENT)


def _end(_: Dialect) -> sa.Update:
    output = sa.bindparam("output", type_=runs.c.output_id.type)
    due = sa.case((runs.c.root_id == runs.c.id, MOMENT))  # sweeps look at roots alone
    ended = {"status": _word(RunStatus.COMPLETED), "output_id": output, "ended_at": MOMENT, "due_at": due}
    return (
        sa.update(runs).where(runs.c.id == RUN).values({**ended, "reason": sa.null(), "wake_at": sa.null()})
    )


def _word(word: str) -> sa.ColumnElement[str]:
    """Return one of the store's own words as a part of a statement."""
    return sa.literal_column(f"'{word}'")


def _words(words: tuple[Work, ...]) -> list[sa.ColumnElement[str]]:
    return [_word(word) for word in words]
