"""The rows of an index as `core.tree` asks for them, each with a closer look."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from afterrun.core.facts import Flag, Key, Row, Status
from afterrun.stores.directory.entries import MALFORMED, flags_of
from afterrun.stores.directory.folders import Inside
from afterrun.stores.directory.looks import Look, Looker, LookTable
from afterrun.stores.directory.removal import Places
from afterrun.stores.directory.run_index import RunIndex


class RunSource:
    """Rows of one index, with a closer look at each that is asked for; `core.tree` builds units from it."""

    def __init__(self, index: RunIndex, looker: Looker, looks: LookTable, places: Places) -> None:
        """Take an index; ``places`` says where runs are that are not in their place."""
        self._index = index
        self._looker = looker
        self._looks = looks
        self._places = places

    def rows(self, keys: Sequence[Key]) -> Iterable[Row]:
        """Return the rows that have these keys."""
        return [self.row(key) for key in keys if key in self._index.entries]

    def children(self, keys: Sequence[Key]) -> Iterable[Row]:
        """Return the rows whose parent is one of these keys."""
        return [self.row(child) for key in keys for child in self._index.below(key)]

    def attached(self, keys: Sequence[Key]) -> Collection[Key]:
        """Return those of these keys whose row has a parent that exists."""
        return [key for key in keys if not self._index.is_root(key)]

    def flags(self, keys: Sequence[Key]) -> Mapping[Key, Sequence[Flag]]:
        """Return what holds these runs."""
        found = {key: [*self.look(key).flags, *self._index.claimed(key)] for key in keys}
        return {key: flags for key, flags in found.items() if flags}

    def row(self, key: Key) -> Row:
        """Return one row, its end the newest of everything in its folder."""
        entry = self._index.entries[key]
        return self._index.row(key, self.look(key).newest(entry))

    def look(self, key: Key) -> Look:
        """Look at a run, once. One that has not ended, or that says nothing, is not looked into."""
        found = self._looks.get(key)
        if found is None:
            entry, status = self._index.entries[key], self._index.status(key)
            if status in (Status.TERMINAL, Status.SUCCESSFUL) and entry.state != MALFORMED:
                found = self._looker.look(entry, self._places.get(key))
            else:
                held = self._looker.references.held(entry.run) if status is Status.LIVE else ()
                found = Look(Inside(), (*flags_of(entry.faults), *held))
            self._looks.keep(key, found)
        return found
