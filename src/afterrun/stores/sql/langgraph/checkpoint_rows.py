"""Checkpoints without their payloads, a thread at a time, and what of each thread is superseded."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

import sqlalchemy as sa

from afterrun.core.errors import StoreFailure
from afterrun.core.facts import Key, Reason, Scalar, Unit, readable
from afterrun.core.times import Instant
from afterrun.core.tree import chunks
from afterrun.profiles.langgraph import (
    MAX_PAYLOAD,
    Checkpoint,
    Cut,
    Malformed,
    Place,
    Stay,
    cut,
    uuid6_instant,
)
from afterrun.profiles.langgraph.heads import TASKS
from afterrun.profiles.langgraph.keep import CALL, SENDS_INSIDE
from afterrun.stores.sql.binding import Binding
from afterrun.stores.sql.langgraph.saver import CHECKPOINTS, KEY, SMALL, LeftOut, Saver, slim_rows
from afterrun.stores.sql.langgraph.threads import column_for, large
from afterrun.stores.sql.literals import literal

CHUNK: Final = 1_000
PORTION: Final = 20_000
"""Checkpoints of several threads that are looked at together."""

MOST_ROWS: Final = 200_000
"""Checkpoints of one thread that are looked at together. A longer thread stays as it is."""

DECIDES_AT: Final = 4
"""Columns before the saver's own: thread, namespace, id, parent."""

OVERSIZED: Final = Stay("oversized-thread", f"its thread has more than {MOST_ROWS} checkpoints", blocks=True)

Rows = Sequence[Sequence[Any]]


