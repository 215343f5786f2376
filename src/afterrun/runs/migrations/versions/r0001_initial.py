"""The first schema. Generations have no end of their own yet."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa
from alembic import op

from afterrun.runs.columns import (
    NAMES,
    Number,
    content,
    key,
    null_while,
    number,
    of_generation,
    of_run,
    one_of,
    some,
    table,
    text,
    together,
    where_set,
)

revision = "0001"
down_revision = None

LIVE: Final = ("queued", "running", "parked", "waiting")
ENDED: Final = ("completed", "failed", "cancelled", "timed_out")
RUN: Final = (*LIVE, *ENDED)
GENERATION: Final = ("running", "continued", "completed", "failed", "cancelled", "timed_out")
STEP: Final = ("running", "completed", "failed", "cancelled")
ATTEMPT: Final = ("queued", "running", "completed", "failed", "cancelled")
TASK: Final = ("blocked", "open", "completed", "failed", "cancelled")
APPROVAL: Final = ("pending", "approved", "rejected", "cancelled")
DECISION: Final = ("pending", "decided", "cancelled")
EFFECT: Final = ("pending", "applying", "applied", "ambiguous", "cancelled")
WORK: Final = (
    "waiting",
    "queued",
    "pending-message",
    "open-turn",
    "pending-interaction",
    "pending-decision",
    "recording",
    "follow-up",
    "lease",
    "unsettled-effect",
    "managed-resource",
    "resumable-checkpoint",
    "undelivered-result",
    "pinned-content",
)

metadata: Final = sa.MetaData(naming_convention=NAMES)

table(
    metadata,
    "blobs",
    sa.Column("id", Number, primary_key=True, autoincrement=True),
    text("address"),
    number("size"),
    sa.Column("content", sa.LargeBinary(), nullable=False),
    number("created_at"),
    sa.Index("ix_blobs_address", "address", unique=True),
    sqlite_autoincrement=True,  # an id is never given twice, so a backup's blob cannot meet another one's
)

table(
    metadata,
    "runs",
    text("id", primary_key=True),
    text("root_id"),
    sa.Column("parent_id", sa.Text(), sa.ForeignKey("runs.id")),
    number("parent_generation", null=True),
    number("parent_step", null=True),
    number("parent_attempt", null=True),
    sa.Column("restart_of", sa.Text(), sa.ForeignKey("runs.id")),
    sa.Column("continuation_of", sa.Text(), sa.ForeignKey("runs.id")),
    text("name"),
    text("status"),
    text("reason", null=True),
    number("generation"),
    text("idempotency_key", null=True),
    *content("runs", "input_id"),
    *content("runs", "output_id"),
    number("created_at"),
    number("started_at", null=True),
    number("ended_at", null=True),
    one_of("status", RUN),
    null_while("ended_at", "status", LIVE),
    together("parent", "parent_id", "parent_generation", "parent_step", "parent_attempt"),
    sa.CheckConstraint(
        "(root_id = id) = (parent_id IS NULL AND restart_of IS NULL AND continuation_of IS NULL)", name="root"
    ),
    sa.CheckConstraint("generation >= 1", name="generation"),
    sa.Index("ix_runs_root_id", "root_id"),
    some("ix_runs_live", "root_id", "ended_at IS NULL"),
    some("ix_runs_queued", "id", "status = 'queued'"),
    where_set("ix_runs_ended_at", "ended_at"),
    where_set("ix_runs_parent_id", "parent_id"),
    where_set("ix_runs_restart_of", "restart_of"),
    where_set("ix_runs_continuation_of", "continuation_of"),
    where_set("ix_runs_idempotency_key", "idempotency_key", unique=True),
)

table(
    metadata,
    "generations",
    of_run(),
    key("number"),
    text("status"),
    number("started_at"),
    *content("generations", "input_id"),
    one_of("status", GENERATION),
)

table(
    metadata,
    "steps",
    *of_generation(),
    key("number"),
    text("name"),
    text("status"),
    number("attempt"),
    number("started_at"),
    number("ended_at", null=True),
    one_of("status", STEP),
    sa.CheckConstraint(
        "(ended_at IS NULL) = (status = 'running') OR status = 'failed'",
        name="ended_at",
    ),
)

table(
    metadata,
    "attempts",
    *of_generation(),
    key("step"),
    key("number"),
    text("status"),
    text("reason", null=True),
    *content("attempts", "output_id"),
    number("queued_at"),
    number("due_at", null=True),
    number("started_at", null=True),
    number("ended_at", null=True),
    sa.ForeignKeyConstraint(
        ["run_id", "generation", "step"], ["steps.run_id", "steps.generation", "steps.number"]
    ),
    one_of("status", ATTEMPT),
    null_while("ended_at", "status", ("queued", "running")),
    sa.CheckConstraint("status <> 'queued' OR started_at IS NULL", name="started_at"),
)

table(
    metadata,
    "tasks",
    *of_generation(),
    key("number"),
    number("step", null=True),
    number("attempt", null=True),
    text("name"),
    text("status"),
    number("created_at"),
    number("ended_at", null=True),
    one_of("status", TASK),
    null_while("ended_at", "status", ("blocked", "open")),
    together("attempt", "step", "attempt"),
)

table(
    metadata,
    "task_needs",
    *of_generation(),
    key("task"),
    key("needs"),
    sa.ForeignKeyConstraint(
        ["run_id", "generation", "task"], ["tasks.run_id", "tasks.generation", "tasks.number"]
    ),
    sa.ForeignKeyConstraint(
        ["run_id", "generation", "needs"],
        ["tasks.run_id", "tasks.generation", "tasks.number"],
        name="fk_task_needs_needs",
    ),
    sa.Index("ix_task_needs_needs", "run_id", "generation", "needs"),
    sa.CheckConstraint("task <> needs", name="itself"),
)

table(
    metadata,
    "approvals",
    *of_generation(),
    key("number"),
    text("subject"),
    text("status"),
    text("decided_by", null=True),
    number("asked_at"),
    number("ended_at", null=True),
    one_of("status", APPROVAL),
    null_while("ended_at", "status", ("pending",)),
)

table(
    metadata,
    "decisions",
    *of_generation(),
    key("number"),
    text("subject"),
    text("status"),
    text("choice", null=True),
    text("decided_by", null=True),
    number("asked_at"),
    number("ended_at", null=True),
    one_of("status", DECISION),
    null_while("ended_at", "status", ("pending",)),
    sa.CheckConstraint("(choice IS NOT NULL) = (status = 'decided')", name="choice"),
)

table(
    metadata,
    "leases",
    of_run(),
    number("epoch"),
    text("owner"),
    number("acquired_at"),
    number("until"),
    number("released_at", null=True),
    sa.CheckConstraint("epoch >= 1", name="epoch"),
    some("ix_leases_held", "until", "released_at IS NULL"),
)

table(
    metadata,
    "results",
    of_run(),
    key("number"),
    text("recipient"),
    *content("results", "content_id"),
    number("made_at"),
    number("delivered_at", null=True),
    number("acknowledged_at", null=True),
    sa.CheckConstraint("acknowledged_at IS NULL OR delivered_at IS NOT NULL", name="order"),
    some("ix_results_due", "recipient", "acknowledged_at IS NULL"),
)

table(
    metadata,
    "pins",
    of_run(),
    key("number"),
    text("holder"),
    sa.Column("content_id", Number, sa.ForeignKey("blobs.id"), nullable=False),
    number("pinned_at"),
    number("until", null=True),
    number("released_at", null=True),
    sa.Index("ix_pins_content_id", "content_id"),
)

table(
    metadata,
    "obligations",
    of_run(),
    key("generation"),
    sa.Column("kind", sa.Text(), primary_key=True, nullable=False),
    sa.Column("subject", sa.Text(), primary_key=True, nullable=False),
    text("root_id"),
    number("opened_at"),
    number("lease_until", null=True),
    number("closed_at", null=True),
    one_of("kind", WORK),
    sa.CheckConstraint("generation >= 0", name="generation"),
    some("ix_obligations_open", "run_id", "closed_at IS NULL"),
    some("ix_obligations_open_root", "root_id", "closed_at IS NULL"),
)

table(
    metadata,
    "idempotency_tombstones",
    text("key", primary_key=True),
    text("run_id"),
    text("status"),
    text("outcome_digest", null=True),
    number("ended_at"),
    one_of("status", ENDED),
    sa.Index("ix_idempotency_tombstones_ended_at", "ended_at"),
)

table(
    metadata,
    "messages",
    of_run(),
    key("number"),
    text("sender", null=True),
    *content("messages", "content_id"),
    number("sent_at"),
    number("consumed_at", null=True),
)

table(
    metadata,
    "turns",
    of_run(),
    key("number"),
    text("role"),
    number("opened_at"),
    number("ended_at", null=True),
)

table(
    metadata,
    "follow_ups",
    of_run(),
    key("number"),
    text("subject"),
    number("opened_at"),
    number("due_at", null=True),
    number("ended_at", null=True),
)

table(
    metadata,
    "managed_resources",
    of_run(),
    key("number"),
    text("kind"),
    text("address"),
    number("opened_at"),
    number("released_at", null=True),
)

table(
    metadata,
    "checkpoints",
    *of_generation(),
    key("number"),
    *content("checkpoints", "content_id"),
    number("resumable"),
    number("made_at"),
    sa.CheckConstraint("resumable IN (0, 1)", name="resumable"),
)

table(
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
    one_of("status", EFFECT),
    null_while("ended_at", "status", ("pending", "applying", "ambiguous")),
)

table(
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


def upgrade() -> None:
    """Make all tables."""
    metadata.create_all(op.get_bind(), checkfirst=False)
