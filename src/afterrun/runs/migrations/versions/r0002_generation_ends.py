"""Generations have an end of their own, taken from their history as far as it tells.

The end of a run's last generation is that of the run; an earlier one ended with the newest event among its
steps and attempts. Where neither is known it stays NULL, so that retention keeps the generation and reports
it. A history that contradicts itself stops the upgrade.
"""

from __future__ import annotations

from typing import Any, Final

import sqlalchemy as sa
from alembic import context, op

from afterrun.core.times import CLOCK_SKEW, YEAR_2000, micros
from afterrun.runs.columns import Number
from afterrun.runs.errors import UpgradeRefused

revision = "0002"
down_revision = "0001"

NAMED: Final = 20
"""Keys that a refusal names at most."""


def _table(name: str, *columns: str) -> sa.Table:
    return sa.Table(name, sa.MetaData(), *(sa.Column(column) for column in columns))


runs = _table("runs", "id", "generation", "ended_at")
generations = _table("generations", "run_id", "number", "status", "ended_at")
steps = _table("steps", "run_id", "generation", "ended_at")
attempts = _table("attempts", "run_id", "generation", "ended_at")


def upgrade() -> None:
    """Look for what is malformed, add the column, fill it in, and tell what stays unknown."""
    bind = op.get_bind()
    now = context.config.attributes["now"]
    _refuse_malformed(bind, now)
    schema = context.config.attributes["schema"]  # Alembic's own statements are not told it otherwise
    op.add_column("generations", sa.Column("ended_at", Number, nullable=True), schema=schema)
    bind.execute(sa.update(generations).where(generations.c.status != "running").values(ended_at=_end()))
    unknown = sa.select(sa.func.count()).select_from(generations)
    unknown = unknown.where(generations.c.ended_at.is_(None), generations.c.status != "running")
    count = bind.execute(unknown).scalar_one()
    if count:
        context.config.attributes["notes"].append(
            f"{count} generations have no step or attempt that tells when they ended: retention keeps them "
            "until their runs go"
        )


def _refuse_malformed(bind: sa.Connection, now: int) -> None:
    found: dict[str, None] = {}
    for statement in (_untimely(steps, now), _untimely(attempts, now), _unfinished(), _misplaced()):
        rows = bind.execute(statement.limit(NAMED))
        found.update(dict.fromkeys(f"{run}/{number}" for run, number in rows))
    if found:
        keys = tuple(found)[:NAMED]
        raise UpgradeRefused(
            "the store is not upgraded, and nothing was changed: the history of these generations "
            f"contradicts itself (run/generation, at most {NAMED} are named): {', '.join(keys)}",
            keys=keys,
        )


def _untimely(history: sa.Table, now: int) -> sa.Select[Any]:
    """Return what finds events at no possible time: before the year 2000, or still to come."""
    latest = now + micros(CLOCK_SKEW)
    impossible = sa.or_(history.c.ended_at < YEAR_2000, history.c.ended_at > latest)
    return sa.select(history.c.run_id, history.c.generation).where(impossible).distinct()


def _unfinished() -> sa.Select[Any]:
    """Return what finds generations that ended while an attempt of theirs goes on."""
    on = sa.and_(attempts.c.run_id == generations.c.run_id, attempts.c.generation == generations.c.number)
    statement = sa.select(generations.c.run_id, generations.c.number).select_from(
        generations.join(attempts, on)
    )
    return statement.where(attempts.c.ended_at.is_(None), generations.c.status != "running").distinct()


def _misplaced() -> sa.Select[Any]:
    """Return what finds generations whose state does not fit their place: the last one is the current one."""
    statement = sa.select(generations.c.run_id, generations.c.number)
    statement = statement.select_from(generations.join(runs, runs.c.id == generations.c.run_id))
    past = generations.c.number < runs.c.generation
    return statement.where(
        sa.or_(
            sa.and_(past, generations.c.status != "continued"),
            sa.and_(~past, generations.c.status == "continued"),
            generations.c.number > runs.c.generation,
            sa.and_(generations.c.status == "running", runs.c.ended_at.is_not(None)),
        )
    )


def _end() -> sa.ColumnElement[Any]:
    of_run = (
        sa.select(runs.c.ended_at)
        .where(runs.c.id == generations.c.run_id, runs.c.generation == generations.c.number)
        .scalar_subquery()
    )
    newest = [
        sa.select(sa.func.max(history.c.ended_at))
        .where(history.c.run_id == generations.c.run_id, history.c.generation == generations.c.number)
        .scalar_subquery()
        for history in (steps, attempts)
    ]
    later = sa.case((newest[0] >= newest[1], newest[0]), else_=newest[1])
    return sa.func.coalesce(of_run, later, *newest)
