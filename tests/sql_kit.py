"""Parts that tests of SQL stores share: their statements, and small stores made by hand."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from afterrun.core.store import Cursor
from afterrun.core.times import DAY, Instant
from afterrun.stores.sql.orphans import lost_references, orphan_counts
from afterrun.stores.sql.postgres.dialect import Postgres
from afterrun.stores.sql.sqlite.dialect import SQLite
from afterrun.stores.sql.store import SqlStore
from afterrun.stores.sql.transaction import RowLocks

FAR: Instant = 4_000_000_000_000_000
"""An instant after everything in a test's store."""


def make(path: Path, script: str) -> Path:
    """Write a database from SQL."""
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(f"PRAGMA synchronous = OFF; {script}")
    return path


def rows(path: Path, statement: str, *values: object) -> list[tuple[Any, ...]]:
    """Read all rows of a statement."""
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(statement, values).fetchall()


def column(path: Path, statement: str, *values: object) -> list[Any]:
    """Read the first column of a statement, sorted as text."""
    return sorted((row[0] for row in rows(path, statement, *values)), key=str)


def sqlite(store: SqlStore) -> SQLite:
    """Return a store's dialect by its real type."""
    assert isinstance(store.dialect, SQLite)
    return store.dialect


def engine_of(store: SqlStore) -> sa.Engine:
    """Return what a store's statements go through."""
    assert isinstance(store.dialect, SQLite | Postgres)
    return store.dialect._engine


@contextmanager
def traced(store: SqlStore) -> Iterator[list[str]]:
    """Collect the statements that SQLite runs meanwhile, with their values in place, transactions aside."""
    seen: list[str] = []
    driver = sqlite(store)._driver
    driver.set_trace_callback(seen.append)
    try:
        yield seen
    finally:
        driver.set_trace_callback(None)
        seen[:] = [
            text for text in seen if not text.startswith(("BEGIN", "COMMIT", "ROLLBACK", "PRAGMA", "--"))
        ]


def statements(store: SqlStore) -> Iterator[tuple[str, sa.ClauseElement]]:
    """Yield every statement that pages, facts, explanations and batches are made of."""
    for place, stream in enumerate(store.streams()):
        for position, page in store.candidates.statements(place, 1_000):
            yield f"page by {stream.name}, {position}", page
        yield f"remaining by {stream.name}", store.aggregates.remaining_in(place, FAR, 5)[0]
    yield "facts by key", store.facts.by_key
    for place, statement in enumerate(store.facts.by_parent):
        yield f"facts by parent {place}", statement
    for place, leading in enumerate(store.facts.leading):
        if leading is not None:
            yield f"links {place}", leading
    yield "attached", store.facts.attached
    for held in store.facts.flags:
        yield f"held by {held.name}", held.statement
    if isinstance(store._rows, RowLocks):
        yield "lock", store._rows.statement
    yield "weigh", store.removal._weigh
    for name, statement in store.removal._counts:
        yield f"count {name}", statement
    for name, delete in store.removal.deletes:
        yield f"delete {name}", delete


def aggregates(store: SqlStore) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield what counts over the whole store run, by name."""
    places = range(len(store.group_columns))
    calls: dict[str, Callable[[], object]] = {
        "census": store.census,
        "newest": lambda: store.newest(store.now()),
        "newest kept": lambda: store.newest_kept(places, count=2, any_status=False, now=FAR),
        "newest in slots": lambda: list(store.newest_in(places, slot=DAY, any_status=True, now=FAR)),
        "newest of all": lambda: store.newest_kept((), count=2, any_status=True, now=FAR),
        "groups": lambda: store.groups(places),
        "roots": store.aggregates.roots,
        "outside": lambda: store.outside(cutoff=FAR, now=FAR),
        "has rows": lambda: [store.has_rows(place) for place in range(len(store.streams()))],
        "orphans": lambda: list(orphan_counts(store.binding)),
        "lost references": lambda: list(lost_references(store.facts)),
    }
    engine = engine_of(store)
    for name, call in calls.items():
        seen: list[str] = []

        def note(*arguments: Any) -> None:  # noqa: ANN401 - the event's own
            seen.append(arguments[2])  # noqa: B023 - removed within the turn

        sa.event.listen(engine, "before_cursor_execute", note)
        call()
        sa.event.remove(engine, "before_cursor_execute", note)
        yield name, seen


def pages(store: SqlStore, *, stream: int, cutoff: Instant, limit: int) -> Iterator[Sequence[Any]]:
    """Yield the raw rows of all pages of a stream, in order."""
    cursor: Cursor | None = Cursor(stream)
    while cursor is not None:
        page = store.candidates.page(cursor, cutoff=cutoff, limit=limit)
        assert page.cursor != cursor
        yield [row.key for row in page.roots]
        cursor = page.cursor
