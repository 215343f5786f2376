"""Reads runs and their trees by the facts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import sqlalchemy as sa

from afterrun.core.facts import Flag, Key, Row, Unit, key_text
from afterrun.core.tree import build_units, read_units
from afterrun.stores.sql.facts import Facts


class RunReader:
    """Reads runs by the facts. Takes the ``now`` that leases need."""

    def __init__(self, facts: Facts, now: Callable[[], int]) -> None:
        """Bind the statements to their database."""
        self._facts = facts
        self._dialect = facts.dialect
        self._now = now

    def units(self, keys: Sequence[Key]) -> list[Unit]:
        """Return the units whose roots have these keys."""
        return read_units(self.walk(), keys, self._facts.binding.model)

    def build(self, roots: Sequence[Row]) -> list[Unit]:
        """Return the units of these root rows."""
        return build_units(self.walk(), roots, self._facts.binding.model)

    def walk(self) -> Walk:
        """Return what reads trees from now on."""
        return Walk(self)

    def rows(self, keys: Sequence[Key]) -> Iterable[Row]:
        """Return the runs with these keys."""
        return self._read(self._facts.by_key, keys)

    def leading(self) -> Sequence[int]:
        """Return the kinds of links, by their places, that any run may have at this moment."""
        return [
            place
            for place, probe in enumerate(self._facts.leading)
            if probe is None or self._dialect.execute(probe, {"one": 1})
        ]

    def children(self, keys: Sequence[Key], links: Sequence[int]) -> Iterable[Row]:
        """Return the runs whose effective parent, by one of these kinds of links, is one of these."""
        found: list[Row] = []
        for place in links:
            found.extend(self._read(self._facts.by_parent[place], keys))
        return found

    def attached(self, keys: Sequence[Key]) -> Collection[Key]:
        """Return those of these keys whose run has a parent that exists."""
        rows = self._dialect.execute(self._facts.attached, {"keys": self._facts.binding.bind_keys(keys)})
        return {key for key, child in rows if child}

    def flags(self, keys: Sequence[Key]) -> Mapping[Key, Sequence[Flag]]:
        """Return what holds these runs from outside."""
        found: defaultdict[Key, list[Flag]] = defaultdict(list)
        parameters = {"keys": self._facts.binding.bind_keys(keys), "now": self._now()}
        wanted = set(keys)
        for held in self._facts.flags:
            for row in self._dialect.execute(held.statement, parameters):
                flags = [Flag(reason, held.blocks) for reason in held.told(row)]
                for key in alike(row[0], wanted):
                    found[key].extend(flags)
        return found

    def _read(self, statement: sa.Executable, keys: Sequence[Key]) -> list[Row]:
        rows = self._dialect.execute(statement, {"keys": self._facts.binding.bind_keys(keys)})
        return list(map(self._facts.row, rows))


class Walk:
    """The `RowSource` of one level walk. Which kinds of links there are is asked once, at its first level.

    A run that comes later by another kind is a child that came after its parent was read: whoever removes
    has a lock, or looks once more at the end.
    """

    def __init__(self, reader: RunReader) -> None:
        """Read nothing yet."""
        self._reader = reader
        self._links: Sequence[int] | None = None
        self.rows = reader.rows
        self.attached = reader.attached
        self.flags = reader.flags

    def children(self, keys: Sequence[Key]) -> Iterable[Row]:
        """Return the runs whose effective parent is one of these."""
        if self._links is None:
            self._links = self._reader.leading()
        return self._reader.children(keys, self._links)


def alike(key: Key, wanted: Collection[Key]) -> Collection[Key]:
    """Return the keys that the database took for equal to ``key``: itself, or any that may look the same.

    A column of another type or collation spells a key otherwise. Where it is not clear which one is meant,
    all are: what holds too much is safe.
    """
    if key in wanted:
        return (key,)
    text = key_text(key).strip().casefold()
    return [other for other in wanted if key_text(other).strip().casefold() == text] or wanted
