"""Tables of what runs say, promise and hold beside their steps. Retention knows them already."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa

from afterrun.runs import schema
from afterrun.runs.columns import content, key, null_while, number, of_generation, of_run, one_of, table, text
from afterrun.runs.words import EffectStatus

metadata: Final = schema.metadata
"""All tables of the store, these included."""

messages = table(
    metadata,
    "messages",
    of_run(),
    key("number"),
    text("sender", null=True),
    *content("messages", "content_id"),
    number("sent_at"),
    number("consumed_at", null=True),
)

turns = table(
    metadata,
    "turns",
    of_run(),
    key("number"),
    text("role"),
    number("opened_at"),
    number("ended_at", null=True),
)

follow_ups = table(
    metadata,
    "follow_ups",
    of_run(),
    key("number"),
    text("subject"),
    number("opened_at"),
    number("due_at", null=True),
    number("ended_at", null=True),
)

managed_resources = table(
    metadata,
    "managed_resources",
    of_run(),
    key("number"),
    text("kind"),
    text("address"),
    number("opened_at"),
    number("released_at", null=True),
)

checkpoints = table(
    metadata,
    "checkpoints",
    *of_generation(),
    key("number"),
    *content("checkpoints", "content_id"),
    number("resumable"),
    number("made_at"),
    sa.CheckConstraint("resumable IN (0, 1)", name="resumable"),
)

effects = table(
    metadata,
    "effects",
    *of_generation(),
    key("number"),
    number("step"),
    number("attempt"),
    text("status"),
    *content("effects", "request_id"),
    number("opened_at"),
    number("ended_at", null=True),
    one_of("status", EffectStatus),
    null_while("ended_at", "status", (EffectStatus.PENDING, EffectStatus.APPLYING, EffectStatus.AMBIGUOUS)),
)

receipts = table(
    metadata,
    "receipts",
    *of_generation(),
    key("effect"),
    *content("receipts", "content_id"),
    number("received_at"),
    sa.ForeignKeyConstraint(
        ["run_id", "generation", "effect"], ["effects.run_id", "effects.generation", "effects.number"]
    ),
)
