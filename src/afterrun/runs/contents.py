"""Content: stored once, whoever has it. Rows refer to it by a number; its address is unique beside that.

It has two readings: the exact one, which is sealed, and a display, which is scrubbed and for everybody. What
asks for the first never gets the second.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import sqlalchemy as sa

from afterrun.runs.database import Dialect, Transaction
from afterrun.runs.displays import CUT, display_of
from afterrun.runs.errors import NoSealingKey, NotFound, PayloadUnreadable
from afterrun.runs.schema import blobs, store_identity
from afterrun.runs.sealing import Sealed, Unsealable
from afterrun.runs.side_tables import metadata

VALUES = ("id", "address", "size", "created_at", "key_id", "display", "display_mark", "content")


@dataclass(frozen=True, slots=True)
class Display:
    """What may be shown of content: its bytes as a number, and scrubbed text, if it is text at all."""

    size: int
    text: str | None

    @property
    def cut(self) -> bool:
        """Say whether the text is only the beginning."""
        return self.text is not None and self.text.endswith(CUT)


class _Exact(NamedTuple):
    """What a reference leads to."""

    reference: int | None
    address: str
    id: int
    size: int
    key_id: str | None
    content: bytes


class Found(NamedTuple):
    """A blob that is there, or else the ``new`` number of one: as `Dialect.look` tells it."""

    number: int | None
    key_id: str | None
    new: int


FOUND: Final = -len(Found._fields)
"""Where these columns begin in a row that ends with them."""


def store(transaction: Transaction, content: bytes | None) -> int | None:
    """Return the number of content, stored now unless it is there; of no content, ``None``.

    The row is locked where it is there already, so that retention cannot take it before the caller's
    reference is committed. Content that an older key seals is sealed anew. Raises `NoSealingKey`.
    """
    if content is None:
        return None
    address = transaction.sealing.address(content)
    [(*row, clock)] = transaction.direct(_reserve, {"address": address})
    transaction.tell(clock)
    return put(transaction, content, address, Found(*row))


def put(transaction: Transaction, content: bytes, address: str, found: Found) -> int:
    """Return the number of content that was found, or is stored now. Raises `NoSealingKey`."""
    if found.number is not None:
        return _kept(transaction, int(found.number), found.key_id, content)
    row = row_of(transaction, content, address, found.new)
    return kept(transaction, transaction.direct(insert, row), content)


def find(transaction: Transaction, address: str) -> int:
    """Return the number of stored content, and lock it. Raises `NotFound`."""
    wanted = sa.select(blobs.c.id).where(blobs.c.address == address)
    found = transaction.value(transaction.dialect.locked(wanted))
    if found is None:
        raise NotFound("there is no content at that address")
    return int(found)


def load(
    transaction: Transaction,
    reference: sa.ScalarSelect[int],
    *,
    run: str | None = None,
    target: str = "content",
) -> bytes | None:
    """Return the exact content that a column refers to, or ``None`` where it refers to none.

    ``run`` and ``target`` say whose content it is, for the error. Raises `PayloadUnreadable`, and
    `NoSealingKey` where there is content.
    """
    return opened(transaction, transaction.rows(exact(reference)), run=run, target=target)


def exact(reference: sa.ScalarSelect[int]) -> sa.Select[Any]:
    """Return the statement whose one row `opened` takes."""
    return _referred(reference, blobs.c.id, blobs.c.size, blobs.c.key_id, blobs.c.content)


def opened(
    transaction: Transaction,
    rows: Sequence[Sequence[Any]],
    *,
    run: str | None = None,
    target: str = "content",
) -> bytes | None:
    """Return the exact content that the row of an `exact` statement has. Raises as `load` does."""
    row = _Exact(*rows[0])
    if not _is_there(row.reference, row.address, run, target):
        return None
    try:
        content = transaction.sealing.open(row.id, row.address, Sealed(row.key_id, bytes(row.content)))
    except Unsealable as fault:
        raise PayloadUnreadable(run=run, target=target, why=fault.why) from None
    if len(content) != row.size:
        raise PayloadUnreadable(run=run, target=target, why="tampered")
    return content


def show(
    transaction: Transaction,
    reference: sa.ScalarSelect[int],
    *,
    run: str | None = None,
    target: str = "content",
) -> Display | None:
    """Return the display of what a column refers to; no key is needed. With one, the display is checked.

    Raises `PayloadUnreadable`.
    """
    shown = _referred(reference, blobs.c.size, blobs.c.display, blobs.c.display_mark)
    row = transaction.rows(shown)[0]
    if not _is_there(row.reference, row.address, run, target):
        return None
    if transaction.has_key:
        mark = transaction.sealing.mark(row.address, row.display)
        if mark is not None and not hmac.compare_digest(mark, bytes(row.display_mark or b"")):
            raise PayloadUnreadable(run=run, target=f"display of the {target}", why="tampered")
    return Display(row.size, row.display)


def _referred(reference: sa.ScalarSelect[int], *columns: sa.Column[Any]) -> sa.Select[Any]:
    """Return a statement of one row: the reference, and what it leads to, which may be nothing."""
    wanted = sa.select(reference.label("reference")).subquery("wanted")
    source = wanted.outerjoin(blobs, blobs.c.id == wanted.c.reference)
    return sa.select(wanted.c.reference, blobs.c.address, *columns).select_from(source)


def _is_there(reference: int | None, address: str | None, run: str | None, target: str) -> bool:
    """Say whether there is content. Raises `PayloadUnreadable` if what is referred to is not there."""
    if reference is not None and address is None:
        raise PayloadUnreadable(run=run, target=target, why="missing")
    return reference is not None


def row_of(transaction: Transaction, content: bytes, address: str, number: int) -> dict[str, object]:
    """Return what `insert` is given for content that gets this number, unless it is there."""
    sealing = transaction.sealing
    display = display_of(content)
    sealed = sealing.seal(number, address, content)
    return {
        "id": number,
        "address": address,
        "size": len(content),
        "created_at": transaction.now,
        "key_id": sealed.key_id,
        "display": display,
        "display_mark": sealing.mark(address, display),
        "content": sealed.content,
        "store": sealing.store_id,
    }


def kept(transaction: Transaction, rows: Sequence[tuple[Any, ...]], content: bytes) -> int:
    """Return the number of content that `insert` has put, or found. Raises `NoSealingKey`."""
    if not rows:
        raise NoSealingKey(
            "the run store was sealed since this process opened it: open it again, with its key"
        )
    found, key_id = rows[0]
    return _kept(transaction, int(found), key_id, content)


def _kept(transaction: Transaction, number: int, key_id: str | None, content: bytes) -> int:
    """Seal content anew if an older key seals it; return its number."""
    sealing = transaction.sealing
    if key_id != sealing.key_id:
        sealed = sealing.seal(number, sealing.address(content), content)
        transaction.change(sa.update(blobs).where(blobs.c.id == number), sealed._asdict())
    return number


def _reserve(dialect: Dialect) -> sa.ClauseElement:
    return dialect.reserve(blobs)


def insert(dialect: Dialect) -> sa.Insert:
    """Return the insert of a blob, as long as the store is the one that its sealing was made for.

    Its row has the number and the key id of what is there then.
    """
    values = [sa.bindparam(name, type_=blobs.c[name].type) for name in VALUES]
    known = sa.select(*values).where(store_identity.c.store_id == sa.bindparam("store"))
    put = dialect.upsert(blobs, ["address"], ["address"]).from_select(list(VALUES), known)
    return put.returning(blobs.c.id, blobs.c.key_id)


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
