"""Large run stores, made fast: a few trees are made by the store's own calls, and their rows are repeated.

Each repetition has ids, times, keys and content of its own. What starts with `EVERYBODY` is content of all
runs, what starts with `NEIGHBOURS` that of a few repetitions, and what starts with `KEPT` is also content of
runs that stay.
"""

from __future__ import annotations

import random
import sqlite3
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, TypeAlias, cast

import psycopg
import sqlalchemy as sa

from afterrun.core.times import DAY, SECOND, Instant
from afterrun.runs import Attempt, RunStatus, RunStore
from afterrun.runs.schema import blobs, runs
from afterrun.runs.side_tables import metadata

EVERYBODY, NEIGHBOURS, KEPT = b"everybody ", b"neighbours ", b"kept "
NEAR: Final = 5
"""Repetitions that share the content of neighbours."""

FIRST: Final = "00000000-0000-7000-8000-000000000000"
CHUNK: Final = 200
"""Repetitions that are written at once."""

TIMES: Final = ("until", "lease_until")
"""Columns that hold times, beside those whose name ends in ``_at``."""

Row: TypeAlias = tuple[Any, ...]
Change: TypeAlias = Callable[[Any, "Repetition"], Any]


class Clock:
    """A clock that moves one second at each look."""

    def __init__(self, now: Instant) -> None:
        """Begin at an instant."""
        self.now = now

    def __call__(self) -> Instant:
        """Return the next second."""
        self.now += SECOND
        return self.now


@dataclass(frozen=True, slots=True)
class Model:
    """Rows that the store's own calls wrote: by table, with the number of runs and roots, and the span.

    ``address`` tells that of content, as this store makes it: a clone is that store, and says the same.
    """

    rows: Mapping[str, Sequence[Row]]
    runs: int
    roots: int
    began: Instant
    ended: Instant
    address: Callable[[bytes], str]


@dataclass(frozen=True, slots=True)
class Repetition:
    """One copy of all rows of a model: its number, its ids, its blobs, and how much later it happens."""

    number: int
    later: Instant
    runs: Mapping[str, str]
    blobs: Mapping[int, int]


def make_trees(store: RunStore) -> None:
    """Make trees of 1, 1, 1, 3, 4 and 10 runs that have ended, with every kind of row that calls make."""
    _simple(store, "plain")
    _asking(store)
    _looping(store)
    for size in (2, 3):
        root, step = _begun(store, "delegating")
        for _ in range(size):
            _simple(store, "child", parent=step)
        _ended(store, root, step)
    root, step = _begun(store, "fan-out")
    for _ in range(3):
        child, below = _begun(store, "branch", parent=step)
        for _ in range(2):
            _simple(store, "leaf", parent=below)
        _ended(store, child, below)
    _ended(store, root, step)


def _content(word: str, length: int) -> bytes:
    return f"{word} ".encode().ljust(length, b".")


def _begun(store: RunStore, name: str, *, parent: Attempt | None = None) -> tuple[str, Attempt]:
    """Create a run and start it under a lease, up to its first step."""
    run = store.create(name, content=EVERYBODY + b"instructions" * 40, parent=parent).run.id
    store.start(run)
    return run, store.steps.start(run, "delegate")


def _ended(store: RunStore, run: str, step: Attempt) -> None:
    store.steps.complete(step, output=_content(f"sum {run}", 300))
    store.finish(run, output=_content(f"sum {run}", 300))


def _simple(store: RunStore, name: str, *, parent: Attempt | None = None) -> None:
    """Run three steps with content of many sizes, some of it shared."""
    run = store.create(name, content=NEIGHBOURS + b"question", parent=parent).run.id
    store.start(run)
    lease = store.leases.acquire(run, owner="worker", keep_for=timedelta(minutes=5))
    for number, size in enumerate((100, 700, 2_000)):
        step = store.steps.start(run, f"step {number}", epoch=lease.epoch)
        store.steps.complete(step, output=_content(f"{run} {number}", size), epoch=lease.epoch)
    step = store.steps.start(run, "look up", epoch=lease.epoch)
    store.steps.complete(step, output=KEPT + b"document" * 30, epoch=lease.epoch)
    store.finish(run, output=_content(f"answer {run}", 400), epoch=lease.epoch)


