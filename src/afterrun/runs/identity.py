"""What a store knows of itself: whether its content is sealed, and the secret of its addresses.

A store that was opened with a key is sealed from then on, all that it held before included. One whose owner
said that it may hold content in the clear remembers that, until it is opened with a key.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal, TypeAlias

import sqlalchemy as sa

from afterrun.runs.database import Database, Transaction
from afterrun.runs.displays import display_of
from afterrun.runs.errors import PayloadUnreadable, SealedStore, UpgradeNeeded, WrongSealingKey
from afterrun.runs.keys import Keys
from afterrun.runs.schema import blobs, runs, store_identity, tombstones
from afterrun.runs.sealing import Clear, Sealed, Sealer, Sealing, Unsealable, Wrapped, new_store
from afterrun.runs.upgrade import LOCK, refuse_while_leased

Choice: TypeAlias = Keys | Literal["off"] | None
"""What the caller said: keys, that none are wanted, or nothing."""

PAGE: Final = 100
"""Numbers of blobs that are read at once. Their content is read one by one."""


def chosen(choice: Choice) -> Choice:
    """Return what was said, or the keys of the environment. Raises `UsageError`."""
    return Keys.from_environment() if choice is None else choice


def unlock(database: Database, choice: Choice, *, migrate: bool) -> Sealing | None:
    """Return how content is kept in a store, made so now if that is new; ``None`` without a key for it.

    Raises `WrongSealingKey`, `SealedStore`, `UpgradeNeeded` and `UpgradeRefused`.
    """
    with database.reading() as transaction:
        found = _identity(transaction)
    if not _settled(found, choice):
        with database.writing() as transaction:
            transaction.dialect.hold_upgrades(transaction.connection, LOCK)
            found = _identity(transaction)  # another process may have been first
            if not _settled(found, choice):
                found = _settle(transaction, found, choice, migrate=migrate)
    return _opened(database, found, choice)


def _settled(found: Wrapped | None, choice: Choice) -> bool:
    """Say whether a store already is what the caller said."""
    if choice is None:
        return True
    if found is None:
        return False
    return choice == "off" or found.key_id is not None


def _opened(database: Database, found: Wrapped | None, choice: Choice) -> Sealing | None:
    if found is None or (found.key_id is not None and choice is None):
        return None
    if found.key_id is None:
        return Clear(found)
    if not isinstance(choice, Keys):
        raise SealedStore(
            "the run store seals its content, and nothing is written to it in the clear: open it with its key"
        )
    sealer = _sealer(found, choice)
    if found.key_id != choice.current.id:
        with database.writing() as transaction:
            _remember(transaction, sealer.wrapped(), sealed_to=0)
    return sealer


def _sealer(found: Wrapped, keys: Keys) -> Sealer:
    try:
        return Sealer(found, keys)
    except Unsealable:
        raise WrongSealingKey(key_id=str(found.key_id)) from None


def _identity(transaction: Transaction) -> Wrapped | None:
    row = transaction.one(sa.select(store_identity))
    return None if row is None else Wrapped(row.store_id, row.key_id, bytes(row.secret))


def _remember(transaction: Transaction, wrapped: Wrapped, *, sealed_to: int) -> None:
    values = {
        "number": 1,
        "store_id": wrapped.store_id,
        "key_id": wrapped.key_id,
        "secret": wrapped.secret,
        "made_at": transaction.now,
        "sealed_to": sealed_to,
    }
    changed = ["store_id", "key_id", "secret", "sealed_to"]
    transaction.change(transaction.dialect.upsert(store_identity, ["number"], changed), values)


def _settle(transaction: Transaction, found: Wrapped | None, choice: Choice, *, migrate: bool) -> Wrapped:
    """Give the store an identity, and its content new addresses, all in this transaction."""
    keys = choice if isinstance(choice, Keys) else None
    before = None if found is None else Clear(found)
    transaction.dialect.hold_table(transaction.connection, blobs)
    count = transaction.value(sa.select(sa.func.count()).select_from(blobs))
    if count:
        if not migrate:
            raise UpgradeNeeded(
                f"the run store holds {count} contents that are not sealed yet: open it with migrate=True "
                "while no run is held, which rewrites them in one transaction"
            )
        refuse_while_leased(transaction)
    wrapped = new_store(keys)
    after = Clear(wrapped) if keys is None else Sealer(wrapped, keys)
    last = _rewrite(transaction, before, after)
    _remember(transaction, wrapped, sealed_to=last)
    return wrapped


def _rewrite(transaction: Transaction, before: Clear | None, after: Sealing) -> int:
    """Store all content anew; return the number of the last one. Raises `PayloadUnreadable`."""
    last = 0
    for number in _numbers(transaction):
        last = number
        row = transaction.one(
            sa.select(blobs.c.address, blobs.c.key_id, blobs.c.content).where(blobs.c.id == number)
        )
        if row is None:
            continue
        content = bytes(row.content)
        if before is not None:
            content = _checked(before, number, row.address, Sealed(row.key_id, content))
        address = after.address(content)
        display = display_of(content)
        values = {
            "address": address,
            "display": display,
            "display_mark": after.mark(address, display),
            **after.seal(number, address, content)._asdict(),
        }
        transaction.change(sa.update(blobs).where(blobs.c.id == number), values)
    output = sa.select(blobs.c.address).join(runs, runs.c.output_id == blobs.c.id)
    digest = output.where(runs.c.id == tombstones.c.run_id).scalar_subquery()
    transaction.change(sa.update(tombstones).values(outcome_digest=digest))
    return last


def _checked(before: Clear, number: int, address: str, sealed: Sealed) -> bytes:
    try:
        return before.open(number, address, sealed)
    except Unsealable as fault:
        raise PayloadUnreadable(run=None, target="content that is to be sealed", why=fault.why) from None


def _numbers(transaction: Transaction) -> Iterator[int]:
    """Yield the numbers of all blobs."""
    last = 0
    while True:
        page = sa.select(blobs.c.id).where(blobs.c.id > last).order_by(blobs.c.id).limit(PAGE)
        found = [number for (number,) in transaction.rows(page)]
        if not found:
            return
        yield from found
        last = found[-1]
