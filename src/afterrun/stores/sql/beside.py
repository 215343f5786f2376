"""What kinds of units beside run trees have in common: what they leave to the store of the trees."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final, Protocol

from afterrun.core.errors import UnitNotFound
from afterrun.core.facts import Key, Reason, Unit
from afterrun.core.store import Schema
from afterrun.core.times import Instant
from afterrun.stores.sql.store import SqlStore
from afterrun.stores.sql.transaction import Remover
from afterrun.stores.sql.uncounted import Uncounted

LEAVING: Final = Reason("goes-with-its-tree", "all of its run goes, so this need not go by itself")

Leaving = Callable[[Collection[Key]], Collection[Key]]
"""Tells which of these runs go whole."""


class Removal(Remover, Protocol):
    """Removes, counts and weighs the rows of units of one kind."""

    def weigh(self, units: Sequence[Unit]) -> Sequence[int]:
        """Return the rows of each unit."""

    def count(self, units: Iterable[Unit]) -> Mapping[str, int]:
        """Return the rows by table that removing these units would take."""

    def measure(self, units: Iterable[Unit]) -> tuple[int, int]:
        """Return bytes of content and number of rows of these units."""


class BesideTrees(Uncounted, ABC):
    """Superseded parts of the runs of one store. It owns nothing: whoever opened the store closes it."""

    kind = "generation"
    group_columns: tuple[str, ...] = ()
    aside: None = None
    removal: Removal

    def __init__(self, store: SqlStore, *, leaving: Leaving | None) -> None:
        """Take the store of the trees; ``leaving`` tells which runs go whole."""
        self._store = store
        self._dialect = store.dialect
        self._leaving = leaving

    @property
    def url(self) -> str:
        """Return where the store is, with any password masked."""
        return self._store.url

    @property
    def identity(self) -> str:
        """Return what names this very store."""
        return self._store.identity

    @property
    def profile_name(self) -> str:
        """Return the profile's name."""
        return self._store.profile_name

    @property
    def hold(self) -> float:
        """Return the seconds a live batch should hold locks."""
        return self._store.hold

    def schema(self) -> Schema:
        """Return the schema of the store."""
        return self._store.schema()

    def now(self) -> Instant:
        """Read the clock of the store."""
        return self._store.now()

    def newest(self, now: Instant) -> Instant | None:
        """Return the newest credible time in the store."""
        return self._store.newest(now)

    @abstractmethod
    def find(self, text: str) -> Unit:
        """Return the unit with this id. Raises `UnitNotFound`."""

    def known(self, texts: Collection[str]) -> frozenset[str]:
        """Return those of these ids that a run has, or a unit of this kind."""
        runs = self._store.known(texts)
        return runs | {text for text in texts if text not in runs and self._has(text)}

    def _has(self, text: str) -> bool:
        try:
            self.find(text)
        except UnitNotFound:
            return False
        return True

    def _set_apart(self, units: Sequence[Unit], cutoff: Instant) -> Sequence[Unit]:
        """Leave to their trees what goes with them: it must not be counted twice."""
        if self._leaving is None:
            return units
        old = {unit.run for unit in units if unit.end is not None and unit.end < cutoff}
        gone = set(self._leaving(old)) if old else set()
        if not gone:
            return units
        return [
            unit._replace(protected=(LEAVING, *unit.protected)) if unit.run in gone else unit
            for unit in units
        ]

    def weigh(self, units: Sequence[Unit]) -> Sequence[int]:
        """Return the rows of each unit."""
        return self.removal.weigh(units)

    def count(self, units: Sequence[Unit]) -> Mapping[str, int]:
        """Return the rows by table that removing these units would take."""
        return self.removal.count(units)

    def measure(self, units: Sequence[Unit]) -> tuple[int, int]:
        """Return bytes and rows of these units."""
        return self.removal.measure(units)

    def forgets(self, units: Sequence[Unit]) -> int:  # noqa: ARG002 - their runs stay
        """Return 0: no idempotency key goes with them."""
        return 0

    def settle(self) -> None:
        """Write back what a commit left for later."""
        self._store.settle()
