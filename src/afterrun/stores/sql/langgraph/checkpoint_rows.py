"""Checkpoints without their payloads, a thread at a time, and what of each thread is superseded."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

import sqlalchemy as sa

from afterrun.core.facts import Key, Reason, Scalar, Unit, key_order, readable
from afterrun.core.tree import chunks
from afterrun.profiles.langgraph import (
    MAX_PAYLOAD,
    Checkpoint,
    Malformed,
    Place,
)
from afterrun.profiles.langgraph.heads import TASKS
from afterrun.profiles.langgraph.keep import CALL, SENDS_INSIDE, is_text
from afterrun.stores.sql.binding import Binding
from afterrun.stores.sql.langgraph.checkpoint_links import Links
from afterrun.stores.sql.langgraph.checkpoint_units import MOST_ROWS, units_of, unreadable
from afterrun.stores.sql.langgraph.places import at_keys, given_keys, threads_of
from afterrun.stores.sql.langgraph.saver import BOUND, CHECKPOINTS, KEY, SMALL, LeftOut, Saver, slim_rows
from afterrun.stores.sql.langgraph.threads import column_for, large
from afterrun.stores.sql.literals import literal

CHUNK: Final = 1_000
PORTION: Final = 20_000
"""Checkpoints of several threads that are looked at together."""

Rows = Sequence[Sequence[Any]]


class CheckpointReader:
    """Reads the checkpoints of threads and makes a unit of each."""

    def __init__(self, binding: Binding, saver: Saver, *, keep_forks: bool = True) -> None:
        """Compile the statements. Without ``keep_forks``, of branches only the newest end stays."""
        self._keep_forks = keep_forks
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
        self.links = Links()
        """Of the checkpoints that were asked for last."""

    def page(self, after: Scalar, limit: int) -> tuple[list[Unit], int, Scalar]:
        """Return the units of the next whole threads, the rows read, and the last thread if more follow."""
        rows = self._after(after, limit + 1)
        if len(rows) <= limit:
            return self._units(self._threads(rows), rows), len(rows), None
        last = rows[-1][0]
        whole = [row for row in rows if row[0] != last]
        if not whole:  # one thread fills the page
            whole = [row for row in self._after(after, MOST_ROWS + 1) if row[0] == last]
        return self._units(self._threads(whole), whole), len(whole), whole[-1][0]

    def _after(self, after: Scalar, limit: int) -> Rows:
        given = {BOUND: "" if after is None else self._dialect.bind(after)}
        return self._dialect.execute(self.next_rows(limit, after), given)

    def next_rows(self, limit: int, after: Scalar) -> sa.Select[Any]:
        """Return the statement that reads checkpoints in order, from after a thread or from the first."""
        thread = self._table.c.thread_id
        where = [] if after is None else [thread > self._dialect.parameter(BOUND, after)]
        return self._slim.where(*where).order_by(*self._order).limit(limit)

    def units(self, keys: Sequence[Key]) -> list[Unit]:
        """Return the units with these keys, among all rows of their threads."""
        wanted = set(keys)
        found: list[Unit] = []
        self.links = Links()
        for some in self._portions([key for key in threads_of(keys) if readable(key)]):
            rows = self._dialect.execute(
                self.by_thread.limit(MOST_ROWS + 1) if len(some) == 1 else self.by_thread,
                {"keys": self._dialect.bind_keys(some)},
            )
            threads = self._threads(rows)
            units = [unit for unit in self._units(threads, rows) if unit.key in wanted]
            self.links.note(threads, units)
            found.extend(units)
        return found

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

    def _threads(self, rows: Rows) -> dict[Scalar, list[Checkpoint]]:
        """Return the checkpoints of each thread."""
        make = self._saver.checkpoint
        return {key: list(map(make, part)) for key, part in groupby(rows, key=itemgetter(0))}

    def _units(self, threads: Mapping[Scalar, list[Checkpoint]], rows: Rows) -> list[Unit]:
        """Return a unit for each checkpoint of these threads, but for those that go with another one."""
        plain = {key: found for key, found in threads.items() if readable(key)}
        self._look_closer(plain)
        held = self._held(rows) if self._unknown else {}
        units = [
            unit
            for key, found in plain.items()
            for unit in units_of(key, found, held, keep_forks=self._keep_forks)
        ]
        strange = threads.keys() - plain.keys()
        units.extend(unit for key in strange for unit in unreadable(key, threads[key]))
        return units

    def _look_closer(self, threads: Mapping[Scalar, list[Checkpoint]]) -> None:
        """Ask what few threads need: whether old checkpoints took their tasks from the one before them."""
        old = [key for key, found in threads.items() if any(row.version != SENDS_INSIDE for row in found)]
        for chunk in chunks(list[Key](old), CHUNK):
            sent = {
                (row[0], Place(row[1], row[2]))
                for row in self._dialect.execute(self._sends, {"keys": self._dialect.bind_keys(chunk)})
            }
            among = set(chunk)
            for name, found in threads.items():
                if name in among:
                    found[:] = [row._replace(sends=(name, row.place) in sent) for row in found]
        self._look_into_heads(threads)

    def _look_into_heads(self, threads: Mapping[Scalar, list[Checkpoint]]) -> None:
        """Look into the heads of graphs for what a DeltaChannel has gathered."""
        places: dict[Key, int] = {
            (key, row.namespace, row.id): place
            for key, found in threads.items()
            for place, row in _heads_of(found)
        }
        for chunk in chunks(list(places), CHUNK):
            for row in self._dialect.execute(self._heads, given_keys(self._dialect, chunk)):
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
        return sa.select(*key, *self._saver.gathered(rows, SMALL)).where(at_keys(self._dialect, rows))

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


def members_of(units: Iterable[Unit]) -> list[Key]:
    """Return the keys of all members in order: neighbours in an index are changed together."""
    members = [member for unit in units for member in unit.members]
    try:
        return sorted(members)  # type: ignore[type-var]  # text throughout, but in a hostile store
    except TypeError:
        return sorted(members, key=key_order)


def _heads_of(found: Sequence[Checkpoint]) -> Iterator[tuple[int, Checkpoint]]:
    """Yield the heads of a thread's graphs, but for those of subgraphs' calls, each with its place.

    The rows of a namespace stand together, in the order of their ids.
    """
    for place, row in enumerate(found):
        following = found[place + 1] if place + 1 < len(found) else None
        call = not is_text(row.namespace) or CALL in row.namespace
        if not call and (following is None or following.namespace != row.namespace):
            yield place, row
