"""Types of real columns as PostgreSQL spells them. Values come as numbers, text, bytes or nothing else."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa

from afterrun.profiles.detect import Kind

INTEGERS: Final = ("smallint", "integer", "bigint")
NUMBERS: Final = (*INTEGERS, "numeric", "real", "double precision")
TEXTS: Final = ("text", "character varying")
PADDED: Final = "character"
WORDS: Final = (*TEXTS, PADDED, "name")
"""Types whose values are text. Those of `PADDED` are equal if they differ in blanks at the end alone."""


class Stored(sa.types.UserDefinedType[object]):
    """The type of a real column: neither values nor parameters are converted on its account."""

    cache_ok = True

    def __init__(self, spelling: str) -> None:
        """Take the type as ``format_type`` spells it."""
        self.spelling = spelling

    def get_col_spec(self, **_: object) -> str:
        """Return the spelling for a CAST."""
        return self.spelling

    @property
    def kind(self) -> Kind:
        """Say whether the column holds numbers, text, or something else."""
        if self.spelling in NUMBERS:
            return "number"
        return "text" if self.spelling in WORDS else "any"


def type_of(column: sa.ColumnElement[object]) -> str:
    """Return the type of a real column as it is spelled, or nothing for an expression."""
    return column.type.spelling if isinstance(column.type, Stored) else ""
