"""The SQL store: a profile, a dialect and the statements that tie them, behind the store protocol."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import sqlalchemy as sa

from afterrun.core.errors import StoreFailure, UnitNotFound
from afterrun.core.facts import Key, Reason, Row, Scalar, Status, Unit, key_text, readable
from afterrun.core.inspection import TableSize
from afterrun.core.judge import Group, Rank
from afterrun.core.space import Room, Space
from afterrun.core.store import Census, Cursor, Outside, Page, Schema, Stream
from afterrun.core.times import CLOCK_SKEW, Instant, micros
from afterrun.core.tree import chunks
from afterrun.profiles import Profile, shape_digest
from afterrun.stores.sql.aggregates import Aggregates
from afterrun.stores.sql.binding import Binding
from afterrun.stores.sql.candidates import Candidates
from afterrun.stores.sql.dialect import Dialect, Ending, Sizes
from afterrun.stores.sql.facts import Facts, RunReader
from afterrun.stores.sql.orphans import orphan_counts
from afterrun.stores.sql.removal import Removal
from afterrun.stores.sql.standing import Standing, examples, standings

STATEMENT_PAGE: Final = 1_000
"""Raw keys of a page in the statements that people read."""

NUMBER: Final = re.compile(r"-?[0-9]{1,19}", re.ASCII)
"""Text that may be the id of a run whose key is a number."""

MAX_INTEGER: Final = 2**63 - 1
"""Greatest integer of any database."""


class SqlTransaction:
    """One batch on a SQL store: recheck and removal under one write lock."""

    def __init__(
        self,
        lock: AbstractContextManager[None],
        reader: RunReader,
        removal: Removal,
        *,
        check: Callable[[], None],
    ) -> None:
        """Prepare a batch; the lock is taken on entry, and then ``check`` may refuse."""
        self._lock = lock
        self._check = check
        self._reader = reader
        self._removal = removal
        self._since = 0.0
        self.held = 0.0

    def __enter__(self) -> Self:
        """Take the write lock."""
        self._lock.__enter__()
        self._since = time.monotonic()
        try:
            self._check()
        except BaseException as error:
            self.__exit__(type(error), error, error.__traceback__)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Commit or roll back, and note how long the lock was held."""
        try:
            self._lock.__exit__(kind, error, trace)
        finally:
            self.held = time.monotonic() - self._since

    def units(self, units: Sequence[Unit]) -> Sequence[Unit]:
        """Read units again by the same facts."""
        return self._reader.units([unit.key for unit in units])

    def remove(self, units: Sequence[Unit], *, max_rows: int) -> Mapping[str, int]:
        """Remove units, payloads first and the run's own row last."""
        return self._removal.remove(units, max_rows=max_rows)


