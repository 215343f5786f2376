"""The demo application: what its workflows do, and how its engine is started.

Needs nothing but dbos (2.31 to 3.4) and what comes with it, so it runs in the engine's own environment.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from dbos import DBOS, DBOSConfig, SetWorkflowID

APP_NAME = "demo-app"
APP_VERSION = "1"
OWNER = "demo-executor"
"""Executor that owns every run: only a launch under this id recovers them."""
BYSTANDER = "demo-bystander"
"""Executor that owns nothing: its launch leaves pending runs as they are."""

QUEUE = "demo-queue"
GO = "go"
POLL_SECONDS = 0.05
PATIENCE_SECONDS = 3600.0
ATTEMPTS = 3
SCHEMA = "schema"
"""Parameter of a store's URL that names the schema; the engine wants it apart."""

Handle = Any
"""A workflow handle; its class differs by version."""


class Gate:
    """A step that finds the gate closed says so and waits for it to be opened."""

    def __init__(self) -> None:
        self._open = threading.Event()
        self._open.set()
        self._reached = threading.Event()

    def close(self) -> None:
        """Make the next step that passes wait."""
        self._open.clear()
        self._reached.clear()

    def open(self) -> None:
        """Let waiting steps go on."""
        self._open.set()

    def pass_through(self) -> None:
        """Wait while the gate is closed."""
        if not self._open.is_set():
            self._reached.set()
            self._open.wait()

    def await_arrival(self, seconds: float = 10.0) -> None:
        """Wait until a step stands before the closed gate; raise TimeoutError if none comes."""
        if not self._reached.wait(seconds):
            raise TimeoutError("no step reached the gate")


gate = Gate()
bodies_run: list[str] = []
"""Values handed to `work` in this process: what really ran, not what was replayed."""
_attempts: dict[str, int] = {}


@DBOS.step()
def work(value: str) -> str:
    """Do the one piece of work of a simple run."""
    bodies_run.append(value)
    return f"worked on {value}"


@DBOS.step(retries_allowed=True, interval_seconds=0.01, max_attempts=ATTEMPTS)
def flaky(value: str) -> str:
    """Fail until the last attempt allowed."""
    _attempts[value] = _attempts.get(value, 0) + 1
    if _attempts[value] < ATTEMPTS:
        raise ConnectionError(f"attempt {_attempts[value]} failed")
    return f"{value} after {_attempts[value]} attempts"


@DBOS.step()
def gated(value: str) -> str:
    """Pass the gate."""
    gate.pass_through()
    return f"{value} passed"


@DBOS.workflow()
def simple(value: str) -> str:
    """One step, two events and a closed stream: five recorded operations."""
    result = work(value)
    DBOS.set_event("input", value)
    DBOS.set_event("result", result)
    DBOS.write_stream("log", result)
    DBOS.close_stream("log")
    return result


@DBOS.workflow()
def failing(value: str) -> str:
    """Do some work, then fail."""
    work(value)
    raise ValueError(f"{value} failed on purpose")


@DBOS.workflow()
def retried(value: str) -> str:
    """Need every attempt of a step."""
    return flaky(value)


@DBOS.workflow()
def interrupted(value: str) -> str:
    """Three steps; the middle one is where a crash or a cancel happens."""
    first = work(value)
    middle = gated(value)
    return f"{first}, {middle}, {work(value)}"


@DBOS.workflow()
def receiver(value: str) -> str:
    """Wait for a message, then do what a simple run does."""
    message = DBOS.recv(GO, timeout_seconds=PATIENCE_SECONDS)
    result = work(f"{value} with {message}")
    DBOS.set_event("result", result)
    DBOS.write_stream("log", result)
    DBOS.close_stream("log")
    return result


@DBOS.workflow()
def sender(target: str) -> str:
    """Send a message to another run."""
    DBOS.send(target, "a message", GO)
    return f"sent to {target}"


@DBOS.workflow()
def parked(value: str) -> str:
    """Do nothing but wait for a message."""
    return f"{value} received {DBOS.recv(GO, timeout_seconds=PATIENCE_SECONDS)}"


