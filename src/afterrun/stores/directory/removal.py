"""One batch of removals: written down, renamed away, read again, then deleted or put back.

The journal says durably what every tombstone is before the first rename, and that it is to be deleted before
the first deletion. So whoever is killed leaves runs that are whole, or that the next sweep removes whole.
"""

from __future__ import annotations

import os
import secrets
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from types import TracebackType
from typing import NamedTuple, Protocol, Self

from afterrun.core.errors import StoreFailure, UnitFailure
from afterrun.core.facts import Key, Unit, key_text
from afterrun.core.times import Instant, micros
from afterrun.stores.directory.folders import Folders, folder_at, remove_entry, rename_new
from afterrun.stores.directory.journal import Batch, Entry
from afterrun.stores.directory.mounts import is_mounted, mounts_below
from afterrun.stores.directory.names import shown
from afterrun.stores.directory.site import failure
from afterrun.stores.directory.sweeping import Sweeping, new_tombstone

Places = Mapping[Key, tuple[str, ...]]
"""Where the members of units are now, by key."""


class Target(NamedTuple):
    """A member of a unit that is to be renamed. ``inode`` is what it had when it was judged."""

    key: Key
    run: str
    path: tuple[str, ...]
    inode: int


class Movable(Protocol):
    """A kind of units, as a batch asks about it."""

    kind: str

    def targets(self, unit: Unit) -> Sequence[Target]:
        """Return the members of a unit and where they are."""

    def again(self, units: Sequence[Unit], places: Places) -> Sequence[Unit]:
        """Read units again, at the places where their members are now."""

    def sign(self, units: Sequence[Unit], places: Places) -> None:
        """Keep what units are at these places, if a backup will be asked about it."""

    def taken(self, unit: Unit) -> Mapping[str, int]:
        """Return what a unit took when it was read again: folders and files."""


