"""The duroxide application: what its orchestrations do, and how its engine is started.

Needs nothing but duroxide 0.2, so it runs in the engine's own environment.
"""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit, urlunsplit

import duroxide

GENERATIONS = 6
"""Executions of `eternal` after which it waits for an event."""

GO = "go"
POLL_MS = 10
DAY_MS = 86_400_000
SHUTDOWN_MS = 2_000
LOCK_MS = 2_000
"""For so long a killed worker holds what it had taken."""

Orchestration = Generator[Any, Any, Any]


def provider(store: str) -> Any:  # noqa: ANN401 - duroxide has no types
    """Connect to a store: a path, or the URL of a PostgreSQL database with ``?schema=NAME`` at its end."""
    if "://" not in store:
        Path(store).touch()  # it opens a file only if there is one
        return duroxide.SqliteProvider.open(store)
    parts = urlsplit(store.replace("postgresql+psycopg://", "postgresql://", 1))
    schema = parse_qs(parts.query).get("schema", ["public"])[0]
    url = urlunsplit(parts._replace(query=""))
    return duroxide.PostgresProvider.connect_with_schema(url, schema)


@contextmanager
def engine(connected: Any) -> Iterator[None]:  # noqa: ANN401 - duroxide has no types
    """Run the engine on a store until the block ends."""
    options = duroxide.RuntimeOptions(
        dispatcher_poll_interval_ms=POLL_MS,
        worker_lock_timeout_ms=LOCK_MS,
        orchestrator_lock_timeout_ms=LOCK_MS,
        log_level="error",
    )
    runtime = duroxide.Runtime(connected, options)
    runtime.register_activity("work", lambda _, given: f"worked on {given}")
    for orchestration in (single, failing, waiting, sleeping, hasty, eternal, looping, fanning, racing):
        runtime.register_orchestration(orchestration.__name__, orchestration)
    threading.Thread(target=runtime.start, daemon=True).start()
    try:
        yield
    finally:
        runtime.shutdown(SHUTDOWN_MS)


def single(ctx: Any, given: Any) -> Orchestration:  # noqa: ANN401 - as the engine calls it, here and below
    """Do one activity."""
    done = yield ctx.schedule_activity("work", given)
    return done


def failing(ctx: Any, given: Any) -> Orchestration:  # noqa: ANN401
    """Fail after one activity."""
    yield ctx.schedule_activity("work", given)
    raise ValueError(given)


def waiting(ctx: Any, _: Any) -> Orchestration:  # noqa: ANN401
    """Wait for an event."""
    told = yield ctx.wait_for_event(GO)
    return f"told {told}"


def sleeping(ctx: Any, days: int) -> Orchestration:  # noqa: ANN401
    """Sleep for days."""
    yield ctx.schedule_timer(days * DAY_MS)
    return "rested"


def hasty(ctx: Any, days: int) -> Orchestration:  # noqa: ANN401
    """Wait for an event or for days, whichever is first; the timer that lost stays in the queue."""
    yield ctx.race(ctx.wait_for_event(GO), ctx.schedule_timer(days * DAY_MS))
    return "was told"


def eternal(ctx: Any, generation: int) -> Orchestration:  # noqa: ANN401
    """Do an activity and a child in each of some generations, and wait in the last."""
    yield ctx.schedule_activity("work", generation)
    yield ctx.schedule_sub_orchestration_with_id("single", f"eternal-child-{generation}", generation)
    ctx.set_kv_value("generation", str(generation))
    if generation < GENERATIONS:
        yield ctx.continue_as_new(generation + 1)
    yield ctx.wait_for_event(GO)
    return "stopped"


def looping(ctx: Any, generation: int) -> Orchestration:  # noqa: ANN401
    """Do an activity a generation, for ever."""
    yield ctx.schedule_activity("work", generation)
    yield ctx.continue_as_new(generation + 1)


def fanning(ctx: Any, depth: int) -> Orchestration:  # noqa: ANN401
    """Have two children, which have two each, and so on."""
    if depth == 0:
        return "leaf"
    children = [ctx.schedule_sub_orchestration("fanning", depth - 1) for _ in range(2)]
    leaves = yield ctx.all(children)
    return leaves


def racing(ctx: Any, _: Any) -> Orchestration:  # noqa: ANN401
    """Take what the first of two children returns; the other one is cancelled."""
    fast = ctx.schedule_sub_orchestration_with_id("single", "race-winner", "fast")
    slow = ctx.schedule_sub_orchestration_with_id("waiting", "race-loser", None)
    won = yield ctx.race(fast, slow)
    return won
