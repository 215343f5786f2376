"""One batch: recheck and removal in one transaction.

Where a database has one write lock, nothing changes beside the batch. Where it locks rows, the batch locks
its runs first, passes by those that another transaction holds, and looks again for children and references
as the last thing before its commit. What comes in that last moment without a foreign key is found by
`verify`.
Rows in other databases are removed and committed there just before.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Final, Protocol, Self

import sqlalchemy as sa

from afterrun.core.errors import UnitFailure
from afterrun.core.facts import Key, Reason, Unit
from afterrun.core.tree import chunks
from afterrun.stores.sql.blobs import SqlBlobs
from afterrun.stores.sql.elsewhere import Reaching
from afterrun.stores.sql.facts import Facts, RunReader
from afterrun.stores.sql.removal import Released, sorted_keys


class Reader(Protocol):
    """Reads units again within a batch."""

    def units(self, keys: Sequence[Key]) -> Sequence[Unit]:
        """Return the units with these keys."""


class Remover(Protocol):
    """Removes the rows of units within a batch."""

    def remove(
        self, units: Sequence[Unit], *, max_rows: int, released: Released | None = None
    ) -> Mapping[str, int]:
        """Remove them; return rows by table. ``released`` takes in the blobs that they referred to."""


class Locks(Protocol):
    """Locks the rows of units within a batch, where others write beside it."""

    def units(self, units: Sequence[Unit]) -> Sequence[Unit]:
        """Lock the members and read the units again."""

    def newcomers(self, units: Sequence[Unit]) -> bool:
        """Say whether something that needs them has come since they were read."""


LOCKED: Final = Reason("locked", "another transaction holds a row of it")


class RowLocks:
    """Locks on the rows of runs, for a database where others write beside a batch."""

    def __init__(self, facts: Facts, reader: RunReader) -> None:
        """Compile the statement that locks. In the order of keys, so that two batches cannot deadlock.

        It reads each row as it is once it is locked; rows joined to it might be older, so then it reads none.
        """
        self._binding = facts.binding
        self._dialect = facts.dialect
        self._row = facts.row
        self._reader = reader
        self._alone = facts.source is facts.runs
        self.statement = (
            sa.select(*(facts.columns if self._alone else [facts.key]))
            .select_from(facts.runs)
            .where(self._dialect.keys_in(facts.key))
            .order_by(facts.key)
            .with_for_update(skip_locked=True, of=facts.runs)
        )
        self._strangers = list(self._of_strangers())

    def units(self, units: Sequence[Unit]) -> list[Unit]:
        """Lock all members and read the units again; what another transaction holds is protected."""
        rows = {
            row[0]: row
            for chunk in chunks(sorted_keys(units))
            for row in self._dialect.execute(self.statement, {"keys": self._binding.bind_keys(chunk)})
        }
        whole = [unit.key for unit in units if all(member in rows for member in unit.members)]
        if self._alone:
            fresh = self._reader.build([self._row(rows[key]) for key in whole])
        else:
            fresh = self._reader.units(whole)
        held = set(whole)
        rest = self._reader.units([unit.key for unit in units if unit.key not in held])
        return [
            *fresh,
            *(
                unit
                if rows.keys() >= set(unit.members)
                else unit._replace(protected=(LOCKED, *unit.protected))
                for unit in rest
            ),
        ]

    def _of_strangers(self) -> Iterator[sa.Select[Any]]:
        """Yield what finds rows of tables that the profile does not know by the key of a run that they hold.

        The facts find them from the run's own row, which is gone when it is asked for newcomers.
        """
        tree = self._binding.tree
        for reference in self._binding.unknown_references():
            if (reference.owner, reference.targets) == (tree.table, (tree.key,)):
                column = self._binding.table(reference.table, "r").c[reference.columns[0]]
                yield sa.select(column).where(self._dialect.keys_in(column)).limit(1)

    def newcomers(self, units: Sequence[Unit]) -> bool:
        """Say whether a child of these units, or a reference to them, has come since they were read."""
        members = sorted_keys(units)
        known = set(members)
        for chunk in chunks(members):
            if any(row.key not in known for row in self._reader.children(chunk)):
                return True
            if self._reader.flags(chunk):
                return True
            keys = {"keys": self._binding.bind_keys(chunk)}
            if any(self._dialect.execute(statement, keys) for statement in self._strangers):
                return True
        return False


class SqlTransaction:
    """One batch on a SQL store."""

    def __init__(
        self,
        lock: AbstractContextManager[None],
        reader: Reader,
        removal: Remover,
        *,
        check: Callable[[], None],
        rows: Locks | None,
        reaching: Reaching,
        blobs: SqlBlobs | None = None,
        went: Callable[[Sequence[Unit]], None] | None = None,
    ) -> None:
        """Prepare a batch; it begins on entry, and then ``check`` may refuse.

        Once it is committed, ``blobs`` learn what the removed rows referred to, and ``went`` the units.
        """
        self._lock = lock
        self._check = check
        self._reader = reader
        self._removal = removal
        self._rows = rows
        self._reaching = reaching
        self._gone: list[Unit] = []
        self._blobs = blobs
        self._went = went
        self._released = None if blobs is None else Released()
        self._since = 0.0
        self.held = 0.0
        self.beyond: Mapping[str, int] = {}

    def __enter__(self) -> Self:
        """Begin."""
        self._lock.__enter__()
        self._since = time.monotonic()
        try:
            self._check()
        except BaseException as error:
            self._end(error)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Commit or roll back, and note how long locks were held. Raises `UnitFailure` for a newcomer."""
        try:
            if error is None:
                self._finish()
        except BaseException as failure:
            self._end(failure)
            raise
        self._end(error)

    def _finish(self) -> None:
        """Remove what is in other databases, look here once more, and commit there."""
        with self._reaching.removing(self._gone) as rows:
            if self._rows is not None and self._rows.newcomers(self._gone):
                raise UnitFailure("serialization", "a child or a reference came while a unit was removed")
        self.beyond = rows

    def _end(self, error: BaseException | None) -> None:
        kind, trace = (None, None) if error is None else (type(error), error.__traceback__)
        committed = False
        try:
            self._lock.__exit__(kind, error, trace)
            committed = error is None
        finally:
            self.held = time.monotonic() - self._since
            self._reaching.ended(committed=committed)
        if committed and self._blobs is not None and self._released is not None:
            self._blobs.take_in(self._released)
        if committed and self._went is not None:
            self._went(self._gone)

    def units(self, units: Sequence[Unit]) -> Sequence[Unit]:
        """Read units again by the same facts; what another transaction holds is protected meanwhile."""
        self._reaching.announce(units)
        if self._rows is not None:
            return self._rows.units(units)
        return self._reader.units([unit.key for unit in units])

    def remove(self, units: Sequence[Unit], *, max_rows: int) -> Mapping[str, int]:
        """Remove units: all their rows, in the order of `cascades`."""
        told = {} if self._released is None else {"released": self._released}
        removed = self._removal.remove(units, max_rows=max_rows, **told)
        if self._blobs is not None and self._released is not None:
            self._blobs.keep_right(self._released)
        self._gone.extend(units)
        return removed
