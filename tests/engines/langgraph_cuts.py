"""Cut the threads of a made store by the keep-set alone, with plain SQL."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from afterrun.profiles.langgraph import (
    Checkpoint,
    Cut,
    Metadata,
    Place,
    cut,
    outline,
    read_metadata,
    version_of_prefix,
)

from .langgraph_stores import Store


def slim_rows(store: Store) -> Mapping[str, list[Checkpoint]]:
    """Return the rows of every thread without their payloads."""
    found: dict[str, list[Checkpoint]] = {}
    for thread, row in _rows(store):
        found.setdefault(thread, []).append(row)
    return found


def cuts(store: Store) -> Mapping[str, Cut]:
    """Return what of each thread stays and what may go."""
    return {thread: cut(rows) for thread, rows in slim_rows(store).items()}


def going(found: Mapping[str, Cut]) -> set[tuple[str, Place]]:
    """Return all that may go."""
    return {
        (thread, place)
        for thread, part in found.items()
        for members in part.going.values()
        for place in members
    }


def apply(store: Store, gone: set[tuple[str, Place]]) -> None:
    """Remove exactly these checkpoints, their writes, and blobs that nothing refers to any more."""
    for thread, (namespace, name) in sorted(gone):
        where = f"thread_id = '{thread}' AND checkpoint_ns = '{namespace}' AND checkpoint_id = '{name}'"
        store.change(
            f"DELETE FROM {store.writes} WHERE {where}",
            f"DELETE FROM checkpoints WHERE {where}",
            f"UPDATE checkpoints SET parent_checkpoint_id = NULL WHERE thread_id = '{thread}' "
            f"AND checkpoint_ns = '{namespace}' AND parent_checkpoint_id = '{name}'",
        )
    if store.kind == "postgresql":
        store.change(
            "DELETE FROM checkpoint_blobs b WHERE NOT EXISTS (SELECT 1 FROM checkpoints c "
            "WHERE c.thread_id = b.thread_id AND c.checkpoint_ns = b.checkpoint_ns "
            "AND c.checkpoint -> 'channel_versions' ->> b.channel = b.version)"
        )


def _rows(store: Store) -> Iterator[tuple[str, Checkpoint]]:
    key = "thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id"
    if store.kind == "postgresql":
        for thread, namespace, name, parent, metadata, version in store.rows(
            f"SELECT {key}, metadata::text, checkpoint ->> 'v' FROM checkpoints"
        ):
            yield thread, Checkpoint(namespace, name, parent, read_metadata(metadata), int(version))
        return
    for thread, namespace, name, parent, metadata, payload in store.rows(
        f"SELECT {key}, metadata, checkpoint FROM checkpoints"
    ):
        told: Metadata = read_metadata(metadata)
        version, snapshot = version_of_prefix(payload[:8]), outline(payload).snapshot
        yield thread, Checkpoint(namespace, name, parent, told, version, snapshot)
