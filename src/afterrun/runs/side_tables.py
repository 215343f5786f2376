"""Tables of what runs say, promise and hold beside their steps."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa

from afterrun.runs import schema
from afterrun.runs.columns import (
    content,
    key,
    null_while,
    number,
    of_generation,
    of_run,
    one_of,
    some,
    some_of,
    table,
    text,
    together,
)
from afterrun.runs.words import UNSETTLED, EffectStatus

metadata: Final = schema.metadata
"""All tables of the store, these included."""

messages = table(
    metadata,
    "messages",
    of_run(),
    key("number"),
    text("sender", null=True),
    text("key", null=True),
    *content("messages", "content_id"),
    number("sent_at"),
    number("consumed_at", null=True),
    number("generation", null=True),  # that consumed it, and takes it along when it goes
    number("step", null=True),
    sa.ForeignKeyConstraint(["run_id", "generation"], ["generations.run_id", "generations.number"]),
    together("consumed", "consumed_at", "generation"),
    sa.CheckConstraint("step IS NULL OR generation IS NOT NULL", name="step"),
    some_of("ix_messages_key", "key IS NOT NULL", "run_id", "key", unique=True),
    some_of("ix_messages_pending", "consumed_at IS NULL", "run_id", "number"),
    sa.Index("ix_messages_generation", "run_id", "generation"),
)

turns = table(
    metadata,
    "turns",
    *of_generation(),
    key("number"),
    text("role"),
    *content("turns", "content_id"),
    *content("turns", "answer_id"),
    number("opened_at"),
    number("answered_at", null=True),
    number("delivered_at", null=True),
    number("ended_at", null=True),
    sa.CheckConstraint(
        "answered_at IS NOT NULL OR (answer_id IS NULL AND delivered_at IS NULL)", name="answer"
    ),
    some("ix_turns_due", "answered_at", "answered_at IS NOT NULL AND ended_at IS NULL"),
)

follow_ups = table(
    metadata,
    "follow_ups",
    *of_generation(),
    key("number"),
    text("subject"),
    number("opened_at"),
    number("due_at"),
    number("ended_at", null=True),
    some("ix_follow_ups_due", "due_at", "ended_at IS NULL"),
)

managed_resources = table(
    metadata,
    "managed_resources",
    of_run(),
    key("number"),
    text("kind"),
    text("address"),
    text("request_key"),
    text("fingerprint"),
    text("starter_id", null=True),  # a run of the same tree, which goes with it: no foreign key
    number("opened_at"),
    number("released_at", null=True),
    sa.Index("ix_managed_resources_request_key", "run_id", "request_key", unique=True),
    some("ix_managed_resources_held", "opened_at", "released_at IS NULL"),
)

checkpoints = table(
    metadata,
    "checkpoints",
    *of_generation(),
    key("number"),
    number("step", null=True),
    number("attempt", null=True),
    *content("checkpoints", "content_id"),
    number("resumable"),
    number("made_at"),
    number("settled_at", null=True),
    sa.CheckConstraint("resumable IN (0, 1)", name="resumable"),
    together("attempt", "step", "attempt"),
    sa.CheckConstraint("settled_at IS NULL OR resumable = 1", name="settled_at"),
    some("ix_checkpoints_open", "run_id", "resumable = 1 AND settled_at IS NULL"),
)

effects = table(
    metadata,
    "effects",
    *of_generation(),
    key("number"),
    number("step"),
    number("attempt"),
    text("name"),
    text("key"),
    text("status"),
    text("reason", null=True),
    *content("effects", "request_id"),
    number("epoch", null=True),
    text("settled_by", null=True),
    number("opened_at"),
    number("began_at", null=True),
    number("ended_at", null=True),
    one_of("status", EffectStatus),
    null_while("ended_at", "status", UNSETTLED),
    sa.CheckConstraint("began_at IS NOT NULL OR status IN ('pending', 'cancelled')", name="began_at"),
    sa.Index("ix_effects_key", "run_id", "key", "generation", unique=True),
    some("ix_effects_unsettled", "opened_at", "ended_at IS NULL"),
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