@DBOS.workflow()
def family(tree: dict[str, Any]) -> str:
    """Run `tree["children"]` (a mapping of id to tree) and collect their results."""
    handles = [start(run_id, family, child) for run_id, child in tree["children"].items()]
    results = [handle.get_result(polling_interval_sec=POLL_SECONDS) for handle in handles]
    return work(f"[{' '.join(results)}]")


@DBOS.workflow()
def forgiving(child_id: str) -> str:
    """Succeed although the child fails."""
    handle = start(child_id, failing, child_id)
    try:
        return str(handle.get_result(polling_interval_sec=POLL_SECONDS))
    except Exception as error:  # noqa: BLE001 - any failure of the child is forgiven
        return f"forgave: {error}"


@DBOS.workflow()
def waiting_parent(child_id: str, tree: dict[str, Any]) -> str:
    """Start a child, wait for a message, and only then read the child's result."""
    handle = start(child_id, family, tree)
    message = DBOS.recv(GO, timeout_seconds=PATIENCE_SECONDS)
    return f"{message}: {handle.get_result(polling_interval_sec=POLL_SECONDS)}"


@DBOS.workflow()
def leaving_parent(child_id: str) -> str:
    """Start a child that waits for a message, and finish before it."""
    start(child_id, parked, child_id)
    return work(child_id)


@DBOS.workflow()
def watcher(target: str) -> str:
    """Read the result of a run of another tree, then wait for a message."""
    result: str = DBOS.retrieve_workflow(target).get_result(polling_interval_sec=POLL_SECONDS)
    return f"{DBOS.recv(GO, timeout_seconds=PATIENCE_SECONDS)}: {result}"


def start(run_id: str, workflow: Callable[..., str], *args: Any) -> Handle:  # noqa: ANN401 - as the engine's
    """Start a workflow under an explicit id and return the engine's handle."""
    with SetWorkflowID(run_id):
        return DBOS.start_workflow(workflow, *args)


def await_parking(run_id: str, seconds: float = 20.0) -> None:
    """Wait until a run waits for its message: the engine then has recorded the wait as a sleep."""
    end = time.monotonic() + seconds
    while all(step["function_name"] != "DBOS.sleep" for step in DBOS.list_workflow_steps(run_id)):
        if time.monotonic() > end:
            raise TimeoutError(f"{run_id} did not park")
        time.sleep(POLL_SECONDS)


def database_url(store: str) -> str:
    """Return the engine's name for a store: a SQLite file's path, or a URL of PostgreSQL."""
    if "://" not in store:
        return f"sqlite:///{Path(store).resolve()}"
    url = sa.make_url(store).difference_update_query([SCHEMA])
    return url.render_as_string(hide_password=False)


def schema(store: str) -> str:
    """Return the PostgreSQL schema that a store's URL names, as afterrun writes it, or the engine's own."""
    return str(sa.make_url(store).query.get(SCHEMA, "dbos")) if "://" in store else "dbos"


@contextmanager
def engine(store: str, *, executor: str = OWNER) -> Iterator[None]:
    """Run the engine on a store; leaving does not wait for runs that are still waiting."""
    config: DBOSConfig = {
        "name": APP_NAME,
        "system_database_url": database_url(store),
        "dbos_system_schema": schema(store),
        "application_version": APP_VERSION,
        "executor_id": executor,
        "log_level": "CRITICAL",
        "notification_listener_polling_interval_sec": POLL_SECONDS,
    }
    DBOS(config=config)
    DBOS.launch()
    try:
        yield
    finally:
        DBOS.destroy(workflow_completion_timeout_sec=0)


def statuses(ids: list[str] | None = None) -> dict[str, str]:
    """Return the engine's own view of the runs named, or of all."""
    if ids is None:
        found = DBOS.list_workflows(load_input=False, load_output=False)
        return {run.workflow_id: run.status for run in found}
    views = {run_id: DBOS.get_workflow_status(run_id) for run_id in ids}
    return {run_id: view.status for run_id, view in views.items() if view is not None}
