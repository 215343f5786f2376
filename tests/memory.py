"""A store of DBOS runs in memory, as plainly as the store protocol allows, and wrappers that misbehave.

The rows are those of a dump (`dumps.Dump`). Nothing here is fast: every question is answered by looking at
all rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Literal, Self

from afterrun.core.errors import UnitFailure, UnitNotFound
from afterrun.core.facts import UNREADABLE, Flag, Key, Newest, Reason, Row, Scalar, Status, Unit, key_text
from afterrun.core.judge import Group, Rank, rank
from afterrun.core.store import Census, Cursor, Outside, Page, Schema, Store, Stream, Transaction
from afterrun.core.times import CLOCK_SKEW, YEAR_2000, Instant, Micros, micros
from afterrun.core.tree import TreeModel, build_units, read_units
from dumps import Dump, Value
from dumps import Row as Line

RUNS = "workflow_status"
KEY = "workflow_uuid"
PARENT = "parent_workflow_id"
STEPS = "operation_outputs"
OWNED = {
    STEPS: KEY,
    "workflow_input": KEY,
    "workflow_output": KEY,
    "transaction_outputs": KEY,
    "datasource_outputs": "workflow_id",
    "workflow_events": KEY,
    "workflow_events_history": KEY,
    "streams": KEY,
    "notifications": "destination_uuid",
    RUNS: KEY,
}
STATUSES: dict[Scalar, Status] = {
    "SUCCESS": Status.SUCCESSFUL,
    "ERROR": Status.TERMINAL,
    "CANCELLED": Status.TERMINAL,
    "MAX_RECOVERY_ATTEMPTS_EXCEEDED": Status.TERMINAL,
    "ENQUEUED": Status.LIVE,
    "PENDING": Status.LIVE,
    "DELAYED": Status.LIVE,
}
GROUPS = ("name", "application_name")
ENDED = (Status.TERMINAL, Status.SUCCESSFUL)
FAR = 253_402_300_799_000_000
HELD = 0.001


@dataclass(slots=True)
class _Index:
    """What is looked up again and again, made anew after every change."""

    by_key: dict[Value, Line] = field(default_factory=dict)
    by_parent: dict[Value, list[Line]] = field(default_factory=dict)
    named_by_live: set[Value] = field(default_factory=set)
    forked_by_live: set[Value] = field(default_factory=set)


class MemoryStore:
    """A store of DBOS runs that holds its rows in ``tables``: by table, by number of the row."""

    url = "memory:"
    identity = "memory:"
    profile_name = "dbos"
    kind = "tree"
    blobs = None
    group_columns = GROUPS
    statuses = STATUSES
    knows_keys = True
    hold = 0.020

    def __init__(
        self,
        dump: Dump,
        *,
        now: Instant,
        max_depth: int = 1_000,
        missing: Literal["root", "block"] = "root",
    ) -> None:
        """Take the rows of a dump; the clock stands at ``now`` until it is set."""
        self.time = now
        self.model = TreeModel(STATUSES, max_depth, missing)
        self.tables: dict[str, dict[int, Line]] = {}
        self._serial = 0
        self._index: _Index | None = None
        for table, lines in dump.items():
            self.tables[table] = {}
            for line in lines:
                self.insert(table, line)

    # What a test does to it

    def insert(self, table: str, line: Line) -> None:
        """Add a row."""
        self._serial += 1
        self.tables.setdefault(table, {})[self._serial] = dict(line)
        self._index = None

    def update(self, key: Value, **columns: Value) -> None:
        """Change the row of a run."""
        for serial, line in self.tables[RUNS].items():
            if line[KEY] == key:
                self.tables[RUNS][serial] = line | columns
        self._index = None

    def delete(self, table: str, key: Value) -> None:
        """Remove the rows of a run from one table."""
        kept = {n: line for n, line in self.tables[table].items() if line[OWNED[table]] != key}
        self.tables[table] = kept
        self._index = None

    def dump(self) -> Dump:
        """Return all rows."""
        return {table: list(lines.values()) for table, lines in self.tables.items()}

    # Rows: what the level walk asks

    def rows(self, keys: Sequence[Key]) -> list[Row]:
        """Return the runs with these keys."""
        by_key = self._known().by_key
        return [_as_row(by_key[key]) for key in keys if not isinstance(key, tuple) and key in by_key]

    def children(self, keys: Sequence[Key]) -> list[Row]:
        """Return the children of these runs."""
        by_parent = self._known().by_parent
        return [
            _as_row(line) for key in keys if not isinstance(key, tuple) for line in by_parent.get(key, [])
        ]

    def attached(self, keys: Sequence[Key]) -> Collection[Key]:
        """Return those of these keys whose run has a parent that exists."""
        by_key = self._known().by_key
        return {row.key for row in self.rows(keys) if row.parent is not None and row.parent in by_key}

    def flags(self, keys: Sequence[Key]) -> Mapping[Key, Sequence[Flag]]:
        """Return which of these runs a step of a live run names."""
        named = Flag(Reason("cross-tree-reference", "a step of a live run names it"))
        forked = Flag(Reason("fork-base", "a live fork of it is not done"))
        known = self._known()
        flags = {
            key: [named] * (key in known.named_by_live) + [forked] * (key in known.forked_by_live)
            for key in keys
        }
        return {key: found for key, found in flags.items() if found}

    def _known(self) -> _Index:
        if self._index is None:
            index = _Index()
            live = set()
            for line in self.tables[RUNS].values():
                if line[KEY] is not None:
                    index.by_key[line[KEY]] = line
                if line[PARENT] is not None:
                    index.by_parent.setdefault(line[PARENT], []).append(line)
                if STATUSES.get(line["status"]) is Status.LIVE:
                    live.add(line[KEY])
                    if line[KEY] is not None:
                        index.forked_by_live.add(line.get("forked_from"))
            steps = self.tables.get(STEPS, {}).values()
            named = {line["child_workflow_id"] for line in steps if line[KEY] in live - {None}}
            index.named_by_live = named - {None}
            index.forked_by_live.discard(None)
            self._index = index
        return self._index

    def _is_root(self, line: Line) -> bool:
        return line[PARENT] is None or line[PARENT] not in self._known().by_key

    # The protocol

    def schema(self) -> Schema:
        """Return a version that was read."""
        return Schema("memory", read=True)

    aside: None = None

    def now(self) -> Instant:
        """Return the time that was set."""
        return self.time

    def newest(self, now: Instant) -> Instant | None:
        """Return the newest end that is credible."""
        ends = (_end(line) or 0 for line in self.tables[RUNS].values())
        return max((end for end in ends if 0 < end <= now + micros(CLOCK_SKEW)), default=None)

    def known(self, texts: Collection[str]) -> frozenset[str]:
        """Return those of these ids that a run has."""
        return frozenset(texts) & {str(key) for key in self._known().by_key}

    def streams(self) -> tuple[Stream, ...]:
        """Return the one order there is."""
        return (Stream("end", indexed=True),)

    def has_rows(self, stream: int) -> bool:  # noqa: ARG002 - the protocol's signature
        """Say whether any run ended."""
        return any(STATUSES.get(line["status"]) in ENDED for line in self.tables[RUNS].values())

    def _ended_before(self, cutoff: Instant) -> list[tuple[int, int, Line]]:
        """Return (raw end, number, row) of all runs whose end is a number before the cutoff, in order."""
        raw = [(_raw(line), number, line) for number, line in self.tables[RUNS].items()]
        met = [(end, number, line) for end, number, line in raw if end is not None and end < cutoff]
        return sorted(met, key=lambda entry: entry[:2])

    def page(self, cursor: Cursor, *, cutoff: Instant, limit: int) -> Page:
        """Return the next units whose roots ended."""
        place = (-FAR * 2, 0) if cursor.end is None else (cursor.end, cursor.tie)
        after = [entry for entry in self._ended_before(cutoff) if entry[:2] > place]
        met = after[:limit]
        roots = [
            _as_row(line)
            for _, _, line in met
            if self._is_root(line) and STATUSES.get(line["status"]) in ENDED
        ]
        following = Cursor(cursor.stream, met[-1][0], met[-1][1]) if len(after) > limit else None
        return Page(build_units(self, roots, self.model), len(met), following)

    def remaining(self, cursor: Cursor, *, cutoff: Instant, streams: Collection[int]) -> int:
        """Count ended roots after the cursor."""
        if cursor.stream not in streams:
            return 0
        place = (-FAR * 2, 0) if cursor.end is None else (cursor.end, cursor.tie)
        return sum(
            entry[:2] > place and self._is_root(entry[2]) and STATUSES.get(entry[2]["status"]) in ENDED
            for entry in self._ended_before(cutoff)
        )

    def find(self, text: str) -> Unit:
        """Return the unit of a run."""
        by_key = self._known().by_key
        if text not in by_key:
            raise UnitNotFound(text)
        line, path = by_key[text], [text]
        while not self._is_root(line):
            line = by_key[line[PARENT]]
            if line[KEY] in path:
                cycle = (Reason("cycle", "it is its own ancestor"),)
                return Unit(text, tuple(path), None, None, successful=False, blocked=cycle, complete=False)
            path.append(str(line[KEY]))
        return build_units(self, [_as_row(line)], self.model)[0]

    def describe(self, unit: Unit) -> Sequence[Mapping[str, Scalar]]:
        """Return the members."""
        return [
            {"run": key_text(row.key), "parent": key_text(row.parent), "status": row.status, "end": row.end}
            for row in self.rows(unit.members)
        ]

    def newest_kept(
        self, places: Sequence[int], *, count: int, any_status: bool, now: Instant
    ) -> Mapping[Group, Rank]:
        """Return the rank of the last unit that ``keep_last`` keeps, by group."""
        ranks: dict[Group, list[Rank]] = {}
        for group, end, key in self._counted(places, any_status=any_status, now=now):
            ranks.setdefault(group, []).append(rank(end, key))
        return {
            group: sorted(found, reverse=True)[count - 1]
            for group, found in ranks.items()
            if len(found) >= count
        }

    def newest_in(
        self, places: Sequence[int], *, slot: Micros, any_status: bool, now: Instant
    ) -> Iterable[Newest]:
        """Return the newest counted root of each group in each slot of time."""
        found = sorted(
            self._counted(places, any_status=any_status, now=now), key=lambda unit: rank(unit.end, unit.key)
        )
        return {(unit.group, unit.end // slot): unit for unit in found}.values()

    def _counted(self, places: Sequence[int], *, any_status: bool, now: Instant) -> Iterator[Newest]:
        counted = ENDED if any_status else (Status.SUCCESSFUL,)
        for line in filter(self._is_root, self.tables[RUNS].values()):
            row = _as_row(line)
            end = UNREADABLE if row.end is None else row.end
            if UNREADABLE < end <= now + micros(CLOCK_SKEW) and STATUSES.get(row.status) in counted:
                yield Newest(tuple(row.group[place] for place in places), end, row.key)

    def content(self) -> tuple[int, int]:
        """Return bytes and units: each row takes as many as `measure` says."""
        rows = sum(len(lines) for table, lines in self.tables.items() if table in OWNED)
        return 100 * rows, sum(map(self._is_root, self.tables[RUNS].values()))

    def groups(self, places: Sequence[int]) -> int:
        """Count groups."""
        roots = filter(self._is_root, self.tables[RUNS].values())
        return len({tuple(_as_row(line).group[place] for place in places) for line in roots})

    def census(self) -> Census:
        """Count runs by status."""
        words = [line["status"] for line in self.tables[RUNS].values()]
        named = [(word if isinstance(word, str) else repr(word), word in STATUSES) for word in words]
        return Census(Counter(text for text, _ in named), Counter(text for text, known in named if not known))

    def outside(self, *, cutoff: Instant | None, now: Instant) -> Outside:
        """Count what pages never meet."""
        met = {number for _, number, _ in self._ended_before(cutoff)} if cutoff is not None else set()
        recent = members = within = 0
        protected: Counter[str] = Counter()
        blocked: Counter[str] = Counter()
        for number, line in self.tables[RUNS].items():
            if not self._is_root(line):
                continue
            status = STATUSES.get(line["status"], Status.UNKNOWN)
            size = self._size(line)
            if number in met and status in ENDED:
                within += size
                continue
            members += size
            if status is Status.LIVE:
                protected["live-member"] += 1
            elif reason := _unusable(line, now):
                blocked[reason] += 1
            else:
                recent += 1
        unrooted = len(self.tables[RUNS]) - members - within
        return Outside(recent, protected, blocked, members, within, unrooted)

    def _size(self, line: Line) -> int:
        by_parent, size, level = self._known().by_parent, 0, [line]
        while level:
            size += len(level)
            keys = [parent[KEY] for parent in level if parent[KEY] is not None]
            level = [child for key in keys for child in by_parent.get(key, [])]
        return size

    def weigh(self, units: Sequence[Unit]) -> Sequence[int]:
        """Return the rows of each unit."""
        held: Counter[Value] = Counter()
        for table, lines in self.tables.items():
            if table in OWNED:
                held.update(line[OWNED[table]] for line in lines.values())
        return [sum(held[member] for member in _plain(unit.members)) for unit in units]

    def count(self, units: Sequence[Unit]) -> Mapping[str, int]:
        """Return the rows by table that would go."""
        return {table: len(numbers) for table, numbers in self._going(units)}

    def _going(self, units: Sequence[Unit]) -> Iterator[tuple[str, list[int]]]:
        keys = {member for unit in units for member in _plain(unit.members)}
        for table, column in OWNED.items():
            lines = self.tables.get(table)
            if lines is not None:
                yield table, [number for number, line in lines.items() if line[column] in keys]

    def measure(self, units: Sequence[Unit]) -> tuple[int, int]:
        """Return bytes and rows."""
        rows = sum(self.count(units).values())
        return 100 * rows, rows

    def forgets(self, units: Sequence[Unit]) -> int:
        """Count the ids that would be forgotten."""
        return sum(len(unit.members) for unit in units)

    def transaction(self, *, seconds: float) -> MemoryTransaction:  # noqa: ARG002 - nothing takes time here
        """Start a batch."""
        return MemoryTransaction(self)

    def settle(self) -> None:
        """Leave nothing for later."""

    def problems(self) -> Iterator[str]:
        """Yield a line for each table that has rows of no run."""
        for table, lines in self.tables.items():
            if table in OWNED and any(
                line[OWNED[table]] not in self._known().by_key for line in lines.values()
            ):
                yield f"orphans: {table}"


class MemoryTransaction:
    """One batch on a store in memory: an exception puts everything back."""

    def __init__(self, store: MemoryStore) -> None:
        """Prepare; nothing is noted before entry."""
        self._store = store
        self._before: dict[str, dict[int, Line]] = {}
        self.held = 0.0
        self.beyond: Mapping[str, int] = {}

    def __enter__(self) -> Self:
        """Note what is there."""
        self._before = {table: dict(lines) for table, lines in self._store.tables.items()}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Put it back after an exception."""
        self.held = HELD
        if kind is not None:
            self._store.tables = self._before
            self._store._index = None

    def units(self, units: Sequence[Unit]) -> Sequence[Unit]:
        """Read units again."""
        return read_units(self._store, [unit.key for unit in units], self._store.model)

    def remove(self, units: Sequence[Unit], *, max_rows: int) -> Mapping[str, int]:
        """Remove units, unless there are too many rows."""
        removed: dict[str, int] = {}
        for table, numbers in list(self._store._going(units)):
            for number in numbers:
                del self._store.tables[table][number]
            removed[table] = len(numbers)
            if sum(removed.values()) > max_rows:
                raise UnitFailure("oversized", "too many rows")
        self._store._index = None
        return removed


