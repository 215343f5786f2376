"""LangGraph's store, with threads as its units: the store of the profile ``langgraph``."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import sqlalchemy as sa

from afterrun.core.errors import UnitNotFound
from afterrun.core.facts import Key, Newest, Scalar, Status, Unit, key_text
from afterrun.core.judge import Group, Rank, rank
from afterrun.core.store import Census, Cursor, Outside, Page, Stream
from afterrun.core.times import CLOCK_SKEW, DAY, Instant, Micros, micros
from afterrun.profiles.langgraph import State, uuid6_floor, uuid6_instant
from afterrun.stores.sql.langgraph.postgres_saver import PostgresSaver
from afterrun.stores.sql.langgraph.saver import CHECKPOINTS, Saver
from afterrun.stores.sql.langgraph.sqlite_saver import SqliteSaver
from afterrun.stores.sql.langgraph.thread_removal import ThreadLocks, ThreadRemoval
from afterrun.stores.sql.langgraph.threads import Thread, ThreadReader
from afterrun.stores.sql.standing import KNOWN, MONTH, STUCK, Standing
from afterrun.stores.sql.store import STATEMENT_PAGE, SqlStore
from afterrun.stores.sql.unchanged import Unchanged

STREAM: Final = Stream("thread_id", indexed=True)
UNKNOWN: Final = "unknown-end-time"
FUTURE: Final = "future-end-time"


class ThreadStore(SqlStore):
    """The threads of a checkpointer.

    No index tells their times, so pages go over all of them in the order of their ids, and what other stores
    count by aggregates is counted by reading. A cursor with an ``end`` leaves out what ended earlier.
    """

    def _compile(self) -> None:
        """Compile the statements of the saver whose tables are there."""
        shared = PostgresSaver.blobs in self.dialect.shapes
        self.saver: Saver = PostgresSaver(self.binding) if shared else SqliteSaver()
        self.threads = ThreadReader(self.binding, self.saver)
        self._reader = self.threads
        self._aside = None
        self.blobs = None  # values that threads share, they share with themselves alone
        self.removal = ThreadRemoval(self.binding)
        self._unchanged = Unchanged(self.dialect, self.threads)
        locks = ThreadLocks(self.binding, self.threads, self.removal)
        self._rows = locks if self.dialect.locks_rows else self._unchanged

    def statements(self) -> Mapping[str, str]:
        """Return the SQL of pages, heads and removal by name."""
        found: dict[str, sa.ClauseElement] = {
            "ids of threads": self.threads.next_ids(STATEMENT_PAGE, ""),
            "heads of threads": self.threads.heads,
            **{f"removal from {name}": part for name, part in self.removal.deletes},
        }
        return {name: self.dialect.sql(statement) for name, statement in found.items()}

    def _overdue(self) -> Iterator[str]:
        """Yield nothing: no row holds a thread that ended."""
        return iter(())

    def newest(self, now: Instant) -> Instant | None:
        """Return the newest credible time that an id of a checkpoint tells."""
        rows = self.binding.table(CHECKPOINTS, "n")
        latest = sa.select(sa.func.max(rows.c.checkpoint_id)).where(
            rows.c.checkpoint_id < sa.bindparam("until", type_=sa.types.NullType())
        )
        until = uuid6_floor(now + micros(CLOCK_SKEW))
        return uuid6_instant(self.dialect.execute(latest, {"until": until})[0][0])

    def count_runs(self, most: int) -> int:
        """Count threads, so many at most."""
        some = self.threads.next_ids(most, None).order_by(None).subquery()
        return int(self.dialect.execute(sa.select(sa.func.count()).select_from(some))[0][0])

    def last_added(self, count: int, *, within: int) -> Sequence[Key]:
        """Return ids of threads that were written to last, as so many rows tell."""
        rows = self.binding.table(CHECKPOINTS, "n")
        tie = self.dialect.tie(CHECKPOINTS, "n", rows.c.thread_id)
        found = self.dialect.execute(
            sa.select(rows.c.thread_id).order_by(tie.desc()).limit(min(count * count, within))
        )
        return list(dict.fromkeys(row[0] for row in found))[:count]

    def streams(self) -> tuple[Stream, ...]:
        """Return the one order of candidates: that of their ids."""
        return (STREAM,)

    def has_rows(self, stream: int) -> bool:  # noqa: ARG002 - there is one
        """Say whether there is any thread."""
        return bool(self.threads.ids(None, 1))

    def page(self, cursor: Cursor, *, cutoff: Instant, limit: int) -> Page:
        """Return those of the next threads that are done and ended before ``cutoff``."""
        mark = self.dialect.mark()
        ids = self.threads.ids(cursor.tie, limit)
        since = -1 if cursor.end is None else int(cursor.end)
        units = [
            unit
            for unit in self.threads.units(ids)
            if unit.root_end is not None and since <= unit.root_end < cutoff
        ]
        self._unchanged.note(units, since=mark)
        following = None if len(ids) < limit else Cursor(0, cursor.end, ids[-1])
        return Page(units, len(ids), following)

    def cursor_at(self, stream: int, moment: Instant) -> Cursor:
        """Return the place from which only threads that ended at this moment or later are met."""
        return Cursor(stream, moment)

    def remaining(self, cursor: Cursor, *, cutoff: Instant, streams: Collection[int]) -> int:  # noqa: ARG002 - no index knows of time
        """Count the threads after the cursor; an upper bound of what may still go."""
        if not streams:
            return 0
        thread = self.binding.table(CHECKPOINTS, "k").c.thread_id
        where = [] if cursor.tie is None else [thread > self.dialect.parameter("after", cursor.tie)]
        statement: sa.Select[Any] = sa.select(sa.func.count(thread.distinct())).where(*where)
        given = {} if cursor.tie is None else {"after": self.dialect.bind(cursor.tie)}
        return int(self.dialect.execute(statement, given)[0][0])

    def find(self, text: str) -> Unit:
        """Return the thread with this id. Raises `UnitNotFound`."""
        found = self.threads.units([text])
        if not found:
            raise UnitNotFound(f"no thread of {self.url} has the id {text[:120]!r}")
        return found[0]

    def units_of(self, runs: Collection[Key]) -> Mapping[Key, Unit]:
        """Return the threads with these ids."""
        return {unit.key: unit for unit in self.threads.units(sorted(runs, key=str))}

    def newest_kept(
        self,
        places: Sequence[int],  # noqa: ARG002 - threads have no groups
        *,
        count: int,
        any_status: bool,  # noqa: ARG002 - the only end that is told is a success
        now: Instant,
    ) -> Mapping[Group, Rank]:
        """Return the rank of the last thread that ``keep_last`` keeps: all threads are one group."""
        latest = now + micros(CLOCK_SKEW)
        ended = (
            rank(unit.root_end, unit.key)
            for unit in (thread.unit for thread in self.threads.all())
            if unit.root_end is not None and unit.root_end <= latest
        )
        newest = heapq.nlargest(count, ended)
        return {(): newest[-1]} if len(newest) == count else {}

    def newest_in(
        self,
        places: Sequence[int],  # noqa: ARG002 - threads have no groups
        *,
        slot: Micros,
        any_status: bool,  # noqa: ARG002 - the only end that is told is a success
        now: Instant,
    ) -> Iterable[Newest]:
        """Return the newest thread of each slot of time: all threads are one group."""
        latest = now + micros(CLOCK_SKEW)
        newest: dict[int, tuple[Rank, Newest]] = {}
        for unit in (thread.unit for thread in self.threads.all()):
            if unit.root_end is None or unit.root_end > latest:
                continue
            place, known = rank(unit.root_end, unit.key), newest.get(unit.root_end // slot)
            if known is None or place > known[0]:
                newest[unit.root_end // slot] = (place, Newest((), unit.root_end, unit.key))
        return [found for _, found in newest.values()]

    @property
    def statuses(self) -> Mapping[Scalar, Status]:
        """Return the one state of a thread that has ended: it is a success."""
        return {State.DONE.value: Status.SUCCESSFUL, State.PENDING.value: Status.LIVE}

    def _count_units(self) -> int:
        return self.remaining(Cursor(), cutoff=0, streams=(0,))

    def groups(self, places: Sequence[int]) -> int:  # noqa: ARG002 - threads have no groups
        """Return 1 if there is any thread."""
        return int(self.has_rows(0))

    def census(self) -> Census:
        """Count threads. Their states are told one by one: an unreadable one blocks itself alone."""
        count = self.remaining(Cursor(), cutoff=0, streams=(0,))
        return Census({"thread": count} if count else {}, {})

    def outside(self, *, cutoff: Instant | None, now: Instant) -> Outside:  # noqa: ARG002 - the judge compares with now
        """Count what pages pass by, by reading all threads."""
        within = recent = members = 0
        held: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
        for thread in self.threads.all():
            unit = thread.unit
            ended = unit.root_end is not None
            if ended and cutoff is not None and unit.root_end < cutoff:  # type: ignore[operator]
                within += 1
                continue
            members += 1
            for reasons, counts in zip((unit.blocked, unit.protected), held, strict=True):
                counts.update([reason.name for reason in reasons[:1]])
                if reasons:
                    break
            else:
                recent += 1
        blocked, protected = held
        return Outside(recent, dict(protected), dict(blocked), members, within)

    def standings(self, now: Instant) -> Sequence[Standing]:
        """Group all threads by state and age, by reading them."""
        counts: Counter[tuple[Scalar, str, int, str]] = Counter()
        oldest: dict[tuple[Scalar, str, int, str], Instant] = {}
        for thread in self.threads.all():
            standing = _standing(thread, now)
            counts[standing] += 1
            if thread.made is not None:
                oldest[standing] = min(thread.made, oldest.get(standing, thread.made))
        return [
            Standing(
                status=status,
                root=True,
                stream=0 if end == KNOWN else -1,
                end=end,
                days=days,
                age=age,
                count=count,
                oldest=oldest.get((status, end, days, age)),
            )
            for (status, end, days, age), count in counts.items()
        ]

    def examples(self, reason: str, now: Instant, *, limit: int) -> Sequence[str]:
        """Return ids of threads that stand so, the oldest first."""
        found = (
            (thread.last or 0, key_text(thread.unit.key))
            for thread in self.threads.all()
            if (_is_stuck(thread, now) and reason == STUCK)
            or any(part.name == reason for part in (*thread.unit.blocked, *thread.unit.protected))
        )
        return [text for _, text in heapq.nsmallest(limit, found)]

    def kept_by_day(self, *, cutoff: Instant | None, now: Instant) -> Mapping[int, int]:  # noqa: ARG002 - days since 1970
        """Count the ended threads that pages pass by, by the day of their end."""
        ends = (thread.unit.root_end for thread in self.threads.all())
        return Counter(end // DAY for end in ends if end is not None and (cutoff is None or end >= cutoff))

    def problems(self) -> Iterator[str]:
        """Check integrity, and count rows of threads that have no checkpoint at all."""
        yield from self.dialect.problems()
        for name in filter(None, (self.saver.writes, self.saver.blobs)):
            count = self._without_thread(name)
            if count:
                yield f"{count} rows of {name} belong to a thread that has no checkpoint"

    def _without_thread(self, name: str) -> int:
        rows, saved = self.binding.table(name, "o"), self.binding.table(CHECKPOINTS, "k")
        one: sa.Select[Any] = sa.select(sa.literal_column("1")).where(saved.c.thread_id == rows.c.thread_id)
        statement = sa.select(sa.func.count()).select_from(rows)
        statement = statement.where(one.limit(1).correlate(rows).scalar_subquery().is_(None))
        return int(self.dialect.execute(statement)[0][0])


def _standing(thread: Thread, now: Instant) -> tuple[Scalar, str, int, str]:
    last = thread.last
    if last is None:
        end, days = UNKNOWN, -1
    elif last > now + micros(CLOCK_SKEW):
        end, days = FUTURE, -1
    else:
        end, days = KNOWN, (now - last) // DAY
    fresh = thread.made is not None and thread.made > now - MONTH
    age = "stale" if _is_stuck(thread, now) else "fresh" if fresh else ""
    status = None if thread.state is State.UNREADABLE else thread.state.value
    return status, end, days, age


def _is_stuck(thread: Thread, now: Instant) -> bool:
    return thread.state is State.PENDING and thread.last is not None and thread.last < now - MONTH
