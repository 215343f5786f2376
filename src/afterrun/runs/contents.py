"""Content: stored once, whoever has it. Rows refer to it by a number; its address is unique beside that."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import sqlalchemy as sa

from afterrun.runs.database import Transaction
from afterrun.runs.errors import NotFound
from afterrun.runs.schema import blobs
from afterrun.runs.side_tables import metadata


def address_of(content: bytes) -> str:
    """Return the address of content: what is equal has the same one."""
    return hashlib.sha256(content).hexdigest()


def store(transaction: Transaction, content: bytes | None) -> int | None:
    """Return the number of content, stored now unless it is there; of no content, ``None``.

    The row is locked where it is there already, so that retention cannot take it before the caller's
    reference is committed.
    """
    if content is None:
        return None
    values = {
        "address": address_of(content),
        "size": len(content),
        "content": content,
        "created_at": transaction.now,
    }
    put = transaction.dialect.upsert(blobs, ["address"], ["address"]).returning(blobs.c.id)
    return int(transaction.rows(put, values)[0][0])


def find(transaction: Transaction, address: str) -> int:
    """Return the number of stored content, and lock it. Raises `NotFound`."""
    wanted = sa.select(blobs.c.id).where(blobs.c.address == address)
    found = transaction.value(transaction.dialect.locked(wanted))
    if found is None:
        raise NotFound("there is no content at that address")
    return int(found)


def load(transaction: Transaction, reference: sa.ScalarSelect[int]) -> bytes | None:
    """Return the content that a column refers to, or ``None``."""
    found = transaction.value(sa.select(blobs.c.content).where(blobs.c.id == reference))
    return None if found is None else bytes(found)


def drop(transaction: Transaction, number: int | None) -> None:
    """Remove content that a row of this transaction referred to, unless another row refers to it.

    It is locked first, and looked at again by a statement of its own: whoever stored it meanwhile, or is
    about to, has its row, and whoever comes later stores it anew.
    """
    if number is None:
        return
    free = sa.and_(blobs.c.id == number, *(~_refers(column) for column in _references()))
    locked = transaction.dialect.locked(sa.select(blobs.c.id).where(free))
    if transaction.rows(locked):
        transaction.change(sa.delete(blobs).where(free))


def _refers(column: sa.Column[int]) -> sa.Exists:
    return sa.exists(sa.select(sa.literal(1)).where(column == blobs.c.id).correlate(blobs))


def _references() -> Iterator[sa.Column[int]]:
    """Yield all columns that refer to content."""
    for table in metadata.tables.values():
        yield from (column for column in table.c if column.references(blobs.c.id))