class CheckpointReader:
    """Reads the checkpoints of threads and makes a unit of each."""

    def __init__(self, binding: Binding, saver: Saver) -> None:
        """Compile the statements."""
        self._binding = binding
        self._dialect = binding.dialect
        self._saver = saver
        self._table = binding.table(CHECKPOINTS, "c")
        self._order = [self._table.c[name] for name in KEY]
        self._slim = slim_rows(binding, saver)
        self.by_thread = self._slim.where(self._dialect.keys_in(self._table.c.thread_id)).order_by(
            *self._order
        )
        self._counts = (
            sa.select(self._table.c.thread_id, sa.func.count())
            .where(self._dialect.keys_in(self._table.c.thread_id))
            .group_by(self._table.c.thread_id)
        )
        self._heads = self._payloads()
        self._large = large(binding, saver.gathered)
        self._sends = self._sending()
        self._unknown = list(self._references())
        self.followers: dict[Key, Key] = {}
        """Checkpoints that follow one of those that were asked for last, but for these themselves."""

    def page(self, after: Key, limit: int) -> tuple[list[Unit], int, Key]:
        """Return the units of the next whole threads, the rows read, and the last thread if more follow."""
        rows = self._dialect.execute(self.next_rows(limit + 1, first=after is None), {"after": after})
        if len(rows) <= limit:
            return self._units(rows), len(rows), None
        last = rows[-1][0]
        whole = [row for row in rows if row[0] != last]
        if whole:
            return self._units(whole), len(whole), _bindable(whole[-1][0])
        one = {"keys": self._dialect.bind_keys([_bindable(last)])}
        rows = self._dialect.execute(self.by_thread.limit(MOST_ROWS + 1), one)
        return self._units(rows), len(rows), last

    def next_rows(self, limit: int, *, first: bool) -> sa.Select[Any]:
        """Return the statement that reads checkpoints in order, from after a thread or from the first."""
        where = [] if first else [self._table.c.thread_id > sa.bindparam("after")]
        return self._slim.where(*where).order_by(*self._order).limit(limit)

    def units(self, keys: Sequence[Key]) -> list[Unit]:
        """Return the units with these keys, among all rows of their threads."""
        wanted = set(keys)
        found: list[Unit] = []
        self.followers = {}
        for some in self._portions([key for key in threads_of(keys) if readable(key)]):
            rows = self._dialect.execute(
                self.by_thread.limit(MOST_ROWS + 1) if len(some) == 1 else self.by_thread,
                {"keys": self._dialect.bind_keys(some)},
            )
            units = [unit for unit in self._units(rows) if unit.key in wanted]
            self._note_followers(rows, units)
            found.extend(units)
        return found

    def _note_followers(self, rows: Rows, units: Sequence[Unit]) -> None:
        members = {member for unit in units for member in unit.members}
        for thread, namespace, name, parent, *_ in rows:
            if (thread, namespace, parent) in members and (thread, namespace, name) not in members:
                self.followers[thread, namespace, name] = (thread, namespace, parent)

    def _portions(self, threads: Sequence[Key]) -> Iterator[list[Key]]:
        """Cut threads into portions of so few checkpoints that they can be held together."""
        some: list[Key] = []
        total = 0
        for chunk in chunks(threads, CHUNK):
            for key, count in self._dialect.execute(self._counts, {"keys": self._dialect.bind_keys(chunk)}):
                if some and total + count > PORTION:
                    yield some
                    some, total = [], 0
                some.append(key)
                total += count
        if some:
            yield some

    def _units(self, rows: Rows) -> list[Unit]:
        """Return a unit for each checkpoint of these threads, but for those that go with another one."""
        threads = {key: self._checkpoints(part) for key, part in groupby(rows, key=itemgetter(0))}
        self._look_closer(threads)
        held = self._held(rows) if self._unknown else {}
        return [unit for key, found in threads.items() for unit in _units_of(key, found, held)]

    def _checkpoints(self, rows: Iterable[Sequence[Any]]) -> list[Checkpoint]:
        make = self._saver.checkpoint
        return [make((row[1], row[2], row[3]), tuple(row[DECIDES_AT:])) for row in rows]

    def _look_closer(self, threads: Mapping[Key, list[Checkpoint]]) -> None:
        """Ask what few threads need: whether old checkpoints took their tasks from the one before them."""
        old = [
            key
            for key, found in threads.items()
            if any(row.version is None or row.version < SENDS_INSIDE for row in found)
        ]
        for chunk in chunks(old, CHUNK):
            sent = {
                (row[0], Place(row[1], row[2]))
                for row in self._dialect.execute(self._sends, {"keys": self._dialect.bind_keys(chunk)})
            }
            for key in chunk:
                threads[key][:] = [row._replace(sends=(key, row.place) in sent) for row in threads[key]]
        self._look_into_heads(threads)

    def _look_into_heads(self, threads: Mapping[Key, list[Checkpoint]]) -> None:
        """Look into the heads of graphs for what a DeltaChannel has gathered."""
        places: dict[Key, int] = {
            (_plain(key), row.namespace, row.id): place
            for key, found in threads.items()
            for place, row in _heads_of(found)
        }
        for chunk in chunks(list(places), CHUNK):
            for row in self._dialect.execute(self._heads, {"keys": self._dialect.bind_rows(chunk)}):
                key = (row[0], row[1], row[2])
                snapshot = self._has_snapshot(key, tuple(row[len(KEY) :]))
                if snapshot is not False:
                    place = places[key]
                    found = threads[row[0]]
                    found[place] = found[place]._replace(snapshot=snapshot)

    def _has_snapshot(self, key: Key, columns: tuple[Any, ...]) -> bool | None:
        try:
            return self._saver.has_snapshot(columns, SMALL)
        except LeftOut:
            found = self._dialect.execute(self._large, {"keys": self._dialect.bind_rows([key])})
        except Malformed:
            return None
        try:
            return self._saver.has_snapshot(tuple(found[0]), MAX_PAYLOAD) if found else None
        except Malformed:
            return None

    def _payloads(self) -> sa.Select[Any]:
        rows = self._binding.table(CHECKPOINTS, "h")
        key = [rows.c[name] for name in KEY]
        return sa.select(*key, *self._saver.gathered(rows, SMALL)).where(self._dialect.rows_in(key))

    def _sending(self) -> sa.Select[Any]:
        writes = self._binding.table(self._saver.writes, "w")
        key = [writes.c[name] for name in KEY]
        among = self._dialect.keys_in(writes.c.thread_id)
        return sa.select(*key).where(among, writes.c.channel == literal(TASKS)).distinct()

    def _references(self) -> Iterator[tuple[Reason, sa.Select[Any]]]:
        """Yield what finds checkpoints that a table refers to which the profile does not know."""
        for reference in self._binding.unknown_references():
            column = column_for(reference, "checkpoint_id")
            if column is not None:
                held = self._binding.table(reference.table, "r").c[column]
                detail = f"a row of {reference.table}, which the profile does not know"
                statement = sa.select(held).where(self._dialect.keys_in(held)).distinct()
                yield Reason(reference.reason, detail), statement

    def _held(self, rows: Rows) -> Mapping[str, list[Reason]]:
        """Return why checkpoints are held from outside, by id: an id is of one thread alone."""
        found: defaultdict[str, list[Reason]] = defaultdict(list)
        ids = [row[2] for row in rows]
        for chunk in chunks(ids, CHUNK):
            for reason, statement in self._unknown:
                for row in self._dialect.execute(statement, {"keys": self._dialect.bind_keys(chunk)}):
                    found[str(row[0])].append(reason)
        return found


