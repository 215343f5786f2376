"""Entries of an engine's indexes that name runs which have gone: they go, too, once nobody can miss them.

An index is a convenience of the engine's: an entry without its run leads nowhere. So it goes only after runs
went, only when it is a day old, and whatever goes wrong here is left for another time.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from afterrun.core.times import SECOND, Instant
from afterrun.profiles.directory import Index
from afterrun.stores.directory.discovery import Discovery
from afterrun.stores.directory.folders import Folders, changed
from afterrun.stores.directory.names import Source, unsafe
from afterrun.stores.directory.site import Site

PATIENCE: Final[Instant] = 86_400 * SECOND
"""Age from which an entry may go: an engine may write it before the run's folder."""

MOST: Final = 100_000
"""Entries that one pass removes."""


def clear_strays(site: Site) -> int:
    """Remove index entries of runs that are not there; return how many. Raises nothing."""
    found = 0
    with suppress(OSError), Folders(site.root.descriptor) as folders:
        for index in site.profile.units.directory.indexes:
            for path in _stray(site, index):
                if found >= MOST or site.halt():
                    return found
                with suppress(OSError):
                    os.unlink(path[-1], dir_fd=folders.at(path[:-1]))
                    found += 1
    return found


def _stray(site: Site, index: Index) -> Iterator[tuple[str, ...]]:
    """Yield the paths of old entries whose run has no folder."""
    prefix = site.runs[0].parts[: site.runs[0].fixed]
    pattern = name_pattern(index.name)
    now = time.time_ns() // 1_000
    scan = Discovery(site, [Source.of(index.files, folders=False)])
    with Folders(site.root.descriptor) as entries, Folders(site.root.descriptor) as runs:
        for proposal in scan.proposals():
            match = pattern.fullmatch(proposal.path[-1])
            if match is None or unsafe(match["id"]):
                continue
            facts = entries.lstat(proposal.path)
            if facts is None or now - changed(facts) < PATIENCE:
                continue
            if runs.lstat((*prefix, match["id"])) is None:
                yield proposal.path


def name_pattern(name: str) -> re.Pattern[str]:
    """Return what finds the id in the name of an entry; ``?`` is one character of any kind."""
    before, _, after = name.partition("{id}")
    return re.compile(f"{_any(before)}(?P<id>.+){_any(after)}", re.DOTALL)


def _any(text: str) -> str:
    return re.escape(text).replace(r"\?", ".")
