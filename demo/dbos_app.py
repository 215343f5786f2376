"""Drive a real DBOS engine on a store in SQLite or PostgreSQL: make situations, recover, resume, delete.

Run it with the python of an environment that has dbos (2.31 to 3.4). Each command prints
one JSON object as its last line; everything else goes to standard error.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from dbos import DBOS, DBOSClient

import dbos_situations as situations
import dbos_workflows as app

LIVE = frozenset({"PENDING", "ENQUEUED", "DELAYED"})


def populate(options: argparse.Namespace) -> dict[str, Any]:
    """Fill a store with every situation, the waiting ones left by a killed process."""
    with app.engine(options.db):
        situations.make_finished()
    _hold_and_kill(options.db)
    return {
        "ids": {**situations.FINISHED, **situations.WAITING},
        "statuses": _rows(options.db, "workflow_uuid, status"),
        "dbos": version("dbos"),
    }


def hold(options: argparse.Namespace) -> dict[str, Any]:
    """Park the waiting situations, say so, and stay until killed."""
    with app.engine(options.db):
        _emit({"parked": situations.make_waiting()})
        while True:
            signal.pause()


def recover(options: argparse.Namespace) -> dict[str, Any]:
    """Restart the engine after a crash and bring what waits to its end."""
    before = _rows(options.db, "workflow_uuid, status")
    waiting = [run_id for run_id in situations.FINISHING if before.get(run_id) in LIVE]
    with app.engine(options.db):
        for run_id in situations.MESSAGED:
            if run_id in waiting:
                DBOS.send(run_id, "a message", app.GO)
        stuck = _await_finish(waiting, options.wait)
        new_id = f"new-{time.time_ns()}"
        new = app.start(new_id, app.simple, new_id)
        new.get_result(polling_interval_sec=app.POLL_SECONDS)
        now = app.statuses(waiting)
        return {
            "statuses": {run_id: now.get(run_id, "MISSING") for run_id in waiting},
            "results": {run_id: _result(run_id) for run_id in waiting if run_id not in stuck},
            "stuck": stuck,
            "new": app.statuses([new_id])[new_id],
            "queue": app.statuses([*situations.WAITING["blocked_queue"], *situations.WAITING["delayed"]]),
        }


def rerun(options: argparse.Namespace) -> dict[str, Any]:
    """Submit a simple run under an id again, with another input."""
    value = f"rerun at {time.time_ns()}"
    with app.engine(options.db, executor=app.BYSTANDER):
        handle = app.start(options.id, app.simple, value)
        stuck = _await_finish([options.id], options.wait)
        result = None if stuck else handle.get_result()
        return {"executed": value in app.bodies_run, "result": result, "input": value}


def resume(options: argparse.Namespace) -> dict[str, Any]:
    """Resume a run; with --no-run leave it queued."""
    return _change(options, lambda client: _resume(client, options.id))


def fork(options: argparse.Namespace) -> dict[str, Any]:
    """Fork a run; with --no-run leave the fork queued."""
    return _change(options, lambda client: _fork(client, options.id, options.step))


def cancel(options: argparse.Namespace) -> dict[str, Any]:
    """Cancel a run."""
    options.no_run = True
    return _change(options, lambda client: _cancel(client, options.id))


def status(options: argparse.Namespace) -> dict[str, Any]:
    """Report the engine's view of the runs named, and of all."""
    with app.engine(options.db, executor=app.BYSTANDER):
        named = app.statuses(options.ids)
        return {
            "statuses": {run_id: named.get(run_id) for run_id in options.ids},
            "all": app.statuses(),
        }


def work(options: argparse.Namespace) -> dict[str, Any]:
    """Run new simple workflows one after another, as a live engine does."""
    errors: list[str] = []
    finished: list[str] = []
    slowest = 0.0
    with app.engine(options.db, executor=app.BYSTANDER):
        if options.ready is not None:
            options.ready.touch()
        end = time.monotonic() + options.seconds
        while (begin := time.monotonic()) < end:
            run_id = f"work-{time.time_ns()}"
            try:
                app.start(run_id, app.simple, run_id).get_result()
                finished.append(run_id)
            except Exception as error:  # noqa: BLE001 - every failure is counted
                errors.append(repr(error))
            slowest = max(slowest, time.monotonic() - begin)
        known = app.statuses()
    lost = [run_id for run_id in finished if known.get(run_id) != "SUCCESS"]
    return {"finished": len(finished), "errors": errors, "lost": lost, "slowest_seconds": slowest}


def open_stores(options: argparse.Namespace) -> dict[str, Any]:
    """Launch the engine on each store and shut it down; nothing is recovered."""
    pending = 0
    for store in options.dbs:
        with app.engine(store, executor=app.BYSTANDER):
            pending += sum(state == "PENDING" for state in app.statuses().values())
    return {"ok": True, "pending": pending, "opened": len(options.dbs)}


