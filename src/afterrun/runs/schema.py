"""The tables of the run store, as the newest revision leaves them; `migrations` leads there.

Rows of a run begin with its id, those of a generation with run and number, so that one primary key serves
reading, removal and foreign keys. Nothing cascades: the order of removal is the profile's. What a run refers
to outside its tree is a blob or nothing.
"""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa

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
    some_of,
    table,
    text,
    together,
    where_set,
)
from afterrun.runs.words import (
    ENDED,
    LIVE,
    OF_RUN,
    ApprovalStatus,
    AttemptStatus,
    DecisionStatus,
    GenerationStatus,
    RunStatus,
    StepKind,
    StepStatus,
    TaskStatus,
    Work,
)

metadata: Final = sa.MetaData(naming_convention=NAMES)

blobs = table(
    metadata,
    "blobs",
    sa.Column("id", Number, primary_key=True, autoincrement=True),
    text("address"),
    number("size"),
    number("created_at"),
    text("key_id", null=True),  # this and the next two since revision 5; content in the clear has no key
    text("display", null=True),
    sa.Column("display_mark", sa.LargeBinary()),
    sa.Column(
        "content", sa.LargeBinary(), nullable=False
    ),  # last: SQLite reads a row up to what is asked for
    sa.Index("ix_blobs_address", "address", unique=True),
    sqlite_autoincrement=True,  # an id is never given twice, so a backup's blob cannot meet another one's
)

store_identity = table(
    metadata,
    "store_identity",
    sa.Column("number", Number, primary_key=True, nullable=False, autoincrement=False),
    text("store_id"),
    text("key_id", null=True),
    sa.Column("secret", sa.LargeBinary(), nullable=False),
    number("made_at"),
    number("sealed_to"),
    sa.CheckConstraint("number = 1", name="one"),
)
"""One row, since revision 5: what addresses are made with, sealed under ``key_id``, or in the clear.

Content up to the number ``sealed_to`` is known to be sealed under that key.
"""

runs = table(
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
    number("due_at", null=True),  # the end of a root that automatic sweeps look at
    number("look_at", null=True),  # of a root whose tree they set aside: when they look again
    number("wake_at", null=True),  # when a run that waits is queued at the latest
    text("progress", null=True),
    text("recipient", null=True),  # who gets the result
    one_of("status", RunStatus),
    null_while("ended_at", "status", LIVE),
    together("parent", "parent_id", "parent_generation", "parent_step", "parent_attempt"),
    sa.CheckConstraint(
        "(root_id = id) = (parent_id IS NULL AND restart_of IS NULL AND continuation_of IS NULL)", name="root"
    ),
    sa.CheckConstraint("generation >= 1", name="generation"),
    sa.Index("ix_runs_root_id", "root_id"),
    some("ix_runs_live", "root_id", "ended_at IS NULL"),
    some("ix_runs_queued", "id", f"status = '{RunStatus.QUEUED}'"),
    where_set("ix_runs_ended_at", "ended_at"),
    where_set("ix_runs_due_at", "due_at"),
    where_set("ix_runs_look_at", "look_at"),
    where_set("ix_runs_wake_at", "wake_at"),
    where_set("ix_runs_parent_id", "parent_id"),
    where_set("ix_runs_restart_of", "restart_of"),
    where_set("ix_runs_continuation_of", "continuation_of"),
    where_set("ix_runs_idempotency_key", "idempotency_key", unique=True),
)

generations = table(
    metadata,
    "generations",
    of_run(),
    key("number"),
    text("status"),
    number("started_at"),
    *content("generations", "input_id"),
    number("ended_at", null=True),  # since revision 2, which fills it in as far as the history tells it
    one_of("status", GenerationStatus),
    some_of(
        "ix_generations_past", f"status = '{GenerationStatus.CONTINUED}'", "ended_at", "run_id", "number"
    ),
)

steps = table(
    metadata,
    "steps",
    *of_generation(),
    key("number"),
    text("name"),
    text("status"),
    number("attempt"),
    number("started_at"),
    number("ended_at", null=True),
    text("kind", server_default=StepKind.STEP.value),
    one_of("status", StepStatus),
    one_of("kind", StepKind),
    sa.CheckConstraint(
        f"(ended_at IS NULL) = (status = '{StepStatus.RUNNING}') OR status = '{StepStatus.FAILED}'",
        name="ended_at",
    ),
)

attempts = table(
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
    one_of("status", AttemptStatus),
    null_while("ended_at", "status", (AttemptStatus.QUEUED, AttemptStatus.RUNNING)),
    sa.CheckConstraint(f"status <> '{AttemptStatus.QUEUED}' OR started_at IS NULL", name="started_at"),
)

tasks = table(
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
    one_of("status", TaskStatus),
    null_while("ended_at", "status", (TaskStatus.BLOCKED, TaskStatus.OPEN)),
    together("attempt", "step", "attempt"),
)

task_needs = table(
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

approvals = table(
    metadata,
    "approvals",
    *of_generation(),
    key("number"),
    text("subject"),
    text("status"),
    text("decided_by", null=True),
    number("asked_at"),
    number("ended_at", null=True),
    one_of("status", ApprovalStatus),
    null_while("ended_at", "status", (ApprovalStatus.PENDING,)),
)

decisions = table(
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
    number("step", null=True),  # that waits for the answer
    text("choices", null=True),  # a JSON list; without one, any word will do
    one_of("status", DecisionStatus),
    null_while("ended_at", "status", (DecisionStatus.PENDING,)),
    sa.CheckConstraint(f"(choice IS NOT NULL) = (status = '{DecisionStatus.DECIDED}')", name="choice"),
)

leases = table(
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

results = table(
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

pins = table(
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

obligations = table(
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
    one_of("kind", Work),
    sa.CheckConstraint(f"generation >= {OF_RUN}", name="generation"),
    some("ix_obligations_open", "run_id", "closed_at IS NULL"),
    some("ix_obligations_open_root", "root_id", "closed_at IS NULL"),
)

server_lease = table(
    metadata,
    "server_lease",
    key("number"),
    number("epoch"),
    text("owner"),
    number("acquired_at"),
    number("until"),
    number("released_at", null=True),
    sa.CheckConstraint("number = 1", name="number"),
)

tombstones = table(
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
