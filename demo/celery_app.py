"""Drive a real Celery with results and broker in SQLite or PostgreSQL: make results in every state, go on.

Run it with the python of an environment that has Celery 5 and SQLAlchemy. Each command prints one JSON object
as its last line; everything else goes to standard error.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any

from celery import Celery, chord, group

SUCCEEDING = 4
KILLED = 9
TOMORROW = 86_400
WAIT_SECONDS = 40.0
POLL_SECONDS = 0.1
WORKER = ("--pool=solo", "--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel=ERROR")

app = Celery("demo")


def configure(url: str, zone: str | None) -> None:
    """Put results and messages into one database."""
    app.conf.update(
        result_backend=f"db+{url}",
        broker_url=f"sqla+{url}",
        broker_connection_retry_on_startup=True,
        task_track_started=True,
        result_extended=True,
        result_expires=None,
        timezone=zone,
    )


@app.task(name="add")
def add(left: int, right: int) -> int:
    """Succeed."""
    return left + right


@app.task(name="total")
def total(numbers: list[int]) -> int:
    """End a chord."""
    return sum(numbers)


@app.task(name="fail")
def fail() -> None:
    """Fail for good."""
    raise RuntimeError("not today")


@app.task(name="again", bind=True)
def again(self: Any) -> None:  # noqa: ANN401 - the engine's own
    """Fail, to be tried again tomorrow."""
    raise self.retry(countdown=TOMORROW)


@app.task(name="die", bind=True)
def die(self: Any, state: str | None) -> None:  # noqa: ANN401 - the engine's own
    """End the process of the worker, as a kill does, in the state of the engine or in one of its own."""
    if state is not None:
        self.update_state(state=state, meta={"done": 1, "of": 2})
    os._exit(KILLED)


def populate(options: argparse.Namespace) -> dict[str, Any]:
    """Make a result in every state, and leave behind what killed workers had begun."""
    declare("celery", "deadly")
    made: dict[str, list[str]] = {}
    with working(options):
        done = [add.delay(number, number) for number in range(SUCCEEDING)]
        failed = [fail.delay() for _ in range(2)]
        late = [add.apply_async((1, 1), expires=-1)]
        saved = group(add.s(1, 2), add.s(3, 4))()
        saved.save()
        ended = chord([add.s(1, 1), add.s(2, 2)], total.s())()
        retrying = [again.delay()]
        await_state([*done, *saved.results, ended, *ended.parent.results], "SUCCESS")
        await_state(failed, "FAILURE")
        await_state(late, "REVOKED")
        await_state(retrying, "RETRY")
    made["succeeded"] = ids([*done, *saved.results, ended, *ended.parent.results])
    made |= {"failed": ids(failed), "revoked": ids(late), "retrying": ids(retrying), "saved": [saved.id]}
    for name, state in (("started", None), ("progress", "PROGRESS")):
        lost = die.apply_async((state,), queue="deadly")
        with working(options, queue="deadly") as worker:
            worker.wait(WAIT_SECONDS)
        await_state([lost], state or "STARTED")
        made[name] = ids([lost])
    return {**made, "version": version("celery")}


def declare(*queues: str) -> None:
    """Make the broker's tables and queues before there is a worker: two processes that do so at once fail."""
    with app.connection_for_write() as connection:
        for queue in queues:
            connection.SimpleQueue(queue).close()


def work(options: argparse.Namespace) -> dict[str, Any]:
    """Take new tasks, one of them a chord; return what came out, and what the engine says of some ids."""
    with working(options):
        single = add.delay(20, 22)
        ended = chord([add.s(1, 1), add.s(2, 2)], total.s())()
        await_state([single, ended], "SUCCESS")
        told = {"single": single.get(), "chord": ended.get()}
    return {**told, "states": {task: app.AsyncResult(task).state for task in options.tasks}}


def restore(options: argparse.Namespace) -> dict[str, Any]:
    """Return the values of a saved group."""
    found = [app.GroupResult.restore(saved) for saved in options.tasks]
    return {"groups": [None if each is None else [r.state for r in each.results] for each in found]}


def cleanup(_options: argparse.Namespace) -> dict[str, Any]:
    """Remove what has expired by the engine's own call, after a day."""
    app.conf.result_expires = TOMORROW
    app.backend.cleanup()
    return {}


def ids(results: list[Any]) -> list[str]:
    """Return the ids of results."""
    return [result.id for result in results]


def await_state(results: list[Any], state: str) -> None:
    """Wait until all results are in a state."""
    deadline = time.monotonic() + WAIT_SECONDS
    while (states := [result.state for result in results]) != [state] * len(results):
        if time.monotonic() > deadline:
            raise RuntimeError(f"waited for {state}, and there is {states}")
        time.sleep(POLL_SECONDS)


@contextmanager
def working(options: argparse.Namespace, queue: str = "celery") -> Iterator[subprocess.Popen[bytes]]:
    """Run a worker meanwhile."""
    zone = ["--zone", options.zone] if options.zone else []
    words = [sys.executable, "-E", __file__, "serve", options.url, *zone, "--queue", queue]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL) as worker:
        try:
            yield worker
        finally:
            worker.terminate()
            try:
                worker.wait(WAIT_SECONDS)
            except subprocess.TimeoutExpired:
                worker.kill()


def serve(options: argparse.Namespace) -> dict[str, Any]:
    """Be a worker."""
    app.worker_main(["worker", *WORKER, "-Q", options.queue])
    return {}


COMMANDS: dict[str, Callable[[argparse.Namespace], dict[str, Any]]] = {
    "populate": populate,
    "work": work,
    "restore": restore,
    "cleanup": cleanup,
    "serve": serve,
}


def main() -> None:
    """Run one command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", choices=list(COMMANDS))
    parser.add_argument("url")
    parser.add_argument("tasks", nargs="*")
    parser.add_argument("--zone")
    parser.add_argument("--queue", default="celery")
    options = parser.parse_args()
    configure(options.url, options.zone)
    sys.stdout.write(f"{json.dumps(COMMANDS[options.command](options))}\n")


if __name__ == "__main__":
    main()
