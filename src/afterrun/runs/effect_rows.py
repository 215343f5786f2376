"""Rows of effects: how one stands, and what may become of it. The tree of its run is held."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import sqlalchemy as sa

from afterrun.core.times import to_datetime
from afterrun.runs import contents
from afterrun.runs.database import Transaction
from afterrun.runs.errors import WrongState
from afterrun.runs.labels import label
from afterrun.runs.numbers import next_number
from afterrun.runs.obligations import close_work, open_work
from afterrun.runs.parts import Place, at, row_of
from afterrun.runs.side_tables import effects, receipts
from afterrun.runs.views import Attempt, Run, moment
from afterrun.runs.words import EffectStatus, Work

ORDER: Final = (effects.c.generation, effects.c.number)
Row = sa.Row[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """An effect as it stands. ``key`` is for the outside: the same one at every attempt.

    ``attempt`` is the one that proposed it last, ``epoch`` that of the lease under which it was begun,
    ``reason`` why it did not happen, and ``settled_by`` who told what became of an ambiguous one.
    """

    run: str
    generation: int
    number: int
    name: str
    key: str
    status: EffectStatus
    attempt: Attempt
    epoch: int | None
    reason: str | None
    settled_by: str | None
    opened_at: datetime
    began_at: datetime | None
    ended_at: datetime | None

    @property
    def place(self) -> Place:
        """Return run, generation and number."""
        return self.run, self.generation, self.number


def look(transaction: Transaction, place: Place) -> Row:
    """Return the row of an effect. Raises `NotFound`."""
    return row_of(transaction, effects, place, "effect")


def known(transaction: Transaction, attempt: Attempt, key: str) -> Row | None:
    """Return the effect that a run has under a key, if there is one that counts for this generation.

    One of an earlier generation counts unless it is known not to have happened.
    """
    mine = sa.and_(effects.c.run_id == attempt.run, effects.c.key == key)
    newest = sa.select(effects).where(mine).order_by(effects.c.generation.desc()).limit(1)
    found = transaction.one(newest)
    if found is None or found.generation == attempt.generation:
        return found
    return None if found.status == EffectStatus.CANCELLED else found


def insert(
    transaction: Transaction, run: Run, attempt: Attempt, *, name: str, key: str, request: int | None
) -> Row:
    """Propose a new effect."""
    number = next_number(transaction, effects, run_id=run.id, generation=run.generation)
    values = {
        "run_id": run.id,
        "generation": run.generation,
        "number": number,
        "step": attempt.step,
        "attempt": attempt.number,
        "name": label("name of an effect", name),
        "key": key,
        "status": EffectStatus.PENDING,
        "request_id": request,
        "opened_at": transaction.now,
    }
    row = transaction.rows(sa.insert(effects).returning(effects), values)[0]
    _open(transaction, run, row)
    return row


def propose_again(transaction: Transaction, run: Run, row: Row, attempt: Attempt, epoch: int | None) -> Row:
    """Give a known effect to an attempt: if nobody began it, it may; what somebody began is in doubt."""
    same = (row.step, row.attempt, row.epoch) == (attempt.step, attempt.number, epoch)
    if row.generation != run.generation or row.status in (EffectStatus.APPLIED, EffectStatus.AMBIGUOUS):
        return row
    if row.status == EffectStatus.APPLYING:
        return row if same else change(transaction, row, status=EffectStatus.AMBIGUOUS)
    if row.status == EffectStatus.CANCELLED:
        _open(transaction, run, row)
    values = {"status": EffectStatus.PENDING, "reason": None, "ended_at": None}
    return change(transaction, row, step=attempt.step, attempt=attempt.number, **values)


def begin(transaction: Transaction, row: Row, epoch: int | None) -> Row:
    """Note that a pending effect is about to happen."""
    return change(
        transaction,
        row,
        status=EffectStatus.APPLYING,
        epoch=epoch,
        reason=None,
        settled_by=None,
        began_at=transaction.now,
    )


def apply(transaction: Transaction, run: Run, row: Row, receipt: bytes | None) -> Row:
    """Note that an effect happened, and keep its receipt."""
    transaction.insert(
        receipts,
        run_id=row.run_id,
        generation=row.generation,
        effect=row.number,
        content_id=contents.store(transaction, receipt),
        received_at=transaction.now,
    )
    _close(transaction, run, row)
    return change(transaction, row, status=EffectStatus.APPLIED, ended_at=transaction.now)


def undone(transaction: Transaction, run: Run, row: Row, *, again: bool, reason: str | None) -> Row:
    """Note that an effect did not happen; it is pending ``again``, or given up."""
    if again:
        values = {"status": EffectStatus.PENDING, "epoch": None, "began_at": None}
        return change(transaction, row, reason=reason, **values)
    _close(transaction, run, row)
    return change(transaction, row, status=EffectStatus.CANCELLED, reason=reason, ended_at=transaction.now)


def change(transaction: Transaction, row: Row, **values: object) -> Row:
    """Change columns of an effect, and return its row as it is then."""
    place = row.run_id, row.generation, row.number
    changed = sa.update(effects).where(at(effects, place)).values(values)
    return transaction.rows(changed.returning(effects))[0]


def expect(row: Row, statuses: Iterable[EffectStatus], doing: str) -> None:
    """Refuse to go on with an effect in another state. Raises `WrongState`."""
    wanted = tuple(statuses)
    if row.status not in wanted:
        raise WrongState(
            f"an effect that is {row.status} cannot {doing}: it would have to be {' or '.join(wanted)}",
            status=row.status,
        )


def expect_begun(row: Row, epoch: int | None, doing: str) -> None:
    """Refuse to go on unless the effect was begun under this very lease. Raises `WrongState`."""
    expect(row, [EffectStatus.APPLYING], doing)
    if row.epoch != epoch:
        raise WrongState(
            "an owner before this one began the effect, so nobody knows whether it happened: call doubt, and "
            "let somebody who looked outside settle it",
            status=row.status,
        )


def attempt_of(row: Row) -> Attempt:
    """Return the attempt that proposed an effect last."""
    return Attempt(row.run_id, row.generation, row.step, row.attempt)


def effect_of(row: Row) -> Effect:
    """Return the view of a row."""
    return Effect(
        run=row.run_id,
        generation=row.generation,
        number=row.number,
        name=row.name,
        key=row.key,
        status=EffectStatus(row.status),
        attempt=attempt_of(row),
        epoch=row.epoch,
        reason=row.reason,
        settled_by=row.settled_by,
        opened_at=to_datetime(row.opened_at),
        began_at=moment(row.began_at),
        ended_at=moment(row.ended_at),
    )


def effects_of(rows: Sequence[Row]) -> list[Effect]:
    """Return the views of rows."""
    return [effect_of(row) for row in rows]


def _open(transaction: Transaction, run: Run, row: Row) -> None:
    open_work(transaction, run, Work.EFFECT, generation=row.generation, subject=str(row.number))


def _close(transaction: Transaction, run: Run, row: Row) -> None:
    close_work(transaction, run, Work.EFFECT, generation=row.generation, subject=str(row.number))
