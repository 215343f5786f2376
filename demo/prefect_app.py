"""Drive a real Prefect server on a database in SQLite or PostgreSQL: make runs, read them, go on with them.

Run it with the python of an environment that has Prefect. The server listens on a free port of the loopback
address, keeps its files in a temporary folder, tells nobody anything, and is stopped before the command ends.
Each command prints one JSON object as its last line; everything else goes to standard error.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

START_SECONDS = 120.0
STOP_SECONDS = 60.0
SETTLE_SECONDS = 60.0
POLL_SECONDS = 0.2
EVERY_HOURS = 6
KEY = "launch-1"
"""Idempotency key of a finished run."""

SETTINGS = {
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "DO_NOT_TRACK": "1",
    "PREFECT_UI_ENABLED": "false",
    "PREFECT_CLI_PROMPT": "false",
    "PREFECT_LOGGING_LEVEL": "WARNING",
    "PREFECT_LOGGING_TO_API_BATCH_INTERVAL": "0.2",
    "PREFECT_SERVER_SERVICES_SCHEDULER_LOOP_SECONDS": "1",
    "PREFECT_SERVER_SERVICES_LATE_RUNS_LOOP_SECONDS": "1",
}


def database_url(location: str) -> str:
    """Return what Prefect calls a location: a path, or a URL of PostgreSQL."""
    if location.startswith("postgresql"):
        return "postgresql+asyncpg://" + location.partition("://")[2]
    return f"sqlite+aiosqlite:///{Path(location).resolve()}"


@contextmanager
def server(location: str) -> Iterator[str]:
    """Run a server on a database; give its address."""
    with tempfile.TemporaryDirectory(prefix="afterrun-prefect-") as home:
        port = _free_port()
        url = f"http://127.0.0.1:{port}/api"
        os.environ.update(
            SETTINGS,
            PREFECT_HOME=home,
            PREFECT_API_DATABASE_CONNECTION_URL=database_url(location),
            PREFECT_API_URL=url,
        )
        words = ["prefect.server.api.server:create_app", "--factory", "--host", "127.0.0.1"]
        command = [sys.executable, "-m", "uvicorn", *words, "--port", str(port), "--log-level", "error"]
        process = subprocess.Popen(command, stdout=sys.stderr)
        try:
            _wait_for(process, f"{url}/health")
            yield url
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_for(process: subprocess.Popen[bytes], address: str) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"the server ended with {process.returncode}")
        with suppress(urllib.error.URLError, OSError), urllib.request.urlopen(address, timeout=5) as answer:
            if answer.status == 200:
                return
        time.sleep(POLL_SECONDS)
    raise RuntimeError("the server did not start")


def populate(_options: argparse.Namespace) -> dict[str, Any]:
    """Make runs in every situation."""
    words = [sys.executable, "-E", __file__, "hang", "-"]
    with subprocess.Popen(words, stdout=sys.stderr) as process:  # it ends itself
        _finished_runs()
        told = asyncio.run(_runs_of_the_server())
        if process.wait(START_SECONDS) != HUNG:
            raise RuntimeError("the process whose flows should hang failed")
    asyncio.run(_settled())
    asyncio.run(_abandon())
    return told


HUNG = 3
"""How a process ends that leaves flows in the middle of their work."""


def hang(_options: argparse.Namespace) -> dict[str, Any]:
    """Start flows that never end, and end this process in the middle of them."""
    import prefect_flows as app

    async def start() -> None:
        running = [
            asyncio.ensure_future(one.with_options(flow_run_name=one.name)()) for one in app.HANGING
        ]
        while app.started < app.HANGING_LEAVES:
            for one in running:
                if one.done():
                    one.result()
            await asyncio.sleep(POLL_SECONDS)
        await asyncio.sleep(2 * POLL_SECONDS)  # for what goes to the server by events
        os._exit(HUNG)

    asyncio.run(start())
    return {}


def _finished_runs() -> None:
    import prefect_flows as app

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


async def _runs_of_the_server() -> dict[str, Any]:
    """Make what needs a deployment or words to the server."""
    import prefect_flows as app
    from prefect import get_client
    from prefect.client.schemas.actions import DeploymentScheduleCreate
    from prefect.client.schemas.schedules import IntervalSchedule
    from prefect.flow_engine import run_flow_sync
    from prefect.states import Cancelled, Crashed, Paused, Running, Scheduled, Suspended

    now = datetime.now(timezone.utc)
    async with get_client() as client:
        flow_id = await client.create_flow(app.leaf)
        every = IntervalSchedule(interval=timedelta(hours=EVERY_HOURS))
        later = await client.create_deployment(flow_id, app.WORKER)
        schedules = [DeploymentScheduleCreate(schedule=every, active=True)]
        scheduled = await client.create_deployment(flow_id, "often", schedules=schedules)
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
        return {"deployments": {"later": str(later), "often": str(scheduled)}, "key": KEY}


async def _abandon() -> None:
    """End two runs below which one is still running. Below a cancelled one, the server would cancel it."""
    from prefect import get_client
    from prefect.states import Completed, Crashed

    async with get_client() as client:
        for name, state in (("abandoning", Completed()), ("abandoning-child", Crashed())):
            for run in await _named(client, name):
                await client.set_flow_run_state(run.id, state, force=True)


async def _named(client: Any, name: str) -> list[Any]:
    from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterName

    return await client.read_flow_runs(flow_run_filter=FlowRunFilter(name=FlowRunFilterName(any_=[name])))


async def _settled() -> None:
    """Wait until what goes to the server by events has come: the number of rows stands still."""
    from prefect import get_client

    deadline = time.monotonic() + SETTLE_SECONDS
    seen: list[tuple[int, ...]] = []
    async with get_client() as client:
        while time.monotonic() < deadline:
            counts = tuple(
                [
                    int((await client._client.post(f"/{part}/count", json={})).text)
                    for part in ("flow_runs", "task_runs", "artifacts")
                ]
            )
            events = await client._client.post("/events/count-by/event", json={"filter": {}})
            seen.append((*counts, *(part["count"] for part in events.json())))
            if len(seen) > 10 and len(set(seen[-10:])) == 1:
                return
            await asyncio.sleep(POLL_SECONDS)
    raise RuntimeError("the server's rows never stood still")


def read(_options: argparse.Namespace) -> dict[str, Any]:
    """Return what the server says of all runs: name, state, and how many tasks and subflows it finds."""
    return {"runs": asyncio.run(_read())}


async def _read() -> list[dict[str, Any]]:
    from prefect import get_client
    from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId

    found = []
    async with get_client() as client:
        for run in await _all_runs(client):
            tasks = await client.read_task_runs(
                flow_run_filter=FlowRunFilter(id=FlowRunFilterId(any_=[run.id])), limit=200
            )
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


async def _all_runs(client: Any) -> list[Any]:
    runs: list[Any] = []
    while True:
        page = await client.read_flow_runs(limit=100, offset=len(runs))
        runs += page
        if not page:
            return sorted(runs, key=lambda run: run.name)


def proceed(_options: argparse.Namespace) -> dict[str, Any]:
    """Run flows and subflows, launch with a key that was used, and go on with what was interrupted."""
    return asyncio.run(_proceed())


async def _proceed() -> dict[str, Any]:
    import prefect_flows as app
    from prefect import get_client
    from prefect.flow_engine import run_flow_sync

    told: dict[str, Any] = {}
    told["leaf"] = await asyncio.to_thread(app.leaf.with_options(flow_run_name="after-single"), 1)
    told["family"] = await asyncio.to_thread(app.family.with_options(flow_run_name="after"), "after")
    report = app.reporting.with_options(flow_run_name="after-report")
    await asyncio.to_thread(report, "shared-report", "text after")
    async with get_client() as client:
        deployments = {one.name: one for one in await client.read_deployments()}
        later = deployments[app.WORKER].id
        before = {run.id for run in await _named(client, "keyed")}
        run = await client.create_flow_run_from_deployment(later, name="keyed-again", idempotency_key=KEY)
        told["keyed"] = "known" if run.id in before else "new"
        waiting = (await _named(client, "dispatching-child"))[:1]
        for one in waiting:
            told["dispatched"] = await asyncio.to_thread(run_flow_sync, app.leaf, flow_run=one)
        told["deployments"] = sorted(deployments)
        shared = await client._client.get("/artifacts/shared-report/latest")
        told["latest"] = shared.json().get("data")
    return told


async def _vacuum() -> None:
    from prefect.server.database.dependencies import provide_database_interface
    from prefect.server.services.db_vacuum import vacuum_old_flow_runs

    await vacuum_old_flow_runs(db=provide_database_interface())


def vacuum(options: argparse.Namespace) -> dict[str, Any]:
    """Remove runs by the engine's own vacuum, in this process; return the seconds that took."""
    with tempfile.TemporaryDirectory(prefix="afterrun-prefect-") as home:
        os.environ.update(
            SETTINGS, PREFECT_HOME=home, PREFECT_API_DATABASE_CONNECTION_URL=database_url(options.store)
        )
        os.environ["PREFECT_SERVER_SERVICES_DB_VACUUM_RETENTION_PERIOD"] = str(options.days * 86_400)
        import prefect.server.services.db_vacuum  # noqa: F401 - not part of what is measured

        began = time.perf_counter()
        asyncio.run(_vacuum())
        return {"seconds": time.perf_counter() - began}


COMMANDS = {"populate": populate, "read": read, "proceed": proceed}
ALONE = {"vacuum": vacuum, "hang": hang}


def main() -> None:
    """Run one command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", choices=[*COMMANDS, *ALONE])
    parser.add_argument("store", help="path of a SQLite file, or a URL of PostgreSQL")
    parser.add_argument("--days", type=int, default=30, help="age that the engine's own vacuum leaves alone")
    options = parser.parse_args()
    with redirect_stdout(sys.stderr):
        if options.command in ALONE:
            answer = ALONE[options.command](options)
        else:
            with server(options.store):
                answer = COMMANDS[options.command](options)
    sys.stdout.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