def delete(options: argparse.Namespace) -> dict[str, Any]:
    """Delete runs with the engine's own call, `--per-call` ids at a time."""
    if not hasattr(DBOSClient, "delete_workflows"):
        return {"unsupported": True}
    ids = options.file.read_text(encoding="utf-8").split()
    count = "'runs', count(*)"
    before = _rows(options.db, count)["runs"]
    client = _client(options.db)
    begin = time.perf_counter()
    for offset in range(0, len(ids), options.per_call):
        client.delete_workflows(ids[offset : offset + options.per_call])
    seconds = time.perf_counter() - begin
    client.destroy()
    return {
        "seconds": seconds,
        "deleted": before - _rows(options.db, count)["runs"],
        "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def _hold_and_kill(store: str) -> None:
    command = [sys.executable, __file__, "hold", store]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        told = process.stdout.readline() if process.stdout else b""
        process.kill()
    if not told:
        raise RuntimeError("the holding process ended before everything was parked")


def _await_finish(ids: list[str], seconds: float) -> list[str]:
    """Wait until the runs are finished; return those that are not when time is up."""
    end = time.monotonic() + seconds
    while True:
        now = app.statuses(ids)
        stuck = [run_id for run_id in ids if now.get(run_id, "MISSING") in LIVE]
        if not stuck or time.monotonic() > end:
            return stuck
        time.sleep(app.POLL_SECONDS)


def _result(run_id: str) -> str:
    try:
        return str(DBOS.retrieve_workflow(run_id).get_result())
    except Exception as error:  # noqa: BLE001 - a failed run's result is its error
        return f"{type(error).__name__}: {error}"


def _change(options: argparse.Namespace, act: Callable[[DBOSClient], tuple[str, str]]) -> dict[str, Any]:
    """Change a run from outside, then let a bystander engine run it unless told not to."""
    client = _client(options.db, application_name=app.APP_NAME)
    run_id, state = act(client)
    client.destroy()
    if options.no_run:
        return {"id": run_id, "status": state}
    with app.engine(options.db, executor=app.BYSTANDER):
        _await_finish([run_id], options.wait)
        return {"id": run_id, "status": app.statuses([run_id]).get(run_id, "MISSING")}


def _resume(client: DBOSClient, run_id: str) -> tuple[str, str]:
    return run_id, client.resume_workflow(run_id).get_status().status


def _fork(client: DBOSClient, run_id: str, step: int) -> tuple[str, str]:
    handle = client.fork_workflow(run_id, step, application_version=app.APP_VERSION)
    return handle.get_workflow_id(), handle.get_status().status


def _cancel(client: DBOSClient, run_id: str) -> tuple[str, str]:
    client.cancel_workflow(run_id)
    return run_id, client.retrieve_workflow(run_id).get_status().status


def _client(store: str, **options: Any) -> DBOSClient:  # noqa: ANN401 - as the engine's
    url, schema = app.database_url(store), app.schema(store)
    return DBOSClient(system_database_url=url, dbos_system_schema=schema, **options)


def _rows(store: str, columns: str) -> dict[str, Any]:
    """Select two columns of all runs."""
    url = sa.make_url(app.database_url(store))
    server = url.get_backend_name() != "sqlite"
    engine = sa.create_engine(url.set(drivername="postgresql+psycopg") if server else url)
    runs = sa.table("workflow_status", schema=app.schema(store) if server else None)
    with engine.connect() as connection:
        found = connection.execute(sa.select(sa.text(columns)).select_from(runs)).all()
    engine.dispose()
    return {str(key): value for key, value in found}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, run: Callable[[argparse.Namespace], dict[str, Any]]) -> Any:  # noqa: ANN401
        sub = commands.add_parser(name, help=run.__doc__)
        sub.set_defaults(run=run)
        if name == "open":
            sub.add_argument("dbs", nargs="+", metavar="DB", help="path or URL")
        else:
            sub.add_argument("db", help="path of a SQLite file, or URL of a PostgreSQL database")
        return sub

    command("populate", populate)
    command("hold", hold)
    command("open", open_stores)
    command("status", status).add_argument("ids", nargs="*", metavar="ID")
    waiters = [command("recover", recover)]
    for name, run in (("rerun", rerun), ("resume", resume), ("fork", fork), ("cancel", cancel)):
        sub = command(name, run)
        sub.add_argument("id")
        waiters.append(sub)
        if name in ("resume", "fork"):
            sub.add_argument("--no-run", action="store_true", help="leave it queued")
        if name == "fork":
            sub.add_argument("--step", type=int, default=1, help="first step to run again")
    for sub in waiters:
        sub.add_argument("--wait", type=float, default=20.0, help="seconds to wait for an end")
    sub = command("work", work)
    sub.add_argument("seconds", type=float)
    sub.add_argument("--ready", type=Path, help="file to create once the engine runs")
    sub = command("delete", delete)
    sub.add_argument("file", type=Path, help="file of ids, one a line")
    sub.add_argument("--per-call", type=int, default=1_000)
    return parser


def _emit(answer: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Run one command and leave at once: runs that still wait must not hold the process."""
    options = _parser().parse_args()
    code = 0
    try:
        _emit(options.run(options))
    except Exception:  # noqa: BLE001 - the process must end although threads still wait
        traceback.print_exc()
        code = 1
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
