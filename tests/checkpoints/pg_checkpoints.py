"""A PostgreSQL store of checkpoints written by hand, as the engine's saver lays it out."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

from afterrun import Policy, Report, Retention
from checkpoints.hostile_kit import at
from pg_server import Connection, Database

SCHEMA = """
CREATE TABLE checkpoint_migrations (v INTEGER PRIMARY KEY);
INSERT INTO checkpoint_migrations VALUES (9);
CREATE TABLE checkpoints (thread_id TEXT NOT NULL, checkpoint_ns TEXT NOT NULL DEFAULT '',
    checkpoint_id TEXT NOT NULL, parent_checkpoint_id TEXT, type TEXT, checkpoint JSONB NOT NULL,
    metadata JSONB NOT NULL DEFAULT '{}', PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id));
CREATE TABLE checkpoint_blobs (thread_id TEXT NOT NULL, checkpoint_ns TEXT NOT NULL DEFAULT '',
    channel TEXT NOT NULL, version TEXT NOT NULL, type TEXT NOT NULL, blob BYTEA,
    PRIMARY KEY (thread_id, checkpoint_ns, channel, version));
CREATE TABLE checkpoint_writes (thread_id TEXT NOT NULL, checkpoint_ns TEXT NOT NULL DEFAULT '',
    checkpoint_id TEXT NOT NULL, task_id TEXT NOT NULL, idx INTEGER NOT NULL, channel TEXT NOT NULL,
    type TEXT, blob BYTEA NOT NULL, task_path TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id, task_id, idx));
CREATE INDEX checkpoints_thread_id_idx ON checkpoints (thread_id);
CREATE INDEX checkpoint_blobs_thread_id_idx ON checkpoint_blobs (thread_id);
CREATE INDEX checkpoint_writes_thread_id_idx ON checkpoint_writes (thread_id);
"""

GENERATIONS = Policy(generations=Policy(keep_for=timedelta(days=30)))
THREADS = Policy(keep_for=timedelta(days=30))
STEPS = 4


class Site:
    """One store, open, in a database of its own."""

    def __init__(self, database: Database, folder: Path) -> None:
        self.database = database
        database.run(SCHEMA)
        for name in ("a", "b", "c"):
            self.thread(name)
        self.retention = Retention(database.url(), state=folder / "state")

    def thread(self, name: str) -> None:
        """Write a thread of four checkpoints; each has a value of its own, and all share one."""
        with self.database.connect(autocommit=False) as connection:
            self.value(connection, name, "shared", 1)
            for step in range(STEPS):
                self.value(connection, name, "said", step)
                self.checkpoint(connection, name, step, step - 1 if step else None)
                self.write(connection, name, step - 1) if step else None

    @staticmethod
    def value(connection: Connection, name: str, channel: str, version: int) -> None:
        """Write a value that checkpoints share."""
        connection.execute(
            b"INSERT INTO checkpoint_blobs VALUES (%s, '', %s, %s, 'msgpack', %s)",
            (name, channel, str(version), b"\xa1x"),
        )

    @staticmethod
    def checkpoint(
        connection: Connection, name: str, step: int, parent: int | None, *, said: int | None = None
    ) -> None:
        """Write a checkpoint that is done."""
        versions = {"__start__": "1.0", "shared": "1", "said": str(step if said is None else said)}
        payload = {"v": 4, "id": at(step), "channel_values": {}, "channel_versions": versions}
        connection.execute(
            b"INSERT INTO checkpoints VALUES (%s, '', %s, %s, NULL, %s, %s)",
            (
                *(name, at(step), None if parent is None else at(parent)),
                *(json.dumps({**payload, "versions_seen": {}}), json.dumps({"step": step, "parents": {}})),
            ),
        )

    @staticmethod
    def write(connection: Connection, name: str, step: int, task: str = "task") -> None:
        """Write what a task gave."""
        connection.execute(
            b"INSERT INTO checkpoint_writes VALUES (%s, '', %s, %s, 0, 'said', 'msgpack', %s, '')",
            (name, at(step), task, b"\xa1x"),
        )

    def left(self, table: str = "checkpoints") -> dict[str, int]:
        """Return the rows of each thread."""
        found = self.database.rows(f"SELECT thread_id, count(*) FROM {table} GROUP BY thread_id")
        return {str(name): int(count) for name, count in found}

    def prune(self, policy: Policy = GENERATIONS) -> Report:
        """Run a manual apply."""
        return self.retention.prune(policy)
