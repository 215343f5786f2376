"""Rows of runs in other databases: tables that a profile declares, and whose place a user gives.

Two databases have no commit in common. So a batch first remembers, durably, what it is about to remove there;
then, with its own rows removed and not yet committed, it commits there; then here. While it commits there,
the runs are locked here: nobody can resume one, and nobody can use its id again. A crash between the two
commits leaves a run without its rows elsewhere; the next start finds it in what is remembered.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Final, Protocol

import sqlalchemy as sa

from afterrun.core.errors import StoreFailure, UnitFailure
from afterrun.core.facts import Key, Unit, key_text
from afterrun.core.plan import MAX_UNIT_ROWS
from afterrun.core.times import Instant
from afterrun.core.tree import chunks
from afterrun.profiles.model import Elsewhere
from afterrun.stores.sql.dialect import Column, Dialect
from afterrun.stores.sql.removal import CHUNK, sorted_keys

SECONDS: Final = 1.5
"""How long a batch may take in all other databases: less than its own locks may stand idle meanwhile."""

LEFTOVER_SECONDS: Final = 5.0
"""Deadline of the transaction that removes rows whose runs are gone."""

MAX_HELD: Final = 100_000
"""Runs with rows elsewhere in one batch: what is remembered of them stays bounded."""


@dataclass(frozen=True, slots=True)
class Intent:
    """A unit whose rows elsewhere are about to go, and how to know it again.

    ``digest`` is that of the keys of all members, ``held`` the rows elsewhere by member.
    """

    unit: Key
    members: int
    digest: str
    end: Instant | None
    held: Mapping[str, int]

    def fits(self, unit: Unit) -> bool:
        """Say whether a unit is still as it was: its runs, and when the last of them ended."""
        return unit.complete and unit.settled and unit.end == self.end and member_digest(unit) == self.digest


def intent_for(unit: Unit, rows: Mapping[str, int]) -> Intent:
    """Describe a unit; ``rows`` are those elsewhere by run, also of other units."""
    held = {text: rows[text] for text in map(key_text, unit.members) if rows.get(text)}
    return Intent(unit.key, len(unit.members), member_digest(unit), unit.end, held)


def member_digest(unit: Unit) -> str:
    """Return a digest of the keys of all members."""
    text = json.dumps(sorted(map(key_text, unit.members)))
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


class Memory(Protocol):
    """What outlives a crash: units whose rows elsewhere are about to go."""

    def record(self, intents: Sequence[Intent], *, places: Mapping[str, str]) -> Collection[Key]:
        """Remember units durably; return those that were not remembered yet.

        ``places`` are the other databases, identity and URL. Raises `StoreFailure`.
        """

    def forget(self, units: Collection[Key]) -> None:
        """Forget units. It may be undone by a crash, and fails silently: too much remembered is harmless."""


class Annex:
    """One table of another database, open, with rows of this store's runs."""

    def __init__(self, dialect: Dialect, part: Elsewhere) -> None:
        """Compile the statements. The table and its column must be there."""
        self.dialect = dialect
        self.part = part
        table = dialect.named(part.table)
        column: Column = table.c[part.column]
        where = dialect.keys_in(column)
        counted: list[Column] = [
            sa.func.coalesce(sa.func.sum(dialect.length(list(table.c))), 0),
            sa.func.count(),
        ]
        self.delete = sa.delete(table).where(where)
        self._rows = sa.select(column, sa.func.count()).select_from(table).where(where).group_by(column)
        self._measure = sa.select(*counted).select_from(table).where(where)

    @property
    def indexed(self) -> bool:
        """Say whether an index finds the rows of a run."""
        starts = [index.columns[:1] for index in self.dialect.indexes(self.part.table)]
        starts.append(self.dialect.shapes[self.part.table].primary_key[:1])
        return (self.part.column,) in starts

    @property
    def name(self) -> str:
        """Return the name under which its rows are counted, such as ``datasource:datasource_outputs``."""
        return f"{self.part.name}:{self.part.table}"

    def rows_of(self, keys: Sequence[str]) -> Counter[str]:
        """Return the rows by run."""
        found: Counter[str] = Counter()
        for row in self._read(self._rows, keys):
            found[key_text(row[0])] += int(row[1])
        return found

    def measure(self, keys: Sequence[str]) -> tuple[int, int]:
        """Return bytes of content and number of rows."""
        found = list(self._read(self._measure, keys))
        return sum(int(row[0]) for row in found), sum(int(row[1]) for row in found)

    def content(self) -> int:
        """Return about how many bytes all rows of the table hold."""
        with self.named():
            sizes = self.dialect.table_sizes(exact=False)
        return sum(size.content for size in sizes if size.name == self.part.table)

    def remove(self, keys: Sequence[str]) -> int:
        """Remove the rows of these runs, within `locked`; return how many."""
        with self.named():
            return sum(
                self.dialect.change(self.delete, {"keys": self.dialect.bind_keys(list(chunk))})
                for chunk in chunks(keys, CHUNK)
            )

    @contextmanager
    def locked(self, seconds: float) -> Iterator[None]:
        """Run one transaction there; it waits for no lock longer than ``seconds``."""
        with self.named(), self.dialect.locked(seconds, wait=seconds):
            yield

    @contextmanager
    def named(self) -> Iterator[None]:
        """Say of a failure where it happened."""
        try:
            yield
        except (UnitFailure, StoreFailure) as failure:
            where = f"in the {self.part.name}, "
            text = str(failure).removeprefix(f"{failure.kind}: ")
            if text.startswith(where):
                raise
            raise type(failure)(failure.kind, where + text) from None

    def _read(self, statement: sa.Executable, keys: Sequence[str]) -> Iterator[Any]:
        with self.named():
            for chunk in chunks(keys, CHUNK):
                yield from self.dialect.execute(statement, {"keys": self.dialect.bind_keys(list(chunk))})


