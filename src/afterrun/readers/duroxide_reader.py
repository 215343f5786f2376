"""Read everything with duroxide's own client: instances, and the history of each execution.

Run alone, by the Python that has duroxide, with the store's location in AFTERRUN_ENGINE_STORE.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit, urlunsplit

import duroxide


def provider(location: str) -> Any:  # noqa: ANN401 - duroxide has no types, here and below
    """Connect to a path, or to a PostgreSQL URL with ``?schema=NAME``."""
    if "://" not in location:
        return duroxide.SqliteProvider.open(location)
    parts = urlsplit(location)
    url = urlunsplit(parts._replace(scheme="postgresql", query=""))
    schema = parse_qs(parts.query).get("schema", ["public"])[0]
    return duroxide.PostgresProvider.connect_with_schema(url, schema)


def digest(value: object) -> str:
    """Return a digest of whatever the engine returned."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=repr).encode()).hexdigest()


def fields(value: Any) -> dict[str, object]:  # noqa: ANN401
    """Return the public values of an object of the engine's."""
    names = [name for name in dir(value) if not name.startswith("_")]
    return {name: getattr(value, name) for name in names if not callable(getattr(value, name))}


def parts(client: Any) -> Iterator[tuple[str, object]]:  # noqa: ANN401
    """Yield the name of each thing, and what the engine reads of it."""
    for instance in client.list_all_instances():
        yield f"instance {instance}", fields(client.get_instance_info(instance))
        for number in client.list_executions(instance):
            yield f"execution {instance}/{number}", fields(client.get_execution_info(instance, number))
            events = client.read_execution_history(instance, number)
            yield f"history {instance}/{number}", [fields(event) or repr(event) for event in events]


def main() -> None:
    """Print a line for each thing."""
    client = duroxide.Client(provider(os.environ["AFTERRUN_ENGINE_STORE"]))
    for name, value in parts(client):
        sys.stdout.write(json.dumps({"name": name, "digest": digest(value)}) + "\n")
    sys.stdout.flush()
    os._exit(0)  # the engine's threads must not hold the process


main()
