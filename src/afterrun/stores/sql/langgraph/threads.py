"""Threads, each read from its head: what a run's row is to other stores."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import sqlalchemy as sa

from afterrun.core.facts import Flag, Key, Reason, Row, Scalar, Unit, readable
from afterrun.core.times import Instant
from afterrun.core.tree import chunks
from afterrun.profiles.langgraph import MAX_PAYLOAD, Head, Malformed, State, head_state, uuid6_instant
from afterrun.stores.sql.binding import Binding, UnknownReference
from afterrun.stores.sql.dialect import Column
from afterrun.stores.sql.langgraph.saver import BOUND, CHECKPOINTS, KEY, ROOT, SMALL, LeftOut, Saver, heads
from afterrun.stores.sql.run_reader import RunReader, alike

CHUNK: Final = 1_000
"""Threads whose heads are read at once."""

REMEMBERED: Final = 50_000
"""Payloads whose state is remembered by their digest: each is judged twice, and one walk serves for both."""

PAYLOAD_AT: Final = 6
"""Columns before the payload in the statement of heads."""

DETAIL: Final = 80


class Thread(NamedTuple):
    """One thread.

    Attributes:
        unit: what may go.
        state: what its head has left to do.
        oldest: id of its oldest checkpoint that is still there.
        last: time of its newest checkpoint in any namespace.
    """

    unit: Unit
    state: State
    oldest: str | None
    last: Instant | None

    @property
    def made(self) -> Instant | None:
        """Return when its oldest checkpoint was made."""
        return uuid6_instant(self.oldest)


class ThreadReader(RunReader):
    """Reads threads by their ids, and all of them in the order of their ids."""

    def __init__(self, binding: Binding, saver: Saver) -> None:
        """Compile the statements."""
        self._binding = binding
        self._dialect = binding.dialect
        self._saver = saver
        self.heads = heads(binding, saver)
        self._large = large(binding, saver.payload)
        self._flags = list(self._unknown())
        self._known: dict[tuple[object, ...], Head] = {}

    def ids(self, after: Scalar, limit: int) -> list[Scalar]:
        """Return the ids of the next threads."""
        given = {BOUND: "" if after is None else self._dialect.bind(after)}
        return [row[0] for row in self._dialect.execute(self.next_ids(limit, after), given)]

    def next_ids(self, limit: int, after: Scalar) -> sa.Select[Any]:
        """Return the statement that reads the ids of threads in order, after one or from the first."""
        thread = self._binding.table(CHECKPOINTS, "k").c.thread_id
        where = [] if after is None else [thread > self._dialect.parameter(BOUND, after)]
        return sa.select(thread).where(*where).distinct().order_by(thread).limit(limit)

    def all(self) -> Iterator[Thread]:
        """Yield every thread, some at a time, so that no read is long."""
        after: Scalar = None
        while ids := self.ids(after, CHUNK):
            yield from self.threads(ids)
            after = ids[-1]

    def threads(self, keys: Sequence[Key]) -> list[Thread]:
        """Return the threads with these ids that exist; one whose id can be no parameter is blocked."""
        known = [key for key in keys if readable(key)]
        found = [_strange(key) for key in keys if not readable(key)] if len(known) < len(keys) else []
        for chunk in chunks(known, CHUNK):
            rows = self._dialect.execute(self.heads, {"keys": self._dialect.bind_keys(chunk)})
            held = self.flags([row[0] for row in rows]) if self._flags else {}
            found.extend(self._thread(row, held.get(row[0], ())) for row in rows)
        return found

    def units(self, keys: Sequence[Key]) -> list[Unit]:
        """Return the units with these ids."""
        return [thread.unit for thread in self.threads(keys)]

    def build(self, roots: Sequence[Row]) -> list[Unit]:
        """Return the units of these rows."""
        return self.units([row.key for row in roots])

    def rows(self, keys: Sequence[Key]) -> Iterable[Row]:
        """Return threads as rows."""
        return [Row(thread.unit.key, None, thread.state.value, thread.last) for thread in self.threads(keys)]

    def leading(self) -> Sequence[int]:
        """Return nothing: threads have no links."""
        return ()

    def children(self, keys: Sequence[Key], links: Sequence[int]) -> Iterable[Row]:  # noqa: ARG002 - threads have no edges
        """Return nothing: a subgraph's rows are of the same thread."""
        return ()

    def attached(self, keys: Sequence[Key]) -> Collection[Key]:  # noqa: ARG002 - threads have no edges
        """Return nothing: no thread has a parent."""
        return ()

    def flags(self, keys: Sequence[Key]) -> Mapping[Key, Sequence[Flag]]:
        """Return what tables that the profile does not know hold these threads by."""
        found: defaultdict[Key, list[Flag]] = defaultdict(list)
        wanted = set(keys)
        for reason, statement in self._flags:
            for row in self._dialect.execute(statement, {"keys": self._dialect.bind_keys(keys)}):
                for key in alike(row[0], wanted):
                    found[key].append(Flag(reason, blocks=True))
        return found

    def _unknown(self) -> Iterator[tuple[Reason, sa.Select[Any]]]:
        for reference in self._binding.unknown_references():
            column = column_for(reference, "thread_id")
            if column is not None:
                held = self._binding.table(reference.table, "r").c[column]
                detail = f"a row of {reference.table}, which the profile does not know"
                statement = sa.select(held).where(self._dialect.keys_in(held)).distinct()
                yield Reason(reference.reason, detail), statement

    def _thread(self, row: Sequence[Any], held: Sequence[Flag]) -> Thread:
        key, head, newest, oldest, written, last_written = row[:PAYLOAD_AT]
        if head is None:
            seen = Head(State.UNREADABLE, "its root graph has no checkpoint")
        elif written is not None:
            seen = head_state(None, [written])
        else:
            seen = self._state((key, ROOT, head), tuple(row[PAYLOAD_AT:]))
        last = uuid6_instant(newest)
        # what is newer than the head is work that goes on: the engine saves in the background
        early = newest != head or (last_written is not None and not _not_later(last_written, newest))
        blocked, protected = _reasons(seen, last, early=early)
        blocked += [flag.reason for flag in held]
        done = seen.state is State.DONE and last is not None
        unit = Unit(
            key,
            (key,),
            last,
            last if done else None,
            done,
            (),
            tuple(blocked),
            tuple(protected),
            True,  # noqa: FBT003 - by place, as every unit is made: it is the hot path
            done,
            None,
            None,
            seen.state.value,
        )
        return Thread(unit, seen.state, oldest, last)

    def _large_state(self, key: Key) -> Head:
        found = self._dialect.execute(self._large, {"keys": self._dialect.bind_rows([key])})
        if not found:
            return Head(State.UNREADABLE, "it is gone")
        try:
            return head_state(self._saver.outline(tuple(found[0]), MAX_PAYLOAD), ())
        except Malformed as fault:
            return Head(State.UNREADABLE, str(fault))

    def _state(self, key: Key, payload: tuple[Any, ...]) -> Head:
        name = _digest(payload)
        state = self._known.get(name)
        if state is None:
            try:
                state = head_state(self._saver.outline(payload, SMALL), ())
            except LeftOut:
                return self._large_state(key)
            except Malformed as fault:
                state = Head(State.UNREADABLE, str(fault))
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            self._known[name] = state
        return state


