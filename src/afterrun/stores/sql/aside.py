"""Trees that sweeps set aside, in a store whose owner keeps two columns for that.

The root is locked before the tree is read again, as whoever changes the tree locks it first: what ends a
protection comes either before that look, or after the commit, and then finds the tree set aside.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from afterrun.core.facts import Key, Unit, key_order
from afterrun.core.times import Instant
from afterrun.core.tree import chunks
from afterrun.profiles.model import Aside, Protection
from afterrun.stores.sql.dialect import Column
from afterrun.stores.sql.facts import Facts, RunReader, alike


class SqlAside:
    """Sets trees of one store aside."""

    def __init__(
        self,
        facts: Facts,
        aside: Aside,
        reader: RunReader,
        *,
        now: Callable[[], Instant],
        check: Callable[[], None],
        settle: Callable[[], None],
    ) -> None:
        """Compile the statements. ``check`` may refuse each time, and ``settle`` follows each commit."""
        self._facts = facts
        self._dialect = facts.dialect
        self._reader = reader
        self._now = now
        self._check = check
        self._settle = settle
        self._lapses = list(self._timed())
        self.locks = (
            sa.select(facts.key)
            .select_from(facts.runs)
            .where(self._dialect.keys_in(facts.key))
            .order_by(facts.key)
            .with_for_update(skip_locked=True, of=facts.runs)
        )
        runs = facts.binding.table(facts.tree.table)
        values = {aside.due: sa.null(), aside.again: sa.bindparam("again", type_=sa.BigInteger())}
        mine = self._dialect.keys_in(runs.c[facts.tree.key])
        self.puts = sa.update(runs).where(mine).values(values)  # type: ignore[arg-type]  # a table, no alias

    def put(self, until: Mapping[Key, Instant], *, seconds: float) -> float:
        """Set these trees aside, as `core.aside` says. Return how many seconds locks were held."""
        with self._dialect.locked(seconds):
            since = time.monotonic()
            self._check()
            for chunk in chunks(sorted(until, key=key_order)):
                self._put(self._held(chunk), until)
        held = time.monotonic() - since
        self._settle()
        return held

    def _held(self, keys: Sequence[Key]) -> Sequence[Unit]:
        """Lock the roots, and return those of the trees that are protected, and by nothing unknown."""
        if self._dialect.locks_rows:
            rows = self._dialect.execute(self.locks, {"keys": self._facts.binding.bind_keys(keys)})
            keys = [row[0] for row in rows]
        units = self._reader.units(keys)
        return [unit for unit in units if unit.protected and not unit.blocked and unit.root_end is not None]

    def _put(self, units: Sequence[Unit], until: Mapping[Key, Instant]) -> None:
        lapses = self._ends({member: unit.key for unit in units for member in unit.members})
        together: defaultdict[Instant, list[Key]] = defaultdict(list)
        for unit in units:
            together[min(until[unit.key], lapses.get(unit.key, until[unit.key]))].append(unit.key)
        for moment, keys in together.items():
            given = {"keys": self._dialect.bind_keys(keys), "again": moment}
            self._dialect.change(self.puts, given)

    def _ends(self, roots: Mapping[Key, Key]) -> Mapping[Key, Instant]:
        """Return when a protection of each tree first ends by itself; ``roots`` has its members."""
        found: dict[Key, Instant] = {}
        for statement in self._lapses:
            for chunk in chunks(list(roots)):
                for key, moment in self._run(statement, chunk):
                    for member in alike(key, roots.keys()):
                        root = roots[member]
                        found[root] = min(moment, found.get(root, moment))
        return found

    def _run(self, statement: sa.Select[Any], keys: Collection[Key]) -> Sequence[Any]:
        given = {"keys": self._facts.binding.bind_keys(list(keys)), "now": self._now()}
        return self._dialect.execute(statement, given)

    def _timed(self) -> Iterator[sa.Select[Any]]:
        for protection in self._facts.binding.protect:
            for name, test in protection.where.items():
                if test.future is not None and protection.table is not None:
                    yield self._first_end(protection, name)

    def _first_end(self, protection: Protection, column: str) -> sa.Select[Any]:
        """Return what finds, by run, the first time at which rows hold it no more."""
        rows = self._facts.binding.table(str(protection.table), "r")
        holder: Column = rows.c[str(protection.column)]
        tests = [self._facts.condition(rows.c[name], test) for name, test in protection.where.items()]
        spelling = protection.where[column].future
        if spelling is None:
            raise ValueError("the column of a protection that ends by itself is a time")
        first = sa.func.min(self._dialect.instant(rows.c[column], spelling))
        statement = sa.select(holder, first).where(self._dialect.keys_in(holder), *tests)
        return statement.group_by(holder)
