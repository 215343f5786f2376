"""Put runs and results back from a backup: each unit is laid out beside its place, then renamed into it.

The journal says meanwhile what is to become of what was laid out: to be deleted until it is whole, and then
to be put back. So whoever is killed leaves a unit that is back, or will be with the next sweep, or nothing.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final, Protocol

from afterrun.core.errors import Refused, StoreFailure, StoreUnreadable, UnitNotFound
from afterrun.stores.directory.archive import CHUNK
from afterrun.stores.directory.backup_reading import BackupReader, Content, verify
from afterrun.stores.directory.backup_records import Head, UnitRecord
from afterrun.stores.directory.contents import contents
from afterrun.stores.directory.folders import FILE, Folders, folder_at, lstat_at, open_folder
from afterrun.stores.directory.laying import Laid
from afterrun.stores.directory.names import Source, matches, shown
from afterrun.stores.directory.site import failure
from afterrun.stores.directory.store import DirectoryStore
from afterrun.stores.directory.sweeping import Sweeping
from afterrun.stores.sql.backups import IS_BACK, NAMED, Restored, identity_digest

BACK: Final = "it is in the store again"
NO_PLACE: Final = "no-place"
"""Name of the reason why a unit is not put back that the profile has no place for."""


class Taking(Protocol):
    """What becomes of the contents of one unit."""

    def take(self, content: Content, chunks: Iterator[bytes]) -> None:
        """Take in the next entry."""

    def finish(self) -> bool:
        """Say, after the last entry, whether all is as it should be."""

    def drop(self) -> None:
        """Leave nothing behind."""


class DirectoryRestore:
    """Puts units back into a store whose lock is held."""

    def __init__(self, store: DirectoryStore) -> None:
        """Take a store; nothing is done yet."""
        self._store = store
        self.so_far: Restored | None = None

    def run(self, path: Path, run: str | None) -> Restored:
        """Restore the unit of one run, or all.

        Raises `StoreUnreadable`, `Refused`, `BackupFailed`, `UnitNotFound`.
        """
        held = self._store.work.held
        if held is None:
            raise StoreFailure("lock-lost", "nothing comes back into a directory that is not held")
        with _opened(path) as file:
            head, _ = verify(file)
            report = self.so_far = self._report(head, path)
            pass_ = _Pass(held, self._store, report, run)
            try:
                pass_.over(BackupReader(file))
            except OSError as error:
                raise failure(error, f"a unit cannot be put back into {self._store.url}") from None
        if run is not None and not pass_.found:
            raise UnitNotFound(f"the backup {path} has no unit with the id {shown(run)!r}")
        if run is not None and pass_.reason:
            raise Refused(pass_.reason, f"not restored: {next(iter(report.refused))}. Nothing was changed")
        return report

    def _report(self, head: Head, path: Path) -> Restored:
        store = self._store
        if head.profile != store.profile_name:
            raise Refused(
                "other-profile",
                f"the backup was made with the profile {head.profile[:40]}, this is {store.profile_name}",
            )
        report = Restored(store=store.url, profile=store.profile_name, backup=str(path), made_at=head.made_at)
        if head.identity != identity_digest(store.identity):
            report.notices.append(
                f"the backup was made of {shown(head.store)}, this store is elsewhere; its profile is the "
                "same, so it was taken for the same store, moved"
            )
        return report


class _Pass:
    """One pass over a backup. ``found`` says whether the run that was asked for is in it."""

    def __init__(self, held: Sweeping, store: DirectoryStore, report: Restored, run: str | None) -> None:
        self._held = held
        self._root = store.site.root.descriptor
        self._sources = {"directory": store.site.runs, "result": store.site.results}
        self._report = report
        self._run = run
        self._unit: UnitRecord | None = None
        self._taking: Taking | None = None
        self._counts = [0, 0]
        self.found = False
        self.reason = ""

    def over(self, reader: BackupReader) -> None:
        """Take in all parts. What is laid out goes if this is cut off."""
        try:
            for part in reader.parts():
                if isinstance(part, Content):
                    self._content(part, reader)
                else:
                    self._finish()
                    if isinstance(part, UnitRecord):
                        self._begin(part)
        except BaseException:
            if self._taking is not None:
                self._taking.drop()
            raise

    def _begin(self, unit: UnitRecord) -> None:
        if self._run is not None and (self.found or self._run not in _names(unit)):
            return
        self.found, self._unit, self._counts = True, unit, [0, 0]
        paths = [kept.path for kept in unit.members]
        if not all(_fits(path, self._sources[unit.kind]) for path in paths):
            self._refuse(NO_PLACE, "the profile knows no such place")
            return
        there = [lstat_at(self._root, path) is not None for path in paths]
        if all(there):
            self._taking = Compared(self._root, unit)
        elif any(there):
            self._refuse(IS_BACK, BACK)
        else:
            self._held.check()
            self._taking = Laid(self._held, unit)

    def _content(self, part: Content, reader: BackupReader) -> None:
        if self._taking is not None:
            self._taking.take(part, reader.reader.chunks())
            self._counts[not stat.S_ISDIR(part.member.kind)] += 1

    def _finish(self) -> None:
        taking, unit = self._taking, self._unit
        if taking is None or unit is None:
            return
        right = taking.finish()
        self._taking = None
        if not right:
            self._refuse(IS_BACK, BACK)
        elif isinstance(taking, Compared):
            self._report.present += 1
        else:
            self._report.units += 1
            self._report.kinds[unit.kind] += 1
            self._report.members += len(unit.members) if unit.kind == "directory" else 0
            self._report.rows.update({"folders": self._counts[0], "files": self._counts[1]})

    def _refuse(self, reason: str, why: str) -> None:
        self.reason = reason
        self._report.refused[why] += 1
        if self._unit is not None and len(self._report.named) < NAMED:
            self._report.named.append(shown(self._unit.unit))


class Compared:
    """Compares a unit that is in the store with the backup, entry by entry; changes nothing."""

    def __init__(self, root: int, unit: UnitRecord) -> None:
        """Take a unit all members of which are there."""
        self._root = root
        self._unit = unit
        self._same = True
        self._entries = 0

    def take(self, content: Content, chunks: Iterator[bytes]) -> None:
        """Compare the next entry."""
        self._entries += 1
        path = (*self._unit.members[content.number].path, *content.path)
        with suppress(OSError), Folders(self._root) as folders:
            facts = folders.lstat(path)
            if facts is not None and stat.S_IFMT(facts.st_mode) == content.member.kind:
                self._same &= _is_same(path[-1], folders.at(path[:-1]), facts, content, chunks)
                return
        self._same = False

    def finish(self) -> bool:
        """Say whether all is the same and nothing was added."""
        try:
            found = sum(_number_of_entries(self._root, kept.path) for kept in self._unit.members)
        except OSError:
            return False
        return self._same and found == self._entries

    def drop(self) -> None:
        """Do nothing."""


def _is_same(
    name: str, folder: int, facts: os.stat_result, content: Content, chunks: Iterator[bytes]
) -> bool:
    """Compare one entry of a kind. Raises `OSError`."""
    member = content.member
    if stat.S_ISLNK(member.kind):
        return os.readlink(name, dir_fd=folder) == member.link
    if stat.S_ISDIR(member.kind):
        return True
    if (facts.st_size, facts.st_mtime_ns) != (member.size, member.mtime_ns):
        return False
    descriptor = os.open(name, FILE, dir_fd=folder)
    with os.fdopen(descriptor, "rb") as file:
        return all(file.read(len(part)) == part for part in chunks)


def _number_of_entries(root: int, path: Sequence[str]) -> int:
    with folder_at(root, path[:-1]) as above:
        if not stat.S_ISDIR(os.stat(path[-1], dir_fd=above, follow_symlinks=False).st_mode):
            return 1
        folder = open_folder(path[-1], above)
        try:
            return sum(1 for _ in contents(folder))
        finally:
            os.close(folder)


def _names(unit: UnitRecord) -> set[str]:
    return {unit.unit, *(kept.run for kept in unit.members), *("/".join(kept.path) for kept in unit.members)}


def _fits(path: tuple[str, ...], sources: Sequence[Source]) -> bool:
    """Say whether a profile has such a place."""
    return any(len(path) == len(source.parts) and all(map(matches, path, source.parts)) for source in sources)


def _opened(path: Path) -> BinaryIO:
    """Open a backup to read it. Raises `StoreUnreadable`."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it has a NUL character"
        raise StoreUnreadable(f"the backup {path} cannot be reached: {why}") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise StoreUnreadable(f"the backup {path} is no regular file")
    return os.fdopen(descriptor, "rb", buffering=CHUNK)
