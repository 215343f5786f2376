"""What clients of a Prefect server do: make runs in every situation, read them, go on with them.

`prefect_app.py` starts it with all that Prefect reads from its environment. Each command prints one JSON
object as its last line; everything else goes to standard error.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import closing, redirect_stdout, suppress
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

from prefect import get_client
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.actions import DeploymentScheduleCreate
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId, FlowRunFilterName
from prefect.client.schemas.schedules import IntervalSchedule
from prefect.flow_engine import run_flow_sync
from prefect.server.database.dependencies import provide_database_interface
from prefect.server.services.db_vacuum import vacuum_old_flow_runs
from prefect.settings import PREFECT_SERVER_SERVICES_DB_VACUUM_RETENTION_PERIOD, temporary_settings
from prefect.states import Cancelled, Completed, Crashed, Paused, Running, Scheduled, Suspended

import prefect_flows as app

HANG_SECONDS = 120.0
SETTLE_SECONDS = 60.0
POLL_SECONDS = 0.2
STILL = 10
"""Looks, all alike, after which nothing more is taken to come."""
EVERY_HOURS = 6
PAGE = 100
HUNG = 3
"""How a process ends that leaves flows in the middle of their work."""
KEY = "launch-1"
"""Idempotency key of a finished run."""


def populate(_options: argparse.Namespace) -> dict[str, Any]:
    """Make runs in every situation."""
    with subprocess.Popen([sys.executable, "-E", __file__, "hang"], stdout=sys.stderr) as process:
        _finish()
        told = asyncio.run(_ask_the_server())
        if process.wait(HANG_SECONDS) != HUNG:
            raise RuntimeError("the process whose flows should hang failed")
    _settle()
    asyncio.run(_abandon())
    return told


def hang(_options: argparse.Namespace) -> dict[str, Any]:
    """Start flows that never end, and end this process in the middle of them."""
    asyncio.run(_hang())
    return {}


async def _hang() -> None:
    running = [asyncio.ensure_future(one.with_options(flow_run_name=one.name)()) for one in app.HANGING]
    while len(app.STARTED) < len(app.HANGING):
        for one in running:
            if one.done():
                one.result()
        await asyncio.sleep(POLL_SECONDS)
    await asyncio.sleep(2 * POLL_SECONDS)  # for what goes to the server by events
    os._exit(HUNG)


def _finish() -> None:
    """Make runs that end by themselves, and tasks outside of runs."""
    app.background(1)
    app.background.delay(2)
    for number in range(3):
        app.leaf.with_options(flow_run_name=f"single-{number}")(number)
    app.bulk.with_options(flow_run_name="bulk")()
    with suppress(ValueError):
        app.failing.with_options(flow_run_name="failed")()
    for place in range(2):
        app.reporting.with_options(flow_run_name=f"reporting-{place}")("shared-report", f"text {place}")
    app.reporting.with_options(flow_run_name="reporting-alone")("own-report", "alone")
    app.family.with_options(flow_run_name="family")("family")


async def _ask_the_server() -> dict[str, Any]:
    """Make what needs a deployment or words to the server."""
    now = datetime.now(UTC)
    async with get_client() as client:
        flow_id = await client.create_flow(app.leaf)
        later = await client.create_deployment(flow_id, app.WORKER)
        every = IntervalSchedule(interval=timedelta(hours=EVERY_HOURS))
        schedules = [DeploymentScheduleCreate(schedule=every, active=True)]
        often = await client.create_deployment(flow_id, "often", schedules=schedules)
        for name, state in (
            ("due", Scheduled(scheduled_time=now + timedelta(days=2))),
            ("late", Scheduled(scheduled_time=now - timedelta(hours=1))),
            ("suspended", Suspended(timeout_seconds=3600)),
        ):
            await client.create_flow_run_from_deployment(later, name=name, state=state)
        keyed = await client.create_flow_run_from_deployment(later, name="keyed", idempotency_key=KEY)
        await asyncio.to_thread(run_flow_sync, app.leaf, flow_run=keyed, parameters={"number": 7})
        await asyncio.to_thread(app.dispatching.with_options(flow_run_name="dispatching"))
        for name, last in (("paused", Paused()), ("cancelled", Cancelled()), ("crashed", Crashed())):
            run = await client.create_flow_run(app.leaf, name=name)
            await client.set_flow_run_state(run.id, Running(), force=True)
            await client.create_flow_run_input(run.id, "answer", "42")
            await client.set_flow_run_state(run.id, last, force=True)
    return {"deployments": {app.WORKER: str(later), "often": str(often)}, "key": KEY}


async def _abandon() -> None:
    """End two runs below which one is still running. Below a cancelled one, the server would cancel it."""
    async with get_client() as client:
        for name, state in (("abandoning", Completed()), ("abandoning-child", Crashed())):
            for run in await _named(client, name):
                await client.set_flow_run_state(run.id, state, force=True)


async def _named(client: PrefectClient, name: str) -> list[Any]:
    return await client.read_flow_runs(flow_run_filter=FlowRunFilter(name=FlowRunFilterName(any_=[name])))


def _settle() -> None:
    """Wait until what goes to the server by events has come: the number of rows stands still."""
    deadline = time.monotonic() + SETTLE_SECONDS
    seen: list[list[Any]] = []
    while time.monotonic() < deadline:
        counts = [_called("POST", f"/{part}/count", {}) for part in ("flow_runs", "task_runs", "artifacts")]
        events = _called("POST", "/events/count-by/event", {"filter": {}})
        seen.append([*counts, *sorted((part["label"], part["count"]) for part in events)])
        if len(seen) > STILL and all(one == seen[-1] for one in seen[-STILL:]):
            return
        time.sleep(POLL_SECONDS)
    raise RuntimeError("the server's rows never stood still")


def _called(method: str, path: str, body: Mapping[str, object] | None = None) -> Any:  # noqa: ANN401 - as it answers
    """Return the answer of the server to one call of its API."""
    url = urlsplit(os.environ["PREFECT_API_URL"])
    with closing(http.client.HTTPConnection(str(url.hostname), url.port)) as connection:
        words = None if body is None else json.dumps(body)
        connection.request(method, url.path + path, words, {"Content-Type": "application/json"})
        return json.loads(connection.getresponse().read())


def read(_options: argparse.Namespace) -> dict[str, Any]:
    """Return what the server says of all runs: name, state, states so far, and the tasks that it finds."""
    return {"runs": asyncio.run(_read())}


async def _read() -> list[dict[str, Any]]:
    found = []
    async with get_client() as client:
        for run in await _all_runs(client):
            within = FlowRunFilter(id=FlowRunFilterId(any_=[run.id]))
            tasks = await client.read_task_runs(flow_run_filter=within)
            states = await client.read_flow_run_states(run.id)
            found.append(
                {
                    "name": run.name,
                    "state": run.state_type.value,
                    "tasks": sorted(task.name for task in tasks),
                    "states": [state.type.value for state in states],
                }
            )
    return found


async def _all_runs(client: PrefectClient) -> list[Any]:
    runs: list[Any] = []
    while page := await client.read_flow_runs(limit=PAGE, offset=len(runs)):
        runs += page
    return sorted(runs, key=lambda run: run.name)


def proceed(_options: argparse.Namespace) -> dict[str, Any]:
    """Run flows and subflows, launch with a key that was used, and run what was handed over."""
    told = {
        "leaf": app.leaf.with_options(flow_run_name="after-single")(1),
        "family": app.family.with_options(flow_run_name="after")("after"),
    }
    app.reporting.with_options(flow_run_name="after-report")("shared-report", "text after")
    latest = _called("GET", "/artifacts/shared-report/latest")
    return {**told, **asyncio.run(_proceed()), "latest": latest["data"]}


async def _proceed() -> dict[str, Any]:
    async with get_client() as client:
        deployments = {one.name: one.id for one in await client.read_deployments()}
        before = {run.id for run in await _named(client, "keyed")}
        run = await client.create_flow_run_from_deployment(
            deployments[app.WORKER], name="keyed-again", idempotency_key=KEY
        )
        [waiting] = await _named(client, "dispatching-child")
        return {
            "keyed": "known" if run.id in before else "new",
            "deployments": sorted(deployments),
            "dispatched": await asyncio.to_thread(run_flow_sync, app.leaf, flow_run=waiting),
        }


def vacuum(options: argparse.Namespace) -> dict[str, Any]:
    """Remove runs by the engine's own vacuum, in this process; return the seconds that took."""
    period = {PREFECT_SERVER_SERVICES_DB_VACUUM_RETENTION_PERIOD: timedelta(days=options.days)}
    with temporary_settings(period):
        began = time.perf_counter()
        asyncio.run(vacuum_old_flow_runs(db=provide_database_interface()))
        return {"seconds": time.perf_counter() - began}


COMMANDS = {"populate": populate, "hang": hang, "read": read, "proceed": proceed, "vacuum": vacuum}


def main() -> None:
    """Run one command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", choices=COMMANDS)
    parser.add_argument("days", type=int, nargs="?", default=30, help="age that the vacuum leaves alone")
    options = parser.parse_args()
    with redirect_stdout(sys.stderr):
        answer = COMMANDS[options.command](options)
    sys.stdout.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
