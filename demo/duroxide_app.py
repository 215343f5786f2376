"""Drive a real duroxide engine on a store in SQLite or PostgreSQL: make situations, loop, go on.

Run it with the python of an environment that has duroxide 0.2. Each command prints one JSON object as its
last line; everything else goes to standard error.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping
from importlib.metadata import version
from typing import Any

import duroxide

import duroxide_workflows as app

FINISHED: Mapping[str, tuple[str, object]] = {
    **{f"single-{number}": ("single", number) for number in range(3)},
    "failed": ("failing", "not today"),
    "fanout": ("fanning", 2),
    "race": ("racing", None),
}
HASTY = "hasty"
HASTY_EVENTS = 3
"""What it has in its history once it waits: that it began, what for, and its timer."""
TIMERS = 2
"""Messages that stay in the queue for long: a timer that is waited for, and one that lost."""
LATE = "single-2"
"""A finished instance that is told something when the engine has stopped."""

WAITING: Mapping[str, tuple[str, object]] = {
    "eternal": ("eternal", 1),
    "waiter": ("waiting", None),
    "sleeper": ("sleeping", 300),
}
LAST_EVENTS = 7
"""What `eternal` has in its last history once it waits: its begin, four of its work, a value, what for."""
TOLD = ("eternal", "waiter")
"""Instances that end when they are told to."""

WAIT_SECONDS = 20.0
QUIET_SECONDS = 0.3
GENERATIONS_FIRST = 3
"""Generations of each loop before it counts as on its way."""

Client = Any


def populate(options: argparse.Namespace) -> dict[str, Any]:
    """Fill a store with every situation and stop the engine."""
    client, connected = _client(options.store)
    with app.engine(connected):
        _start(client, {**FINISHED, **WAITING, HASTY: ("hasty", 300)})
        _await(lambda: len(client.read_execution_history(HASTY, 1)) >= HASTY_EVENTS, "the timer to be set")
        last = app.GENERATIONS
        _await(
            lambda: len(client.read_execution_history("eternal", last)) >= LAST_EVENTS, "the last generation"
        )
        client.raise_event(HASTY, app.GO)
        for instance in (*FINISHED, HASTY):
            client.wait_for_orchestration(instance, round(WAIT_SECONDS * 1_000))
        _await_quiet(client, options.store)
    client.raise_event(LATE, app.GO)
    return {"statuses": _statuses(client), "duroxide": version("duroxide")}


def loop(options: argparse.Namespace) -> dict[str, Any]:
    """Run loops, say so once each is on its way, and go on until killed."""
    client, connected = _client(options.store)
    loops = list(_loops(options.loops))
    with app.engine(connected):
        before = _begin(client, loops)
        _await_generations(client, loops, [number + GENERATIONS_FIRST for number in before])
        _emit({"running": loops})
        while True:
            signal.pause()


def advance(options: argparse.Namespace) -> dict[str, Any]:
    """Run the engine until each of its loops has come further, and stop it."""
    client, connected = _client(options.store)
    loops = list(_loops(options.loops))
    before = _executions(client, loops)
    with app.engine(connected):
        _await_generations(client, loops, [number + 1 for number in before])
    return {"before": before, "after": _executions(client, loops)}


def recover(options: argparse.Namespace) -> dict[str, Any]:
    """Start the engine again, tell what waits to end, and use the ids that are named once more."""
    client, connected = _client(options.store)
    known = set(client.list_all_instances())
    with app.engine(connected):
        for instance in TOLD:
            client.raise_event(instance, app.GO, "again")
        _start(client, dict.fromkeys(options.ids, ("single", "once more")))
        ended = [*TOLD, *options.ids]
        patience = round(options.wait * 1_000)
        results = {instance: client.wait_for_orchestration(instance, patience).output for instance in ended}
        _await_quiet(client, options.store)
    return {"results": results, "new": sorted({*options.ids} - known), "statuses": _statuses(client)}


def read(options: argparse.Namespace) -> dict[str, Any]:
    """Return how many events the engine reads of each execution, by instance; nothing is run."""
    client, _ = _client(options.store)
    return {
        "events": {
            instance: [
                len(client.read_execution_history(instance, number))
                for number in client.list_executions(instance)
            ]
            for instance in client.list_all_instances()
        },
        "trees": {instance: client.get_instance_tree(instance).all_ids for instance in options.ids},
    }


def bulk(options: argparse.Namespace) -> dict[str, Any]:
    """Remove finished instances by the engine's own bulk delete, call by call, until none is left to it."""
    client, _ = _client(options.store)
    began, deleted = time.monotonic(), 0
    while found := client.delete_instance_bulk(duroxide.InstanceFilter(limit=1_000)).instances_deleted:
        deleted += found
    return {"seconds": time.monotonic() - began, "deleted": deleted}


