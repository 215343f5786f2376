"""Units that need not be read again within a batch, since nobody has committed since a page had them.

For kinds of units whose facts are their own rows: what we remove of others changes none of these. SQLite
tells whether anybody else has committed; a database that does not has locks on rows instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from afterrun.core.facts import Key, Unit
from afterrun.stores.sql.dialect import Dialect
from afterrun.stores.sql.transaction import Reader


class Unchanged:
    """The check of a batch on a database with one write lock."""

    def __init__(self, dialect: Dialect, reader: Reader) -> None:
        """Know no unit yet."""
        self._dialect = dialect
        self._reader = reader
        self._mark: object = None
        self._known: Mapping[Key, Unit] = {}
        self._earlier: Mapping[Key, Unit] = {}

    def note(self, units: Sequence[Unit], *, since: object) -> None:
        """Take in the units of a page; ``since`` was the database's mark before it was read.

        Those of the page before stay known, if they were read since then, too: they may wait for a batch.
        """
        self._earlier = self._known if since is not None and since == self._mark else {}
        self._mark, self._known = since, {unit.key: unit for unit in units}

    def units(self, units: Sequence[Unit]) -> Sequence[Unit]:
        """Return these units as they are now."""
        mark = self._dialect.mark()
        if mark is not None and mark == self._mark and all(map(self._is_known, units)):
            return units
        self._mark = None
        return self._reader.units([unit.key for unit in units])

    def _is_known(self, unit: Unit) -> bool:
        return self._known.get(unit.key) is unit or self._earlier.get(unit.key) is unit

    def newcomers(self, units: Sequence[Unit]) -> bool:  # noqa: ARG002 - nothing comes beside a write lock
        """Say that nothing has come. What this batch changed is no reason to read other units again."""
        if self._mark is not None:
            self._mark = self._dialect.mark()
        return False
