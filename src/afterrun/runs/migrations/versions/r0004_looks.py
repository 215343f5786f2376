"""Sweeps look at roots alone, in the order of their ends, and set aside what is held.

Every root that has ended is looked at once more: which trees are held is for the next sweep to find out.
"""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa
from alembic import context, op

from afterrun.runs.columns import Number

revision = "0004"
down_revision = "0003"

COLUMNS: Final = ("id", "root_id", "ended_at", "due_at")
runs = sa.Table("runs", sa.MetaData(), *map(sa.Column, COLUMNS))


def upgrade() -> None:
    """Add both columns, take ends over as what is due, and index that."""
    schema = context.config.attributes["schema"]  # Alembic's own statements are not told it otherwise
    for name in ("due_at", "look_at"):
        op.add_column("runs", sa.Column(name, Number, nullable=True), schema=schema)
    root = runs.c.root_id == runs.c.id
    op.get_bind().execute(sa.update(runs).where(root).values(due_at=runs.c.ended_at))
    for name in ("due_at", "look_at"):
        _index(f"ix_runs_{name}", "runs", [name], where=f"{name} IS NOT NULL")
    past = ["ended_at", "run_id", "number"]
    _index("ix_generations_past", "generations", past, where="status = 'continued'")


def _index(name: str, table: str, columns: list[str], *, where: str) -> None:
    schema, some = context.config.attributes["schema"], sa.text(where)
    op.create_index(name, table, columns, schema=schema, sqlite_where=some, postgresql_where=some)