class DirectoryTransaction:
    """One batch, behind the store protocol. ``held`` are the seconds that runs were not in their place."""

    def __init__(self, sweeping: Sweeping, kind: Movable, *, trash: timedelta | None) -> None:
        """Prepare a batch; with ``trash``, what goes is kept as it is for so long."""
        self._sweeping = sweeping
        self._root = sweeping.site.root
        self._folders = Folders(self._root.descriptor)
        self._kind = kind
        self._trash = trash
        self._batch = Batch(secrets.token_hex(16), self._root.device, ())
        self._moved: list[Entry] = []
        self._going: list[Unit] = []
        self._began: float | None = None
        self.held = 0.0
        self.beyond: Mapping[str, int] = {}
        self.left: list[str] = []

    def __enter__(self) -> Self:
        """Begin. Raises `StoreFailure` if the store is no longer ours."""
        self._sweeping.check()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Delete what is to go and put the rest back; after an exception, put everything back."""
        going = frozenset(key_text(unit.key) for unit in self._going) if error is None else frozenset()
        back = [entry for entry in self._moved if entry.unit not in going]
        try:
            self._put_back(back)
            if going:
                self._commit(going)
        except OSError as fault:
            raise failure(fault, f"the journal of {self._sweeping.site.url}") from None
        finally:
            self._stop()
        self._sweeping.done.skipped["came-back"] += len({entry.unit for entry in back})
        self._sweeping.done.went(self._kind.kind, sorted(going))
        if going and self._trash is None:
            self._delete()
        self._folders.close()
        self._settle()

    def units(self, units: Sequence[Unit]) -> Sequence[Unit]:
        """Move these units away and read them again there."""
        entries = {key_text(unit.key): self._entries(unit) for unit in units}
        listed = tuple(entry for found in entries.values() for entry in found)
        if not listed:
            return []
        self._batch = Batch(self._batch.name, self._batch.root, listed)
        try:
            self._sweeping.journal.write(self._batch)
        except OSError as error:
            raise failure(error, f"the journal of {self._sweeping.site.url}") from None
        self._began = time.monotonic()
        there = [unit for unit in units if self._move(entries[key_text(unit.key)])]
        names = {(entry.kind, entry.path): entry.place for entry in self._moved}
        places = {
            target.key: names[self._kind.kind, target.path]
            for unit in there
            for target in self._kind.targets(unit)
        }
        found = self._kind.again(there, places)
        self._kind.sign(there, places)
        return found

    def remove(self, units: Sequence[Unit], *, max_rows: int) -> Mapping[str, int]:  # noqa: ARG002 - no lock waits
        """Note what is to go; it goes when the batch ends, and ``beyond`` says then what that was."""
        self._going.extend(units)
        return {}

    def _entries(self, unit: Unit) -> list[Entry]:
        """Return what the journal says of a unit; nothing if a member is not what was judged."""
        now, found = _now(), []
        for target in self._kind.targets(unit):
            try:
                facts = self._folders.lstat(target.path)
            except OSError:
                return []
            if facts is None or facts.st_ino != target.inode or facts.st_dev != self._root.device:
                return []
            found.append(
                Entry(
                    key_text(unit.key),
                    self._kind.kind,
                    target.run,
                    target.path,
                    new_tombstone(),
                    facts.st_ino,
                    facts.st_dev,
                    unit.end,
                    now,
                    "moved",
                )
            )
        return found

    def _move(self, entries: Sequence[Entry]) -> bool:
        """Rename all members of a unit; say whether it was all there."""
        for entry in entries:
            self._sweeping.check()
            self._moved.append(entry)  # first, so that whatever ends this here puts it back
            try:
                rename_new(entry.path[-1], entry.tombstone, at=self._folders.at(entry.path[:-1]))
            except FileNotFoundError:
                return False
            except OSError as error:
                raise UnitFailure("io", f"it cannot be renamed: {error.strerror}") from None
        return bool(entries)

    def _put_back(self, entries: Sequence[Entry]) -> None:
        """Rename back; where the name is taken again, the tombstone stays, and the journal names it."""
        back = [entry for entry in entries if put_back(self._root.descriptor, entry)]
        stuck = [entry for entry in entries if entry not in back]
        self.left.extend(_displaced(entry) for entry in stuck)
        gone = set(self._batch.entries) - set(self._moved)
        self._moved = [entry for entry in self._moved if entry not in back]
        self._batch = self._batch.without([*back, *gone])

    def _commit(self, going: Collection[str]) -> None:
        """Write durably that what is left goes."""
        self._sweeping.check()
        if self._trash is None:
            batch = self._batch.having("deleting", frozenset(going))
        else:
            batch = self._batch.having("trash", frozenset(going), until=_now() + micros(self._trash))
        try:
            self._sweeping.journal.write(batch)
        except OSError:
            self._put_back([entry for entry in self._moved if entry.unit in going])
            raise
        self._batch = batch
        if self._trash is not None:
            for unit in self._going:
                self._count(self._kind.taken(unit))

    def _delete(self) -> None:
        done = []
        for entry in deletable(self._sweeping, self._batch.entries):
            try:
                folders, files = delete(self._sweeping, entry, self._folders)
            except InterruptedError:
                break
            except OSError as error:
                self.left.append(f"a removed run is not yet deleted: {error.strerror}")
                continue
            done.append(entry)
            self._count({"folders": folders, "files": files})
        self._batch = self._batch.without(done)

    def _count(self, went: Mapping[str, int]) -> None:
        self.beyond = +(Counter(self.beyond) + Counter(went))

    def _settle(self) -> None:
        """Drop the record of what is done; keep that of tombstones. What was written before says enough."""
        self._sweeping.notices.extend(self.left)
        if not self._batch.entries:
            self._sweeping.journal.forget(self._batch)
        elif self._trash is None or self.left:
            with suppress(OSError):
                self._sweeping.journal.settle(self._batch)

    def _stop(self) -> None:
        if self._began is not None:
            self.held = time.monotonic() - self._began


def put_back(root: int, entry: Entry) -> bool:
    """Rename a tombstone back if its name is free; say whether nothing of it is left to do."""
    try:
        with folder_at(root, entry.path[:-1]) as folder:
            rename_new(entry.tombstone, entry.path[-1], at=folder)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def deletable(sweeping: Sweeping, entries: Sequence[Entry]) -> Iterator[Entry]:
    """Yield the tombstones that are to be deleted and below which nothing is mounted, now."""
    mounts = mounts_below(sweeping.site.root.path)
    for entry in entries:
        if entry.state == "deleting" and not is_mounted(entry.place, mounts):
            yield entry


def delete(sweeping: Sweeping, entry: Entry, folders: Folders) -> tuple[int, int]:
    """Delete a tombstone, if it is the one that the journal means. Raises `OSError`, `StoreFailure`.

    Returns how many folders and files went. Half of it may be gone already.
    """
    sweeping.check()
    root = sweeping.site.root
    facts = folders.lstat(entry.place)
    if facts is None:
        return 0, 0
    if entry.state != "laying" and not is_same(entry, facts, root.device):
        raise StoreFailure(
            "journal", f"{shown(entry.tombstone)} is not what the journal says; nothing is deleted"
        )
    above = entry.path[:-1]
    went = remove_entry(
        entry.tombstone, folders.at(above), device=root.device, halt=sweeping.site.halt, facts=facts
    )
    sweeping.site.gone[above] += bool(went[0])
    if entry.kind == "directory" and sweeping.site.is_of_a_run(above):
        with suppress(OSError):  # others are still in it
            os.rmdir(above[-1], dir_fd=folders.at(above[:-1]))
    return went


def is_same(entry: Entry, facts: os.stat_result, device: int) -> bool:
    """Say whether an entry is what the journal means; every tombstone is on the device of its store."""
    return facts.st_ino == entry.inode and facts.st_dev == device


def _displaced(entry: Entry) -> str:
    return (
        f"{shown('/'.join(entry.path))} is there again while the run of that name was being read: the older "
        f"one stays as {entry.tombstone}"
    )


def _now() -> Instant:
    return time.time_ns() // 1_000