class Reach:
    """All rows of a store's runs in other databases; there may be none."""

    def __init__(self, annexes: Sequence[Annex] = (), *, problems: Sequence[str] = ()) -> None:
        """Take the open tables, and what forbids to remove rows of them.

        Nothing is removed before there is a ``memory``.
        """
        self.annexes = tuple(annexes)
        self.problems = tuple(problems)
        self.memory: Memory | None = None

    @property
    def places(self) -> Mapping[str, str]:
        """Return the other databases: what names each, and its URL with any password masked."""
        return {annex.dialect.identity: annex.dialect.url for annex in self.annexes}

    def statements(self) -> Mapping[str, str]:
        """Return the SQL of removal by name, as the other databases get it."""
        return {
            f"removal from {annex.name} in {annex.dialect.url}": annex.dialect.sql(annex.delete)
            for annex in self.annexes
        }

    def weigh(self, units: Sequence[Unit]) -> Sequence[int]:
        """Return the rows elsewhere of each unit."""
        if not self.annexes:
            return [0] * len(units)
        rows = self.rows_of(texts(units))
        return [sum(rows[key_text(member)] for member in unit.members) for unit in units]

    def rows_of(self, keys: Sequence[str]) -> Counter[str]:
        """Return the rows elsewhere by run."""
        return sum((annex.rows_of(keys) for annex in self.annexes), Counter())

    def count(self, units: Sequence[Unit]) -> Mapping[str, int]:
        """Return the rows elsewhere that go with these units, by table."""
        counted: Counter[str] = Counter()
        for annex in self.annexes:
            counted[annex.name] += annex.rows_of(texts(units)).total()
        return counted

    def measure(self, units: Sequence[Unit]) -> tuple[int, int]:
        """Return bytes of content and number of rows elsewhere."""
        found = [annex.measure(texts(units)) for annex in self.annexes]
        return sum(size for size, _ in found), sum(rows for _, rows in found)

    def content(self) -> int:
        """Return about how many bytes the rows elsewhere hold."""
        return sum(annex.content() for annex in self.annexes)

    def notices(self, declared: Sequence[Elsewhere]) -> Iterator[str]:
        """Say which rows go, and which of those that a profile declares stay, as far as is known."""
        for annex in self.annexes:
            yield f"rows of {annex.part.table} in {annex.dialect.url} go with their runs"
        reached = {annex.part.name for annex in self.annexes}
        yield from (part.note for part in declared if part.note and part.name not in reached)

    def unsaved(self) -> Sequence[str]:
        """Say what a backup of the store does not have."""
        if not self.annexes:
            return ()
        return ("a backup has the store's own rows alone: what goes in other databases is not in it",)

    def clear(
        self, main: Dialect, keys: Sequence[str], *, known: Callable[[Collection[str]], Collection[str]]
    ) -> Mapping[str, int]:
        """Remove rows elsewhere of runs that are gone; return how many, by table.

        ``known`` tells which of them are there: it is asked once more after the rows were removed, so that
        none of those removed is a newer run's. Raises `UnitFailure` if one is there: nothing was removed.
        """
        reaching = Reaching(self, main)
        try:
            with main.locked(LEFTOVER_SECONDS), reaching.leftovers(keys) as rows:
                if known(keys):
                    raise UnitFailure("serialization", "an id was used again")
        finally:
            reaching.ended(committed=True)
        return rows

    def heed(self, halt: Callable[[], bool]) -> None:
        """Stop what runs there, too, as soon as this says yes."""
        for annex in self.annexes:
            annex.dialect.halt = halt

    def settle(self) -> None:
        """Write back what commits there left for later."""
        for annex in self.annexes:
            annex.dialect.settle()

    def close(self) -> None:
        """Let go of the other databases."""
        for annex in self.annexes:
            annex.dialect.close()


