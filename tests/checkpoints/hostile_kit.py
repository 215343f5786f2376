"""A SQLite store of checkpoints written by hand, for content that no engine would write."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path

from afterrun import Policy, Report, Retention, SweepOptions
from afterrun.core.times import DAY, Instant
from afterrun.profiles.langgraph import uuid6_floor
from checkpoints.packing import checkpoint, pack

BEGIN: Instant = 1_700_000_000_000_000
GENERATIONS = Policy(generations=Policy(keep_for=timedelta(days=30)))
THREADS = Policy(keep_for=timedelta(days=30))

SCHEMA = """
CREATE TABLE checkpoints (thread_id TEXT NOT NULL, checkpoint_ns TEXT NOT NULL DEFAULT '',
    checkpoint_id TEXT NOT NULL, parent_checkpoint_id TEXT, type TEXT, checkpoint BLOB, metadata BLOB,
    PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id));
CREATE TABLE writes (thread_id TEXT NOT NULL, checkpoint_ns TEXT NOT NULL DEFAULT '',
    checkpoint_id TEXT NOT NULL, task_id TEXT NOT NULL, idx INTEGER NOT NULL, channel TEXT NOT NULL,
    type TEXT, value BLOB, task_path TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id, task_id, idx));
"""


def at(step: int) -> str:
    """Return the id of the checkpoint made at a step, one a day."""
    return f"{uuid6_floor(BEGIN + step * DAY)}-8000-000000000001"


class Hostile:
    """A store in a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with self.open() as database:
            database.executescript(SCHEMA)

    @contextmanager
    def open(self) -> Iterator[sqlite3.Connection]:
        """Connect, and commit."""
        with closing(sqlite3.connect(self.path)) as database, database:
            yield database

    def thread(self, name: object, steps: int = 4, last: Mapping[str, object] | None = None) -> None:
        """Write a thread that went straight on and is done; ``last`` are columns of its newest checkpoint."""
        with self.open() as database:
            for step in range(steps):
                row: dict[str, object] = {
                    "thread_id": name,
                    "checkpoint_ns": "",
                    "checkpoint_id": at(step),
                    "parent_checkpoint_id": at(step - 1) if step else None,
                    "type": "msgpack",
                    "checkpoint": pack(checkpoint(id=at(step))),
                    "metadata": json.dumps({"source": "loop", "step": step, "parents": {}}).encode(),
                }
                row.update((last or {}) if step == steps - 1 else {})
                marks = ", ".join("?" * len(row))
                database.execute(
                    f"INSERT INTO checkpoints ({', '.join(row)}) VALUES ({marks})", tuple(row.values())
                )

    def rows(self, statement: str) -> list[tuple[object, ...]]:
        """Read."""
        with self.open() as database:
            return database.execute(statement).fetchall()

    def left(self) -> dict[object, int]:
        """Return the checkpoints of each thread."""
        found = self.rows("SELECT thread_id, count(*) FROM checkpoints GROUP BY thread_id")
        return {name: int(str(count)) for name, count in found}

    def prune(self, policy: Policy, *, batch_units: int | None = None, offline: bool = True) -> Report:
        """Remove what a policy lets go."""
        with self.retention() as retention:
            return retention.prune(policy, options=SweepOptions(offline=offline, batch_units=batch_units))

    def retention(self) -> Retention:
        """Open the store."""
        return Retention(str(self.path), state=self.path.parent / "state")
