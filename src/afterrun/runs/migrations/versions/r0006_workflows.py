"""What a workflow server needs: kinds of steps, times at which runs go on, and its own lease of the store."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa
from alembic import context, op

from afterrun.runs.columns import NAMES, Number, key, number, table, text

revision = "0006"
down_revision = "0005"

KINDS: Final = ("step", "effect", "child", "decide", "sleep", "receive", "update")
COLUMNS: Final = (
    ("runs", "wake_at", Number),
    ("runs", "progress", sa.Text()),
    ("runs", "recipient", sa.Text()),
    ("decisions", "step", Number),
    ("decisions", "choices", sa.Text()),
)

metadata = sa.MetaData(naming_convention=NAMES)
lease = table(
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


def upgrade() -> None:
    """Add columns, which is cheap however many rows there are, and a table of one row."""
    bind = op.get_bind()
    schema = context.config.attributes["schema"]  # Alembic's own statements are not told it otherwise
    for name, column, kind in COLUMNS:
        op.add_column(name, sa.Column(column, kind, nullable=True), schema=schema)
    steps = bind.dialect.identifier_preparer.format_table(sa.Table("steps", sa.MetaData(), schema=schema))
    listed = ", ".join(f"'{kind}'" for kind in KINDS)
    bind.exec_driver_sql(
        f"ALTER TABLE {steps} ADD COLUMN kind TEXT DEFAULT 'step' NOT NULL "
        f"CONSTRAINT ck_steps_kind CHECK (kind IN ({listed}))"
    )
    due = sa.text("wake_at IS NOT NULL")
    op.create_index(
        "ix_runs_wake_at", "runs", ["wake_at"], schema=schema, sqlite_where=due, postgresql_where=due
    )
    metadata.create_all(bind, checkfirst=False)
