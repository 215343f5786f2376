"""Pins: somebody still needs content that a run has. Until they let go, its tree stays."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import sqlalchemy as sa

from afterrun.core.errors import UsageError
from afterrun.core.times import micros
from afterrun.runs import contents
from afterrun.runs.access import hold
from afterrun.runs.database import Database
from afterrun.runs.errors import NotFound
from afterrun.runs.labels import label
from afterrun.runs.numbers import next_number
from afterrun.runs.obligations import close_work, open_work
from afterrun.runs.schema import pins
from afterrun.runs.words import Work


@dataclass(frozen=True, slots=True)
class Pin:
    """A pin of a run."""

    run: str
    number: int


class Pins:
    """Sets pins and lets go of them."""

    def __init__(self, database: Database) -> None:
        """Work on a store."""
        self._database = database

    def add(self, run: str, address: str, *, holder: str, keep_for: timedelta | None = None) -> Pin:
        """Pin the content at an address for a run: until it is released, or for so long.

        Raises `RunNotFound` and `NotFound`.
        """
        if keep_for is not None and keep_for <= timedelta(0):
            raise UsageError(
                "a pin holds for some time: give a duration above zero, or none to hold for ever"
            )
        with self._database.writing() as transaction:
            found = hold(transaction, run)
            until = None if keep_for is None else transaction.now + micros(keep_for)
            number = next_number(transaction, pins, run_id=run)
            transaction.insert(
                pins,
                run_id=run,
                number=number,
                holder=label("holder of a pin", holder),
                content_id=contents.find(transaction, address),
                pinned_at=transaction.now,
                until=until,
            )
            open_work(transaction, found, Work.PIN, subject=str(number), until=until)
        return Pin(run, number)

    def release(self, pin: Pin) -> None:
        """Let go of a pin. Raises `NotFound`."""
        with self._database.writing() as transaction:
            found = hold(transaction, pin.run)
            own = sa.and_(pins.c.run_id == pin.run, pins.c.number == pin.number)
            released = sa.update(pins).where(own, pins.c.released_at.is_(None))
            if transaction.one(sa.select(pins.c.number).where(own)) is None:
                raise NotFound("the run has no such pin")
            transaction.change(released.values(released_at=transaction.now))
            close_work(transaction, found, Work.PIN, subject=str(pin.number))
