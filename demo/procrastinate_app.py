"""Drive a real procrastinate on a schema of PostgreSQL: make jobs in every situation, work, retry, tick.

Run it with the python of an environment that has procrastinate 3. Each command prints one JSON object as its
last line; everything else goes to standard error. The URL may name the schema by ``?schema=``.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import procrastinate
import psycopg
from procrastinate.exceptions import JobAborted
from psycopg import sql

SUCCEEDING = 5
LATER = timedelta(days=1)
TICKS = (1_700_000_000, 1_700_003_600)
"""Times, as the engine counts them, at which its periodic task was due."""
PERIODIC = "nightly"
KILLED = 9
WAIT_SECONDS = 20.0
POLL_SECONDS = 0.05
AGE_HOURS = 720

tasks = procrastinate.Blueprint()

App = Any


@tasks.task(name="add", queue="sums")
async def add(left: int, right: int) -> int:
    """Succeed."""
    return left + right


@tasks.task(name="fail")
async def fail() -> None:
    """Fail for good."""
    raise RuntimeError("not today")


@tasks.task(name="again", retry=procrastinate.RetryStrategy(max_attempts=5, wait=86_400))
async def again() -> None:
    """Fail, to be tried again tomorrow."""
    raise RuntimeError("not yet")


@tasks.task(name="stop", pass_context=True)
async def stop(context: procrastinate.JobContext) -> None:
    """Wait until somebody asks for an end."""
    for _ in range(round(WAIT_SECONDS / POLL_SECONDS)):
        if context.should_abort():
            raise JobAborted
        await asyncio.sleep(POLL_SECONDS)


@tasks.task(name="die", queue="deadly")
async def die() -> None:
    """End the process of its worker, as a kill does."""
    os._exit(KILLED)


@tasks.task(name="tick", queue="periodic", pass_context=False)
async def tick(timestamp: int) -> int:
    """Succeed at a time that comes round."""
    return timestamp


def make_app(url: str) -> App:
    """Return an application on a schema."""
    location, schema = split(url)
    path = sql.Identifier(schema).as_string().replace("\\", "\\\\").replace(" ", "\\ ")
    options = {"options": f"-c search_path={path} -c datestyle=ISO"}
    connector = procrastinate.PsycopgConnector(conninfo=location, kwargs=options, min_size=1)
    app = procrastinate.App(connector=connector)
    app.add_tasks_from(tasks, namespace="demo")
    return app


def split(url: str) -> tuple[str, str]:
    """Return the URL as the driver takes it, and the schema. What is given is spelled as SQLAlchemy does."""
    parts = urlsplit(url.replace("postgresql+psycopg:", "postgresql:").replace(" ", "%20"))
    words = dict(parse_qsl(parts.query))
    schema = words.pop("schema", "public")
    return urlunsplit(parts._replace(query=urlencode(words))), schema


async def populate(app: App, options: argparse.Namespace) -> dict[str, Any]:
    """Make a job in every situation, and leave the worker that ran them behind."""
    location, schema = split(options.url)
    with psycopg.connect(location, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(schema)))
    await app.schema_manager.apply_schema_async()
    made: dict[str, Any] = {
        "succeeded": [await _defer(app, "add", left=n, right=n) for n in range(SUCCEEDING)],
        "failed": [await _defer(app, "fail") for _ in range(2)],
        "retrying": [await _defer(app, "again")],
        "ticks": [await _tick(app, moment) for moment in TICKS],
    }
    await _work(app)
    later = datetime.now(UTC) + LATER
    made["todo"] = [await _defer(app, "add", schedule_at=later, left=1, right=1)]
    called_off = await _defer(app, "add", schedule_at=later, left=2, right=2)
    await app.job_manager.cancel_job_by_id_async(called_off)
    made["cancelled"] = [called_off]
    made["aborted"] = [await _abort(app)]
    made["doing"] = [await _defer(app, "die")]
    words = ["-E", __file__, "work", options.url, "--queue", "deadly"]
    killed = await (await asyncio.create_subprocess_exec(sys.executable, *words)).wait()
    if killed != KILLED:
        raise RuntimeError(f"the worker was to be killed, and ended with {killed}")
    return {**made, "version": version("procrastinate")}


async def _abort(app: App) -> int:
    """Ask a running job to end, and wait until it did."""
    job = await _defer(app, "stop")
    working = asyncio.create_task(_work(app))
    await _await_status(app, job, "doing")
    await app.job_manager.cancel_job_by_id_async(job, abort=True)
    await working
    return job


async def _await_status(app: App, job: int, wanted: str) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while (await app.job_manager.get_job_status_async(job)).value != wanted:
        if time.monotonic() > deadline:
            raise RuntimeError(f"job {job} was never {wanted}")
        await asyncio.sleep(POLL_SECONDS)


async def _defer(app: App, task: str, *, schedule_at: datetime | None = None, **words: object) -> int:
    task_to_defer = app.configure_task(f"demo:{task}", schedule_at=schedule_at)
    return int(await task_to_defer.defer_async(**words))


async def _tick(app: App, timestamp: int) -> int | None:
    """Do what the engine's own loop does when its periodic task is due; nothing if that was done before."""
    task = app.tasks["demo:tick"]
    job = task.configure(task_kwargs={"timestamp": timestamp}).job
    return await app.job_manager.defer_periodic_job(job=job, periodic_id=PERIODIC, defer_timestamp=timestamp)


