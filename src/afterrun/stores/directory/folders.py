"""Folders by descriptor: open, read, rename, remove, without ever following a symbolic link."""

from __future__ import annotations

import ctypes
import errno
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, Self

from afterrun.core.times import Instant

FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
MAX_DEPTH: Final = 100
"""Levels of folders within a run. Each costs a descriptor while it is walked."""

NO_REPLACE: Final = 1
NOT_SUPPORTED: Final = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP)
_LIBRARY: Final[Any] = ctypes.CDLL(None, use_errno=True)


class Inside(NamedTuple):
    """What a look into a run's folder found. ``names`` are those of its own entries."""

    newest: Instant = 0
    folders: int = 0
    files: int = 0
    size: int = 0
    entries: int = 0
    foreign: bool = False
    deep: bool = False
    inodes: frozenset[int] = frozenset()
    names: tuple[str, ...] = ()

    def plain(self) -> tuple[Any, ...]:
        """Return the numbers alone, without what only one look needs: ``Inside(*plain)`` has them again."""
        return tuple(self[: Inside._fields.index("inodes")])


def open_folder(name: str, at: int | None = None) -> int:
    """Open a folder by one name. Raises `OSError`, also for a symbolic link."""
    return os.open(name, FOLDER, dir_fd=at)


@contextmanager
def folder_at(root: int, path: Sequence[str]) -> Iterator[int]:
    """Open the folder at a path below another one, part by part, and close it at the end."""
    current = os.dup(root)
    try:
        for part in path:
            following = open_folder(part, current)
            os.close(current)
            current = following
        yield current
    finally:
        os.close(current)


class Folders:
    """Folders below a root, kept open one at a time: what is asked for in a row lies in the same one."""

    def __init__(self, root: int) -> None:
        """Take the root's descriptor; it stays the caller's."""
        self._root = root
        self._path: tuple[str, ...] | None = None
        self._folder: int | None = None

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Let go of the folder that is open."""
        self.close()

    def at(self, path: tuple[str, ...]) -> int:
        """Return the descriptor of a folder, valid until the next one is asked for. Raises `OSError`."""
        if not path:
            return self._root
        if self._folder is None or path != self._path:
            self.close()
            with folder_at(self._root, path) as folder:
                self._folder = os.dup(folder)
            self._path = path
        return self._folder

    def lstat(self, path: tuple[str, ...]) -> os.stat_result | None:
        """Look at an entry itself; nothing if it is not there. Raises other `OSError`."""
        try:
            return os.stat(path[-1], dir_fd=self.at(path[:-1]), follow_symlinks=False)
        except FileNotFoundError:
            return None

    def close(self) -> None:
        """Let go of the folder that is open."""
        if self._folder is not None:
            os.close(self._folder)
            self._folder = None


def lstat_at(root: int, path: Sequence[str]) -> os.stat_result | None:
    """Look at an entry itself; nothing if it is not there. Raises other `OSError`."""
    try:
        with folder_at(root, path[:-1]) as folder:
            return os.stat(path[-1], dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def read_file(name: str, at: int, *, limit: int) -> tuple[bytes, os.stat_result]:
    """Return the content of a regular file of at most ``limit`` bytes. Raises `OSError`; waits for nobody."""
    descriptor = os.open(name, FILE, dir_fd=at)
    try:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode):
            raise OSError(errno.EINVAL, "it is no regular file")
        if facts.st_size > limit:
            raise OSError(errno.EFBIG, f"it is larger than {limit} bytes")
        raw = os.read(descriptor, facts.st_size + 1)
        while len(raw) > facts.st_size and len(raw) <= limit and (more := os.read(descriptor, 1 << 20)):
            raw += more
    finally:
        os.close(descriptor)
    if len(raw) > limit:
        raise OSError(errno.EFBIG, f"it is larger than {limit} bytes")
    return raw, facts


def read_at(root: int, path: Sequence[str], *, limit: int) -> bytes:
    """Return the content of a small regular file below a folder. Raises `OSError`."""
    with folder_at(root, path[:-1]) as folder:
        return read_file(path[-1], folder, limit=limit)[0]


def changed(facts: os.stat_result) -> Instant:
    """Return when an entry's content was last changed."""
    return facts.st_mtime_ns // 1_000


def look_inside(folder: int) -> Inside:
    """Walk a run's folder: the newest change, what it takes, and whether another device begins there."""
    walk = _Walk(os.fstat(folder))
    walk.enter(folder, 1)
    return walk.found()


