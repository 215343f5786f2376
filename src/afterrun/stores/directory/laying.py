"""One unit of a backup, laid out beside its place under hidden names, then renamed into it."""

from __future__ import annotations

import os
import secrets
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from afterrun.core.errors import StoreFailure
from afterrun.stores.directory.archive import PERMISSIONS, Member
from afterrun.stores.directory.backup_reading import Content
from afterrun.stores.directory.backup_records import UnitRecord
from afterrun.stores.directory.folders import (
    Folders,
    folder_at,
    open_folder,
    remove_entry,
    rename_new,
    sync_volume,
)
from afterrun.stores.directory.journal import Batch, Entry
from afterrun.stores.directory.removal import put_back
from afterrun.stores.directory.sweeping import Sweeping, new_tombstone

NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class Laid:
    """A unit that is being laid out. The journal has it from before its first file."""

    def __init__(self, held: Sweeping, unit: UnitRecord) -> None:
        """Make a hidden, empty place for each member. Raises `OSError`, `StoreFailure`."""
        self._held = held
        self._root = held.site.root
        self._later: list[tuple[tuple[str, ...], Member]] = []
        entries = tuple(self._entry(unit, kept.run, kept.path) for kept in unit.members)
        self._batch = Batch(secrets.token_hex(16), self._root.device, entries)
        held.journal.write(self._batch)
        try:
            self._batch = replace(self._batch, entries=tuple(map(self._made, entries)))
        except BaseException:
            self.drop()
            raise

    def _entry(self, unit: UnitRecord, run: str, path: tuple[str, ...]) -> Entry:
        now, device = time.time_ns() // 1_000, self._root.device
        return Entry(unit.unit, unit.kind, run, path, new_tombstone(), 0, device, None, now, "laying")

    def _made(self, entry: Entry) -> Entry:
        """Make an empty folder or file, and say in its entry which it is."""
        folder = self._above(entry.path[:-1])
        try:
            if entry.kind == "directory":
                os.mkdir(entry.tombstone, 0o700, dir_fd=folder)
            else:
                os.close(os.open(entry.tombstone, NEW, 0o600, dir_fd=folder))
            facts = os.stat(entry.tombstone, dir_fd=folder, follow_symlinks=False)
        finally:
            os.close(folder)
        return replace(entry, inode=facts.st_ino)

    def _above(self, path: Sequence[str]) -> int:
        """Open the folder above a member; what is missing on the way is made like the folder it is in."""
        current = os.dup(self._root.descriptor)
        for part in path:
            try:
                following = _entered(part, current)
            finally:
                os.close(current)
            current = following
        if os.fstat(current).st_dev != self._root.device:
            os.close(current)
            raise StoreFailure("io", "a folder above a run is on another file system")
        return current

    def take(self, content: Content, chunks: Iterator[bytes]) -> None:
        """Lay out the next entry. Raises `OSError`."""
        entry, member = self._batch.entries[content.number], content.member
        path = (*entry.place, *content.path)
        with Folders(self._root.descriptor) as folders:
            name, folder = path[-1], folders.at(path[:-1])
            if stat.S_ISDIR(member.kind):
                if content.path:
                    os.mkdir(name, 0o700, dir_fd=folder)
                self._later.append((path, member))
            elif stat.S_ISLNK(member.kind):
                os.symlink(member.link, name, dir_fd=folder)
                _own(name, folder, uid=member.uid, gid=member.gid)
                _date(name, folder, member)
            else:
                flags = NEW if content.path else NEW & ~(os.O_CREAT | os.O_EXCL)
                _fill(os.open(name, flags, 0o600, dir_fd=folder), chunks)
                _dress(name, folder, member)

    def finish(self) -> bool:
        """Rename all members into their places; say whether these were free."""
        with Folders(self._root.descriptor) as folders:
            for path, member in reversed(self._later):
                _dress(path[-1], folders.at(path[:-1]), member)
        sync_volume(self._root.descriptor)
        self._held.check()
        self._batch = self._batch.having("moved", frozenset(entry.unit for entry in self._batch.entries))
        self._held.journal.write(self._batch)
        done: list[Entry] = []
        for entry in self._batch.entries:
            if not put_back(self._root.descriptor, entry):
                self._take_back(done)
                self.drop()
                return False
            done.append(entry)
        self._held.journal.forget(self._batch)
        return True

    def _take_back(self, done: Sequence[Entry]) -> None:
        """Hide members again, since another one cannot come."""
        for entry in done:
            with folder_at(self._root.descriptor, entry.path[:-1]) as folder:
                rename_new(entry.path[-1], entry.tombstone, at=folder)

    def drop(self) -> None:
        """Remove what was laid out; what cannot be removed now goes with the next sweep."""
        left = []
        for entry in self._batch.entries:
            try:
                with folder_at(self._root.descriptor, entry.place[:-1]) as folder:
                    remove_entry(entry.tombstone, folder, device=self._root.device)
            except FileNotFoundError:
                continue
            except OSError:
                left.append(entry)
        batch = Batch(self._batch.name, self._batch.root, tuple(left))
        with suppress(OSError):
            self._held.journal.settle(batch.having("laying", frozenset(entry.unit for entry in left)))


def _entered(name: str, folder: int) -> int:
    """Open a folder, made if it is not there, with owner and mode of the one that it is in."""
    try:
        return open_folder(name, folder)
    except FileNotFoundError:
        pass
    try:
        os.mkdir(name, 0o700, dir_fd=folder)
    except FileExistsError:  # somebody was faster
        return open_folder(name, folder)
    facts = os.fstat(folder)
    _own(name, folder, uid=facts.st_uid, gid=facts.st_gid)
    made = open_folder(name, folder)
    os.fchmod(made, stat.S_IMODE(facts.st_mode) & PERMISSIONS)
    return made


def _fill(descriptor: int, chunks: Iterator[bytes]) -> None:
    with os.fdopen(descriptor, "wb") as file:
        for part in chunks:
            file.write(part)


def _dress(name: str, folder: int, member: Member) -> None:
    """Give a file or folder its owner, mode and time."""
    _own(name, folder, uid=member.uid, gid=member.gid)
    descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        os.fchmod(descriptor, member.mode)
    finally:
        os.close(descriptor)
    _date(name, folder, member)


def _own(name: str, folder: int, *, uid: int, gid: int) -> None:
    """Give an entry its owner; only the superuser can, and anybody else owns what he puts back."""
    if os.geteuid() == 0:
        with suppress(OSError):
            os.chown(name, uid, gid, dir_fd=folder, follow_symlinks=False)


def _date(name: str, folder: int, member: Member) -> None:
    moments = (member.mtime_ns, member.mtime_ns)
    os.utime(name, ns=moments, dir_fd=folder, follow_symlinks=False)
