"""Walk folders for files that may be SQLite databases: bounded, within one volume, never through a link."""

from __future__ import annotations

import fnmatch
import os
import stat
import time
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

HEADER: Final = b"SQLite format 3\0"
SMALLEST: Final = 512
"""Bytes of the shortest database: one page."""

BESIDE: Final = ("-wal", "-shm", "-journal", ".afterrun-lock")
"""Endings of files that lie beside a database and are none."""

USUAL: Final = (".sqlite", ".sqlite3", ".db", ".db3")
"""Endings that people give databases: one that cannot be read is told of."""

Identity = tuple[int, int]


class Place(NamedTuple):
    """Where to look: a file, a folder with all below it, or entries of one folder by a ``pattern``.

    These are files, or with ``folders`` folders.
    """

    path: Path
    pattern: str | None = None
    folders: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How far a walk goes: folders below each other, entries of folders, and seconds in all."""

    depth: int = 10
    entries: int = 200_000
    seconds: float = 30.0


class Unreadable(NamedTuple):
    """Something that could not be looked at, and why."""

    path: Path
    reason: str


@dataclass(slots=True)
class Marked:
    """A folder with names in it by which it may be a store. ``left_out``: names in it that are not entered.

    The walk goes on in it only once whoever got it has asked for more.
    """

    path: Path
    left_out: tuple[str, ...] = ()

    def enters(self, name: str) -> bool:
        """Say whether the walk enters a folder in it."""
        return not any(fnmatch.fnmatchcase(name, pattern) for pattern in self.left_out)


@dataclass(slots=True)
class Walk:
    """One walk, and what it met.

    Attributes:
        marks: patterns of names by which a folder may be a store.
        entries: entries of folders that were met.
        folders: folders that were listed.
        left_out: what was passed by, counted by its kind.
        unreadable: what could not be looked at.
        stopped: the bound that ended it, or None.
    """

    bounds: Bounds
    marks: tuple[str, ...] = ()
    entries: int = 0
    folders: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    unreadable: list[Unreadable] = field(default_factory=list)
    stopped: str | None = None
    _began: float = field(default_factory=time.monotonic)
    _seen: set[Identity] = field(default_factory=set)

    def found(self, place: Path) -> Iterator[Path | Marked]:
        """Yield each file at or below a path that begins as SQLite databases do, and each marked folder.

        The path may be a link.
        """
        try:
            root = place.resolve(strict=True)
            status = root.stat()
        except (OSError, RuntimeError) as error:
            self._cannot(place, error)
            return
        if stat.S_ISDIR(status.st_mode):
            yield from self._below(root, status.st_dev)
        elif stat.S_ISREG(status.st_mode):
            yield from self._candidates(root, status)
        else:
            self.unreadable.append(Unreadable(root, "it is neither a folder nor a regular file"))

    def matching(self, folder: Path, pattern: str) -> Iterator[Path]:
        """Yield each such file of one folder whose name fits; a folder that is not there has none."""
        if folder.is_dir():
            for entry in self._listed(folder.resolve()):
                if fnmatch.fnmatchcase(entry.name, pattern):
                    yield from self._file(folder.resolve(), entry)

    def marked(self, folder: Path, pattern: str) -> Iterator[Marked]:
        """Yield each marked folder in one folder whose name fits."""
        if not folder.is_dir():
            return
        here = folder.resolve()
        fitting = (entry for entry in self._listed(here) if fnmatch.fnmatchcase(entry.name, pattern))
        for name in [entry.name for entry in fitting if entry.is_dir(follow_symlinks=False)]:
            if any(self._is_mark(entry.name) for entry in self._listed(here / name, once=True)):
                yield Marked(here / name)

    def over(self) -> bool:
        """Say whether a bound is reached, and note which."""
        if self.stopped is None and self.entries >= self.bounds.entries:
            self.stopped = "entries"
        if self.stopped is None and time.monotonic() - self._began >= self.bounds.seconds:
            self.stopped = "seconds"
        return self.stopped is not None

    def _below(self, root: Path, volume: int) -> Iterator[Path | Marked]:
        waiting = deque([(root, 0)])
        while waiting:
            folder, depth = waiting.popleft()
            below, is_marked = [], False
            for entry in self._listed(folder, once=True):
                is_marked = is_marked or self._is_mark(entry.name)
                if not entry.is_dir(follow_symlinks=False):
                    yield from self._file(folder, entry)
                elif self._may_enter(entry, depth + 1, volume):
                    below.append(entry.name)
            marked = Marked(folder)
            if is_marked:
                yield marked
            for name in below:
                if marked.enters(name):
                    waiting.append((folder / name, depth + 1))
                else:
                    self.left_out["run-folder"] += 1
            if self.stopped:
                return

    def _is_mark(self, name: str) -> bool:
        return any(fnmatch.fnmatchcase(name, pattern) for pattern in self.marks)

    def _may_enter(self, entry: os.DirEntry[str], depth: int, volume: int) -> bool:
        try:
            same = entry.stat(follow_symlinks=False).st_dev == volume
        except OSError:  # it is gone
            return False
        if not same:
            self.left_out["other-volume"] += 1
        elif depth > self.bounds.depth:
            self.left_out["too-deep"] += 1
        return same and depth <= self.bounds.depth

    def _listed(self, folder: Path, *, once: bool = False) -> Iterator[os.DirEntry[str]]:
        """Yield the entries of a folder, unless a link took its place."""
        try:
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            self._cannot(folder, error)
            return
        try:
            if once and not self._first_time(os.fstat(descriptor)):
                return
            self.folders += 1
            with os.scandir(descriptor) as entries:
                for entry in entries:
                    if self.over():
                        return
                    self.entries += 1
                    yield entry
        except OSError as error:
            self._cannot(folder, error)
        finally:
            os.close(descriptor)

    def _file(self, folder: Path, entry: os.DirEntry[str]) -> Iterator[Path]:
        if entry.is_symlink():
            self.left_out["link"] += 1
        elif not entry.is_file(follow_symlinks=False):
            self.left_out["special"] += not entry.is_dir(follow_symlinks=False)
        elif not entry.name.endswith(BESIDE):
            with suppress(FileNotFoundError):
                yield from self._candidates(folder / entry.name, entry.stat(follow_symlinks=False))

    def _candidates(self, path: Path, status: os.stat_result) -> Iterator[Path]:
        """Yield the file if it may be a database and was not met before."""
        if status.st_size < SMALLEST or not self._first_time(status):
            return
        try:
            begins = _begins_as_sqlite(path, status)
        except FileNotFoundError:
            return
        except OSError as error:
            if path.name.lower().endswith(USUAL):
                self._cannot(path, error)
            else:
                self.left_out["no-rights"] += 1
            return
        if begins and Path(os.path.realpath(path)) == path:  # no folder on the way became a link
            yield path

    def _first_time(self, status: os.stat_result) -> bool:
        identity = (status.st_dev, status.st_ino)
        fresh = identity not in self._seen
        self._seen.add(identity)
        return fresh

    def _cannot(self, path: Path, error: OSError | RuntimeError) -> None:
        reason = error.strerror if isinstance(error, OSError) else "its links go round in a circle"
        self.unreadable.append(Unreadable(path, reason or type(error).__name__))


def _begins_as_sqlite(path: Path, status: os.stat_result) -> bool:
    """Read the first bytes of a file that this process has not open.

    This is the only place that opens what may be a database other than through SQLite. Closing any descriptor
    of a file drops all locks of the process on it, so a file that is open here is left for SQLite to judge.
    """
    if _is_open_here((status.st_dev, status.st_ino)):
        return True
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        return stat.S_ISREG(os.fstat(descriptor).st_mode) and os.read(descriptor, len(HEADER)) == HEADER
    finally:
        os.close(descriptor)


def _is_open_here(identity: Identity) -> bool:
    """Say whether this process has a descriptor of a file; where the system does not tell, it may have."""
    for folder in ("/proc/self/fd", "/dev/fd"):
        try:
            with os.scandir(folder) as entries:
                return any(_identity(int(entry.name)) == identity for entry in entries)
        except OSError:
            continue
    return True


def _identity(descriptor: int) -> Identity | None:
    try:
        status = os.fstat(descriptor)
    except OSError:  # closed meanwhile by another thread
        return None
    return status.st_dev, status.st_ino
