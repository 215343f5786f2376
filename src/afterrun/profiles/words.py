"""What all parts of a profile are made of: names, words and conditions, and how strict a part is."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StringConstraints,
    model_validator,
)

from afterrun.profiles.registry import TimeFormat

Name = Annotated[str, StringConstraints(min_length=1, max_length=128, pattern=r"^[^\x00-\x1f\x7f]+$")]
"""A table, column or reason. Anything a database accepts but control characters; it is always quoted."""

Word = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9-]{0,39}$")]
"""A name of ours: of a profile or a reason."""

Digest = Annotated[str, StringConstraints(pattern=r"^([0-9a-f]{16})?$")]
"""What `shape_digest` gives. An empty one stands for no shape: the version is known by its number alone."""

Value = str | int


def _is_place(text: str) -> str:
    *folders, last = text.split("/")
    if not last or last in {".", ".."} or ".." in folders:
        raise ValueError("a place ends in the name of a file and never goes up: no '..'")
    if any(mark in folder for folder in folders for mark in "*?["):
        raise ValueError("only the last part of a place may be a pattern")
    if text.startswith("~") and folders[:1] != ["~"]:
        raise ValueError("a place starts with ~/ or not with ~ at all: only this user's home counts")
    return text


Place = Annotated[
    str,
    StringConstraints(min_length=1, max_length=400, pattern=r"^[^\x00-\x1f\x7f]+$"),
    AfterValidator(_is_place),
]
"""A file, or a pattern of files in one folder, below the folder of work, the home (``~/``) or the root."""


class Model(BaseModel):
    """Base of all parts: strict about keys, immutable."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Condition(Model):
    """A test of one column; all that are set must hold.

    ``future`` holds while the column, in that format, is later than now.
    """

    equals: Value | None = None
    in_: tuple[Value, ...] | None = Field(default=None, alias="in", min_length=1)
    not_in: tuple[Value, ...] | None = Field(default=None, min_length=1)
    null: StrictBool | None = None
    future: TimeFormat | None = None

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not self.model_fields_set:
            raise ValueError("an empty condition holds always; leave it out")
        return self