class Reaching:
    """One batch's part in other databases."""

    def __init__(self, reach: Reach, main: Dialect) -> None:
        """Prepare; nothing is asked yet. ``main`` is the store's own database."""
        self._reach = reach
        self._halts = [(dialect, dialect.halt) for dialect in (main, *(a.dialect for a in reach.annexes))]
        self._announced = [Counter[str]() for _ in reach.annexes]
        self._fresh: set[Key] = set()
        self._going: set[Key] = set()
        self._gone = False

    def announce(self, units: Sequence[Unit]) -> None:
        """Remember, before anything is removed, which of these units have rows elsewhere."""
        if not self._reach.annexes:
            return
        keys = texts(units)
        self._announced = [annex.rows_of(keys) for annex in self._reach.annexes]
        rows = sum(self._announced, Counter[str]())
        if not rows:
            return
        if len(rows) > MAX_HELD:
            raise UnitFailure("oversized", f"more than {MAX_HELD} runs have rows in other databases")
        if self._reach.memory is None:
            raise StoreFailure("state", "nothing remembers what is removed in other databases")
        intents = [intent for unit in units if (intent := intent_for(unit, rows)).held]
        self._fresh.update(self._reach.memory.record(intents, places=self._reach.places))

    @contextmanager
    def removing(self, units: Sequence[Unit]) -> Iterator[Mapping[str, int]]:
        """Remove the rows of these units; commit at the end, or roll back on an exception.

        Gives the rows by table. The caller looks at its own database once more within, and commits there
        right after. Raises `UnitFailure` if rows came that were not announced.
        """
        if not self._reach.annexes:
            yield {}
            return
        self._going.update(unit.key for unit in units)
        with self._removing(texts(units)) as rows:
            yield rows

    @contextmanager
    def leftovers(self, keys: Sequence[str]) -> Iterator[Mapping[str, int]]:
        """Remove rows of runs that are gone, and that were announced by an earlier batch."""
        self._announced = [annex.rows_of(keys) for annex in self._reach.annexes]
        with self._removing(keys) as rows:
            yield rows

    @contextmanager
    def _removing(self, keys: Sequence[str]) -> Iterator[Mapping[str, int]]:
        rows: Counter[str] = Counter()
        until = time.monotonic() + SECONDS
        with ExitStack() as locks:
            for annex, announced in zip(self._reach.annexes, self._announced, strict=True):
                held = [key for key in keys if announced[key]]
                if held:
                    locks.enter_context(annex.locked(max(until - time.monotonic(), 0.001)))
                    rows[annex.name] += annex.remove(held)
                if annex.rows_of(keys):
                    raise UnitFailure("serialization", f"rows came in the {annex.part.name} meanwhile")
            if rows.total() > MAX_UNIT_ROWS:
                raise UnitFailure("oversized", f"more than {MAX_UNIT_ROWS} rows in other databases")
            yield rows
            if rows:
                self._gone = True
                for dialect, _ in self._halts:  # between two commits, an end of the host would be a crash
                    dialect.halt = _never

    def ended(self, *, committed: bool) -> None:
        """Forget what is settled: all of a batch that was committed, or that removed nothing anywhere."""
        for dialect, halt in self._halts:
            dialect.halt = halt
        memory = self._reach.memory
        if memory is None or not self._reach.annexes:
            return
        if committed:
            memory.forget(self._fresh | self._going)
        elif not self._gone:
            memory.forget(self._fresh)


def texts(units: Sequence[Unit]) -> list[str]:
    """Return the keys of all members as text, in order."""
    return [key_text(key) for key in sorted_keys(units)]


def _never() -> bool:
    return False
