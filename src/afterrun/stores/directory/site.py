"""One directory that is a store: its root, held open, and what its profile says of it."""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from afterrun.core.errors import StoreFailure, StoreUnreadable
from afterrun.profiles.directory import DirectoryProfile
from afterrun.stores.directory.folders import FOLDER, open_folder
from afterrun.stores.directory.names import OURS, Source, is_pattern, matches

FULL: Final = (errno.ENOSPC, errno.EDQUOT)
WRITABLE_BY_OTHERS: Final = 0o022
"""Bits of a mode that our own folder must not have: what stands in the journal is believed."""

RIGHTS: Final = (errno.EACCES, errno.EPERM, errno.EROFS)


class Root:
    """An open directory. It stays the same one, whatever is renamed above it."""

    def __init__(self, location: str) -> None:
        """Open a directory by its path. Raises `StoreUnreadable`."""
        self.path = os.path.realpath(location)
        try:
            self.descriptor = os.open(self.path, FOLDER)
        except OSError as error:
            raise StoreUnreadable(f"the directory {self.path} cannot be opened: {error.strerror}") from None
        facts = os.fstat(self.descriptor)
        self.device, self.inode = facts.st_dev, facts.st_ino

    def has(self, pattern: str) -> bool:
        """Say whether an entry matches a pattern."""
        try:
            return _has(self.descriptor, tuple(pattern.split("/")))
        except OSError:
            return False

    def close(self) -> None:
        """Let go of the directory."""
        os.close(self.descriptor)


def _has(folder: int, parts: tuple[str, ...]) -> bool:
    part, rest = parts[0], parts[1:]
    names = os.listdir(folder) if is_pattern(part) else [part]
    for name in names:
        if is_pattern(part) and not matches(name, part):
            continue
        try:
            if not rest:
                os.stat(name, dir_fd=folder, follow_symlinks=False)
                return True
            below = open_folder(name, folder)
        except OSError:
            continue
        try:
            if _has(below, rest):
                return True
        finally:
            os.close(below)
    return False


class Site:
    """A root with its profile.

    ``entries_read`` counts what scans and looks have read of folders; ``gone``, by the folder above them, the
    folders that were removed.
    """

    def __init__(self, root: Root, profile: DirectoryProfile) -> None:
        """Tie a profile to an open directory."""
        self.root = root
        self.profile = profile
        self.runs = tuple(Source.of(text, folders=True) for text in profile.units.directory.runs)
        result = profile.units.result
        areas = () if result is None else result.areas
        self.results = tuple(Source.of(area.files, folders=False) for area in areas)
        self.entries_read = 0
        self.statuses_read = 0
        self.gone: Counter[tuple[str, ...]] = Counter()
        self.naming: tuple[int, ...] | None = None
        self.halt: Callable[[], bool] = lambda: False

    @property
    def url(self) -> str:
        """Return where it is."""
        return self.root.path

    def is_of_a_run(self, folder: tuple[str, ...]) -> bool:
        """Say whether a folder is one that holds the runs which belong to another run, and nothing else."""
        return any(
            len(folder) > source.fixed and folder[: source.fixed] == source.parts[: source.fixed]
            for source in self.runs[1:]
        )

    @contextmanager
    def ours(self) -> Iterator[int]:
        """Give our own folder in the store, made if it is not there. Raises `StoreFailure`."""
        try:
            with suppress(FileExistsError):
                os.mkdir(OURS, 0o700, dir_fd=self.root.descriptor)
            folder = open_folder(OURS, self.root.descriptor)
        except OSError as error:
            raise failure(error, f"the folder {OURS} of {self.url}") from None
        try:
            if os.fstat(folder).st_mode & WRITABLE_BY_OTHERS:
                raise StoreFailure("rights", f"the folder {OURS} of {self.url} can be written to by others")
            yield folder
        finally:
            os.close(folder)


def failure(error: OSError, what: str) -> StoreFailure:
    """Class an error of the file system that is no unit's fault."""
    kind = "disk-full" if error.errno in FULL else "rights" if error.errno in RIGHTS else "io"
    return StoreFailure(kind, f"{what}: {error.strerror or error}")
