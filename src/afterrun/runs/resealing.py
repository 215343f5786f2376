"""After a new key was put first: seal content anew that an older one seals, some at a time."""

from __future__ import annotations

import sqlalchemy as sa

from afterrun.core.errors import UsageError
from afterrun.runs.database import Transaction
from afterrun.runs.schema import blobs, store_identity
from afterrun.runs.sealing import Sealed, Sealing, Unsealable


def reseal(transaction: Transaction, *, limit: int) -> int:
    """Seal the next contents anew, if an older key seals them; return how many are left to look at.

    What does not open is left as it is: whoever asks for it is told.
    """
    if limit < 1:
        raise UsageError("at least one content is looked at: give a limit above zero")
    sealing = transaction.sealing
    if sealing.key_id is None:
        return 0
    here = sa.and_(store_identity.c.number == 1, store_identity.c.key_id == sealing.key_id)
    done = transaction.value(sa.select(store_identity.c.sealed_to).where(here))
    if done is None:
        return 0  # a process with a newer key has taken over
    wanted = sa.select(blobs.c.id, blobs.c.key_id).where(blobs.c.id > done).order_by(blobs.c.id).limit(limit)
    last = done
    for row in transaction.rows(wanted):
        last = row.id
        if row.key_id != sealing.key_id:
            _reseal(transaction, sealing, last)
    if last == done:
        return 0
    transaction.change(sa.update(store_identity).where(here), {"sealed_to": last})
    left = sa.select(sa.func.count()).select_from(blobs).where(blobs.c.id > last)
    return int(transaction.value(left))


def _reseal(transaction: Transaction, sealing: Sealing, number: int) -> None:
    wanted = sa.select(blobs.c.address, blobs.c.key_id, blobs.c.content).where(blobs.c.id == number)
    row = transaction.one(transaction.dialect.locked(wanted))
    if row is None:
        return
    try:
        content = sealing.open(number, row.address, Sealed(row.key_id, bytes(row.content)))
    except Unsealable:
        return
    sealed = sealing.seal(number, row.address, content)
    transaction.change(sa.update(blobs).where(blobs.c.id == number), sealed._asdict())
