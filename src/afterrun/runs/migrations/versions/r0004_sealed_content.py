"""Content can be sealed: blobs get a key id, a display and its mark, and the store an identity.

Content is moved behind the new columns, since SQLite reads a row up to the last column that is asked for, and
nothing that only looks should read payloads. What is stored here stays in the clear, under its old address,
until the store is opened with a key, or with the word that none is wanted: see `afterrun.runs.identity`.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import context, op

from afterrun.runs.columns import NAMES, Number, number, table, text

revision = "0004"
down_revision = "0003"

blobs = sa.Table("blobs", sa.MetaData(), sa.Column("content"), sa.Column("moved"))


def upgrade() -> None:
    """Add the columns, move content behind them, and make the table of the identity."""
    schema = context.config.attributes["schema"]  # Alembic's own statements are not told it otherwise
    for column in (text("key_id", null=True), text("display", null=True), _bytes("display_mark")):
        op.add_column("blobs", column, schema=schema)
    empty = sa.text(context.config.attributes["no_bytes"])  # SQLite adds no column NOT NULL without a value
    moved = sa.Column("moved", sa.LargeBinary(), nullable=False, server_default=empty)
    op.add_column("blobs", moved, schema=schema)
    op.get_bind().execute(sa.update(blobs).values(moved=blobs.c.content))
    op.drop_column("blobs", "content", schema=schema)
    op.alter_column("blobs", "moved", new_column_name="content", schema=schema)
    made = table(
        sa.MetaData(naming_convention=NAMES),
        "store_identity",
        sa.Column("number", Number, primary_key=True, nullable=False, autoincrement=False),
        text("store_id"),
        text("key_id", null=True),
        sa.Column("secret", sa.LargeBinary(), nullable=False),
        number("made_at"),
        number("sealed_to"),
        sa.CheckConstraint("number = 1", name="one"),
    )
    made.create(op.get_bind())


def _bytes(name: str) -> sa.Column[bytes]:
    return sa.Column(name, sa.LargeBinary(), nullable=True)
