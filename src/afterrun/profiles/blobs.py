"""What a profile says of blobs: payloads that rows of several runs may share."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from afterrun.profiles.registry import TimeFormat
from afterrun.profiles.words import Model, Name


class BlobReference(Model):
    """A column that holds a blob's key, or NULL: of the run table, of an owned one, or of any other."""

    table: Name
    column: Name


class Created(Model):
    """A column that tells when a row was made."""

    column: Name
    format: TimeFormat


class Pins(Model):
    """Rows that hold a blob by a lease: those of ``table`` whose ``column`` holds its key.

    A pin counts while its lease, the time in ``until``, is in the future; a lease that is NULL or no time
    counts always. Pins that count no more go with their blob.
    """

    table: Name
    column: Name
    until: Name
    format: TimeFormat


class Repeats(Model):
    """What a blob's row repeats of the newest row of ``table`` that refers to it.

    ``pointer`` is the blob's column that holds the ``key`` of that row, ``newest`` the column by whose
    greatest value it is found, and ``columns`` are those that both rows have in common.
    """

    table: Name
    key: Name
    pointer: Name
    newest: Name
    columns: tuple[Name, ...] = ()


class Blobs(Model):
    """A table of payloads that rows of several runs may share. A blob goes when nothing refers to it.

    ``key`` is text or an integer. ``size`` is a column with the bytes of a blob's content; without it, the
    bytes of its row count. ``created`` lets a full pass remove blobs that nothing refers to and that are
    older than a day; without it, they are only counted. ``references`` are the columns that hold the key of
    a blob; every real foreign key into the table counts as well, known or not. ``key_columns`` are column
    names by which the engine refers to a blob: those of tables that the profile does not mention count, too.
    With ``repeats``, the row is a summary: it says again what the newest row that refers to it says.
    """

    table: Name
    key: Name
    size: Name | None = None
    created: Created | None = None
    pins: Pins | None = None
    references: tuple[BlobReference, ...] = Field(min_length=1)
    key_columns: tuple[Name, ...] = ()
    repeats: Repeats | None = None

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        named = [(reference.table, reference.column) for reference in self.references]
        if len(set(named)) < len(named):
            raise ValueError("references lists a column twice")
        if self.repeats is not None and [table for table, _ in named].count(self.repeats.table) != 1:
            raise ValueError(f"repeats needs the one column of {self.repeats.table} that refers to a blob")
        if self.pins is not None:
            if self.pins.table == self.table:
                raise ValueError("pins are rows of a table of their own")
            if (self.pins.table, self.pins.column) in named:
                raise ValueError("a column of pins is no reference: it would hold its blob for ever")
        return self