async def _work(app: App, queue: str | None = None) -> None:
    queues = ["sums", "default", "periodic", "builtin"] if queue is None else [queue]
    await app.run_worker_async(
        queues=queues,
        wait=False,
        install_signal_handlers=False,
        listen_notify=False,
        abort_job_polling_interval=POLL_SECONDS,
        delete_jobs="never",
    )


async def work(app: App, options: argparse.Namespace) -> dict[str, Any]:
    """Run a worker until nothing is due, after a new job was deferred; return the state of that job."""
    job = await _defer(app, "add", left=20, right=22) if options.queue is None else None
    await _work(app, options.queue)
    status = None if job is None else (await app.job_manager.get_job_status_async(job)).value
    return {"job": job, "status": status}


async def retry(app: App, options: argparse.Namespace) -> dict[str, Any]:
    """Put failed jobs back in their queue, by hand as an operator does."""
    for job in options.jobs:
        await app.job_manager.retry_job_by_id_async(job_id=job, retry_at=datetime.now(UTC))
    return {"retried": options.jobs}


async def ticks(app: App, _options: argparse.Namespace) -> dict[str, Any]:
    """Let every known time come round again, then a new one; return which of them made a job."""
    known = [await _tick(app, moment) for moment in TICKS[-1:]]
    return {"again": known, "new": await _tick(app, TICKS[-1] + 3_600)}


async def prune(app: App, _options: argparse.Namespace) -> dict[str, Any]:
    """Delete old jobs by the engine's own call, of every final state."""
    await app.job_manager.delete_old_jobs(
        nb_hours=AGE_HOURS, include_failed=True, include_cancelled=True, include_aborted=True
    )
    return {}


COMMANDS: dict[str, Callable[[App, argparse.Namespace], Awaitable[dict[str, Any]]]] = {
    "populate": populate,
    "work": work,
    "retry": retry,
    "ticks": ticks,
    "prune": prune,
}


async def _run(options: argparse.Namespace) -> dict[str, Any]:
    app = make_app(options.url)
    async with app.open_async():
        return await COMMANDS[options.command](app, options)


def main() -> None:
    """Run one command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", choices=list(COMMANDS))
    parser.add_argument("url")
    parser.add_argument("jobs", nargs="*", type=int)
    parser.add_argument("--queue")
    answer = asyncio.run(_run(parser.parse_args()))
    sys.stdout.write(f"{json.dumps(answer)}\n")


if __name__ == "__main__":
    main()
