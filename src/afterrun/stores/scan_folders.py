"""Tell whether a folder that a walk met is a store of an engine that keeps each run as a folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from afterrun.core.errors import AfterrunError
from afterrun.core.store import Schema
from afterrun.profiles.directory import DirectoryProfile
from afterrun.stores.directory.discovery import Discovery
from afterrun.stores.directory.kind import problems_of
from afterrun.stores.directory.site import Root, Site
from afterrun.stores.walk import Marked

LOOK_EVERY: Final = 1_000
"""Runs that are counted between two looks at the bounds of the walk."""


class FoundFolder(NamedTuple):
    """A directory store. ``entries`` is how many entries of folders were read to count its runs."""

    profile: DirectoryProfile
    schema: Schema
    runs: int
    runs_exact: bool
    entries: int
    problems: tuple[str, ...]


def first_names(profiles: Sequence[DirectoryProfile]) -> tuple[str, ...]:
    """Return the patterns of names by which a folder may be a store of one of these profiles."""
    entries = (entry for profile in profiles for entry in profile.detect.entries)
    return tuple(dict.fromkeys(entry.split("/")[0] for entry in entries))


def examine_folder(
    marked: Marked, profiles: Sequence[DirectoryProfile], *, most: int, over: Callable[[int], bool]
) -> FoundFolder | None:
    """Tell which store a folder is, and count its runs as far as ``over`` allows; nothing if it is none.

    The folders of its runs are then left out of the walk. Raises `AfterrunError` if several profiles fit.
    """
    root = Root(str(marked.path))
    try:
        found = [profile for profile in profiles if all(map(root.has, profile.detect.entries))]
        if not found:
            return None
        if len(found) > 1:
            names = ", ".join(sorted(profile.name for profile in found))
            raise AfterrunError(f"several profiles fit: {names}; say which with --profile NAME")
        site = Site(root, found[0])
        marked.left_out = tuple(source.parts[0] for source in (*site.runs, *site.results))
        runs, exact = _count(site, most=most, over=over)
        return FoundFolder(
            found[0],
            Schema(found[0].layout or "custom", read=True),
            runs,
            exact,
            site.entries_read,
            (*problems_of(found[0]), *_missing_rights(marked.path)),
        )
    finally:
        root.close()


def _count(site: Site, *, most: int, over: Callable[[int], bool]) -> tuple[int, bool]:
    """Count the folders that have the names of runs; say whether that is all of them."""
    runs = 0
    scan = Discovery(site, site.runs)
    for proposal in scan.proposals():
        runs += proposal.folder
        if runs > most or (runs % LOOK_EVERY == 0 and over(site.entries_read)):
            return min(runs, most), False
    return runs, not scan.faults


def _missing_rights(path: Path) -> Iterator[str]:
    if not os.access(path, os.W_OK | os.X_OK):
        yield "this user may not write to the directory, where the journal and the sweep lock lie"
