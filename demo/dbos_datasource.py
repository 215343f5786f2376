"""Drive a real DBOS engine (3.4) whose steps keep their checkpoints in another database: a datasource.

Run it with the python of an environment that has dbos. STORE is the system database, DATASOURCE the
application's: each a SQLite file or a URL of PostgreSQL. Each command prints a JSON object as its last line.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa
from dbos import DBOS, DBOSClient, SQLAlchemyDatasource
from sqlalchemy.orm import Session

import dbos_workflows as app

CRASHED = "order-crashed"
"""Cancelled after a crash: its step is committed in the datasource, and the store does not know."""

DONE = "order-done"
"""Finished, but the engine could not clear its rows in the datasource."""

CLEAN = "order-clean"
"""Finished as usual: the engine has cleared its rows in the datasource."""

WAITING = "order-waiting"
"""Crashed like the first, and not cancelled: the next engine goes on with it."""

WAIT_SECONDS = 20.0

Order = Callable[[str], str]


class Shop:
    """The application: its table of charges, and the workflow that makes them."""

    def __init__(self, place: str) -> None:
        """Connect to the datasource, which makes its tables."""
        self.datasource = SQLAlchemyDatasource.create(app.database_url(place), schema=app.schema(place))
        charges = "CREATE TABLE IF NOT EXISTS charges (run TEXT, value TEXT)"
        with self.datasource.engine.begin() as connection:
            connection.execute(sa.text(charges))
        self.order = self._register()

    def _register(self) -> Order:
        @self.datasource.transaction(name="charge")
        def charge(value: str) -> str:
            insert = "INSERT INTO charges VALUES (:run, :value)"
            row = {"run": DBOS.workflow_id, "value": value}
            self.datasource.sql_session().execute(sa.text(insert), row)
            return f"charged {value}"

        @DBOS.workflow(name="order")
        def order(value: str) -> str:
            """Charge, which must happen once, and then do some work."""
            return f"{charge(value)}, {app.work(value)}"

        return order

    def charges(self, run_id: str) -> list[str]:
        """Return what was charged for a run, in any order of time."""
        query = "SELECT value FROM charges WHERE run = :run ORDER BY value"
        with self.datasource.engine.connect() as connection:
            return [row[0] for row in connection.execute(sa.text(query), {"run": run_id})]

    def forgetful(self) -> None:
        """Make the engine fail to clear checkpoints, as while the datasource's database is down."""

        def fail(*_args: object) -> bool:
            raise ConnectionError("on purpose")

        self.datasource._delete_checkpoints_if_owner = fail  # noqa: SLF001 - there is no public way

    def fatal(self) -> None:
        """End this process the moment a step's transaction is committed, before the store knows of it."""

        def die(_session: Session) -> None:
            os.write(1, b'{"died": true}\n')
            os._exit(0)

        sa.event.listen(Session, "after_commit", die)


def populate(options: argparse.Namespace) -> dict[str, Any]:
    """Make the four orders."""
    with _open(options) as shop:
        _run(shop, CLEAN)
        shop.forgetful()
        _run(shop, DONE)
    for run_id in (CRASHED, WAITING):
        _in_other_process("crash", options, run_id)
    client = DBOSClient(
        system_database_url=app.database_url(options.store), dbos_system_schema=app.schema(options.store)
    )
    client.cancel_workflow(CRASHED)
    client.destroy()
    return {"orders": [CLEAN, DONE, CRASHED, WAITING]}


def crash(options: argparse.Namespace) -> dict[str, Any]:
    """Start an order and die between the commit in the datasource and the one in the store."""
    with _open(options) as shop:
        shop.fatal()
        _run(shop, options.ids[0])
    return {"died": False}


def rerun(options: argparse.Namespace) -> dict[str, Any]:
    """Submit orders under their ids again, with another value."""
    value = f"again-{time.time_ns()}"
    with _open(options) as shop:
        handles = {run_id: app.start(run_id, shop.order, value) for run_id in options.ids}
        return {
            run_id: {
                "value": value,
                "result": handle.get_result(polling_interval_sec=app.POLL_SECONDS),
                "charges": shop.charges(run_id),
            }
            for run_id, handle in handles.items()
        }


def resume(options: argparse.Namespace) -> dict[str, Any]:
    """Resume orders and wait for their ends; a run that the store does not have is ``missing``."""
    with _open(options) as shop:
        there = app.statuses(options.ids)
        for run_id in there:
            DBOS.resume_workflow(run_id).get_result(polling_interval_sec=app.POLL_SECONDS)
        now = app.statuses(options.ids)
        return {
            run_id: {"status": now.get(run_id, "missing"), "charges": shop.charges(run_id)}
            for run_id in options.ids
        }


def recover(options: argparse.Namespace) -> dict[str, Any]:
    """Go on with what a crash left, as the executor that owns it."""
    with _open(options, executor=app.OWNER) as shop:
        result = DBOS.retrieve_workflow(WAITING).get_result(polling_interval_sec=app.POLL_SECONDS)
        return {"result": result, "charges": shop.charges(WAITING)}


@contextmanager
def _open(options: argparse.Namespace, *, executor: str = app.BYSTANDER) -> Iterator[Shop]:
    shop = Shop(options.datasource)
    with app.engine(options.store, executor=options.executor or executor):
        yield shop


def _run(shop: Shop, run_id: str) -> None:
    app.start(run_id, shop.order, run_id).get_result(polling_interval_sec=app.POLL_SECONDS)


def _in_other_process(command: str, options: argparse.Namespace, run_id: str) -> None:
    words = [sys.executable, "-E", __file__, command, options.store, options.datasource, run_id]
    subprocess.run([*words, "--executor", app.OWNER], check=True, timeout=WAIT_SECONDS)


def main() -> None:
    """Run one command and leave at once: runs that still wait must not hold the process."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for run, takes_ids in ((populate, False), (recover, False), (crash, True), (rerun, True), (resume, True)):
        sub = commands.add_parser(run.__name__, help=run.__doc__)
        sub.set_defaults(run=run)
        sub.add_argument("store")
        sub.add_argument("datasource")
        if takes_ids:
            sub.add_argument("ids", nargs="+", metavar="ID")
        sub.add_argument("--executor", default="")
    options = parser.parse_args()
    code = 0
    try:
        sys.stdout.write(json.dumps(options.run(options)) + "\n")
    except Exception:  # noqa: BLE001 - the process must end although threads still wait
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
