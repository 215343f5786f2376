"""Flows of a real Prefect that together leave every situation in its store."""

from __future__ import annotations

import asyncio

from prefect import flow, get_run_logger, task
from prefect.artifacts import create_markdown_artifact
from prefect.deployments import run_deployment
from prefect.runtime import flow_run, task_run

WORKER = "later"
"""Name of the deployment whose runs no worker takes."""
TARGET = f"leaf/{WORKER}"

STARTED: list[str] = []
"""Flows that have come as far as they go before their process ends."""


@task
def double(number: int) -> int:
    """Return twice a number."""
    return 2 * number


@task
def fail() -> None:
    """Fail."""
    raise ValueError("as asked")


@task
def background(number: int) -> int:
    """Return a number; called outside of flows."""
    return number


@flow(persist_result=True)
def leaf(number: int = 1) -> int:
    """Run two tasks and say so."""
    get_run_logger().warning("doubling %s", number)
    return double(number) + double(number + 1)


@task(retries=2)
def flicker() -> None:
    """Fail at the first two attempts."""
    if task_run.run_count <= 2:
        raise ValueError("as asked")


@flow(persist_result=True)
def bulk() -> int:
    """Run four tasks, one of them three times."""
    flicker()
    return sum(double(number) for number in range(3))


@flow
def failing() -> None:
    """Fail in a task."""
    fail()


@flow
def reporting(key: str, text: str) -> None:
    """Leave an artifact that has a key."""
    create_markdown_artifact(text, key=key)


@flow(persist_result=True)
def middle(name: str) -> int:
    """Run a subflow below a subflow."""
    return leaf.with_options(flow_run_name=f"{name}-leaf")(3)


@flow(persist_result=True)
def family(name: str) -> int:
    """Run a subflow, and one with a subflow of its own."""
    first = leaf.with_options(flow_run_name=f"{name}-child")(2)
    return first + middle.with_options(flow_run_name=f"{name}-middle")(name)


@flow
def dispatching() -> str:
    """Hand a subflow to a deployment and end without waiting for it."""
    name = f"{flow_run.name}-child"
    run_deployment(TARGET, timeout=0, as_subflow=True, flow_run_name=name)
    return name


@flow
async def hanging() -> None:
    """Run for ever."""
    STARTED.append(flow_run.name)
    await asyncio.Event().wait()


@flow
async def working() -> None:
    """Run for ever with a subflow that is finished."""
    leaf.with_options(flow_run_name="working-child")(4)
    STARTED.append(flow_run.name)
    await asyncio.Event().wait()


@flow
async def waiting() -> None:
    """Wait for a subflow that runs for ever."""
    await hanging.with_options(flow_run_name=f"{flow_run.name}-child")()


@flow
async def abandoning() -> None:
    """Run for ever, with a subflow and one below it that does so, too."""
    leaf.with_options(flow_run_name="abandoning-leaf")(5)
    await waiting.with_options(flow_run_name="abandoning-child")()


HANGING = (hanging, working, waiting, abandoning)