def _plain(keys: Sequence[Key]) -> list[Value]:
    return [key for key in keys if key is not None and not isinstance(key, tuple)]


def _raw(line: Line) -> int | None:
    """Return the end that is stored, if it is a number, in microseconds."""
    source = line["completed_at"] if line["completed_at"] is not None else line["updated_at"]
    return int(max(min(source * 1_000, FAR), -FAR)) if isinstance(source, int | float) else None


def _end(line: Line) -> Instant | None:
    raw = _raw(line)
    if raw is None:
        return None if line["completed_at"] is None and line["updated_at"] is None else UNREADABLE
    return raw if raw >= YEAR_2000 else UNREADABLE


def _unusable(line: Line, now: Instant) -> str:
    if line["status"] not in STATUSES:
        return "unknown-status"
    end = _end(line)
    if end is None:
        return "unknown-end-time"
    if end == UNREADABLE:
        return "unreadable-end-time"
    return "future-end-time" if end > now + micros(CLOCK_SKEW) else ""


def _as_row(line: Line) -> Row:
    group = tuple(line[name] for name in GROUPS)
    return Row(line[KEY], line[PARENT], line["status"], _end(line), group, keyed=True)


# Wrappers: each passes everything on, but for one thing


class Wrapped:
    """Passes everything on to a store. Wrappers change one thing each."""

    def __init__(self, store: Store) -> None:
        """Wrap a store."""
        self.inner = store

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the store has
        """Pass on."""
        return getattr(self.inner, name)

    def transaction(self, *, seconds: float) -> Transaction:
        """Start a batch that can be tampered with."""
        return WrappedTransaction(self, self.inner.transaction(seconds=seconds))

    def before_recheck(self, units: Sequence[Unit]) -> None:
        """Do something under the lock, before the units are read again."""

    def before_remove(self, units: Sequence[Unit]) -> None:
        """Do something under the lock, before the units go."""

    def after_remove(self, units: Sequence[Unit]) -> None:
        """Do something under the lock, once the units are gone."""


