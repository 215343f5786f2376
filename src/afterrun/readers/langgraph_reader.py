"""Read everything with LangGraph's own savers: each checkpoint with its values, metadata and pending writes.

Run alone, by the Python that has LangGraph, with the store's location in AFTERRUN_ENGINE_STORE. What a
checkpoint follows is left out: that is the one thing that a removal changes.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit


def saver(location: str) -> Any:  # noqa: ANN401 - LangGraph's, here and below
    """Connect to a path, or to a PostgreSQL URL with ``?schema=NAME``."""
    if "://" not in location:
        from langgraph.checkpoint.sqlite import SqliteSaver  # noqa: PLC0415 - only one of the two may be there

        return SqliteSaver.from_conn_string(location)
    from langgraph.checkpoint.postgres import PostgresSaver  # noqa: PLC0415 - the same

    parts = urlsplit(location)
    words = dict(parse_qsl(parts.query))
    path = '"' + words.pop("schema", "public").replace('"', '""') + '"'
    words["options"] = "-csearch_path=" + path.replace("\\", "\\\\").replace(" ", "\\ ")
    query = urlencode(words, quote_via=quote)
    netloc = parts.netloc.replace(" ", "%20")
    return PostgresSaver.from_conn_string(urlunsplit(("postgresql", netloc, parts.path, query, "")))


def plain(value: Any, serde: Any) -> Any:  # noqa: ANN401
    """Return a value in one order, whatever order it came in; any other object as the engine stores it."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, dict):
        return {"map": sorted(([plain(k, serde), plain(v, serde)] for k, v in value.items()), key=repr)}
    if isinstance(value, set | frozenset):
        return {"set": sorted((plain(item, serde) for item in value), key=repr)}
    if isinstance(value, list | tuple):
        return [plain(item, serde) for item in value]
    kind, data = serde.dumps_typed(value)
    return [kind, data.hex()]


def parts(opened: Any) -> Iterator[tuple[str, object]]:  # noqa: ANN401
    """Yield the name of each checkpoint, and what the engine reads of it."""
    for found in opened.list(None):
        place = found.config["configurable"]
        name = "/".join([place["thread_id"], place["checkpoint_ns"], place["checkpoint_id"]])
        written = sorted(found.pending_writes or [], key=lambda write: write[:2])
        yield f"checkpoint {name}", [found.checkpoint, found.metadata, written]


def main() -> None:
    """Print a line for each thing."""
    with saver(os.environ["AFTERRUN_ENGINE_STORE"]) as opened:
        for name, value in parts(opened):
            text = json.dumps(plain(value, opened.serde), sort_keys=True)
            digest = hashlib.sha256(text.encode()).hexdigest()
            sys.stdout.write(json.dumps({"name": name, "digest": digest}) + "\n")


main()