def past(options: argparse.Namespace) -> dict[str, Any]:
    """Remove all but the current execution of the instances that are named, by the engine's own prune."""
    client, _ = _client(options.store)
    began, deleted = time.monotonic(), 0
    for instance in options.ids:
        done = client.prune_executions(instance, duroxide.PruneOptions(keep_last=1))
        deleted += done.executions_deleted
    return {"seconds": time.monotonic() - began, "deleted": deleted}


def _client(store: str) -> tuple[Client, Any]:
    connected = app.provider(store)
    return duroxide.Client(connected), connected


def _start(client: Client, wanted: Mapping[str, tuple[str, object]]) -> None:
    for instance, (name, given) in wanted.items():
        client.start_orchestration(instance, name, given)


def _await_quiet(client: Client, store: str) -> None:
    """Wait until nothing is queued but timers, which only the engine's count on SQLite includes.

    It counts nothing that a dispatcher holds at that moment, so this must last for a while.
    """
    rest = 0 if "://" in store else TIMERS
    since = time.monotonic()

    def is_quiet() -> bool:
        nonlocal since
        depths = client.get_queue_depths()
        if depths.orchestrator_queue > rest or depths.worker_queue:
            since = time.monotonic()
        return time.monotonic() - since > QUIET_SECONDS

    _await(is_quiet, "all else to be done")


def _loops(number: int) -> Iterator[str]:
    return (f"loop-{place}" for place in range(number))


def _begin(client: Client, loops: Collection[str]) -> list[int]:
    known = set(client.list_all_instances())
    _start(client, {instance: ("looping", 1) for instance in loops if instance not in known})
    _await(lambda: known.union(client.list_all_instances()) >= set(loops), "the loops to be there")
    return _executions(client, loops)


def _executions(client: Client, instances: Collection[str]) -> list[int]:
    return [client.get_instance_info(instance).current_execution_id for instance in instances]


def _await_generations(client: Client, loops: Collection[str], wanted: Collection[int]) -> None:
    def there() -> bool:
        return all(now >= goal for now, goal in zip(_executions(client, loops), wanted, strict=True))

    _await(there, "the next generations")


def _await(there: Callable[[], bool], what: str) -> None:
    """Wait until something is so. Raise TimeoutError when time is up."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not _holds(there):
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited in vain for {what}")
        time.sleep(app.POLL_MS / 1_000)


def _holds(there: Callable[[], bool]) -> bool:
    try:
        return there()
    except RuntimeError:  # it is not there yet, or the store was busy at that moment
        return False


def _statuses(client: Client) -> dict[str, str]:
    return {instance: client.get_instance_info(instance).status for instance in client.list_all_instances()}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for run in (populate, loop, advance, recover, read, bulk, past):
        sub = commands.add_parser(run.__name__, help=run.__doc__)
        sub.set_defaults(run=run)
        sub.add_argument("store", help="path of a SQLite file, or URL of a PostgreSQL database")
        if run in (loop, advance):
            sub.add_argument("--loops", type=int, default=8)
        if run in (recover, read, past):
            sub.add_argument("ids", nargs="*", metavar="ID")
        if run is recover:
            sub.add_argument("--wait", type=float, default=WAIT_SECONDS, help="seconds to wait for an end")
    return parser


def _emit(answer: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Run one command and leave at once: the engine's threads must not hold the process."""
    options = _parser().parse_args()
    code = 0
    try:
        _emit(options.run(options))
    except Exception:  # noqa: BLE001 - the process must end although threads still run
        traceback.print_exc()
        code = 1
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
