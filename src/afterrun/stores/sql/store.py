"""The SQL store: a profile, a dialect and the statements that tie them, behind the store protocol."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Final

import sqlalchemy as sa

from afterrun.core.errors import StoreFailure, UnitFailure, UnitNotFound
from afterrun.core.facts import Key, Newest, Row, Scalar, Status, Unit, key_text, readable
from afterrun.core.inspection import TableSize
from afterrun.core.judge import Group, Rank
from afterrun.core.space import GivenBack, Room, Space
from afterrun.core.store import Census, Cursor, Outside, Page, Schema, Stream
from afterrun.core.times import Instant, Micros
from afterrun.core.tree import chunks
from afterrun.profiles import Profile, shape_digest
from afterrun.profiles.model import Aside
from afterrun.stores.sql.aggregates import Aggregates
from afterrun.stores.sql.aside import SqlAside
from afterrun.stores.sql.binding import Binding
from afterrun.stores.sql.blobs import SqlBlobs
from afterrun.stores.sql.candidates import Candidates
from afterrun.stores.sql.climbing import climb, roots_of
from afterrun.stores.sql.dialect import Dialect, Sizes
from afterrun.stores.sql.elsewhere import Reach, Reaching
from afterrun.stores.sql.facts import Facts
from afterrun.stores.sql.hooks import before_sweep
from afterrun.stores.sql.ids import spelled
from afterrun.stores.sql.latest import last_added, newest_time
from afterrun.stores.sql.literals import literal
from afterrun.stores.sql.orphans import faults, overdue
from afterrun.stores.sql.removal import Removal
from afterrun.stores.sql.run_reader import RunReader
from afterrun.stores.sql.standing import Standing, examples, standings
from afterrun.stores.sql.transaction import Locks, RowLocks, SqlTransaction

STATEMENT_PAGE: Final = 1_000
"""Raw keys of a page in the statements that people read."""


class SqlStore:
    """A store in a SQL database. Raises `ProfileError` if the profile does not fit it."""

    kind = "tree"

    def __init__(
        self,
        dialect: Dialect,
        profile: Profile,
        *,
        schema_unverified: bool = False,
        reach: Reach | None = None,
    ) -> None:
        """Bind a profile to an open database and compile its statements.

        ``reach`` are rows of its runs in other databases. They are closed with the store.
        """
        self.dialect = dialect
        dialect.known_triggers = bool(profile.detect.triggers)
        self.profile = profile
        self.reach = reach or Reach()
        # counts rows of units, by table, that a plan counts elsewhere
        self.apart: Callable[[Sequence[Unit]], Mapping[str, int]] | None = None
        self.binding = Binding(dialect, profile)
        self._compile()
        self._schema = self._read_schema(unverified=schema_unverified)

    def _compile(self) -> None:
        """Compile the statements of the profile."""
        self.facts = Facts(self.binding)
        self.candidates = Candidates(self.facts)
        self.aggregates = Aggregates(self.facts, self.candidates)
        self.blobs = self._bind_blobs()
        self.removal = Removal(self.binding, returned=self.blobs.returned if self.blobs else None)
        self._reader = RunReader(self.facts, self.now)
        self._aside = None if self.binding.tree.aside is None else self._set_aside(self.binding.tree.aside)
        self._rows: Locks | None = RowLocks(self.facts, self._reader) if self.dialect.locks_rows else None

    def _set_aside(self, aside: Aside) -> SqlAside:
        return SqlAside(
            self.facts, aside, self._reader, now=self.now, check=self.check_version, settle=self.settle
        )

    def _bind_blobs(self) -> SqlBlobs | None:
        if not self.profile.blobs:
            return None
        return SqlBlobs(self.binding, now=self.now, check=self.check_version)

    @property
    def url(self) -> str:
        """Return where the store is, with any password masked."""
        return self.dialect.url

    @property
    def identity(self) -> str:
        """Return what names this very store."""
        return self.dialect.identity

    @property
    def lock_path(self) -> Path | None:
        """Return the real path of the file beside which the sweep lock lies, if it lies beside one."""
        return self.dialect.path

    def sweep_lock(self) -> AbstractContextManager[None] | None:
        """Return the database's own lock that keeps one sweep a store, if it has one."""
        return self.dialect.sweep_lock()

    def heed(self, halt: Callable[[], bool]) -> None:
        """Stop whatever runs with a `StoreFailure` as soon as this says yes, until another one is given."""
        self.dialect.halt = halt
        self.reach.heed(halt)

    def before_sweep(self) -> AbstractContextManager[None]:
        """Hold what the engine expects of anybody who removes its runs. Raises `StoreLocked`."""
        return before_sweep(self.profile.before_sweep, self.dialect)

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
    def statuses(self) -> Mapping[Scalar, Status]:
        """Return what the engine's words mean."""
        return self.binding.model.statuses

    @property
    def knows_keys(self) -> bool:
        """Say whether the profile names an idempotency key."""
        return self.binding.tree.idempotency_key is not None

    @property
    def hold(self) -> float:
        """Return the seconds a live batch should hold locks."""
        return self.dialect.hold

    @property
    def aside(self) -> SqlAside | None:
        """Return what sets protected trees aside, if the profile names columns for that."""
        return self._aside

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
            for position, page in self.candidates.statements(place, STATEMENT_PAGE):
                found[f"page by {stream.name}, {position}"] = page
        found["facts of runs"] = facts.by_key
        found.update({f"facts of children {i}": part for i, part in enumerate(facts.by_parent, start=1)})
        leading = enumerate(facts.leading, start=1)
        found.update({f"links {i}": part for i, part in leading if part is not None})
        found.update({f"held by {held.name}": held.statement for held in facts.flags})
        found.update({f"removal from {name}": part for name, part in self.removal.deletes})
        found.update(self.blobs.statements() if self.blobs else ())
        found.update({"setting aside": self._aside.puts} if self._aside else {})
        here = {name: self.dialect.sql(statement) for name, statement in found.items()}
        return {**here, **self.reach.statements()}

    def remarks(self) -> Sequence[str]:
        """Return nothing: what is to be said of run trees is said of the schema."""
        return ()

    def _read_schema(self, *, unverified: bool) -> Schema:
        detect = self.profile.detect
        self._check_reading()
        version = self._read_version()
        read = version in detect.read or self.digest in detect.read.values()
        problems = [*self._obstacles(), *self.binding.unknown_triggers(), *self.binding.uneven_keys()]
        problems += self.reach.problems
        problems += [] if problems else self._unremovable()
        if not read and not unverified:
            known = ", ".join(detect.read) or "none"
            problems.append(
                f"the schema version {version[:40]} was never read for the profile {self.profile.name}, "
                f"which knows {known}: plan and explain work, removal needs --schema-unverified"
            )
        return Schema(version, read, tuple(problems), tuple(self._notices()))

    def _read_version(self) -> str:
        version, name = self.profile.detect.version, self.binding.version_table
        if version is None or name is None or name not in self.dialect.shapes:
            return f"shape:{self.digest}"
        versions = self.binding.table(name)
        column = versions.c[version.column]
        row = self.dialect.execute(sa.select(sa.func.max(column)).select_from(versions))[0]
        return "unknown" if row[0] is None else str(row[0])

    def check_version(self) -> None:
        """Make sure, within a batch, that the engine has not changed what its rows mean."""
        version = self._read_version()
        if version != self._schema.version:
            raise StoreFailure("schema-changed", f"the schema version is {version[:40]} now; run it again")

    def _unremovable(self) -> Iterator[str]:
        """Yield why the database would refuse to remove rows of a table, whatever they are."""
        for name, statement in self.removal.deletes:
            try:
                self.dialect.explain(statement, {"keys": self.binding.bind_keys([])})
            except UnitFailure as failure:
                yield f"{name} is locked by another session, so what would go cannot be looked at: {failure}"
            except StoreFailure as failure:
                yield f"the database removes no row of {name}: {failure}"
        yield from self.blobs.unremovable() if self.blobs else ()

    def _obstacles(self) -> Sequence[str]:
        """Say what the database itself has against removal."""
        found = self.dialect.obstacles(
            self._removed_from, locked=self.binding.tree.table, emptied=list(self.binding.emptied())
        )
        return list(dict.fromkeys([*found, *(self.blobs.obstacles() if self.blobs else ())]))

    def _check_reading(self) -> None:
        """Make sure that all rows which decide are seen. Raises `Refused`."""
        unknown = {reference.table for reference in self.binding.unknown_references()}
        needing = self.blobs.needing() if self.blobs else set()
        self.dialect.check_reading(sorted(self.binding.mentioned() | unknown | needing))

    def _notices(self) -> Iterator[str]:
        yield from self.reach.notices(self.binding.tree.elsewhere)
        yield from self.profile.notes
        yield from self.dialect.notices()
        if self.profile.own_retention:
            yield f"retention of {self.profile.engine} itself: {self.profile.own_retention}"
        for reference in self.binding.unknown_references():
            yield (
                f"the profile does not know the table {reference.table}, which may need runs; units that it "
                "refers to are blocked"
            )
        yield from self.binding.unindexed_references()
        yield from self.blobs.notices() if self.blobs else ()
        for stream in self.streams():
            if not stream.indexed and not stream.rare:
                cure = "; one would help" if stream.name in self.binding.runs().c else ""
                yield f"no index serves {stream.name}, so every sweep reads all runs{cure}"
        yield from self._absent()
        yield from self._overdue()

    def _overdue(self) -> Iterator[str]:
        """Yield what holds ended runs for too long."""
        yield from overdue(self.facts)

    def _absent(self) -> Iterator[str]:
        """Yield tables that would hold runs and are not there, unless a store of this very shape was read."""
        if self.digest in self.profile.detect.read.values():
            return
        for protection in self.binding.tree.protect:
            if protection.table is not None and protection.table not in self.dialect.shapes:
                yield (
                    f"there is no table {protection.table}, whose rows would hold runs ({protection.reason}):"
                    " some versions of the schema lack it, but a store of this shape was never read"
                )

    def now(self) -> Instant:
        """Read the clock of this store."""
        return self.dialect.now()

    def newest(self, now: Instant) -> Instant | None:
        """Return the newest time, not after ``now``, that the profile's columns show."""
        return newest_time(self.facts, now)

    def count_runs(self, most: int) -> int:
        """Count runs, so many at most."""
        some = sa.select(literal(1)).select_from(self.binding.runs()).limit(most).subquery()
        return int(self.dialect.execute(sa.select(sa.func.count()).select_from(some))[0][0])

    def last_added(self, count: int, *, within: int) -> Sequence[Key]:
        """Return the keys of the runs that were added last, of rows at most so far below the last one."""
        return last_added(self.facts, count, within=within)

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
        found = list(self._reader.rows(spelled(text)))
        if not found:
            raise UnitNotFound(f"no run of {self.url} has the id {text[:120]!r}")
        return climb(self._reader, found[0], max_depth=self.binding.tree.max_depth)

    def units(self, keys: Sequence[Key]) -> Sequence[Unit]:
        """Return the units whose roots have these keys, as they are now, without a lock."""
        return self._reader.units(keys)

    def units_of(self, runs: Collection[Key]) -> Mapping[Key, Unit]:
        """Return the unit that each of these runs belongs to, but for runs whose root is not to be found."""
        roots = roots_of(self._reader, runs, max_depth=self.binding.tree.max_depth)
        units = {unit.key: unit for unit in self._reader.units(sorted(set(roots.values()), key=str))}
        return {run: units[root] for run, root in roots.items() if root in units}

    def known(self, texts: Collection[str]) -> frozenset[str]:
        """Return those of these ids that a run has."""
        keys = [key for text in texts for key in spelled(text)]
        return frozenset(key_text(row.key) for chunk in chunks(keys) for row in self._reader.rows(chunk))

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

    def newest_in(
        self, places: Sequence[int], *, slot: Micros, any_status: bool, now: Instant
    ) -> Iterable[Newest]:
        """Return the newest counted unit of each group in each slot of time."""
        return self.aggregates.newest_in(places, slot=slot, any_status=any_status, now=now)

    def groups(self, places: Sequence[int]) -> int:
        """Count groups."""
        return self.aggregates.groups(places)

    def content(self) -> tuple[int, int]:
        """Return about how many bytes the rows of all units hold, dead rows not counted, and the units.

        Rows elsewhere count, as far as their databases were named.
        """
        names = set(self._removed_from)
        held = sum(size.content for size in self.dialect.table_sizes(exact=False) if size.name in names)
        return held + self.reach.content(), self._count_units()

    def _count_units(self) -> int:
        return self.aggregates.roots()

    def census(self) -> Census:
        """Count runs by status; only together, where the database knows each status as the profile does."""
        if self.has_checked_statuses:
            return Census({}, {}, together=self.aggregates.runs())
        return self.aggregates.census()

    @property
    def has_checked_statuses(self) -> bool:
        """Say whether the database refuses a status that the profile does not know."""
        return self.binding.tree.checked and self._schema.version in self.profile.detect.read

    def outside(self, *, cutoff: Instant | None, now: Instant) -> Outside:
        """Count what pages never meet."""
        return self.aggregates.outside(cutoff=cutoff, now=now)

    def weigh(self, units: Sequence[Unit]) -> Sequence[int]:
        """Return the rows of each unit."""
        weights = zip(self.removal.weigh(units), self.reach.weigh(units), strict=True)
        return [here + elsewhere for here, elsewhere in weights]

    def count(self, units: Sequence[Unit]) -> Mapping[str, int]:
        """Return the rows by table that removing these units would take."""
        apart = self.apart(units) if self.apart else {}
        here = {name: count - apart.get(name, 0) for name, count in self.removal.count(units).items()}
        return {**here, **self.reach.count(units)}

    def measure(self, units: Sequence[Unit]) -> tuple[int, int]:
        """Return bytes and rows of these units."""
        here, elsewhere = self.removal.measure(units), self.reach.measure(units)
        return here[0] + elsewhere[0], here[1] + elsewhere[1]

    def forgets(self, units: Sequence[Unit]) -> int:
        """Count the idempotency keys that go with these units."""
        return self.removal.idempotency_keys(units)

    def transaction(self, *, seconds: float) -> SqlTransaction:
        """Start a batch."""
        return SqlTransaction(
            self.dialect.locked(seconds),
            self._reader,
            self.removal,
            check=self.check_version,
            rows=self._rows,
            reaching=Reaching(self.reach, self.dialect),
            blobs=self.blobs,
        )

    def asynchronous(self) -> AbstractContextManager[Callable[[], None]]:
        """Let batches commit before the disk has them, unless rows elsewhere must go first; see `Dialect`."""
        return nullcontext(lambda: None) if self.reach.annexes else self.dialect.asynchronous()

    def settle(self) -> None:
        """Write back what the commit left for later."""
        self.dialect.settle()
        self.reach.settle()

    def sizes(self) -> Sizes:
        """Measure the database."""
        return self.dialect.sizes()

    def space(self) -> Space:
        """Measure what the database takes, and what of it could be given back."""
        return self.dialect.space(self._removed_from)

    def rooms(self) -> Sequence[Room]:
        """Return the room that giving space back needs, by volume."""
        return self.dialect.rooms()

    def give_back(self, *, gate: Callable[[], bool], rest: float) -> GivenBack:
        """Give space back, in place."""
        return self.dialect.give_back(self._removed_from, gate=gate, rest=rest)

    @property
    def _removed_from(self) -> Sequence[str]:
        """Return the tables that removals touch."""
        return [*(name for name, _ in self.removal.deletes), *self.binding.blob_tables()]

    def table_sizes(self, *, exact: bool) -> Sequence[TableSize]:
        """Return the bytes of each table; ``exact`` reads everything where they would be estimated."""
        return self.dialect.table_sizes(exact=exact)

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
        raw = self.facts.ends.bound(self.binding.runs(), self.candidates.sources[stream], moment)
        return Cursor(stream, raw)  # type: ignore[arg-type]

    def check(self) -> Iterator[str]:
        """Check the database's own integrity and foreign keys; yield a line for each fault."""
        yield from self.dialect.problems()

    def problems(self) -> Iterator[str]:
        """Check integrity, foreign keys, and what leads to no run; yield a line for each fault."""
        yield from self.dialect.problems()
        yield from faults(self.facts)
        yield from self.blobs.faults() if self.blobs else ()

    def close(self) -> None:
        """Let go of the databases."""
        self.dialect.close()
        self.reach.close()
