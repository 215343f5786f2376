"""What the store tells of runs and their parts. No view holds content, so none costs more for a large one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from types import SimpleNamespace
from typing import Any, Final

import sqlalchemy as sa

from afterrun.core.times import Instant, to_datetime
from afterrun.runs.schema import runs
from afterrun.runs.words import AttemptStatus, RunStatus, StepStatus


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt at a step: the place from which children, tasks and results come. Numbers begin with 1."""

    run: str
    generation: int
    step: int
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run as it is now. ``parent`` is the attempt that started it; ``generation`` is the current one."""

    id: str
    root: str
    name: str
    status: RunStatus
    reason: str | None
    generation: int
    parent: Attempt | None
    restart_of: str | None
    continuation_of: str | None
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None

    @property
    def above(self) -> str | None:
        """Return the run that this one hangs from: its parent, else what it restarts or continues."""
        return self.parent.run if self.parent else self.restart_of or self.continuation_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A step as it is now. One that failed and has no end has a retry in the queue."""

    run: str
    generation: int
    number: int
    name: str
    status: StepStatus
    attempt: int
    attempt_status: AttemptStatus
    started_at: datetime
    ended_at: datetime | None

    @property
    def current(self) -> Attempt:
        """Return the current attempt."""
        return Attempt(self.run, self.generation, self.number, self.attempt)


COLUMNS: Final = (
    runs.c.id,
    runs.c.root_id,
    runs.c.name,
    runs.c.status,
    runs.c.reason,
    runs.c.generation,
    runs.c.parent_id,
    runs.c.parent_generation,
    runs.c.parent_step,
    runs.c.parent_attempt,
    runs.c.restart_of,
    runs.c.continuation_of,
    runs.c.created_at,
    runs.c.started_at,
    runs.c.ended_at,
)
NAMES: Final = tuple(column.name for column in COLUMNS)


def above(table: sa.FromClause) -> sa.ColumnElement[Any]:
    """Return the run that another hangs from: the first link that is set."""
    return sa.func.coalesce(table.c.parent_id, table.c.restart_of, table.c.continuation_of)


def moment(instant: Instant | None) -> datetime | None:
    """Return an instant for people; ``None`` stays ``None``."""
    return None if instant is None else to_datetime(instant)


def run_from(values: Sequence[Any]) -> Run:
    """Return the view of the values of `COLUMNS`, as a driver gives them."""
    return run_of(SimpleNamespace(**dict(zip(NAMES, values, strict=True))))


def run_of(row: sa.Row[Any] | SimpleNamespace) -> Run:
    """Return the view of a row of `COLUMNS`."""
    parent = row.parent_id and Attempt(
        row.parent_id, row.parent_generation, row.parent_step, row.parent_attempt
    )
    return Run(
        id=row.id,
        root=row.root_id,
        name=row.name,
        status=RunStatus(row.status),
        reason=row.reason,
        generation=row.generation,
        parent=parent or None,
        restart_of=row.restart_of,
        continuation_of=row.continuation_of,
        created_at=to_datetime(row.created_at),
        started_at=moment(row.started_at),
        ended_at=moment(row.ended_at),
    )


def runs_of(rows: Sequence[sa.Row[Any]]) -> list[Run]:
    """Return the views of rows of `COLUMNS`."""
    return [run_of(row) for row in rows]
