"""What runs say, promise and hold gets the columns that its calls need.

The tables are made anew, since their rows are few and most of the columns must be filled. What the older
schema could not tell is filled in so that retention keeps as much as before: an effect that nobody named is
called by its number, and what has no generation gets the newest one of its run.
"""

from __future__ import annotations

from typing import Any, Final

import sqlalchemy as sa
from alembic import context, op

from afterrun.runs.columns import (
    NAMES,
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

revision = "0003"
down_revision = "0002"

EFFECT: Final = ("pending", "applying", "applied", "ambiguous", "cancelled")

metadata: Final = sa.MetaData(naming_convention=NAMES)

table(metadata, "blobs", key("id"))
table(metadata, "runs", text("id", primary_key=True))
table(metadata, "generations", of_run(), key("number"))
"""What the new tables refer to."""

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
    number("generation", null=True),
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
    text("starter_id", null=True),
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
    one_of("status", EFFECT),
    null_while("ended_at", "status", ("pending", "applying", "ambiguous")),
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

ANEW: Final = (messages, turns, follow_ups, managed_resources, checkpoints, effects, receipts)
"""What refers to another one of them comes after it."""

KEPT: Final = {
    "messages": ("run_id", "number", "sender", "content_id", "sent_at", "consumed_at"),
    "turns": ("run_id", "number", "role", "opened_at", "ended_at"),
    "follow_ups": ("run_id", "number", "subject", "opened_at", "ended_at"),  # and when it is due
    "managed_resources": ("run_id", "number", "kind", "address", "opened_at", "released_at"),
    "checkpoints": ("run_id", "generation", "number", "content_id", "resumable", "made_at"),
    "effects": (
        *("run_id", "generation", "number", "step", "attempt"),
        *("status", "request_id", "opened_at", "ended_at"),
    ),
    "receipts": ("run_id", "generation", "effect", "content_id", "received_at"),
}
"""Columns that stay as they were."""

BEFORE: Final = "_before"
"""Ends the names of the copies from which the new tables are filled."""

Column = sa.ColumnElement[Any]


def upgrade() -> None:
    """Lay the rows aside, make the tables anew, and fill them."""
    bind = op.get_bind()
    schema = context.config.attributes["schema"]
    place = "" if schema is None else f"{bind.dialect.identifier_preparer.quote_schema(schema)}."
    for old in ANEW:
        copied = f"CREATE TABLE {place}{old.name}{BEFORE} AS SELECT * FROM {place}{old.name}"  # noqa: S608 - names of ours
        bind.exec_driver_sql(copied)
    for old in reversed(ANEW):
        op.drop_table(old.name, schema=schema)
    metadata.create_all(bind, tables=ANEW, checkfirst=False)
    for made in ANEW:
        _fill(bind, made)
        op.drop_table(f"{made.name}{BEFORE}", schema=schema)


def _table(name: str, *columns: str) -> sa.Table:
    return sa.Table(name, sa.MetaData(), *(sa.Column(column) for column in columns))


def _fill(bind: sa.Connection, made: sa.Table) -> None:
    """Fill a new table with its old rows."""
    kept = KEPT[made.name]
    before = _table(f"{made.name}{BEFORE}", *kept, "due_at")
    values = {name: before.c[name] for name in kept} | _filled(made.name, before.c)
    bind.execute(sa.insert(made).from_select(list(values), sa.select(*values.values()).select_from(before)))


def _filled(name: str, before: Any) -> dict[str, Column]:  # noqa: ANN401 - SQLAlchemy's columns of a table
    """Return what the new columns of a table hold that are not left empty."""
    filled: dict[str, Column] = {}
    if name == "messages":
        filled["generation"] = sa.case((before.consumed_at.is_not(None), _newest(before)))
    elif name in ("turns", "follow_ups"):
        filled["generation"] = _newest(before)
    elif name == "managed_resources":
        filled |= {"request_key": _numbered("resource", before), "fingerprint": sa.literal("unknown")}
    elif name == "checkpoints":
        settled = sa.and_(before.resumable == 1, ~_owed(before))
        filled["settled_at"] = sa.case((settled, before.made_at))
    elif name == "effects":
        began = sa.case((before.status.not_in(("pending", "cancelled")), before.opened_at))
        filled |= {"name": sa.literal("effect"), "key": _numbered("effect", before), "began_at": began}
    if name == "follow_ups":
        filled["due_at"] = sa.func.coalesce(before.due_at, before.opened_at)
    return filled


def _newest(before: Any) -> Column:  # noqa: ANN401 - SQLAlchemy's columns of a table
    """Return the newest generation of the run of a row."""
    runs = _table("runs", "id", "generation")
    return sa.select(runs.c.generation).where(runs.c.id == before.run_id).scalar_subquery()


def _owed(before: Any) -> Column:  # noqa: ANN401 - SQLAlchemy's columns of a table
    """Say whether the run of a checkpoint is to be resumed from one."""
    owed = _table("obligations", "run_id", "kind", "closed_at")
    mine = sa.and_(owed.c.run_id == before.run_id, owed.c.kind == "resumable-checkpoint")
    return sa.exists().where(mine, owed.c.closed_at.is_(None))


def _numbered(word: str, before: Any) -> Column:  # noqa: ANN401 - SQLAlchemy's columns of a table
    return sa.literal(f"{word} ") + sa.cast(before.number, sa.Text())
