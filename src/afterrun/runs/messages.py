"""Messages to runs: sent by anybody, and read once, in their order, by the run. One that comes wakes it.

A run has one piece of open work for all messages that it has not read. When it ends, what is unread stays
unread; a run that is retried finds it again.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from afterrun.core.times import to_datetime
from afterrun.runs import contents
from afterrun.runs.access import expect, hold, hold_as_owner, look_at
from afterrun.runs.contents import Display
from afterrun.runs.creation import MAX_KEY
from afterrun.runs.database import Database, Transaction
from afterrun.runs.errors import FingerprintMismatch
from afterrun.runs.labels import label
from afterrun.runs.lifecycle import UNREAD, wake
from afterrun.runs.lineage import lineage_block, refuse, step_block
from afterrun.runs.numbers import next_number
from afterrun.runs.obligations import close_work, open_work
from afterrun.runs.side_tables import messages
from afterrun.runs.steps import complete_with, record_with
from afterrun.runs.views import Attempt, Run, moment
from afterrun.runs.words import LIVE, PAGE, RunStatus, Work


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A message to a run. ``read_by`` is the step that recorded it, as generation and number."""

    run: str
    number: int
    sender: str | None
    key: str | None
    sent_at: datetime
    consumed_at: datetime | None
    read_by: tuple[int, int] | None


class Messages:
    """Takes and hands out messages. Raises as `Steps` does."""

    def __init__(self, database: Database) -> None:
        """Work on a store."""
        self._database = database

    def send(
        self, run: str, content: bytes | None, *, sender: str | None = None, key: str | None = None
    ) -> Message:
        """Send a message to a live run, which is queued if it waits.

        A ``key`` that came to the run before gives the message that it came with, also when the run has
        ended since; with another content or sender it raises `FingerprintMismatch`.
        """
        values: dict[str, object] = {
            "sender": None if sender is None else label("sender of a message", sender),
            "key": None if key is None else label("key of a message", key, longest=MAX_KEY),
        }
        with self._database.writing() as transaction:
            found = hold(transaction, run)
            values |= {"content_id": contents.store(transaction, content)}
            earlier = None if key is None else _keyed(transaction, run, key)
            if earlier is not None:
                return _same(earlier, values)
            expect(found, LIVE, "get a message")
            refuse(lineage_block(transaction, run))
            number = next_number(transaction, messages, run_id=run)
            transaction.insert(messages, run_id=run, number=number, sent_at=transaction.now, **values)
            open_work(transaction, found, Work.MESSAGE)
            wake(transaction, found)
            return _message(_row(transaction, run, number))

    def consume(
        self, run: str, *, record_as: str | Attempt | None = None, epoch: int | None = None
    ) -> tuple[Message, bytes | None] | None:
        """Return the oldest message that a running run has not read, with its content; or nothing.

        It is read once, in this transaction. With ``record_as`` the step that reads is completed in it, too,
        with the message as its output: a new step of that name, or the one of this attempt.
        """
        with self._database.writing() as transaction:
            found = hold_as_owner(transaction, run, epoch)
            refuse(lineage_block(transaction, run))
            expect(found, [RunStatus.RUNNING], "read messages")
            if isinstance(record_as, Attempt):
                refuse(step_block(transaction, record_as))
            unread = transaction.rows(UNREAD, {"run": run})
            if not unread:
                return None
            [row] = unread
            step = _record(transaction, found, record_as, row.content_id)
            read = {"consumed_at": transaction.now, "generation": found.generation, "step": step}
            transaction.change(sa.update(messages).where(_is(run, row.number)).values(read))
            if not has_unread(transaction, run):
                close_work(transaction, found, Work.MESSAGE)
            content = contents.load(
                transaction, _said(run, row.number), run=run, target=f"message {row.number}"
            )
            return _message(_row(transaction, run, row.number)), content

    def pending(self, run: str, *, after: int | None = None, limit: int = PAGE) -> list[Message]:
        """Return the messages that a run has not read, the oldest first, as a page."""
        return self._page(run, messages.c.consumed_at.is_(None), after=after, limit=limit)

    def of(self, run: str, *, after: int | None = None, limit: int = PAGE) -> list[Message]:
        """Return all messages of a run in their order, those ``after`` a number, as a page."""
        return self._page(run, after=after, limit=limit)

    def content_of(self, message: Message) -> bytes | None:
        """Return exactly what a message says; that reads it for nobody. Raises `PayloadUnreadable`."""
        run, number = message.run, message.number
        with self._database.reading() as transaction:
            return contents.load(transaction, _said(run, number), run=run, target=f"message {number}")

    def display_of(self, message: Message) -> Display | None:
        """Return what may be shown of that; it needs no key."""
        run, number = message.run, message.number
        with self._database.reading() as transaction:
            return contents.show(transaction, _said(run, number), run=run, target=f"message {number}")

    def _page(self, run: str, *where: sa.ColumnElement[bool], after: int | None, limit: int) -> list[Message]:
        wanted = sa.select(messages).where(messages.c.run_id == run, *where)
        if after is not None:
            wanted = wanted.where(messages.c.number > after)
        with self._database.reading() as transaction:
            look_at(transaction, run)
            rows = transaction.rows(wanted.order_by(messages.c.number).limit(limit))
        return [_message(row) for row in rows]


def has_unread(transaction: Transaction, run: str) -> bool:
    """Say whether a run has a message that it has not read."""
    return bool(transaction.rows(UNREAD, {"run": run}))


def _record(
    transaction: Transaction, run: Run, record_as: str | Attempt | None, content: int | None
) -> int | None:
    """Complete the step that reads; return its number, if there is one."""
    if record_as is None:
        return None
    if isinstance(record_as, Attempt):
        complete_with(transaction, run, record_as, content)
        return record_as.step
    return record_with(transaction, run, record_as, content).step


def _keyed(transaction: Transaction, run: str, key: str) -> sa.Row[Any] | None:
    return transaction.one(sa.select(messages).where(messages.c.run_id == run, messages.c.key == key))


def _same(earlier: sa.Row[Any], values: dict[str, object]) -> Message:
    """Return the message that a key came with before. Raises `FingerprintMismatch`."""
    if (earlier.content_id, earlier.sender) != (values["content_id"], values["sender"]):
        raise FingerprintMismatch(
            "this key of a message came to the run before with another content or sender: nothing was sent; "
            "another message needs another key"
        )
    return _message(earlier)


def _is(run: str, number: int) -> sa.ColumnElement[bool]:
    return sa.and_(messages.c.run_id == run, messages.c.number == number)


def _said(run: str, number: int) -> sa.ScalarSelect[int]:
    return sa.select(messages.c.content_id).where(_is(run, number)).scalar_subquery()


def _row(transaction: Transaction, run: str, number: int) -> sa.Row[Any]:
    return transaction.rows(sa.select(messages).where(_is(run, number)))[0]


def _message(row: sa.Row[Any]) -> Message:
    return Message(
        run=row.run_id,
        number=row.number,
        sender=row.sender,
        key=row.key,
        sent_at=to_datetime(row.sent_at),
        consumed_at=moment(row.consumed_at),
        read_by=None if row.step is None else (row.generation, row.step),
    )