def _asking(store: RunStore) -> None:
    """Run with an idempotency key, a retry, tasks, questions, a pin and a result."""
    run = store.create("asking", content=b"please", idempotency_key="key").run.id
    store.start(run)
    failed = store.steps.start(run, "call")
    again = store.steps.fail(failed, reason="timed out", retry_in=timedelta(seconds=1))
    assert again is not None
    store.steps.retry(again)
    first = store.tasks.add(run, "first")
    second = store.tasks.add(run, "second", needs=[first])
    store.tasks.complete(first)
    store.tasks.complete(second)
    output = _content(f"called {run}", 1_000)
    store.steps.complete(again, output=output)
    store.approvals.approve(store.approvals.ask(run, "send"), by="anna")
    store.decisions.decide(store.decisions.ask(run, "which"), "left", by="ben")
    store.pins.release(store.pins.add(run, store.address_of(output), holder="viewer"))
    store.finish(run, RunStatus.FAILED, output=_content(f"so far {run}", 500), deliver_to="mail")
    for result in store.results.due("mail"):
        store.results.deliver(result)
        store.results.acknowledge(result)


def _looping(store: RunStore) -> None:
    """Run three generations."""
    run = store.create("looping", content=b"0").run.id
    store.start(run)
    for number in range(2):
        store.steps.complete(store.steps.start(run, "turn"), output=_content(f"{run} {number}", 200))
        store.continue_as_new(run, content=_content(f"state {run} {number}", 900))
    store.finish(run, output=NEIGHBOURS + b"done")


def model_of(folder: Path, *, began: Instant) -> Model:
    """Let a store make the trees once, and read all that it wrote."""
    path = folder / "model.sqlite"
    clock = Clock(began)
    with RunStore.open(str(path), sealing="off", clock=clock) as store:
        make_trees(store)
        with store._database.reading() as transaction:
            address = transaction.sealing.address
    with closing(sqlite3.connect(path)) as database:
        rows = {table.name: _all(database, table) for table in metadata.sorted_tables}
    found = [dict(zip(runs.c.keys(), row, strict=True)) for row in rows["runs"]]
    roots = sum(row["root_id"] == row["id"] for row in found)
    return Model(rows, len(found), roots, began, clock.now, address)


def _all(database: sqlite3.Connection, table: sa.Table) -> list[Row]:
    names = ", ".join(f'"{column.name}"' for column in table.c)
    order = ", ".join(f'"{column.name}"' for column in table.primary_key)
    return database.execute(f"SELECT {names} FROM {table.name} ORDER BY {order}").fetchall()


class Cloning:
    """Repeats a model's rows: those that have ended long ago first, then those that stay."""

    def __init__(self, model: Model, *, old: int, kept: int, now: Instant) -> None:
        """Spread ``old`` repetitions over the 60 days from the model's own time, ``kept`` over today."""
        self.model = model
        self._old, self._kept = old, kept
        self._now = now
        self._random = random.Random(0)
        self._contents = {row[0]: dict(zip(blobs.c.keys(), row, strict=True)) for row in model.rows["blobs"]}
        self._made: dict[tuple[int, int], int] = {}
        self._changes = {table.name: _changes(table) for table in metadata.sorted_tables}

    def rows(self) -> Iterator[Mapping[str, list[Row]]]:
        """Yield rows by table, so many repetitions at a time."""
        numbers = range(self._old + self._kept)
        for first in range(0, len(numbers), CHUNK):
            chunk: dict[str, list[Row]] = {table.name: [] for table in metadata.sorted_tables}
            for number in numbers[first : first + CHUNK]:
                self._repeat(number, chunk)
            yield chunk

    def _repeat(self, number: int, chunk: Mapping[str, list[Row]]) -> None:
        repetition = Repetition(number, self._later(number), self._ids(number), self._blobs(number, chunk))
        for name, changes in self._changes.items():
            if name == "store_identity" and number == 0:
                chunk[name].extend(self.model.rows[name])
            elif name not in {"blobs", "store_identity", "afterrun_version"}:
                chunk[name].extend(_changed(row, changes, repetition) for row in self.model.rows[name])

    def _later(self, number: int) -> Instant:
        if number < self._old:
            return number * 60 * DAY // self._old
        left = (number - self._old) * DAY // 2 // self._kept
        return self._now - DAY // 2 + left - self.model.ended

    def _ids(self, number: int) -> Mapping[str, str]:
        """Return ids in the order of the model's, and after those of all repetitions before."""
        found = {}
        for place, row in enumerate(self.model.rows["runs"]):
            head = (number * self.model.runs + place) << 80 | 7 << 76 | self._random.getrandbits(12) << 64
            value = 0x0190 << 112 | head | 2 << 62 | self._random.getrandbits(62)
            found[row[0]] = str(uuid.UUID(int=value))
        return found

    def _blobs(self, number: int, chunk: Mapping[str, list[Row]]) -> Mapping[int, int]:
        """Return the blobs of a repetition by the model's, and add the rows of new ones."""
        found = {}
        for old, values in self._contents.items():
            group = self._group(values["content"], number)
            if (old, group) not in self._made:
                self._made[old, group] = len(self._made) + 1
                chunk["blobs"].append(self._blob(values, group, number))
            found[old] = self._made[old, group]
        return found

    def _group(self, content: bytes, number: int) -> int:
        """Return which repetitions share content: those with the same number."""
        if content.startswith(EVERYBODY):
            return -1
        if content.startswith(NEIGHBOURS):
            return -2 - number // NEAR
        if content.startswith(KEPT) and self._kept:
            return self._old + (number - self._old) % self._kept
        return number

    def _blob(self, values: Mapping[str, Any], group: int, number: int) -> Row:
        content = values["content"] + f" {group}".encode()
        changed = {
            "id": len(self._made),
            "content": content,
            "address": self.model.address(content),
            "size": len(content),
            "created_at": values["created_at"] + self._later(number),
        }
        return tuple((dict(values) | changed).values())