class SqlStore:
    """A store in a SQL database. Raises `ProfileError` if the profile does not fit it."""

    kind = "tree"

    def __init__(self, dialect: Dialect, profile: Profile, *, schema_unverified: bool = False) -> None:
        """Bind a profile to an open database and compile its statements."""
        self.dialect = dialect
        self.profile = profile
        self.binding = Binding(dialect, profile)
        self.facts = Facts(self.binding)
        self.candidates = Candidates(self.facts)
        self.aggregates = Aggregates(self.facts, self.candidates)
        self.removal = Removal(self.binding)
        self._reader = RunReader(self.facts, dialect.now)
        self._schema = self._read_schema(unverified=schema_unverified)

    @property
    def url(self) -> str:
        """Return where the store is, with any password masked."""
        return self.dialect.url

    @property
    def identity(self) -> str:
        """Return what names this very store."""
        return self.dialect.identity

    @property
    def lock_path(self) -> Path:
        """Return the real path of the file beside which the sweep lock lies."""
        return self.dialect.path

    def secure_delete(self) -> None:
        """Overwrite removed content on disk."""
        self.dialect.secure_delete()

    @property
    def profile_name(self) -> str:
        """Return the profile's name."""
        return self.profile.name

    @property
    def group_columns(self) -> tuple[str, ...]:
        """Return the profile's group columns."""
        return self.binding.tree.group

    @property
    def hold(self) -> float:
        """Return the seconds a live batch should hold locks."""
        return self.dialect.hold

    def schema(self) -> Schema:
        """Return the schema's version, whether it was read, and what forbids writing."""
        return self._schema

    @property
    def digest(self) -> str:
        """Return the digest of the store's shape, as a profile lists it beside a version it has read."""
        return shape_digest(self.profile, self.dialect.shapes)

    def statements(self) -> Mapping[str, str]:
        """Return the SQL of pages, facts, references and removal by name, as the database gets it."""
        facts = self.facts
        found: dict[str, sa.ClauseElement] = {}
        for place, stream in enumerate(self.streams()):
            for position in ("first", "tied", "later"):
                found[f"page by {stream.name}, {position}"] = self.candidates.statement(
                    place, position, STATEMENT_PAGE
                )
        found["facts of runs"] = facts.by_key
        found.update({f"facts of children {i}": part for i, part in enumerate(facts.by_parent, start=1)})
        found.update({f"held by {reason.name}": part for reason, _, part in facts.flags})
        found.update({f"removal from {name}": part for name, part in self.removal.deletes})
        return {name: self.dialect.sql(statement) for name, statement in found.items()}

    def _read_schema(self, *, unverified: bool) -> Schema:
        detect = self.profile.detect
        version = self._read_version()
        read = version in detect.read or self.digest in detect.read.values()
        problems = [*self.binding.unknown_triggers(), *self.binding.uneven_keys(), *self._unremovable()]
        if not read and not unverified:
            known = ", ".join(detect.read) or "none"
            problems.append(
                f"the schema version {version[:40]} was never read for the profile {self.profile.name}, "
                f"which knows {known}: plan and explain work, removal needs --schema-unverified"
            )
        return Schema(version, read, tuple(problems), tuple(self._notices()))

    def _read_version(self) -> str:
        source = self.profile.detect.version
        versions = self.binding.table(source.table)
        column = versions.c[source.column]
        row = self.dialect.execute(sa.select(sa.func.max(column)).select_from(versions))[0]
        return "unknown" if row[0] is None else str(row[0])

    def _check_version(self) -> None:
        """Make sure, within a batch, that the engine has not changed what its rows mean."""
        version = self._read_version()
        if version != self._schema.version:
            raise StoreFailure("schema-changed", f"the schema version is {version[:40]} now; run it again")

    def _unremovable(self) -> Iterator[str]:
        """Yield why the database would refuse to remove rows of a table, whatever they are."""
        for name, statement in self.removal.deletes:
            try:
                self.dialect.explain(statement, {"keys": self.binding.bind_keys([])})
            except StoreFailure as failure:
                yield f"the database removes no row of {name}: {failure}"

    def _notices(self) -> Iterator[str]:
        yield from self.profile.notes
        if self.profile.own_retention:
            yield f"retention of {self.profile.engine} itself: {self.profile.own_retention}"
        for reference in self.binding.unknown_references():
            yield (
                f"the profile does not know the table {reference.table}, which may need runs; units that it "
                "refers to are blocked"
            )
        yield from self.binding.unindexed_references()
        for stream in self.streams():
            if not stream.indexed and not stream.rare:
                yield f"no index serves {stream.name}, so every sweep reads all runs; one would help"

    def now(self) -> Instant:
        """Read the clock of this store."""
        return self.dialect.now()

    def newest(self, now: Instant) -> Instant | None:
        """Return the newest time, not after ``now``, that the profile's indexed columns show."""
        latest = sa.literal(now + micros(CLOCK_SKEW))
        runs = self.binding.runs()
        times: list[Instant] = []
        for source in self.binding.tree.seen:
            column = runs.c[source.column]
            instant = self.dialect.instant(column, source.format)
            credible = sa.and_(instant >= sa.literal(0), instant <= latest)
            statement = sa.select(instant).where(column.is_not(None), credible)
            rows = self.dialect.execute(statement.order_by(column.desc()).limit(1))
            times.extend(int(row[0]) for row in rows)
        return max(times, default=None)

    def streams(self) -> tuple[Stream, ...]:
        """Return the orders in which candidates come, one for each end source."""
        return self.candidates.streams

    def has_rows(self, stream: int) -> bool:
        """Say whether a stream has any ended row."""
        return self.candidates.has_rows(stream)

    def page(self, cursor: Cursor, *, cutoff: Instant, limit: int) -> Page:
        """Return the next units whose roots are candidates."""
        raw = self.candidates.page(cursor, cutoff=cutoff, limit=limit)
        return Page(self._reader.build(raw.roots), raw.scanned, raw.cursor)

    def remaining(self, cursor: Cursor, *, cutoff: Instant, streams: Collection[int]) -> int:
        """Count ended roots after the cursor."""
        return self.aggregates.remaining(cursor, cutoff=cutoff, streams=streams)

    def find(self, text: str) -> Unit:
        """Return the unit of the run with this id, climbing to its root. Raises `UnitNotFound`."""
        found = list(self._reader.rows(_spelled(text)))
        if not found:
            raise UnitNotFound(f"no run of {self.url} has the id {text[:120]!r}")
        return self._climb(found[0])

    def known(self, texts: Collection[str]) -> frozenset[str]:
        """Return those of these ids that a run has."""
        keys = [key for text in texts for key in _spelled(text)]
        return frozenset(key_text(row.key) for chunk in chunks(keys) for row in self._reader.rows(chunk))

    def _climb(self, start: Row) -> Unit:
        row, path = start, [start]
        while row.parent is not None:
            parents = list(self._reader.rows([row.parent])) if readable(row.parent) else []
            if not parents:
                break
            row = parents[0]
            if any(row.key == passed.key for passed in path):
                return self._broken(path, Reason("cycle", f"{key_text(row.key)} is its own ancestor"))
            path.append(row)
            if len(path) > self.binding.tree.max_depth + 1:
                depth = self.binding.tree.max_depth
                return self._broken(path, Reason("too-deep", f"deeper than {depth} levels"))
        return self._reader.build([row])[0]

    @staticmethod
    def _broken(path: Sequence[Row], reason: Reason) -> Unit:
        members = tuple(row.key for row in path)
        return Unit(path[0].key, members, None, None, successful=False, blocked=(reason,), complete=False)

    def describe(self, unit: Unit) -> Sequence[Mapping[str, Scalar]]:
        """Return key, parent, status and end of each member, as the store spells them."""
        members = [key for key in unit.members if readable(key)]
        rows = [row for chunk in chunks(members) for row in self._reader.rows(chunk)]
        order = {key: place for place, key in enumerate(unit.members)}
        rows.sort(key=lambda row: order[row.key])
        return [
            {
                "run": key_text(row.key),
                "parent": None if row.parent is None else key_text(row.parent),
                "status": row.status,
                "end": row.end if self._has_ended(row) else None,
            }
            for row in rows
        ]

    def _has_ended(self, row: Row) -> bool:
        status = self.binding.model.statuses.get(row.status)
        return status in {Status.TERMINAL, Status.SUCCESSFUL}

    def newest_kept(
        self, places: Sequence[int], *, count: int, any_status: bool, now: Instant
    ) -> Mapping[Group, Rank]:
        """Return the rank of the last unit that ``keep_last`` keeps, by group."""
        return self.aggregates.newest_kept(places, count=count, any_status=any_status, now=now)

    def groups(self, places: Sequence[int]) -> int:
        """Count groups."""
        return self.aggregates.groups(places)

    def census(self) -> Census:
        """Count runs by status."""
        return self.aggregates.census()

    def outside(self, *, cutoff: Instant | None, now: Instant) -> Outside:
        """Count what pages never meet."""
        return self.aggregates.outside(cutoff=cutoff, now=now)

    def weigh(self, units: Sequence[Unit]) -> Sequence[int]:
        """Return the rows of each unit."""
        return self.removal.weigh(units)

    def count(self, units: Sequence[Unit]) -> Mapping[str, int]:
        """Return the rows by table that removing these units would take."""
        return self.removal.count(units)

    def measure(self, units: Sequence[Unit]) -> tuple[int, int]:
        """Return bytes and rows of these units."""
        return self.removal.measure(units)

    def forgets(self, units: Sequence[Unit]) -> int:
        """Count the idempotency keys that go with these units."""
        return self.removal.idempotency_keys(units)

    def transaction(self, *, seconds: float) -> SqlTransaction:
        """Start a batch."""
        lock = self.dialect.locked(seconds)
        return SqlTransaction(lock, self._reader, self.removal, check=self._check_version)

    def settle(self) -> None:
        """Write back what the commit left for later."""
        self.dialect.settle()

    def sizes(self) -> Sizes:
        """Measure the database."""
        return self.dialect.sizes()

    def space(self) -> Space:
        """Measure the database, its free pages and its files."""
        return self.dialect.space()

    def rooms(self, space: Space) -> Sequence[Room]:
        """Return the room that giving its free pages back needs, by volume."""
        return self.dialect.rooms(space)

    def give_back(self, space: Space, *, gate: Callable[[], bool], rest: float) -> Ending:
        """Give free pages back to the file system, in place."""
        return self.dialect.give_back(space, gate=gate, rest=rest)

    def table_sizes(self, space: Space, *, exact: bool) -> Sequence[TableSize]:
        """Return the bytes of each table: estimated from samples, or exact by reading everything."""
        return self.dialect.table_sizes(space, exact=exact)

    def standings(self, now: Instant) -> Sequence[Standing]:
        """Group all runs by state and age."""
        return standings(self.facts, now)

    def examples(self, reason: str, now: Instant, *, limit: int) -> Sequence[str]:
        """Return ids of runs that stand so, the oldest first: stuck, or blocked as roots by this reason."""
        return examples(self.facts, reason, now, limit=limit)

    def kept_by_day(self, *, cutoff: Instant | None, now: Instant) -> Mapping[int, int]:
        """Count the roots that pages never meet by the day of their end, as days since 1970."""
        return self.aggregates.kept_by_day(cutoff=cutoff, now=now)

    def cursor_at(self, stream: int, moment: Instant) -> Cursor:
        """Return the place in a stream where a page up to this instant ends: before all that ended then."""
        raw = self.dialect.bound(moment, self.binding.tree.end[stream].format)
        return Cursor(stream, raw)  # type: ignore[arg-type]

    def check(self) -> Iterator[str]:
        """Check the database's own integrity and foreign keys; yield a line for each fault."""
        yield from self.dialect.problems()

    def problems(self) -> Iterator[str]:
        """Check integrity, foreign keys, and rows that belong to no run; yield a line for each fault."""
        yield from self.dialect.problems()
        for table, count in orphan_counts(self.binding):
            yield f"orphans: {count} rows of {table} belong to no run"

    def close(self) -> None:
        """Let go of the database."""
        self.dialect.close()


def _spelled(text: str) -> list[Key]:
    """Return the keys that an id, as a person types it, may stand for."""
    keys: list[Key] = [text]
    if NUMBER.fullmatch(text) and abs(int(text)) <= MAX_INTEGER:
        keys.append(int(text))
    return [key for key in keys if readable(key)]
