"""One row table of a SQL store under its rules: pages, counts and removal, all by one verdict.

`keep_latest` is resolved once, when this is made, to the rank of the last row kept of each partition: rows
that come later can only make more stay.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

import sqlalchemy as sa

from afterrun.core.errors import Refused, StoreFailure, UnitFailure, UsageError, did_you_mean
from afterrun.core.facts import Key, Scalar, Unit, readable
from afterrun.core.judge import Rank, rank
from afterrun.core.row_rules import RowRules
from afterrun.core.row_tables import Place, RowCounts, RowPage, RowsGone, row_unit
from afterrun.core.store import Witness
from afterrun.core.times import Instant
from afterrun.core.tree import chunks
from afterrun.profiles.rows import RowTable
from afterrun.stores.sql.dialect import Column
from afterrun.stores.sql.parts import parts
from afterrun.stores.sql.row_binding import RowBinding
from afterrun.stores.sql.row_statements import RowStatements
from afterrun.stores.sql.row_verdict import GOES, Keeping, Moment, RowVerdict
from afterrun.stores.sql.store import SqlStore
from afterrun.stores.sql.timed import Stopwatch, Timed

AIM: Final = 0.1
"""Seconds that a batch aims at where it locks its own rows alone, which no engine waits for."""

LOOK: Final = 4_000
LOOK_BLOCKING: Final = 1_000
"""Raw rows of a page: twice the largest batch, or fewer where the engine may have to wait for a look."""

CHUNK: Final = 2_000
"""Keys of one statement."""

UNREADABLE_KEY: Final = Keeping("blocked", "unreadable-key")
LATEST: Final = Keeping("recent", "keep-latest")


class SqlRows:
    """One row table of a store. It owns nothing: the store is closed by whoever opened it.

    Attributes:
        name: the profile's name for it.
        problems: why nothing of it goes; with any, nothing else here may be asked but ``notices``.
        notices: what a reader of a plan should know of it.
        apart: row tables of the same plan that take rows, before this one, which it would take along.
        only: keys beyond which nothing goes; ``None`` if nothing is left out.
        witness: who compares, in the transaction that removes, what goes with its backup.
    """

    def __init__(
        self,
        store: SqlStore,
        name: str,
        profile: RowTable,
        rules: RowRules,
        *,
        now: Instant,
        grace: timedelta,
    ) -> None:
        """Compile the statements and resolve the rules. Raises `UsageError` for a state that none is."""
        self._store = store
        self._dialect = store.dialect
        self._rules = rules
        self.name = name
        self.moment = Moment(now=now, cutoff=rules.cutoff(now, grace=grace))
        statuses = _statuses(name, profile, rules)
        self.binding = RowBinding(store.binding, name, profile)
        self.problems: Sequence[str] = self.binding.problems
        self.notices: Sequence[str] = ()
        self.apart: Sequence[SqlRows] = ()
        self.only: Collection[Key] | None = None
        self.witness: Witness | None = None
        self._differing: set[Key] = set()
        self._newest: Mapping[tuple[Scalar, ...], Rank] = {}
        if not self.problems:
            self.verdict = RowVerdict(self.binding, statuses)
            self.statements = RowStatements(self.binding, self.verdict, ranked=rules.keep_latest is not None)
            self.problems = list(self._obstacles())
        if not self.problems:
            self.notices = list(self.binding.notices())
            self._newest = self._resolved()

    @property
    def aim(self) -> float:
        """Return the seconds that a batch beside an engine should take."""
        return AIM if self._dialect.locks_rows else self._store.hold

    @property
    def look(self) -> int:
        """Return the raw rows of a page beside an engine."""
        return LOOK_BLOCKING if self._dialect.readers_block else LOOK

    def _obstacles(self) -> Iterator[str]:
        """Yield what the database itself has against looking at these rows, or removing them."""
        removed = self.binding.removed_from
        try:
            self._dialect.check_reading(sorted(self.binding.rows.mentioned & self._dialect.shapes.keys()))
        except Refused as refusal:
            yield str(refusal)
            return
        yield from self._dialect.obstacles(removed, locked=self.binding.rows.table)
        for statement in self.statements.tried():
            try:
                self._dialect.explain(statement, self._parameters() | {"keys": self.statements.bind([])})
            except (StoreFailure, UnitFailure) as failure:
                yield f"the database cannot look for or remove rows of {self.binding.rows.table}: {failure}"
                return

    def _parameters(self) -> dict[str, object]:
        return self.moment.parameters | {"bound": self._bound()}

    def _bound(self) -> object:
        """Return a raw value such that every row that ended before the cutoff compares less than it."""
        cutoff = self.moment.cutoff
        end = self.binding.rows.end
        column = self.binding.table().c[end.column]
        return None if cutoff is None else self._dialect.bound(cutoff, column, end.format)

    def _resolved(self) -> Mapping[tuple[Scalar, ...], Rank]:
        """Return the rank of the last row that ``keep_latest`` keeps, of each partition that has so many."""
        count = self._rules.keep_latest
        if count is None or self.moment.cutoff is None:
            return {}
        found = self._dialect.execute(self.statements.newest, self.moment.parameters | {"count": count})
        return {self.statements.partition(row): self._rank(row) for row in found}

    def _rank(self, row: Sequence[Any]) -> Rank:
        return rank(self.statements.end(row), self.statements.key(row))

    def _is_kept(self, row: Sequence[Any]) -> bool:
        """Say whether a row is among the latest of its partition."""
        if self._rules.keep_latest is None:
            return False
        newest = self._newest.get(self.statements.partition(row))
        return newest is None or self._rank(row) >= newest

    # Looking

    def page(self, place: Place | None, *, limit: int) -> RowPage:
        """Judge the next raw rows after a place."""
        if self.moment.cutoff is None:
            return RowPage(0, (), RowCounts(), None)
        rows = self._raw(place, limit)
        kept: Counter[Keeping] = Counter()
        found: list[Key] = []
        for row in rows:
            keeping = self._keeping(row)
            if keeping is None:
                found.append(self.statements.key(row))
            else:
                kept[keeping] += 1
        going = [key for key in found if self._is_listed(key)]
        following = self.statements.place(rows[-1]) if len(rows) == limit else None
        return RowPage(len(rows), going, counted(kept), following, len(found) - len(going))

    def _is_listed(self, key: Key) -> bool:
        return key not in self._differing and (self.only is None or key in self.only)

    def _raw(self, place: Place | None, limit: int) -> list[Any]:
        """Read the next rows in the order of the index: those that tie with the place, then later ones."""
        parameters = self._parameters() | {"most": limit}
        if place is None:
            return list(self._dialect.execute(self.statements.first, parameters))
        given = {**parameters, **self.statements.given(place)}
        found: list[Any] = []
        for position in self.statements.positions(place):
            found += self._dialect.execute(position, given | {"most": limit - len(found)})
            if len(found) >= limit:
                break
        return found

    def _keeping(self, row: Sequence[Any]) -> Keeping | None:
        number = self.statements.verdict_of(row)
        if number != GOES:
            return self.verdict.keepings[number - 1]
        if not readable(self.statements.key(row)):
            return UNREADABLE_KEY
        return LATEST if self._is_kept(row) else None

    def beyond(self) -> RowCounts:
        """Count the rows that no page meets."""
        pages = self.moment.cutoff is not None
        if pages and not self.statements.indexed:
            return RowCounts()  # they go over the whole table
        rows = self._dialect.execute(self.statements.beyond(pages=pages), self._parameters())
        return counted(self.verdict.named({int(number): int(count) for number, count in rows}))

    def count(self, keys: Sequence[Key]) -> Mapping[str, int]:
        """Return the rows by real table that removing these would take, but for those `apart`."""
        found = {self.binding.rows.table: len(keys)}
        for name, statement in self.statements.owned_counts:
            found[name] = sum(self._counted(statement, chunk) for chunk in chunks(list(keys), CHUNK))
        for other in self.apart:
            owned = next(part for part in self.binding.owned if part.table == other.binding.rows.table)
            held = self._dialect.keys_in(self.binding.plain(owned.table).c[owned.column])
            for chunk in chunks(list(keys), CHUNK):
                found[owned.table] -= other.going_among(held, self.statements.bind(chunk))
        return found

    def measure(self, keys: Sequence[Key]) -> tuple[int, int]:
        """Return bytes and rows of these rows and of what goes with them."""
        given = {"keys": self.statements.bind(keys)}
        found = [self._dialect.execute(statement, given)[0] for statement in self.statements.measures]
        return sum(int(size) for size, _ in found), sum(int(rows) for _, rows in found)

    def going_among(self, where: Column, keys: object) -> int:
        """Count the rows that go of those under a condition on the table itself with these keys."""
        statement = self.statements.going_in(self.binding.table(), where)
        rows = self._dialect.execute(statement, self.moment.parameters | {"keys": keys})
        free = (self.statements.key(row) for row in rows if not self._is_kept(row))
        return sum(readable(key) and self._is_listed(key) for key in free)

    def _counted(self, statement: sa.Select[Any], keys: Sequence[Key]) -> int:
        return int(self._dialect.execute(statement, {"keys": self.statements.bind(keys)})[0][0])

    def backlog(self, place: Place | None) -> int:
        """Return how many rows after a place may go, at most: with an index by time, all that are as old."""
        if self.moment.cutoff is None:
            return 0
        given = self._parameters() | ({} if place is None else dict(self.statements.given(place)))
        return int(self._dialect.execute(self.statements.backlog(place), given)[0][0])

    def candidates(self, most: int) -> int:
        """Count the rows that pages meet, so many at most."""
        if self.moment.cutoff is None:
            return 0
        given = self._parameters() | {"most": most}
        return int(self._dialect.execute(self.statements.candidates, given)[0][0])

    def rows(self) -> int:
        """Count all rows."""
        counted = sa.select(sa.func.count()).select_from(self.binding.table())
        return int(self._dialect.execute(counted)[0][0])

    # Removing

    def remove(self, keys: Sequence[Key], *, seconds: float) -> RowsGone:
        """Remove those of these rows that may still go, in one transaction. Raises `UnitFailure`."""
        timed, watch = Timed(self._dialect.locked(seconds)), Stopwatch()
        if self.witness:
            self.witness.recall(list(map(row_unit, keys)))
        with timed:
            self._store.check_version()
            free = self._looked(keys, watch)
            going = self._as_saved(free, watch)
            rows = self._removed(going, watch)
            if self.witness and going:
                self.witness.confirm(rows)
        taken = watch.total if self._dialect.locks_rows else timed.seconds
        changed = len(free) - len(going)
        self._differing.update(set(free).difference(going))
        return RowsGone(rows[self.binding.rows.table], rows, timed.seconds, taken, watch.longest, changed)

    def _looked(self, keys: Sequence[Key], watch: Stopwatch) -> Sequence[Key]:
        """Return those of these keys whose rows may go; all, where the removal itself asks that."""
        if not (self.statements.looks_first or self.witness):
            return keys
        with watch:
            found = self._dialect.execute(self.statements.fresh, self._given(keys))
        return [self.statements.key(row) for row in found if not self._is_kept(row)]

    def _as_saved(self, keys: Sequence[Key], watch: Stopwatch) -> Sequence[Key]:
        """Return those of these keys whose rows are as their backup has them."""
        if not (self.witness and keys):
            return keys
        with watch:
            differing = set(self.witness.differing(list(map(row_unit, keys))))
        return [key for key in keys if key not in differing]

    def _removed(self, keys: Sequence[Key], watch: Stopwatch) -> Mapping[str, int]:
        statements = self.statements
        removed = {name: self._change(delete, keys, watch) for name, delete in statements.owned}
        gone = self._change(statements.delete, keys, watch)
        if gone != len(keys) and statements.owned:
            raise UnitFailure("serialization", "a reference came while a row was removed")
        return removed | {self.binding.rows.table: gone}

    def _change(self, delete: sa.Delete, keys: Sequence[Key], watch: Stopwatch) -> int:
        if not keys:
            return 0
        with watch:
            return self._dialect.change(delete, self._given(keys))

    def _given(self, keys: Sequence[Key]) -> dict[str, object]:
        return self.moment.parameters | {"keys": self.statements.bind(keys)}

    def settle(self) -> None:
        """Write back what a commit left for later."""
        self._store.settle()

    def sql(self) -> Mapping[str, str]:
        """Return the SQL of pages and removal by name, as the database gets it."""
        if self.problems:
            return {}
        return {
            f"rows of {self.name}, {name}": self._dialect.sql(statement)
            for name, statement in self.statements.named()
        }


def _statuses(name: str, profile: RowTable, rules: RowRules) -> Sequence[str]:
    """Return the states that rules let go. Raises `UsageError` for one that is no terminal state."""
    for word in rules.statuses:
        if word not in profile.terminal:
            known = ", ".join(profile.terminal) or "none"
            raise UsageError(
                f"tables.{name}: {word!r} is no state in which such a row has ended"
                f"{did_you_mean(word, profile.terminal)}; known: {known}"
            )
    return rules.statuses or profile.terminal


def counted(kept: Mapping[Keeping, int]) -> RowCounts:
    """Return counts by what keeps rows as a report has them."""
    counts = RowCounts()
    for (word, reason), count in kept.items():
        if word == "recent":
            counts.recent += count
        else:
            (counts.protected if word == "protected" else counts.blocked)[reason] += count
    return counts


class RowsApart:
    """Counts rows of runs that go by row policies of their own, so that a plan counts each row once."""

    def __init__(self, store: SqlStore, tables: Iterable[SqlRows]) -> None:
        """Take the row tables of a plan; those that runs own rows of count."""
        self._store = store
        own = {part.name: part for part in parts(store.binding)}
        self._tables = [
            (own[table.binding.rows.table], table)
            for table in tables
            if not table.problems and table.binding.rows.table in own and table.moment.cutoff is not None
        ]

    def count(self, units: Sequence[Unit]) -> Mapping[str, int]:
        """Return how many rows of these units a row policy takes, by real table."""
        members = [member for unit in units for member in unit.members]
        found: Counter[str] = Counter()
        for part, table in self._tables:
            for chunk in chunks(members, CHUNK):
                found[part.name] += table.going_among(part.where, self._store.binding.bind_keys(chunk))
        return found