class _Walk:
    """One walk. Most folders have a few files, so each entry is handled in one loop."""

    def __init__(self, own: os.stat_result) -> None:
        """Begin with the run's own folder."""
        self._device = own.st_dev
        self._newest = own.st_mtime_ns
        self._folders, self._files, self._blocks = 1, 0, 0
        self._foreign = self._deep = False
        self._inodes: set[int] = {own.st_ino}
        self._names: tuple[str, ...] = ()

    def enter(self, folder: int, depth: int) -> None:
        """Take in everything in a folder, then what is below it. Raises `OSError`."""
        below = []
        with os.scandir(folder) as entries:
            listed = list(entries)
            if depth == 1:
                self._names = tuple([entry.name for entry in listed])
            for entry in listed:
                facts = entry.stat(follow_symlinks=False)
                self._newest = max(self._newest, facts.st_mtime_ns)
                self._inodes.add(facts.st_ino)
                if facts.st_dev != self._device:
                    self._foreign = True
                if stat.S_ISDIR(facts.st_mode):
                    below.append(entry.name)
                else:
                    self._files += 1
                    self._blocks += facts.st_blocks
        self._folders += len(below)
        for name in below:
            if depth >= MAX_DEPTH:
                self._deep = True
                return
            descriptor = open_folder(name, folder)
            try:
                self.enter(descriptor, depth + 1)
            finally:
                os.close(descriptor)

    def found(self) -> Inside:
        """Return what was found."""
        return Inside(
            self._newest // 1_000,
            self._folders,
            self._files,
            self._blocks * 512,
            self._folders + self._files - 1,
            self._foreign,
            self._deep,
            frozenset(self._inodes),
            self._names,
        )


def rename_new(old: str, new: str, *, at: int, to: int | None = None) -> None:
    """Rename an entry to a name that is free. Raises `FileExistsError` if it is taken, and `OSError`.

    Where the file system cannot promise that (NFS), the name is looked at just before.
    """
    target = at if to is None else to
    done = _LIBRARY.renameat2(at, os.fsencode(old), target, os.fsencode(new), NO_REPLACE)
    if done == 0:
        return
    number = ctypes.get_errno()
    if number not in NOT_SUPPORTED:
        raise OSError(number, os.strerror(number), old)
    try:
        os.stat(new, dir_fd=target, follow_symlinks=False)
    except FileNotFoundError:
        os.rename(old, new, src_dir_fd=at, dst_dir_fd=target)
    else:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), new)


def sync_volume(folder: int) -> None:
    """Write everything of the file system that a folder is on to its disk. Raises `OSError`."""
    if _LIBRARY.syncfs(folder) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def remove_entry(
    name: str,
    at: int,
    *,
    device: int,
    halt: Callable[[], bool] = lambda: False,
    facts: os.stat_result | None = None,
) -> tuple[int, int]:
    """Remove a file, or a folder with all that is in it; return how many folders and files went.

    ``facts`` are what was just seen of it. Nothing on another device is touched. Raises `OSError`, and
    `InterruptedError` once ``halt`` says yes: what is left is removed by calling it again.
    """
    facts = os.stat(name, dir_fd=at, follow_symlinks=False) if facts is None else facts
    if facts.st_dev != device:
        raise OSError(errno.EXDEV, "another file system begins there", name)
    if not stat.S_ISDIR(facts.st_mode):
        os.unlink(name, dir_fd=at)
        return 0, 1
    return _remove_folder(name, at, device=device, halt=halt, depth=0)


def _remove_folder(
    name: str, at: int, *, device: int, halt: Callable[[], bool], depth: int
) -> tuple[int, int]:
    folders, files = 1, 0
    descriptor = open_folder(name, at)
    try:
        if os.fstat(descriptor).st_dev != device or depth > MAX_DEPTH:
            raise OSError(errno.EXDEV, "another file system begins there, or it is too deep", name)
        below = []
        with os.scandir(descriptor) as entries:
            listed = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
        for entry, is_folder in listed:
            if is_folder:
                below.append(entry)
                continue
            if halt():
                raise InterruptedError(errno.EINTR, "the host ends")
            os.unlink(entry, dir_fd=descriptor)
            files += 1
        for entry in below:
            more = _remove_folder(entry, descriptor, device=device, halt=halt, depth=depth + 1)
            folders, files = folders + more[0], files + more[1]
    finally:
        os.close(descriptor)
    os.rmdir(name, dir_fd=at)
    return folders, files
