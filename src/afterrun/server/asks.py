"""What people and programs may ask of a server, as models with bounds. An unknown key is an error."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, StringConstraints, ValidationError

from afterrun.config import PolicyText, RowsText
from afterrun.config.text import TableName

MOST: Final = 200
"""Rows of a page."""

PAGE: Final = 50
"""Rows of a page unless the caller says otherwise."""

LARGEST: Final = 1_000_000_000
RUN_PATTERN: Final = r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"
PLACE_PATTERN: Final = r"^[1-9][0-9]{0,8}\.[1-9][0-9]{0,8}$"
BACKUP_PATTERN: Final = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"
PRINTABLE: Final = r"^[^\x00-\x1f\x7f-\x9f]+$"

RunId = Annotated[str, StringConstraints(pattern=RUN_PATTERN)]
Label = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=PRINTABLE)]
Key = Annotated[str, StringConstraints(min_length=1, max_length=400, pattern=PRINTABLE)]
Number = Annotated[int, Field(ge=1, le=LARGEST)]
RunStatusWord = Literal[
    "queued", "running", "parked", "waiting", "completed", "failed", "cancelled", "timed_out"
]


class Ask(BaseModel):
    """An ask: no unknown keys, and no value of another type that could be meant."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class StartAsk(Ask):
    """Start a workflow."""

    workflow: Label = Field(description="Name of the workflow.")
    input: JsonValue = Field(None, description="What it begins with.")
    idempotency_key: Key | None = Field(
        None, description="The same key gives the same run, however often it is asked."
    )


class CancelAsk(Ask):
    """Cancel a run and all below it."""

    reason: Annotated[str, StringConstraints(min_length=1, max_length=1_000)] = Field(
        "cancelled by a person", description="Why; it is scrubbed of what looks like a secret."
    )


class DecideAsk(Ask):
    """Answer what a run asked. Without a number, the one question that waits is meant."""

    kind: Literal["approval", "decision"] = Field("decision", description="What was asked for.")
    generation: Number | None = Field(None, description="The generation that asked.")
    number: Number | None = Field(None, description="The question's number in it.")
    choice: Label = Field(description="The choice; of an approval, approve or reject.")
    by: Label = Field(description="Who answers.")


class MessageAsk(Ask):
    """Send a message to a run."""

    content: JsonValue = Field(description="The message.")
    sender: Label | None = Field(None, description="Who sends it.")
    key: Key | None = Field(None, description="The same key is the same message, however often it is sent.")


class SettleAsk(Ask):
    """Say what became of an effect in doubt. Without a number, the one effect in doubt is meant."""

    applied: bool = Field(description="Whether it happened: somebody looked outside.")
    by: Label = Field(description="Who looked.")
    generation: Number | None = Field(None, description="The generation that began it.")
    number: Number | None = Field(None, description="The effect's number in it.")
    receipt: JsonValue = Field(None, description="What the outside answered, if it happened.")


class PolicyAsk(Ask):
    """A policy for the server's own store; without one, that of the server's settings."""

    policy: PolicyText | None = Field(None, description="What to keep of runs, as in a settings file.")
    tables: dict[TableName, RowsText] = Field(
        default_factory=dict, max_length=100, description="What to keep of row tables."
    )


class RemovalAsk(PolicyAsk):
    """A removal, with its bounds."""

    max_seconds: Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)] | None = Field(
        None, description="Stop after this many seconds."
    )
    limit: Number | None = Field(None, description="Stop after this many units were removed.")


class BackupAsk(Ask):
    """A backup, in the folder that the server's settings name."""

    name: Annotated[str, StringConstraints(pattern=BACKUP_PATTERN)] = Field(
        description="Name of a new file in that folder."
    )
    kind: Literal["removed", "whole"] = Field(
        "removed", description="The rows that go, or the whole database."
    )


class PruneAsk(RemovalAsk):
    """Remove what a policy lets go, at a person's word."""

    backup: BackupAsk | None = Field(None, description="Back up what goes, first.")
    no_backup: bool = Field(default=False, description="Remove without a backup.")


class SweepAsk(RemovalAsk):
    """Run one automatic sweep now."""

    approve: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{1,64}$")] | None = Field(
        None, description="Admit once what a guarded sweep has shown."
    )


class ReclaimAsk(Ask):
    """Give space back."""

    apply: bool = Field(default=False, description="Do it; else only say what could be given back.")


class PageAsk(Ask):
    """A page of a list of runs."""

    model_config = ConfigDict(strict=False)  # a query is text

    limit: Annotated[int, Field(ge=1, le=MOST)] = Field(PAGE, description="Rows of the page.")
    after: RunId | None = Field(None, description="The `next` of the page before.")


class RunsAsk(PageAsk):
    """A page of the newest runs."""

    status: RunStatusWord | None = Field(None, description="Only runs in this state.")


class PartsAsk(Ask):
    """A page of the parts of a run."""

    model_config = ConfigDict(strict=False)

    limit: Annotated[int, Field(ge=1, le=MOST)] = Field(PAGE, description="Rows of the page.")
    after: Annotated[str, StringConstraints(pattern=PLACE_PATTERN)] | None = Field(
        None, description="The `next` of the page before."
    )


class EffectsAsk(PartsAsk):
    """A page of the effects of a run."""


class QuestionsAsk(PartsAsk):
    """A page of the questions of a run."""

    kind: Literal["approval", "decision"] = Field("decision", description="What was asked for.")
    pending: bool = Field(default=True, description="Only those that nobody has answered.")


def faults_of(error: ValidationError) -> Iterator[str]:
    """Yield what is wrong with an ask, each with its place. No value is repeated."""
    for fault in error.errors(include_url=False, include_input=False, include_context=False):
        place = ".".join(str(part) for part in fault["loc"])
        yield f"{place}: {fault['msg'].removeprefix('Value error, ')}"