def _not_later(written: object, saved: object) -> bool:
    """Say whether an id is not newer than another; of what is no text nothing is known."""
    return isinstance(written, str) and isinstance(saved, str) and written <= saved


def _strange(key: Key) -> Thread:
    blocked = (Reason("unreadable-key", "its id is no plain text"),)
    unit = Unit(key, (key,), None, None, successful=False, blocked=blocked, settled=False)
    return Thread(unit, State.UNREADABLE, None, None)


def large(binding: Binding, columns: Callable[[sa.FromClause, int], tuple[Column, ...]]) -> sa.Select[Any]:
    """Return the statement that reads a large checkpoint, alone."""
    rows = binding.table(CHECKPOINTS, "h")
    where = binding.dialect.rows_in([rows.c[name] for name in KEY])
    return sa.select(*columns(rows, MAX_PAYLOAD)).where(where)


def column_for(reference: UnknownReference, name: str) -> str | None:
    """Return the column of an unknown table that holds what a column of this name does, if it has one."""
    for column, target in zip(reference.columns, reference.targets, strict=True):
        if column.casefold() == name or (len(reference.columns) > 1 and target == name):
            return column
    return None


def _reasons(seen: Head, last: Instant | None, *, early: bool) -> tuple[list[Reason], list[Reason]]:
    blocked, protected = [], []
    if seen.state is State.UNREADABLE:
        blocked.append(Reason("unreadable-record", f"its head cannot be read: {seen.detail[:DETAIL]}"))
    elif seen.state is State.PENDING:
        protected.append(Reason("resumable", seen.detail))
    if last is None:
        blocked.append(Reason("unknown-end-time", "the id of its newest checkpoint tells no time"))
    if early:
        protected.append(Reason("queued-work", "it has checkpoints or results newer than its head"))
    return blocked, protected


def _digest(payload: tuple[Any, ...]) -> tuple[object, ...]:
    """Return a payload with its large parts as digests."""
    return tuple([_short(part) for part in payload])


def _short(part: object) -> object:
    if isinstance(part, str):
        part = part.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(part, digest_size=16).digest() if isinstance(part, bytes) else part