class WrappedTransaction:
    """A batch of a wrapped store."""

    def __init__(self, store: Wrapped, inner: Transaction) -> None:
        """Wrap a transaction."""
        self._store = store
        self._inner = inner

    @property
    def held(self) -> float:
        """Return how long the lock was held."""
        return self._inner.held

    @held.setter
    def held(self, seconds: float) -> None:
        self._inner.held = seconds

    @property
    def beyond(self) -> Mapping[str, int]:
        """Return the rows that went elsewhere."""
        return self._inner.beyond

    @beyond.setter
    def beyond(self, rows: Mapping[str, int]) -> None:
        self._inner.beyond = rows

    def __enter__(self) -> Self:
        """Take the lock."""
        self._inner.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Commit or roll back."""
        self._inner.__exit__(kind, error, trace)

    def units(self, units: Sequence[Unit]) -> Sequence[Unit]:
        """Read the units again."""
        self._store.before_recheck(units)
        return self._inner.units(units)

    def remove(self, units: Sequence[Unit], *, max_rows: int) -> Mapping[str, int]:
        """Remove the units."""
        self._store.before_remove(units)
        removed = self._inner.remove(units, max_rows=max_rows)
        self._store.after_remove(units)
        return removed


class Racing(Wrapped):
    """Lets somebody change the store between the page and the first batch that takes ``key`` along."""

    def __init__(self, store: Store, key: Key, change: Callable[[], None]) -> None:
        """Run ``change`` once, just before the lock is taken for a batch; the engine came first."""
        super().__init__(store)
        self._key = key
        self._change: Callable[[], None] | None = change
        self.raced = False

    def page(self, cursor: Cursor, *, cutoff: Instant, limit: int) -> Page:
        """Read a page, then let the engine work, once the unit was found."""
        page = self.inner.page(cursor, cutoff=cutoff, limit=limit)
        if self._change is not None and any(unit.key == self._key for unit in page.units):
            self._change()
            self._change, self.raced = None, True
        return page


class Poisoned(Wrapped):
    """Some units cannot be removed: whatever batch holds one of them fails, after it removed its rows."""

    def __init__(self, store: Store, keys: Collection[Key], *, kind: str = "constraint") -> None:
        """Let batches fail that hold one of these units; ``healed`` lets them go again."""
        super().__init__(store)
        self.keys = set(keys)
        self._kind = kind
        self.attempts: list[int] = []

    def after_remove(self, units: Sequence[Unit]) -> None:
        """Fail if a poisoned unit is among them."""
        self.attempts.append(len(units))
        if any(unit.key in self.keys for unit in units):
            raise UnitFailure(self._kind, "poisoned")


class Failing(Wrapped):
    """Raises an error at the n-th batch, under the lock, when its rows are gone but not committed."""

    def __init__(self, store: Store, error: BaseException, *, at: int) -> None:
        """Raise ``error`` in batch number ``at``, counted from 1."""
        super().__init__(store)
        self._error = error
        self._at = at
        self.batches = 0

    def after_remove(self, units: Sequence[Unit]) -> None:  # noqa: ARG002 - any units will do
        """Fail in the chosen batch."""
        self.batches += 1
        if self.batches == self._at:
            raise self._error


class Holding(Wrapped):
    """Claims that its batches hold the lock for a chosen time a removed row."""

    def __init__(self, store: Store, *, seconds_a_row: float) -> None:
        """Set the time a row takes."""
        super().__init__(store)
        self.seconds_a_row = seconds_a_row
        self.batches: list[int] = []
        self._rows = 0

    def transaction(self, *, seconds: float) -> Transaction:
        """Start a batch whose time is a lie."""
        return _HeldTransaction(self, self.inner.transaction(seconds=seconds))

    def weighed(self, rows: int) -> float:
        """Note a batch; return how long it held the lock."""
        self.batches.append(rows)
        return rows * self.seconds_a_row


class _HeldTransaction(WrappedTransaction):
    def __init__(self, store: Holding, inner: Transaction) -> None:
        super().__init__(store, inner)
        self._holding = store
        self._seconds = 0.0

    def remove(self, units: Sequence[Unit], *, max_rows: int) -> Mapping[str, int]:
        removed = super().remove(units, max_rows=max_rows)
        self._seconds = self._holding.weighed(sum(removed.values()))
        return removed

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        self.held = self._seconds


class Counting(Wrapped):
    """Counts what is asked of a store, by name of the method."""

    def __init__(self, store: Store) -> None:
        """Start at nothing."""
        super().__init__(store)
        self.calls: Counter[str] = Counter()
        self.cursors: list[Cursor] = []

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the store has
        """Count, then pass on."""
        self.calls[name] += 1
        return getattr(self.inner, name)

    def page(self, cursor: Cursor, *, cutoff: Instant, limit: int) -> Page:
        """Note where a page begins."""
        self.calls["page"] += 1
        self.cursors.append(cursor)
        return self.inner.page(cursor, cutoff=cutoff, limit=limit)

    def transaction(self, *, seconds: float) -> Transaction:
        """Count a batch."""
        self.calls["transaction"] += 1
        return self.inner.transaction(seconds=seconds)
