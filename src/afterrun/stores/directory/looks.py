"""The closer look at a run that might go: everything in its folder, and everything that refers to it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Any, Final, NamedTuple

from afterrun.core.facts import UNREADABLE, Flag, Key, Reason
from afterrun.core.times import SECOND, Instant
from afterrun.stores.directory.entries import ENDED, Entry, flags_of
from afterrun.stores.directory.folders import MAX_DEPTH, Folders, Inside, look_inside, open_folder, read_file
from afterrun.stores.directory.mounts import is_mounted, mounts_below
from afterrun.stores.directory.references import References, Subject
from afterrun.stores.directory.site import Site
from afterrun.stores.directory.usage import is_flocked, is_open, lives, locked_on, locks_now, open_below

MAX_PID_BYTES: Final = 64


class Look(NamedTuple):
    """What a closer look found: what is inside, and what holds the run."""

    inside: Inside
    flags: tuple[Flag, ...]

    def newest(self, entry: Entry) -> Instant | None:
        """Return the run's end, with every file in its folder taken into account."""
        if entry.end is None or entry.end == UNREADABLE:
            return entry.end
        return max(entry.end, self.inside.newest)


class LookTable:
    """Looks by key, kept as plain tuples, as `EntryTable` keeps entries."""

    def __init__(self) -> None:
        """Remember nothing yet."""
        self._kept: dict[Key, tuple[tuple[Any, ...], tuple[Flag, ...]]] = {}

    def __len__(self) -> int:
        """Return how many looks are remembered."""
        return len(self._kept)

    def keep(self, key: Key, look: Look) -> None:
        """Remember a look."""
        self._kept[key] = (look.inside.plain(), look.flags)

    def get(self, key: Key) -> Look | None:
        """Return a look, if there was one."""
        kept = self._kept.get(key)
        return None if kept is None else Look(Inside(*kept[0]), kept[1])

    def inside(self, keys: Iterable[Key]) -> list[Inside]:
        """Return what is inside those of these runs that were looked at."""
        return [Inside(*kept[0]) for key in keys if (kept := self._kept.get(key)) is not None]

    def clear(self) -> None:
        """Forget all, one by one, as other threads wait meanwhile."""
        while self._kept:
            self._kept.popitem()


class Looker:
    """Looks at runs with one set of surroundings: references, mount points, locks, open files.

    They are read when it is made; make a new one for each page and each batch.
    """

    def __init__(self, site: Site) -> None:
        """Read the surroundings."""
        self._site = site
        self._by_age = site.profile.units.directory.status is None
        self.references = References(site)
        self._mounts = mounts_below(site.root.path)
        self._locked = locked_on(site.root.device, locks_now())
        self._folders = Folders(site.root.descriptor)
        self._opened = open_below(site.root.path) if self._by_age else frozenset()

    def close(self) -> None:
        """Let go of folders that are open."""
        self._folders.close()
        self.references.close()

    def look(self, entry: Entry, place: tuple[str, ...] | None = None) -> Look:
        """Look at a run; ``place`` is where it is now, if not in its place. Raises nothing."""
        place = entry.path if place is None else place
        if not entry.inode:
            return Look(Inside(), tuple(flags_of(entry.faults)))
        try:
            folder = open_folder(place[-1], self._folders.at(place[:-1]))
            try:
                inside = look_inside(folder)
                self._site.entries_read += inside.entries
                flags = [*flags_of(entry.faults), *self._flags(entry, place, folder, inside)]
            finally:
                os.close(folder)
        except OSError as error:
            fault = Flag(Reason("unreadable", f"something in its folder: {error.strerror}"), blocks=True)
            return Look(Inside(), (*flags_of(entry.faults), fault))
        return Look(inside, tuple(flags))

    def _flags(self, entry: Entry, place: tuple[str, ...], folder: int, inside: Inside) -> Iterator[Flag]:
        if inside.foreign or is_mounted(place, self._mounts):
            yield Flag(Reason("mount-point", "something is mounted in its folder"), blocks=True)
        if inside.deep:
            yield Flag(Reason("too-deep", f"its folders are deeper than {MAX_DEPTH} levels"), blocks=True)
        subject = Subject(entry.run, folder, frozenset(inside.names), entry.named, entry.logical)
        yield from self.references.flags(subject)
        if not self._locked.isdisjoint(inside.inodes) or is_flocked(folder, inside.names):
            yield Flag(Reason("locked", "a process holds a lock in its folder"))
        if entry.state == ENDED:
            yield from self._by_age_flags(place, folder, inside.names)

    def _by_age_flags(self, place: tuple[str, ...], folder: int, names: tuple[str, ...]) -> Iterator[Flag]:
        if is_open(place, self._opened):
            yield Flag(Reason("open-file", "a process has something in its folder open"))
        if any(name.endswith(".pid") and _pid_lives(name, folder) for name in names):
            yield Flag(Reason("live-owner", "the process that its pid file names lives"))
        marks = self._site.profile.units.directory.marks
        if marks and not any(fnmatchcase(name, mark) for name in names for mark in marks):
            yield Flag(Reason("unrecognised", f"it has none of {', '.join(marks)}"), blocks=True)


def _pid_lives(name: str, folder: int) -> bool:
    """Say whether a pid file names a process that lives; one that cannot be read counts as if it did."""
    try:
        raw, facts = read_file(name, folder, limit=MAX_PID_BYTES)
        pid = int(raw.split()[0])
    except (OSError, ValueError, IndexError):
        return True
    return lives(pid, before=facts.st_mtime_ns / 1_000 / SECOND)
