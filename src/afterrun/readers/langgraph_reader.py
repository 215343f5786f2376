"""Read everything with LangGraph's own saver: every checkpoint with its values, and its pending writes.

Run alone, by the Python that has LangGraph, with the store's location in AFTERRUN_ENGINE_STORE. Objects of an
application's own classes are read where that Python can import them.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit, urlunsplit


@contextmanager
def saver(location: str) -> Iterator[Any]:
    """Open the saver of a path or of a PostgreSQL URL with ``?schema=NAME``."""
    if "://" not in location:
        from langgraph.checkpoint.sqlite import SqliteSaver  # noqa: PLC0415 - one saver may be installed alone

        with SqliteSaver.from_conn_string(location) as opened:
            yield opened
        return
    import psycopg  # noqa: PLC0415
    from langgraph.checkpoint.postgres import PostgresSaver  # noqa: PLC0415
    from psycopg.rows import dict_row  # noqa: PLC0415

    parts = urlsplit(location)
    words = dict(word.partition("=")[::2] for word in parts.query.split("&") if word)
    schema = words.pop("schema", "public")
    query = "&".join(f"{name}={value}" for name, value in words.items())
    url = urlunsplit(parts._replace(scheme="postgresql", query=query))
    with psycopg.connect(url, autocommit=True, row_factory=dict_row) as connection:
        connection.execute("SELECT set_config('search_path', %s, false)", (schema,))
        yield PostgresSaver(connection)


def digest(opened: Any, value: object) -> str:  # noqa: ANN401 - LangGraph is not there when types are checked
    """Return a digest of what the saver made of it, in the saver's own writing."""
    kind, raw = opened.serde.dumps_typed(value)
    return hashlib.sha256(kind.encode() + b"\0" + bytes(raw)).hexdigest()


def parts(opened: Any) -> Iterator[tuple[str, object]]:  # noqa: ANN401
    """Yield the name of each checkpoint, and what the saver reads of it.

    Not its parent: the link of the oldest one that is kept leads nowhere.
    """
    for found in list(opened.list(None)):
        place = found.config["configurable"]
        name = "/".join((place["thread_id"], place.get("checkpoint_ns", ""), place["checkpoint_id"]))
        yield f"checkpoint {name}", found.checkpoint
        yield f"metadata {name}", dict(found.metadata)
        yield f"writes {name}", [tuple(write) for write in found.pending_writes or ()]


def main() -> None:
    """Print a line for each thing."""
    with saver(os.environ["AFTERRUN_ENGINE_STORE"]) as opened:
        for name, value in parts(opened):
            sys.stdout.write(json.dumps({"name": name, "digest": digest(opened, value)}) + "\n")


main()
