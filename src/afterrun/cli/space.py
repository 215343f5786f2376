"""What a store takes on disk, in words and tables for people: a file of pages, or tables on a server."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from afterrun.cli.text import distance, moment, seconds, size
from afterrun.core.schema_space import FULL_LOCK, REPACK_COPIES, REPACK_LOCK, SchemaSpace, StoredTable
from afterrun.core.space import FileSpace, Reclaim, Room, Space
from afterrun.core.times import Instant

METHODS: Final = {
    "none": "nothing to do: no page is free",
    "vacuum": "VACUUM in place: the whole database is written anew",
    "incremental": "bounded incremental vacuum: a few pages at a time",
    "plain-vacuum": "plain VACUUM (ANALYZE) of each table in turn",
}
IDLE: Final = "nothing to do: no table has dead rows or an empty end"
SIZE_HEADS: Final = ("table", "heap", "indexes", "toast", "dead rows", "empty end", "last vacuum")
STATE_HEADS: Final = ("table", "dead rows", "empty end", "last vacuum")
"""Of the tables that `size_rows` and `state_rows` fill; all but the first and the last are numbers."""

HOLDERS: Final = 5
"""Shown to people; JSON has all of them."""


def space_head(space: Space) -> Iterable[tuple[str, object]]:
    """Yield name and value of what a reclaim starts from."""
    if isinstance(space, FileSpace):
        yield "file", f"{size(space.file)} (measured), journal mode {space.journal}"
        yield "WAL", f"{size(space.wal)} (measured)"
        yield "free", f"{size(space.free)} in {space.free_pages:,} pages, {space.free_share:.0%} of the file"
        yield "auto_vacuum", space.auto_vacuum
        yield "method", METHODS[space.method]
    if isinstance(space, SchemaSpace):
        yield "tables", f"{size(space.on_disk)} (measured): {_parts(space)}"
        yield "dead rows", f"{space.dead:,}, as the server counts"
        yield "empty ends", f"at most {size(space.tail)}"
        yield "method", METHODS[space.method] if space.worth else IDLE


def space_lines(space: Space, rooms: Sequence[Room]) -> Iterable[str]:
    """Yield what an inspection says of the place a store takes, and whether it can take less."""
    if isinstance(space, FileSpace):
        yield f"{size(space.file)}, and a WAL of {size(space.wal)} (measured); journal mode {space.journal}"
        yield f"{size(space.free)} in free pages, {space.free_share:.0%}; auto_vacuum {space.auto_vacuum}"
        idle = space.worth or space.method == "none"
        yield f"to shrink it: {METHODS[space.method]}{'' if idle else NOT_WORTH}"
        for room in rooms:
            enough = "enough" if room.enough else "NOT enough"
            needed, available = size(room.needed), size(room.available)
            yield f"room for that: {needed} for {room.volume}, {available} free ({enough})"
    if isinstance(space, SchemaSpace):
        yield f"{size(space.on_disk)} (measured): {_parts(space)}"
        yield f"to make room in them: {METHODS[space.method] if space.worth else IDLE}"
        yield from held_back(space)
        yield from rewrite_lines(space)
        yield from space.notices


NOT_WORTH: Final = "; not worth it yet, free pages are used again"


def _parts(space: SchemaSpace) -> str:
    sizes = space.sizes()
    return (
        f"{size(sizes['heap'])} of rows, {size(sizes['indexes'])} of indexes, {size(sizes['toast'])} of large"
        " values stored apart"
    )


def size_rows(space: Space) -> list[tuple[str, ...]]:
    """Return a row for each table that removals touch, the largest first; none for a file."""
    return [
        (table.name, size(table.heap), size(table.indexes), size(table.toast), *_state(table, None))
        for table in _ordered(space)
    ]


def state_rows(space: Space, now: Instant) -> list[tuple[str, ...]]:
    """Return the same without sizes."""
    return [(table.name, *_state(table, now)) for table in _ordered(space)]


def _ordered(space: Space) -> list[StoredTable]:
    tables = space.tables if isinstance(space, SchemaSpace) else ()
    return sorted(tables, key=lambda table: (-table.total, table.name))


def _state(table: StoredTable, now: Instant | None) -> tuple[str, str, str]:
    """Say how many rows are dead, what of the end may be empty, and when a VACUUM last passed."""
    dead = "unknown" if table.dead is None else f"{table.dead:,}"
    tail = "unknown" if table.tail is None else size(table.tail)
    passes = [(table.last_autovacuum, " (auto)"), (table.last_vacuum, "")]
    known = [(instant, how) for instant, how in passes if instant is not None]
    if not known:
        return dead, tail, "none known"
    instant, how = max(known)
    return dead, tail, f"{moment(instant) if now is None else distance(instant, now)}{how}"


def held_back(space: Space) -> Iterable[str]:
    """Yield who keeps dead rows on disk."""
    if not isinstance(space, SchemaSpace):
        return
    if not space.holders:
        yield "no snapshot of others holds VACUUM back"
    for holder in space.holders[:HOLDERS]:
        yield f"rows that died since stay for {holder.words()}"
    if len(space.holders) > HOLDERS:
        yield f"and for {len(space.holders) - HOLDERS} younger snapshots"


def rewrite_lines(space: Space) -> Iterable[str]:
    """Yield what it would take to write tables anew, which afterrun never does."""
    if not isinstance(space, SchemaSpace) or not space.tables:
        return
    gain = sum(table.gain or 0 for table in space.tables)
    table = max(space.tables, key=lambda table: table.lean or 0)
    yield (
        f"VACUUM FULL of all would free ~{size(gain)}; {table.name}, the largest, needs "
        f"~{size(table.lean or 0)} of room and as much WAL; lock: {FULL_LOCK}"
    )
    largest = max(space.tables, key=lambda table: table.total)
    yield (
        f"pg_repack would free the same, and needs {size(REPACK_COPIES * largest.total)} of room for "
        f"{largest.name}; lock: {REPACK_LOCK}"
    )


def outcome_lines(report: Reclaim) -> Iterable[str]:
    """Say in measured bytes what a reclaim came to."""
    yield f"reclaim: {report.ended}"
    before, after = report.before, report.after
    took = f"(all measured), in {seconds(report.seconds)}"
    if isinstance(before, FileSpace) and isinstance(after, FileSpace):
        yield (
            f"file: {size(before.file)} before, {size(after.file)} after; WAL: {size(before.wal)} before, "
            f"{size(after.wal)} after {took}"
        )
    if isinstance(before, SchemaSpace) and isinstance(after, SchemaSpace):
        yield f"tables: {size(before.on_disk)} before, {size(after.on_disk)} after {took}"
        yield f"dead rows: {before.dead:,} before, {after.dead:,} after, as the server counts"