def _changes(table: sa.Table) -> Sequence[tuple[int, Change]]:
    """Return what a repetition changes in the rows of a table, by place."""
    found = ((place, _change(column)) for place, column in enumerate(table.c))
    return [(place, change) for place, change in found if change is not None]


def _change(column: sa.Column[Any]) -> Change | None:
    targets = {key.target_fullname for key in column.foreign_keys}
    if "blobs.id" in targets:
        return lambda value, repetition: repetition.blobs[value]
    if column.name in {"run_id", "root_id"} or "runs.id" in targets or column is runs.c.id:
        return lambda value, repetition: repetition.runs[value]
    if column.name in {"key", "idempotency_key"}:
        return lambda value, repetition: f"{value} {repetition.number}"
    if column.name.endswith("_at") or column.name in TIMES:
        return lambda value, repetition: value + repetition.later
    return None


def _changed(row: Row, changes: Sequence[tuple[int, Change]], repetition: Repetition) -> Row:
    values = list(row)
    for place, change in changes:
        if values[place] is not None:
            values[place] = change(values[place], repetition)
    return tuple(values)


def fill_sqlite(path: Path, cloning: Cloning) -> None:
    """Make a store in a file and fill it."""
    RunStore.open(str(path)).close()
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("DELETE FROM store_identity")  # that of the model comes with its rows
        database.execute("PRAGMA synchronous = OFF")
        for chunk in cloning.rows():
            database.execute("BEGIN")
            for name, rows in chunk.items():
                marks = ", ".join("?" * len(metadata.tables[name].c))
                database.executemany(f"INSERT INTO {name} VALUES ({marks})", rows)
            database.execute("COMMIT")
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def fill_postgres(location: str, superuser: str, cloning: Cloning) -> None:
    """Make a store on a server, by its owner's URL, and fill it by a superuser's."""
    RunStore.open(location).close()
    engine = sa.create_engine(superuser)
    with closing(engine.raw_connection()) as pooled:
        connection: psycopg.Connection[Any] = cast("Any", pooled.driver_connection)
        connection.execute(b"SET session_replication_role = replica")
        connection.execute(b"DELETE FROM afterrun.store_identity")  # that of the model comes with its rows
        for chunk in cloning.rows():
            for name, rows in _filled(chunk):
                with connection.cursor().copy(f"COPY afterrun.{name} FROM STDIN".encode()) as copy:
                    for row in rows:
                        copy.write_row(row)
        connection.execute(
            b"SELECT setval(pg_get_serial_sequence('afterrun.blobs', 'id'), max(id)) FROM afterrun.blobs"
        )
        connection.commit()
        connection.autocommit = True
        connection.execute(b"VACUUM (ANALYZE)")
    engine.dispose()


def _filled(chunk: Mapping[str, list[Row]]) -> Iterable[tuple[str, list[Row]]]:
    return ((name, rows) for name, rows in chunk.items() if rows)
