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
from afterrun.stores.sql.langgraph.checkpoint_units import MOST_ROWS, Held, unreadable
from afterrun.stores.sql.langgraph.places import at_keys, given_keys, threads_of
from afterrun.stores.sql.langgraph.readings import Reading, ReadThread, Versions, among, read_thread
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
        """Of the checkpoints that the batch asked for."""
        self.reading = Reading()
        self.used = Reading()
        self.version = saver.version(self._table.c.checkpoint_id)
        self._versions = (
            sa.select(sa.func.count(), sa.func.sum(self.version))
            .select_from(self._table)
            .where(self._dialect.keys_in(self._table.c.thread_id))
        )

    def page(self, after: Scalar, limit: int) -> tuple[list[Unit], int, Scalar]:
        """Return the units of the next whole threads, the rows read, and the last thread if more follow."""
        mark = self._dialect.mark()  # before anything is read: what is committed meanwhile makes another
        rows = self._after(after, limit + 1)
        if len(rows) <= limit:
            return self._page(rows, mark), len(rows), None
        last = rows[-1][0]
        whole = [row for row in rows if row[0] != last]
        if not whole:  # one thread fills the page
            mark = self._mark([last])
            whole = [row for row in self._after(after, MOST_ROWS + 1) if row[0] == last]
        return self._page(whole, mark), len(whole), whole[-1][0]

    def _page(self, rows: Rows, mark: object) -> list[Unit]:
        """Return a unit for each checkpoint, but for those that go with another one; remember the threads."""
        threads, held = self._read(rows)
        if threads:
            earlier, self.reading = self.reading, Reading(mark)
            self._remember(self.reading, threads)
            if earlier.stands(mark):  # what filled no batch waits for this page
                self._remember(self.reading, earlier.last())
        units = [unit for thread in threads.values() for unit in thread.units(held)]
        strange = [row for row in rows if not readable(row[0])]
        units.extend(unit for key, found in self._threads(strange).items() for unit in unreadable(key, found))
        return units

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
        return [unit for some in self._portions(_threads_of(keys)) for unit in self._found(keys, some)[0]]

    def _found(
        self, keys: Sequence[Key], threads: Sequence[Key], links: Links | None = None
    ) -> tuple[list[Unit], dict[Scalar, ReadThread]]:
        """Read these threads; return their units with these keys, and the threads themselves."""
        rows = self._dialect.execute(
            self.by_thread.limit(MOST_ROWS + 1) if len(threads) == 1 else self.by_thread,
            {"keys": self._dialect.bind_keys(threads)},
        )
        found, held = self._read(rows)
        return among(found, keys, links or Links(), held), found

    def prepare(self) -> None:
        """Do before a batch what would take long under its lock."""
        self.reading.prepare()

    def recheck(self, keys: Sequence[Key]) -> list[Unit]:
        """Return the units with these keys as they are within this batch, and note what follows what.

        What was read before stands if nobody has committed since. It is put aside until it is known what
        became of the batch.
        """
        self.links = Links()
        threads = _threads_of(keys)
        mark = self._mark(threads)
        used = self.used = self.reading if self.reading.stands(mark) else Reading(mark)
        self.reading = Reading()
        units = among(used.threads, keys, self.links, {})
        for some in self._portions([key for key in threads if key not in used.threads]):
            fresh, found = self._found(keys, some, self.links)
            units.extend(fresh)
            self._remember(used, found)
        return units

    def _mark(self, threads: Sequence[Key]) -> object:
        """Return what is shown for as long as nobody changes these threads, or ``None`` if nothing tells.

        Where a database does not tell of changes, all rows of a single thread are added up.
        """
        mark = self._dialect.mark()
        if mark is not None or self.version is None or len(threads) != 1:
            return mark
        count, total = self._dialect.execute(self._versions, {"keys": self._dialect.bind_keys(threads)})[0]
        return Versions(threads[0], int(count), int(total or 0))

    @property
    def adds_up(self) -> bool:
        """Say whether the versions of the rows of this batch's thread are added up."""
        return isinstance(self.used.mark, Versions)

    def add(self, count: int, total: int) -> None:
        """Take in that this batch added so many rows, or took them off, with these versions."""
        if isinstance(self.used.mark, Versions):
            self.used.mark = self.used.mark.after(count, total)

    def end(self, led: Mapping[Key, Key]) -> None:
        """Take in, as the last thing of a batch, where links lead since."""
        self.used.led = led
        if not self.adds_up:
            self.used.mark = self._dialect.mark()

    def went(self, units: Sequence[Unit]) -> None:
        """Take in that a batch was committed which removed these units."""
        self.used.remove(members_of(units))
        self.reading = self.used

    def _remember(self, reading: Reading, threads: Mapping[Scalar, ReadThread]) -> None:
        """Keep threads, unless a table that the profile does not know may hold some of their rows."""
        if reading.mark is not None and not self._unknown:
            reading.add(threads)

    def _portions(self, threads: Sequence[Key]) -> Iterator[list[Key]]:
        """Cut threads into portions of so few checkpoints that they can be held together."""
        if len(threads) == 1:
            yield list(threads)
            return
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

    def _read(self, rows: Rows) -> tuple[dict[Scalar, ReadThread], Held]:
        """Make threads of their rows, but for those whose id can be no parameter, and say what is held."""
        found = {key: part for key, part in self._threads(rows).items() if readable(key)}
        self._look_closer(found)
        forks = self._keep_forks
        threads = {key: read_thread(key, part, keep_forks=forks) for key, part in found.items()}
        return threads, self._held(rows) if self._unknown else {}

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


def _threads_of(keys: Sequence[Key]) -> list[Key]:
    return [key for key in threads_of(keys) if readable(key)]


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
