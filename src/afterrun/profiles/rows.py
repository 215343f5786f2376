"""What a profile says of row tables: tables like logs, whose rows go one by one when they are old."""

from __future__ import annotations

from typing import Self

from pydantic import Field, StrictBool, model_validator

from afterrun.profiles.registry import EndFormat
from afterrun.profiles.words import Condition, Model, Name, Word


class RowEnd(Model):
    """The column that tells when a row ended, and how it spells it."""

    column: Name
    format: EndFormat


class OwnedRows(Model):
    """Rows that go with a row: those of ``table`` whose ``column`` holds its key.

    ``optional`` tables exist in some versions of the schema only.
    """

    table: Name
    column: Name
    optional: StrictBool = False


class RowProtection(Model):
    """Rows that hold a row: those of ``table`` that pass ``where`` and whose ``column`` holds its key.

    ``own`` names another column of the row that is compared instead of its key. An ``optional`` table exists
    in some versions of the schema only.
    """

    reason: Word = "reference"
    table: Name
    column: Name
    own: Name | None = None
    where: dict[Name, Condition] = Field(default_factory=dict)
    optional: StrictBool = False


class RowLink(Model):
    """A foreign key, by its table and one of its columns."""

    table: Name
    column: Name


class RowTable(Model):
    """A table whose rows are units of their own: each goes alone, by its age or rank.

    ``where`` are conditions that a row must meet to go. With ``status``, only rows in a ``terminal`` state
    go. ``partition`` are the columns within whose values ``keep_latest`` counts; without any, it counts in
    the whole table. ``owned`` is the order of removal; the row itself comes last. ``known`` are foreign keys
    to the row, or to what goes with it, that were looked at: they hold nothing, and what the database does
    to them is meant. Any other foreign key holds the row. ``note`` is what a plan says of the table.
    """

    table: Name
    key: tuple[Name, ...] = Field(min_length=1)
    end: RowEnd
    status: Name | None = None
    terminal: tuple[str, ...] = ()
    where: dict[Name, Condition] = Field(default_factory=dict)
    partition: tuple[Name, ...] = ()
    owned: tuple[OwnedRows, ...] = ()
    protect: tuple[RowProtection, ...] = ()
    known: tuple[RowLink, ...] = ()
    note: str = Field(default="", max_length=400)

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        if (self.status is None) != (not self.terminal):
            raise ValueError("status and terminal go together: the column, and the words that mean ended")
        if self.end.format == "uuid6":
            raise ValueError("no database reads the time of a uuid6")
        if len(set(self.key)) < len(self.key):
            raise ValueError("key lists a column twice")
        names = [part.table for part in self.owned]
        if self.table in names or len(set(names)) < len(names):
            raise ValueError("owned lists the row's own table, which always goes last, or one twice")
        if len(self.key) > 1 and (self.owned or any(part.own is None for part in self.protect)):
            raise ValueError("a key of several columns is held by no one column: owned and protect need one")
        return self

    @property
    def tables(self) -> tuple[str, ...]:
        """Return the tables that a removal takes rows from, in its order."""
        return (*(part.table for part in self.owned), self.table)

    @property
    def mentioned(self) -> frozenset[str]:
        """Return every table that it names."""
        holding = (part.table for part in self.protect)
        return frozenset((*self.tables, *holding, *(link.table for link in self.known)))
