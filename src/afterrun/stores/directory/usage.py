"""Who uses a run's folder just now: locks that are held, files that are open, processes that live."""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from afterrun.stores.directory.folders import FILE
from afterrun.stores.directory.process import PROC, started_at

PARTS: Final = 3
"""Major and minor number of a device, and an inode: so the kernel names what is locked."""

MAX_PID: Final = 2**31 - 1
LOCK_ENDINGS: Final = (".lock", ".lck", ".pid")
MAX_PROBES: Final = 32
"""Files of one run that are looked at for a lock by trying."""

CLOCK_GRAIN: Final = 2.0
"""Seconds by which the start of a process, counted in ticks after boot, may be off."""


def held_inodes(table: bytes) -> frozenset[tuple[int, int, int]]:
    """Return device (major, minor) and inode of what is locked, from the kernel's table of locks."""
    found = set()
    for line in table.splitlines():
        for field in line.split():
            parts = field.split(b":")
            if len(parts) == PARTS:
                with suppress(ValueError):
                    found.add((int(parts[0], 16), int(parts[1], 16), int(parts[2])))
                break
    return frozenset(found)


def locks_now() -> frozenset[tuple[int, int, int]]:
    """Read what is locked by processes that this one can see; nothing where the kernel does not tell."""
    try:
        return held_inodes((PROC / "locks").read_bytes())
    except OSError:
        return frozenset()


def locked_on(device: int, locks: Collection[tuple[int, int, int]]) -> frozenset[int]:
    """Return the inodes of a device that are among the locks."""
    here = (os.major(device), os.minor(device))
    return frozenset(lock[2] for lock in locks if lock[:2] == here)


def is_flocked(folder: int, names: Sequence[str]) -> bool:
    """Try whether somebody holds an flock on a run's folder, or on a lock file of these names in it.

    The kernel's table does not list the locks of other namespaces, so trying is the only way.
    """
    if _is_held(folder):
        return True
    for name in [name for name in names if _is_lock(name)][:MAX_PROBES]:
        if not _is_plain(name, folder):
            continue
        descriptor = os.open(name, FILE, dir_fd=folder)
        try:
            if _is_held(descriptor):
                return True
        finally:
            os.close(descriptor)
    return False


def _is_plain(name: str, folder: int) -> bool:
    """Say whether it is a regular file: opening a FIFO would tell whoever waits for a reader."""
    return stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)


def _is_lock(name: str) -> bool:
    return name.endswith(LOCK_ENDINGS) or name == "lock"


def _is_held(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # a file system without locks
        return False
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    return False


def lives(pid: object, *, before: float | None) -> bool:
    """Say whether the process with this id lives, and was started before a moment, in seconds since 1970.

    One that was started later has only got the same id.
    """
    if type(pid) is not int or not 0 < pid <= MAX_PID:
        return False
    started = started_at(pid)
    return started is not None and (before is None or started <= before + CLOCK_GRAIN)


def open_below(root: str) -> frozenset[str]:
    """Return paths, relative to a folder, that processes have open or stand in, as far as rights allow."""
    start = root.rstrip("/") + "/"
    return frozenset(path[len(start) :] for path in _open_paths() if path.startswith(start))


def _open_paths() -> Iterator[str]:
    me = os.getpid()
    for process in PROC.iterdir():
        if process.name.isdigit() and int(process.name) != me:
            with suppress(OSError):
                yield str((process / "cwd").readlink())
            with suppress(OSError):
                yield from _descriptors(process / "fd")


def _descriptors(folder: Path) -> Iterator[str]:
    for descriptor in folder.iterdir():
        with suppress(OSError):
            yield str(descriptor.readlink())


def is_open(path: tuple[str, ...], opened: Collection[str]) -> bool:
    """Say whether something at or below a path is open."""
    text = "/".join(path)
    return any(found == text or found.startswith(text + "/") for found in opened)
