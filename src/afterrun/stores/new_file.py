"""A file that is new, private and whole, or not there: what a backup is written to.

It grows under a temporary name beside the wanted one, and gets its own name at the end, without replacing
anything. What a killed process leaves is such a temporary name; the next backup to the same name clears it,
and so does `clear`, for who remembers the name.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import secrets
import stat
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Literal, Self

from afterrun.core.errors import BackupFailed, Refused, UsageError

UNFINISHED: Final = ".afterrun-unfinished-"
BESIDE: Final = ("-wal", "-shm", "-journal")
"""Endings by which SQLite finds files beside a database."""

TOKEN: Final = re.compile(r"[0-9a-f]{16}")
"""What ends the name of a draft: nobody else makes that name by chance."""

Standing = Literal["gone", "left", "growing", "other", "away"]
"""What became of a draft. ``growing``: its writer is alive; ``other``: something else has its name; ``away``:
its folder cannot be reached."""

LONGEST_NAME: Final = 200
"""Bytes of a file's name, so that the temporary one fits, too."""

SPARE: Final = 16 * 1024 * 1024
"""Bytes that must stay free on the volume of a backup."""


class NewFile:
    """A file under way: enter it, write to `draft`, then `publish`. Left without that, nothing stays.

    Attributes:
        path: where it will be, its folder's links resolved.
        draft: where it grows.
        cleared: unfinished files of earlier, killed processes that were taken away.
    """

    def __init__(self, path: Path, *, store: Path | None) -> None:
        """Check the place. Raises `UsageError` for a wrong one, `Refused` for an unsafe folder.

        ``store`` is the database's own file, whose names and owner count; nothing where a server has it.
        """
        self.path = _checked(path, store)
        self.draft = self.path.with_name(f".{self.path.name}{UNFINISHED}{secrets.token_hex(8)}")
        self.cleared = 0
        self._descriptor: int | None = None

    def room(self, needed: int) -> None:
        """Make sure that so many bytes fit, and some more. Raises `Refused`."""
        volume = os.statvfs(self.path.parent)
        free = volume.f_bavail * volume.f_frsize
        if free < needed + SPARE:
            raise Refused(
                "no-room",
                f"the backup needs about {needed:,} bytes and {SPARE:,} to spare, and the volume of "
                f"{self.path.parent} has {free:,} free; nothing was removed",
            )

    def __enter__(self) -> Self:
        """Make the draft, for its owner alone. Raises `Refused` where this user may not."""
        self._clear()
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            self._descriptor = os.open(self.draft, flags, 0o600)
        except OSError as error:
            raise Refused("rights", f"no file can be made in {self.path.parent}: {error.strerror}") from None
        fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # says that its writer is alive
        return self

    def publish(self) -> None:
        """Write the draft to the disk and give it its name. Raises `BackupFailed`; never replaces a file."""
        if self._descriptor is None:
            raise ValueError("the file is not under way")
        try:
            os.fsync(self._descriptor)
            self._name()
            self.draft.unlink(missing_ok=True)
            _sync_folder(self.path.parent)
        except OSError as error:
            raise BackupFailed(
                "io", f"{self.path} cannot be made: {error.strerror}; nothing was removed"
            ) from None

    def _name(self) -> None:
        """Link the name, which fails if it is taken. Where there are no links, take the name first."""
        try:
            os.link(self.draft, self.path, follow_symlinks=False)
        except OSError as error:
            if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS):
                raise
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            os.close(os.open(self.path, flags, 0o600))
            self.draft.rename(self.path)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take away what was not published."""
        for name in (self.draft, *(Path(f"{self.draft}{ending}") for ending in BESIDE)):
            with suppress(OSError):
                name.unlink(missing_ok=True)
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _clear(self) -> None:
        for left in unfinished(self.path):
            with suppress(OSError):
                self.cleared += _taken(left, unlink=True)


def unfinished(path: Path) -> Iterator[Path]:
    """Yield what killed processes left of files that were to have this name."""
    start = f".{path.name}{UNFINISHED}"
    with os.scandir(path.parent) as entries:
        names = [entry.name for entry in entries if entry.is_file(follow_symlinks=False)]
    yield from (path.with_name(name) for name in names if name.startswith(start))


def standing_of(draft: Path) -> Standing:
    """Say what became of a draft of this name, which a `NewFile` was to grow under. Changes nothing."""
    try:
        draft.parent.stat()
    except OSError:
        return "away"
    try:
        if not _is_ours(draft, draft.lstat()):
            return "other"
        return "left" if _taken(draft, unlink=False) else "growing"
    except FileNotFoundError:
        return "gone"
    except OSError:
        return "other"


def clear(draft: Path) -> bool:
    """Take a draft away that `standing_of` calls ``left``, and what SQLite may have put beside it."""
    try:
        if not (_is_ours(draft, draft.lstat()) and _taken(draft, unlink=True)):
            return False
    except OSError:
        return False
    for ending in BESIDE:
        with suppress(OSError):
            Path(f"{draft}{ending}").unlink(missing_ok=True)
    return True


def _is_ours(draft: Path, status: os.stat_result) -> bool:
    """Say whether this can be a draft that this user has made: by its name, kind and owner."""
    _, mark, token = draft.name.rpartition(UNFINISHED)
    named = bool(mark) and TOKEN.fullmatch(token) is not None
    return named and stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()


def _taken(draft: Path, *, unlink: bool) -> bool:
    """Take the lock that says that a draft's writer is alive, if it is free. Raises `OSError`."""
    descriptor = os.open(draft, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if unlink:
            draft.unlink()
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True


def files_of(store: Path) -> Collection[Path]:
    """Return the names that belong to a store."""
    return [store, *(Path(f"{store}{ending}") for ending in (*BESIDE, ".afterrun-lock"))]


def _checked(path: Path, store: Path | None) -> Path:
    if "\0" in str(path) or not path.is_absolute() or not path.name:
        raise UsageError(f"the backup {str(path)[:200]!r} is no absolute path of a file")
    if len(os.fsencode(path.name)) > LONGEST_NAME:
        raise UsageError(f"the name of the backup is longer than {LONGEST_NAME} bytes")
    try:
        folder = path.parent.resolve(strict=True)
        status = folder.stat()
    except OSError as error:
        raise UsageError(f"the folder {path.parent} cannot be reached: {error.strerror}") from None
    wanted = folder / path.name
    if not stat.S_ISDIR(status.st_mode):
        raise UsageError(f"{folder} is no folder")
    if store is not None and wanted in files_of(store):
        raise UsageError(f"{path} is a name that SQLite or afterrun uses for the store: choose another")
    for name in (wanted, *(Path(f"{wanted}{ending}") for ending in BESIDE)):
        if os.path.lexists(name):
            raise UsageError(f"{name} exists already: a backup is always a new file")
    _check_folder(folder, status, owner=None if store is None else store.stat().st_uid)
    return wanted


def _check_folder(folder: Path, status: os.stat_result, *, owner: int | None) -> None:
    """Refuse a folder in which somebody else could put another file in the backup's place."""
    others = stat.S_IMODE(status.st_mode) & (stat.S_IWGRP | stat.S_IWOTH)
    trusted = status.st_uid in {0, os.geteuid(), owner}
    if (others and not status.st_mode & stat.S_ISVTX) or not trusted:
        raise Refused(
            "backup-folder",
            f"others can write to the folder {folder}, so they could change the backup: choose one that only "
            "its owner can write to; nothing was removed",
        )


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
