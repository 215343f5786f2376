"""The sweep lock of a directory: one sweep a store, across processes, namespaces and machines.

It is a folder that comes whole, by one rename: with a file on which the owner holds an flock, and a file that
says who the owner is. Whoever takes one over holds its flock meanwhile, so that two cannot.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import threading
import time
from contextlib import suppress
from types import TracebackType
from typing import Final, NoReturn, Self

from afterrun.core.errors import Refused, StoreFailure, StoreLocked
from afterrun.stores.directory.folders import open_folder, read_file, remove_entry, rename_new
from afterrun.stores.directory.ownership import Owner, Standing, read_owner, standing
from afterrun.stores.directory.process import here, start_of

LOCK: Final = "lock"
ASIDE: Final = "lock-"
OWNER: Final = "owner.json"
HELD: Final = "held"
TRIES: Final = 4
MAKING: Final = 60.0
"""Seconds after which a lock that is still under way was left by a maker that was killed."""

RENEWAL: Final = 60.0
"""Seconds between two renewals."""

MAX_OWNER_BYTES: Final = 4_096
TAKEN: Final = (errno.EEXIST, errno.ENOTEMPTY)


class DirectoryLock:
    """Holds one sweep a directory while it is entered.

    ``folder`` is a descriptor of our own folder in the store. ``break_token`` names a lock that a person
    says is nobody's any more: that of another machine.
    """

    def __init__(self, folder: int, *, url: str, break_token: str | None = None) -> None:
        """Prepare; nothing is touched yet."""
        self._folder = folder
        self._url = url
        self._break = break_token
        self._me = here()
        self.token = secrets.token_hex(16)
        self._mark = f'"{self.token}"'.encode()
        self._place = (0, 0)
        self._seen: tuple[int, ...] = ()
        self._held: int | None = None
        self._own: int | None = None
        self._over = threading.Event()
        self._renewer: threading.Thread | None = None

    def __enter__(self) -> Self:
        """Take the lock. Raises `StoreLocked` if another one has it, `Refused` where rights are missing."""
        try:
            self._take()
        except OSError as error:
            raise Refused(
                "rights",
                f"the sweep lock in {self._url} cannot be made: {error.strerror}; nothing was removed",
            ) from None
        self._renewer = threading.Thread(target=self._renew, name="afterrun-lock", daemon=True)
        self._renewer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let the lock go, if it is still ours."""
        self._over.set()
        if self._renewer is not None:
            self._renewer.join()
        with suppress(OSError, StoreFailure):
            self.check()
            aside = f"{ASIDE}{secrets.token_hex(8)}"
            rename_new(LOCK, aside, at=self._folder)
            self._clear(aside)
        self._close()

    def check(self) -> None:
        """Make sure that the lock is still ours. Raises `StoreFailure` if it is not."""
        try:
            lost = not self._is_ours()
        except OSError:
            lost = True
        if lost:
            raise StoreFailure("lock-lost", "another one has broken the sweep lock; nothing more is done")

    def _is_ours(self) -> bool:
        """Look whether our folder is the lock, and read its token again unless nothing was written to it."""
        there = os.stat(LOCK, dir_fd=self._folder, follow_symlinks=False)
        if self._own is None or (there.st_ino, there.st_dev) != self._place:
            return False
        file = os.stat(OWNER, dir_fd=self._own, follow_symlinks=False)
        seen = (file.st_ino, file.st_mtime_ns, file.st_ctime_ns, file.st_size)
        if seen != self._seen:
            if self._mark not in read_file(OWNER, self._own, limit=MAX_OWNER_BYTES)[0]:
                return False
            self._seen = seen
        return True

    def _take(self) -> None:
        self._clear_leftovers()
        made = self._prepare()
        try:
            for _ in range(TRIES):
                try:
                    rename_new(made, LOCK, at=self._folder)
                except OSError as error:
                    if error.errno not in TAKEN:
                        raise
                    self._take_aside()
                else:
                    return
            self._give_up()
        except BaseException:
            self._clear(made)
            self._close()
            raise

    def _give_up(self) -> NoReturn:
        raise StoreLocked(f"the sweep lock of {self._url} changes hands all the time; try again later")

    def _prepare(self) -> str:
        """Make a whole lock under another name, its flock held."""
        name = f"{ASIDE}{self.token}"
        os.mkdir(name, 0o700, dir_fd=self._folder)
        self._own = open_folder(name, self._folder)
        facts = os.fstat(self._own)
        self._place = (facts.st_ino, facts.st_dev)
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        self._held = os.open(HELD, flags, 0o600, dir_fd=self._own)
        fcntl.flock(self._held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._write_owner()
        return name

    def _write_owner(self) -> None:
        if self._own is None:
            return
        raw = Owner.of(self._me, self.token, time.time()).as_bytes()
        new = f"{OWNER}.new"
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(new, flags, 0o600, dir_fd=self._own)
        try:
            os.write(descriptor, raw)
        finally:
            os.close(descriptor)
        os.rename(new, OWNER, src_dir_fd=self._own, dst_dir_fd=self._own)

    def _renew(self) -> None:
        """Renew the owner's record every minute; the folder is held open, so no other lock is touched."""
        while not self._over.wait(RENEWAL):
            with suppress(OSError):
                self._write_owner()

    def _take_aside(self) -> None:
        """Move a lock that is nobody's out of the way. Raises `StoreLocked` if it is somebody's."""
        try:
            folder = open_folder(LOCK, self._folder)
        except FileNotFoundError:
            return
        held = None
        try:
            owner = self._read_owner(LOCK, folder)
            self._judge(owner, folder)
            held = self._try_flock(folder)
            if held is None:
                raise StoreLocked(f"another sweep holds {self._url}; try again later")
            if not self._is_still(folder, owner):
                return
            aside = f"{ASIDE}{secrets.token_hex(8)}"
            rename_new(LOCK, aside, at=self._folder)
            self._clear(aside)
        except FileNotFoundError:
            return
        finally:
            for descriptor in (folder, held):
                if descriptor is not None:
                    os.close(descriptor)

    def _judge(self, owner: Owner | None, folder: int) -> None:
        """Raise `StoreLocked` unless a lock is stale, or was named to be broken."""
        age = time.time() - (os.fstat(folder).st_mtime if owner is None else owner.renewed)
        start = None if owner is None else start_of(owner.pid)
        found = standing(owner, self._me, start=start, age=age)
        if found is Standing.STALE or (owner is not None and owner.token == self._break):
            return
        who = f"process {owner.pid}" if owner is not None else "a process that has not said who it is"
        if found is Standing.FOREIGN and owner is not None:
            raise StoreLocked(
                f"a sweep on another machine holds {self._url}. If that machine is gone for good, run it "
                f"again with --break-lock {owner.token}"
            )
        raise StoreLocked(f"another sweep holds {self._url} ({who}); try again later")

    @staticmethod
    def _try_flock(folder: int) -> int | None:
        """Take the flock of a lock that is there; nothing if somebody has it."""
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(HELD, flags, 0o600, dir_fd=folder)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            return None
        return descriptor

    def _is_still(self, folder: int, owner: Owner | None) -> bool:
        """Say whether the lock whose flock we have is the one that lies there, with the same owner."""
        facts, now = os.fstat(folder), os.stat(LOCK, dir_fd=self._folder, follow_symlinks=False)
        if (facts.st_dev, facts.st_ino) != (now.st_dev, now.st_ino):
            return False
        again = self._read_owner(LOCK, folder)
        return (None if again is None else again.token) == (None if owner is None else owner.token)

    def _read_owner(self, name: str, folder: int | None = None) -> Owner | None:
        own = None
        try:
            own = open_folder(name, self._folder) if folder is None else None
            raw, _ = read_file(OWNER, folder if own is None else own, limit=MAX_OWNER_BYTES)  # type: ignore[arg-type]
        except OSError:
            return None
        finally:
            if own is not None:
                os.close(own)
        return read_owner(raw)

    def _clear_leftovers(self) -> None:
        """Remove what takers and makers left that were killed: all of it is old, and its flock free."""
        with os.scandir(self._folder) as entries:
            names = [entry.name for entry in entries]
        for name in names:
            if name.startswith(ASIDE):
                with suppress(OSError):
                    self._clear_if_free(name)

    def _clear_if_free(self, name: str) -> None:
        folder = open_folder(name, self._folder)
        held = None
        try:
            if time.time() - os.fstat(folder).st_ctime <= MAKING:
                return  # somebody may be making it just now
            held = self._try_flock(folder)
            if held is not None:
                self._clear(name)
        finally:
            for descriptor in (folder, held):
                if descriptor is not None:
                    os.close(descriptor)

    def _clear(self, name: str) -> None:
        with suppress(OSError):
            remove_entry(name, self._folder, device=os.fstat(self._folder).st_dev)

    def _close(self) -> None:
        for descriptor in (self._held, self._own):
            if descriptor is not None:
                os.close(descriptor)
        self._held = self._own = None
