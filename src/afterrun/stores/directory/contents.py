"""Everything in a run's folder, entry by entry, and a digest by which a later change is noticed."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from afterrun.stores.directory.folders import MAX_DEPTH, folder_at, open_folder, read_file
from afterrun.stores.directory.records import MAX_FILE_BYTES

DIGEST_BYTES: Final = 16


class Item(NamedTuple):
    """An entry: its path below the run's folder, what it is, and the open folder that it lies in.

    ``folder`` is valid until the next item is asked for. The run's own folder comes first, with no path.
    """

    path: tuple[str, ...]
    facts: os.stat_result
    folder: int


def contents(folder: int) -> Iterator[Item]:
    """Yield an open folder and all that is in it, each folder before what it holds, by name.

    Raises `OSError`, also where another file system begins or it is too deep.
    """
    own = os.fstat(folder)
    yield Item((), own, folder)
    yield from _below(folder, (), own.st_dev)


def _below(folder: int, path: tuple[str, ...], device: int) -> Iterator[Item]:
    with os.scandir(folder) as entries:
        names = sorted([entry.name for entry in entries])
    for name in names:
        facts = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if facts.st_dev != device:
            raise OSError(errno.EXDEV, "another file system begins there")
        yield Item((*path, name), facts, folder)
        if not stat.S_ISDIR(facts.st_mode):
            continue
        if len(path) + 1 >= MAX_DEPTH:
            raise OSError(errno.ELOOP, f"its folders are deeper than {MAX_DEPTH} levels")
        below = open_folder(name, folder)
        try:
            yield from _below(below, (*path, name), device)
        finally:
            os.close(below)


class Signature:
    """A digest of what entries are: kind, inode, size and times. Whatever is written to changes it.

    The time at which an inode changed is left out for the run's own folder, since a rename changes it.
    """

    def __init__(self) -> None:
        """Begin."""
        self._sum = hashlib.blake2b(digest_size=DIGEST_BYTES)

    def add(self, path: tuple[str, ...], facts: os.stat_result) -> None:
        """Take in an entry."""
        told = (path, facts.st_mode, facts.st_uid, facts.st_gid, facts.st_ino, facts.st_mtime_ns)
        more = (facts.st_size, facts.st_ctime_ns) if path and not stat.S_ISDIR(facts.st_mode) else ()
        self._sum.update(repr((*told, *more)).encode("utf-8", "surrogateescape"))

    def digest(self) -> bytes:
        """Return the digest of all that was taken in."""
        return self._sum.digest()


def sign(root: int, place: tuple[str, ...]) -> bytes:
    """Return the digest of a run's folder, or of a result's content, where it is now. Raises `OSError`."""
    with folder_at(root, place[:-1]) as above:
        facts = os.stat(place[-1], dir_fd=above, follow_symlinks=False)
        if not stat.S_ISDIR(facts.st_mode):
            return sign_content(read_file(place[-1], above, limit=MAX_FILE_BYTES)[0])
        folder = open_folder(place[-1], above)
        try:
            signature = Signature()
            for item in contents(folder):
                signature.add(item.path, item.facts)
            return signature.digest()
        finally:
            os.close(folder)


def sign_content(raw: bytes) -> bytes:
    """Return the digest of a result file."""
    return hashlib.blake2b(raw, digest_size=DIGEST_BYTES).digest()


def combined(signs: Mapping[tuple[str, ...], bytes]) -> bytes:
    """Return one digest of the members of a unit, by the places where they belong."""
    return hashlib.blake2b(repr(sorted(signs.items())).encode(), digest_size=DIGEST_BYTES).digest()
