"""Discovery: which entries might be runs or results. It only proposes names; the validator admits them.

A generator, so that whoever asks decides how much is read at a time, and may stop at any entry.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Final

from afterrun.core.facts import Reason
from afterrun.stores.directory.folders import open_folder
from afterrun.stores.directory.names import Proposal, Source, is_pattern, matches, shown
from afterrun.stores.directory.site import Site

OWN_LINKS: Final = 2
"""Hard links of a folder without folders in it, where a file system counts them: its name and its dot."""


class Discovery:
    """One scan.

    Attributes:
        faults: folders that could not be read: what is in them is not proposed.
        links: by the path of a folder that a profile names, its number of hard links when the scan began
            there. Only where that is the number of folders in it and two, so that it tells of new ones.
    """

    def __init__(self, site: Site, sources: Sequence[Source]) -> None:
        """Prepare a scan of these sources."""
        self._site = site
        self._sources = sources
        self.faults: list[Reason] = []
        self.links: dict[tuple[str, ...], int] = {}
        self._folders = 0

    def proposals(self) -> Iterator[Proposal]:
        """Yield one proposal for each entry that matches, source by source, in no order."""
        for number, source in enumerate(self._sources):
            yield from self._below(self._site.root.descriptor, number, source, ())

    def _below(self, folder: int, number: int, source: Source, path: tuple[str, ...]) -> Iterator[Proposal]:
        part = source.parts[len(path)]
        if not is_pattern(part):
            yield from self._enter(folder, number, source, (*path, part))
        elif len(path) + 1 == len(source.parts):
            yield from self._last(folder, number, part, path)
        else:
            for name, is_folder in self._entries(folder, part, path):
                if is_folder:
                    yield from self._enter(folder, number, source, (*path, name))

    def _enter(self, folder: int, number: int, source: Source, path: tuple[str, ...]) -> Iterator[Proposal]:
        try:
            below = open_folder(path[-1], folder)
        except FileNotFoundError:
            return
        except OSError as error:
            self._fault(path, error)
            return
        try:
            if os.fstat(below).st_dev != self._site.root.device:
                self.faults.append(Reason("mount-point", f"{_text(path)} is on another file system"))
                return
            yield from self._below(below, number, source, path)
        finally:
            os.close(below)

    def _last(self, folder: int, number: int, part: str, path: tuple[str, ...]) -> Iterator[Proposal]:
        source = self._sources[number]
        links, self._folders = os.fstat(folder).st_nlink, 0
        for name, is_folder in self._entries(folder, part, path, plain_files=not source.folders):
            yield Proposal(number, (*path, name), is_folder)
        if len(path) == source.fixed and links == self._folders + OWN_LINKS:
            self.links[path] = links

    def _entries(
        self, folder: int, part: str, path: tuple[str, ...], *, plain_files: bool = False
    ) -> Iterator[tuple[str, bool]]:
        """Yield names that match, and whether they are folders; ``plain_files``: whether no plain files."""
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    self._site.entries_read += 1
                    is_folder = entry.is_dir(follow_symlinks=False)
                    self._folders += is_folder
                    if matches(entry.name, part):
                        is_file = entry.is_file(follow_symlinks=False)
                        yield entry.name, not is_file if plain_files else is_folder
        except OSError as error:
            self._fault(path, error)

    def _fault(self, path: tuple[str, ...], error: OSError) -> None:
        self.faults.append(Reason("unreadable", f"{_text(path)}: {error.strerror}"))


def _text(path: Sequence[str]) -> str:
    return shown("/".join(path)) or "the store"
