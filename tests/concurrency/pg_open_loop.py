"""The open-loop writer of `open_loop.py` on PostgreSQL, as an engine on a DBOS schema works.

Run: python pg_open_loop.py URL [--transactions N] [--every-ms MS] [--prefix TEXT].
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
from pathlib import Path
from typing import Any

import psycopg
import sqlalchemy as sa
from psycopg import sql

sys.path.append(str(Path(__file__).resolve().parents[1]))  # started as a script

from concurrency.open_loop import _TIME_COLUMN, PREFIX, WARM_UP, Waits, _now_ms, write

SCHEMA = "dbos"


class PgWriter:
    """Starts and finishes runs that are copies of one in the store."""

    failures = (psycopg.Error,)

    def __init__(self, connection: psycopg.Connection[Any], prefix: str) -> None:
        """Read the rows to copy."""
        self._connection = connection
        self._prefix = prefix
        found = connection.execute(
            "SELECT workflow_uuid FROM dbos.workflow_status WHERE status = 'SUCCESS' LIMIT 1"
        ).fetchone()
        if found is None:
            raise RuntimeError("the store has no finished run to copy")
        self._rows = {
            table: self._row(table, found[0])
            for table in ("workflow_status", "operation_outputs", "workflow_input", "workflow_output")
        }

    def _row(self, table: str, run: str) -> dict[str, object]:
        cursor = self._connection.execute(
            sql.SQL("SELECT * FROM {} WHERE workflow_uuid = %s").format(sql.Identifier(SCHEMA, table)), (run,)
        )
        names = [column.name for column in cursor.description or ()]
        row = cursor.fetchone()
        return {} if row is None else dict(zip(names, row, strict=True))

    def transact(self, number: int) -> None:
        """Run one transaction: even ones start a run, odd ones finish it. Raises `psycopg.Error`."""
        run = f"{self._prefix}{number // 2}"
        with self._connection.transaction():
            if number % 2:
                self._finish(run)
            else:
                self._start(run)

    def _start(self, run: str) -> None:
        self._insert("workflow_status", run, status="PENDING", completed_at=None)
        self._insert("workflow_input", run)
        self._insert("operation_outputs", run)

    def _finish(self, run: str) -> None:
        now = _now_ms()
        self._connection.execute(
            "UPDATE dbos.workflow_status SET status = 'SUCCESS', completed_at = %s, updated_at = %s"
            " WHERE workflow_uuid = %s",
            (now, now, run),
        )
        self._insert("workflow_output", run)

    def _insert(self, table: str, run: str, **changes: object) -> None:
        if not self._rows[table]:
            return
        now = _now_ms()
        row = {
            column: now if _TIME_COLUMN.search(column) and value is not None else value
            for column, value in self._rows[table].items()
        }
        row |= {"workflow_uuid": run, **changes}
        if "parent_workflow_id" in row:
            row["parent_workflow_id"] = None
        self._connection.execute(
            sql.SQL("INSERT INTO {} ({}) VALUES ({})").format(
                sql.Identifier(SCHEMA, table),
                sql.SQL(", ").join(map(sql.Identifier, row)),
                sql.SQL(", ").join(sql.Placeholder() * len(row)),
            ),
            list(row.values()),
        )


def main() -> None:
    """Write to the schema of the database named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--transactions", type=int, default=20_000)
    parser.add_argument("--every-ms", type=float, default=5.0)
    parser.add_argument("--prefix", default=PREFIX)
    options = parser.parse_args()
    gc.disable()  # a pause of our own would be charged to the store
    place = sa.make_url(options.url).translate_connect_args(username="user", database="dbname")
    with psycopg.connect(**place, autocommit=True) as connection:
        writer = PgWriter(connection, options.prefix)
        for number in range(WARM_UP):
            writer.transact(number)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        waits = write(writer, transactions=options.transactions, every=options.every_ms / 1_000)
    sys.stdout.write(json.dumps({name: getattr(waits, name) for name in Waits.__slots__}) + "\n")


if __name__ == "__main__":
    main()
