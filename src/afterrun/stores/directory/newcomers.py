"""Runs that came since all were scanned: one may be a child of a run that is about to go.

Reading all names again before each batch would make a sweep quadratic. So it is done only where the number of
hard links of the folder above says that a folder was added; where a file system does not count these, as
often as the reading that a sweep does anyway allows.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from glob import escape
from typing import Final

from afterrun.core.facts import Key
from afterrun.stores.directory.discovery import Discovery
from afterrun.stores.directory.entries import MALFORMED, Entry, EntryTable
from afterrun.stores.directory.folders import Folders, folder_at
from afterrun.stores.directory.names import Proposal, Source
from afterrun.stores.directory.run_index import Reader, RunIndex, free_key, key_of
from afterrun.stores.directory.site import Site

SHARE: Final = 0.7
"""Entries that these looks may read for each one that is read otherwise: without them a sweep reads 1.75
times the number of entries, and with them it is to read at most 3 times."""


class Newcomers:
    """The newcomers since one scan. What was found once is remembered, until it can be read."""

    def __init__(self, site: Site, index: RunIndex) -> None:
        """Take a scan; nothing is read yet."""
        self._site = site
        self._known = index.entries
        self._found = EntryTable()
        self._unread: dict[Key, Proposal] = {}
        self._links = dict(index.links)
        self._gone = site.gone.copy()
        self._read = 0
        self._names = 0

    def of(self, keys: Sequence[Key]) -> Iterator[tuple[Key, Entry]]:
        """Yield the newcomers that may be children of these runs, with their keys. Raises nothing."""
        if self._site.profile.units.directory.status is None:
            return  # no run has children
        with closing(Reader(self._site)) as reader:
            for key, proposal in list(self._unread.items()):
                self._take(key, proposal, reader)
            for number, source in enumerate(self._site.runs):
                if number and len(source.parts) - source.fixed > 1:
                    self._look_below(number, source, keys, reader)
                elif self._is_due(source):
                    self._look(number, source, reader)
        yield from self._found.items()

    def _is_due(self, source: Source) -> bool:
        """Say whether the names of a source are to be read again."""
        above = source.parts[: source.fixed]
        links = self._links.get(above)
        went = self._site.gone[above] - self._gone[above]
        if links is not None and _links(self._site.root.descriptor, above) == links - went:
            return False
        others = self._site.entries_read - self._read
        return not self._names or self._read + self._names <= SHARE * others

    def _look(self, number: int, source: Source, reader: Reader) -> None:
        """Read all names of a source."""
        before = self._site.entries_read
        gone = self._site.gone.copy()
        scan = Discovery(self._site, [source])
        for proposal in scan.proposals():
            self._note(proposal._replace(source=number), reader)
        self._names = self._site.entries_read - before
        self._read += self._names
        self._links |= scan.links
        self._gone = gone

    def _look_below(self, number: int, source: Source, keys: Sequence[Key], reader: Reader) -> None:
        """Read the names in the folders that belong to these runs."""
        prefix = source.parts[: source.fixed]
        for run in self._having(prefix, keys):
            before = self._site.entries_read
            parts = (*prefix, escape(run), *source.parts[source.fixed + 1 :])
            scan = Discovery(self._site, [Source("/".join(parts), parts, source.folders)])
            for proposal in scan.proposals():
                self._note(proposal._replace(source=number), reader)
            self._read += self._site.entries_read - before

    def _having(self, prefix: tuple[str, ...], keys: Sequence[Key]) -> Iterator[str]:
        """Yield the ids of those of these runs that have an entry of their name in a folder."""
        with Folders(self._site.root.descriptor) as folders, suppress(OSError):
            folders.at(prefix)  # mostly it is not there
            for key in keys:
                run = self._known[key].run
                if folders.lstat((*prefix, run)) is not None:
                    yield run

    def _note(self, proposal: Proposal, reader: Reader) -> None:
        key = key_of(self._site, proposal)
        if key not in self._known and key not in self._found:
            self._take(key, proposal, reader)

    def _take(self, key: Key, proposal: Proposal, reader: Reader) -> None:
        """Read a newcomer; one whose status says nothing may be on its way, and is read again."""
        entry = reader.entry(proposal)
        self._unread.pop(key, None)
        if entry is None:
            return
        if entry.state == MALFORMED:
            self._unread[key] = proposal
        self._found[free_key(str(key), entry, self._known)] = entry


def _links(root: int, path: tuple[str, ...]) -> int | None:
    """Return how many hard links a folder has."""
    try:
        with folder_at(root, path) as folder:
            return os.fstat(folder).st_nlink
    except OSError:
        return None