def threads_of(keys: Iterable[Key]) -> list[Key]:
    """Return the threads that these checkpoints are of, in order."""
    return sorted({key[0] for key in keys if isinstance(key, tuple)}, key=str)


def _bindable(thread: Key) -> Key:
    """Return the id of a thread. Raises `StoreFailure` if it can be no parameter."""
    if not readable(thread):
        raise StoreFailure("unreadable-key", "a thread's id is no plain text; nothing more was read")
    return thread


def _heads_of(found: Sequence[Checkpoint]) -> Iterator[tuple[int, Checkpoint]]:
    """Yield the heads of a thread's graphs, but for those of subgraphs' calls, each with its place.

    The rows of a namespace stand together, in the order of their ids.
    """
    for place, row in enumerate(found):
        following = found[place + 1] if place + 1 < len(found) else None
        if CALL not in row.namespace and (following is None or following.namespace != row.namespace):
            yield place, row


def _units_of(thread: Key, found: Sequence[Checkpoint], held: Mapping[str, list[Reason]]) -> Iterator[Unit]:
    parted = cut(found) if len(found) <= MOST_ROWS else Cut({row.place: OVERSIZED for row in found}, {})
    newer = _newer(found)
    name = _plain(thread)
    for place, stay in parted.kept.items():
        reasons: tuple[Reason, ...] = (Reason(stay.name, stay.detail),)
        end = uuid6_instant(place.id)
        yield Unit(
            key=(name, *place),
            members=((name, *place),),
            end=end,
            root_end=end,
            successful=True,
            blocked=reasons if stay.blocks else (),
            protected=() if stay.blocks else reasons,
            settled=end is not None,
            run=thread,
            newer=newer[place],
        )
    for place, members in parted.going.items():
        reasons = tuple(reason for member in members for reason in held.get(member.id, ())) if held else ()
        end = uuid6_instant(place.id) if len(members) == 1 else _latest(members)
        if end is None:
            reasons = (
                *reasons,
                Reason("unknown-age", "the id of a checkpoint that goes with it tells no time"),
            )
        key: Key = (name, *place)
        keys = (key,) if len(members) == 1 else tuple((name, *member) for member in members)
        yield Unit(
            key,
            keys,
            end,
            end,
            True,  # noqa: FBT003 - by place: it is the hot path
            (),
            reasons,
            (),
            True,  # noqa: FBT003 - the same
            end is not None,
            thread,
            newer[place],
        )


def _plain(thread: Key) -> Scalar:
    """Return the id of a thread, which is one value."""
    return None if isinstance(thread, tuple) else thread


def _newer(found: Sequence[Checkpoint]) -> Mapping[Place, int]:
    """Return how many checkpoints of its namespace are newer than each."""
    counts: dict[Place, int] = {}
    count, namespace = 0, None
    for row in reversed(found):
        count = count + 1 if row.namespace == namespace else 0
        namespace = row.namespace
        counts[row.place] = count
    return counts


def _latest(members: Sequence[Place]) -> Instant | None:
    """Return the time of the newest, or nothing if one of them tells none."""
    times = [uuid6_instant(member.id) for member in members]
    known = [time for time in times if time is not None]
    return max(known) if len(known) == len(times) else None
