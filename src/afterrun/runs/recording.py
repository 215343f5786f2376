"""Record a step that is done: one transaction, and as few statements as it can be.

A pure step needs no row before its end: what was not recorded is done again. So all that its record needs is
asked in one statement, once the tree is held, and then three rows are written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import sqlalchemy as sa

from afterrun.core.times import to_datetime
from afterrun.runs import contents
from afterrun.runs.access import held, refuse_stale, refuse_state
from afterrun.runs.contents import FOUND, Found
from afterrun.runs.database import Dialect, Transaction
from afterrun.runs.direct import insert_of
from afterrun.runs.errors import RunNotFound
from afterrun.runs.labels import label
from afterrun.runs.lineage import chain_of, lineage_fault, refuse
from afterrun.runs.schema import attempts, blobs, leases, runs, steps
from afterrun.runs.views import Step
from afterrun.runs.words import AttemptStatus, RunStatus, StepKind, StepStatus

FIRST: Final = 1
"""The number of the only attempt."""

ATTEMPT: Final = ("run_id", "generation", "step", "status", "queued_at", "started_at", "ended_at")
"""Columns of an attempt but for its own number and its output."""


class Asked(NamedTuple):
    """A link of the chain from a run upwards, with what the run itself is: the same in every row."""

    link: str
    link_status: str
    above: str | None
    status: str
    generation: int
    epoch: int | None
    last: int | None
    clock: int | None


def record(
    transaction: Transaction,
    run: str,
    name: str,
    *,
    output: bytes | None = None,
    kind: StepKind = StepKind.STEP,
    number: int | None = None,
    epoch: int | None = None,
) -> Step:
    """Record a step of a running run that is completed, with its output: the next one, or of this number."""
    label("name of a step", name)
    address = None if output is None else transaction.sealing.address(output)
    found, blob = _allowed(transaction, run, epoch, address)
    now = transaction.now
    number = (found.last or 0) + 1 if number is None else number
    values = {
        "run_id": run,
        "generation": found.generation,
        "name": name,
        "kind": kind.value,
        "status": StepStatus.COMPLETED.value,
        "step": number,
        "attempt": FIRST,
        "queued_at": now,
        "started_at": now,
        "ended_at": now,
    }
    if output is None or address is None:
        _write(transaction, {**values, "output_id": None})
    elif transaction.dialect.inserts_together:
        row = contents.row_of(transaction, output, address, blob.new)
        contents.kept(transaction, transaction.direct(_insert_all, {**row, **values}), output)
    else:
        _write(transaction, {**values, "output_id": contents.put(transaction, output, address, blob)})
    moment = to_datetime(now)
    return Step(
        run=run,
        generation=found.generation,
        number=number,
        name=name,
        status=StepStatus.COMPLETED,
        attempt=FIRST,
        attempt_status=AttemptStatus.COMPLETED,
        started_at=moment,
        ended_at=moment,
    )


def _write(transaction: Transaction, values: Mapping[str, object]) -> None:
    transaction.direct(_insert_step, values)
    transaction.direct(_insert_attempt, values)


def _allowed(
    transaction: Transaction, run: str, epoch: int | None, address: str | None
) -> tuple[Asked, Found]:
    """Hold a run's tree, and make sure that its owner may record a step now; look for its output, too."""
    told = held(transaction, run, _state, address=address)
    rows = [Asked(*row[:FOUND]) for row in told]
    if not rows:
        raise RunNotFound(run)
    found = rows[0]
    transaction.tell(found.clock)
    refuse_stale(() if found.epoch is None else (found.epoch,), epoch)
    refuse(lineage_fault(rows))
    refuse_state(found.status, (RunStatus.RUNNING,), "begin a step")
    return found, Found(*told[0][FOUND:])


def _state(dialect: Dialect) -> sa.Select[Any]:
    """Return what tells of a run, its owner, its last step and all runs above it, nearest first."""
    chain = chain_of(sa.bindparam("run"))
    last = sa.select(sa.func.max(steps.c.number))
    last = last.where(steps.c.run_id == runs.c.id, steps.c.generation == runs.c.generation)
    held = sa.and_(leases.c.run_id == runs.c.id, leases.c.released_at.is_(None))
    source = chain.join(runs, runs.c.id == sa.bindparam("run")).outerjoin(leases, held)
    links = chain.c.id, chain.c.status, chain.c.above
    columns = runs.c.status, runs.c.generation, leases.c.epoch, last.scalar_subquery()
    found = dialect.clock, *dialect.look(blobs)
    return sa.select(*links, *columns, *found).select_from(source).order_by(chain.c.place)


def _insert_step(_: Dialect) -> sa.Insert:
    columns = ("run_id", "generation", "name", "kind", "status", "attempt", "started_at", "ended_at")
    return insert_of(steps, *columns, number="step")


def _insert_attempt(_: Dialect) -> sa.Insert:
    return insert_of(attempts, *ATTEMPT, "output_id", number="attempt")


def _insert_all(dialect: Dialect) -> sa.Insert:
    """Return one statement for the blob and the rows of step and attempt; its row is that of the blob."""
    blob = contents.insert(dialect).cte("blob")
    given = [sa.bindparam(name, type_=attempts.c[name].type) for name in ATTEMPT]
    attempt = sa.bindparam("attempt", type_=attempts.c.number.type)
    rows = sa.select(*given, attempt, blob.c.id)
    made = sa.insert(attempts).from_select([*ATTEMPT, "number", "output_id"], rows)
    key_id = sa.select(blob.c.key_id).scalar_subquery()
    return made.add_cte(_insert_step(dialect).cte("begun")).returning(attempts.c.output_id, key_id)
