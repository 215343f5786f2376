"""A backup of the runs and results that go: written to a new tar file, verified, and at hand as a witness."""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

from afterrun.core.errors import BackupFailed, Refused, UsageError
from afterrun.core.facts import Key, Unit, key_text
from afterrun.core.report import Report
from afterrun.core.sweep import Clock
from afterrun.stores.directory.archive import CHUNK, Writer
from afterrun.stores.directory.backup_reading import verify
from afterrun.stores.directory.backup_records import END, HEAD, STORE, UNITS, End, Head, UnitRecord, head_of
from afterrun.stores.directory.contents import Item, Signature, combined, contents, sign_content
from afterrun.stores.directory.folders import FILE, Folders, open_folder, read_file
from afterrun.stores.directory.kind import DirectoryKind
from afterrun.stores.directory.names import shown
from afterrun.stores.directory.records import MAX_FILE_BYTES
from afterrun.stores.directory.removal import Target
from afterrun.stores.directory.site import FULL
from afterrun.stores.directory.store import DirectoryStore
from afterrun.stores.new_file import NewFile
from afterrun.stores.sql.backups import Backup, BackupOrder, Going, Held

ENTRY_BYTES: Final = 2_048
"""Bytes of an entry beside its content: headers, and what fills up its last block."""

FILLED: Final = 1.1
WHOLE: Final = (
    "of a directory there is one kind of backup, `removed`, which holds what goes; copy all of it by other "
    "means"
)
WORDS: Final = {
    "special-file": "there is a FIFO, a socket or a device among their files, which no backup holds",
    "unreadable": "something of them cannot be read",
    "changed": "something of them changed while it was read",
}


class Unsaved(Exception):
    """A unit that cannot be in a backup, so it stays; ``reason`` is one of `WORDS`."""

    def __init__(self, reason: str) -> None:
        """Take the reason."""
        super().__init__(reason)
        self.reason = reason


class TarWitness:
    """Says which units are no longer as they are in a backup."""

    def __init__(self, kind: DirectoryKind, held: Mapping[str, bytes]) -> None:
        """Take the digests of what is in the backup, by the text of the unit's key."""
        self._kind = kind
        self._held = held

    def recall(self, units: Sequence[Unit]) -> None:
        """Do nothing: the digests are at hand."""

    def differing(self, units: Sequence[Unit]) -> Collection[Key]:
        """Return the keys of those units that are not, where they lie now, what is in the backup."""
        return [
            unit.key for unit in units if self._kind.signed.get(unit.key) != self._held[key_text(unit.key)]
        ]

    def saved(self, table: str, keys: Sequence[Key]) -> Collection[Key]:  # noqa: ARG002 - of the protocol
        """Return none: a directory has no blobs."""
        return ()

    def confirm(self, rows: Mapping[str, int]) -> None:
        """Do nothing: what goes was compared under its tombstone's name."""


class DirectoryBackup:
    """Makes one backup of a store. Raises `UsageError` or `Refused` at once for a place that is not safe."""

    def __init__(self, store: DirectoryStore, order: BackupOrder, *, clock: Clock) -> None:
        """Check the place; nothing is written yet."""
        if order.kind != "removed":
            raise Refused("backup-kind", WHOLE)
        self._store = store
        self._clock = clock
        self._file = NewFile(order.path, store=Path(store.url))
        _check_outside(self._file.path.parent, store)
        self._held: dict[str, dict[str, bytes]] = {kind.kind: {} for kind in store.kinds}
        self._unsaved: dict[str, list[str]] = {}
        self._left: Counter[str] = Counter()
        self._folders = self._files = 0

    @property
    def draft(self) -> Path:
        """Return the name that the file grows under."""
        return self._file.draft

    @contextmanager
    def made(self, survey: Report, going: Going) -> Iterator[Backup]:
        """Make one file with all that is ``going``, verify it, and keep what it holds at hand.

        Raises `BackupFailed` or `Refused`: the store is unchanged, no file stays.
        """
        began = self._clock.monotonic()
        self._file.room(int(survey.logical_bytes * FILLED) + sum(survey.rows.values()) * ENTRY_BYTES)
        with self._file:
            checksum = self._write(head_of(self._store, survey), going)
            self._file.publish()
        self._store.work.signing = True
        try:
            yield self._backup(checksum, seconds=self._clock.monotonic() - began)
        finally:
            self._store.work.signing = False

    def _backup(self, checksum: str, *, seconds: float) -> Backup:
        kinds = {kind: len(held) for kind, held in self._held.items() if held}
        facts: dict[str, object] = {
            "kind": "removed",
            "path": str(self._file.path),
            "bytes": self._file.path.stat().st_size,
            "rows": {"folders": self._folders, "files": self._files},
            "seconds": round(seconds, 6),
            "longest_hold": 0.0,
            "blocked": 0.0,
            "cleared": self._file.cleared,
            "units": sum(kinds.values()),
            "kinds": kinds,
            "checksum": checksum,
        }
        held = {
            kind.kind: Held(self._held[kind.kind].keys(), TarWitness(kind, self._held[kind.kind]))
            for kind in self._store.kinds
        }
        return Backup(held=held, facts=facts, left=self._left, notices=tuple(self._notices()))

    def _notices(self) -> Iterator[str]:
        for reason, names in self._unsaved.items():
            count = f"{len(names)} units are" if len(names) > 1 else "1 unit is"
            yield f"{count} not in the backup, so it stays: {WORDS[reason]} (first: {shown(names[0])})"

    def _write(self, head: Head, going: Going) -> str:
        """Write all to the draft, and read it again. Raises `BackupFailed`."""
        try:
            descriptor = os.open(self._file.draft, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
            with os.fdopen(descriptor, "r+b", buffering=CHUNK) as file:
                end = self._fill(file, head, going)
                os.fsync(descriptor)
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)  # so that the disk is asked
                if verify(file) != (head, end):
                    raise BackupFailed("corrupt", "the backup is not what was written; nothing was removed")
        except OSError as error:
            kind = "disk-full" if error.errno in FULL else "io"
            raise BackupFailed(kind, f"the backup failed: {error.strerror}; the store is unchanged") from None
        return end.checksum

    def _fill(self, file: BinaryIO, head: Head, going: Going) -> End:
        writer = Writer(file)
        writer.record(HEAD, head.model_dump_json().encode())
        kinds = {kind.kind: kind for kind in self._store.kinds}
        number = 0
        with Folders(self._store.site.root.descriptor) as folders:
            for name, unit in going:
                mark, counted = writer.mark(), (self._folders, self._files)
                try:
                    targets = kinds[name].targets(unit)
                    record = _record(name, unit, targets)
                    writer.record(f"{UNITS}{number:06}.json", record.model_dump_json().encode())
                    copy = self._copy_folder if name == "directory" else self._copy_file
                    signs = {target.path: copy(writer, target, folders) for target in targets}
                except Unsaved as unsaved:
                    writer.back_to(mark)
                    self._folders, self._files = counted
                    self._unsaved.setdefault(unsaved.reason, []).append(key_text(unit.key))
                    self._left[name] += 1
                    continue
                self._held[name][key_text(unit.key)] = combined(signs)
                number += 1
        counts = {kind: len(held) for kind, held in self._held.items() if held}
        end = End(kinds=counts, folders=self._folders, files=self._files, checksum=writer.checksum)
        writer.record(END, end.model_dump_json().encode())
        writer.end()
        return end

    def _copy_folder(self, writer: Writer, target: Target, folders: Folders) -> bytes:
        """Write a run's folder with all that is in it. Raises `Unsaved`, and `OSError` of the backup."""
        signature, name = Signature(), "/".join(target.path)
        with _reading():
            folder = open_folder(target.path[-1], folders.at(target.path[:-1]))
        try:
            for item in _read(contents(folder)):
                if not item.path and item.facts.st_ino != target.inode:
                    raise Unsaved("changed")
                self._copy(writer, STORE + "/".join((name, *item.path)), item)
                signature.add(item.path, item.facts)
        finally:
            os.close(folder)
        return signature.digest()

    def _copy(self, writer: Writer, name: str, item: Item) -> None:
        """Write one entry."""
        if stat.S_ISDIR(item.facts.st_mode):
            writer.header(name, item.facts)
            self._folders += 1
            return
        if stat.S_ISLNK(item.facts.st_mode):
            with _reading():
                link = os.readlink(item.path[-1], dir_fd=item.folder)
            writer.header(name, item.facts, link=link)
        elif stat.S_ISREG(item.facts.st_mode):
            _copy_content(writer, name, item)
        else:
            raise Unsaved("special-file")
        self._files += 1

    def _copy_file(self, writer: Writer, target: Target, folders: Folders) -> bytes:
        """Write a result file."""
        with _reading():
            raw, facts = read_file(target.path[-1], folders.at(target.path[:-1]), limit=MAX_FILE_BYTES)
        if facts.st_ino != target.inode or facts.st_size != len(raw):
            raise Unsaved("changed")
        writer.header(STORE + "/".join(target.path), facts)
        writer.raw(raw)
        writer.pad(len(raw))
        self._files += 1
        return sign_content(raw)


def _copy_content(writer: Writer, name: str, item: Item) -> None:
    """Write a regular file, if it is the same before and after."""
    with _reading():
        descriptor = os.open(item.path[-1], FILE, dir_fd=item.folder)
    try:
        writer.header(name, item.facts)
        left = item.facts.st_size
        while left:
            with _reading():
                part = os.read(descriptor, min(CHUNK, left))
            if not part:
                raise Unsaved("changed")
            writer.raw(part)
            left -= len(part)
        writer.pad(item.facts.st_size)
        with _reading():
            after = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    if _moments(after) != _moments(item.facts):
        raise Unsaved("changed")


def _moments(facts: os.stat_result) -> tuple[int, ...]:
    return facts.st_ino, facts.st_mode, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns


@contextmanager
def _reading() -> Iterator[None]:
    """Turn what fails while the store is read into `Unsaved`; the backup's own failures are others."""
    try:
        yield
    except FileNotFoundError:
        raise Unsaved("changed") from None
    except OSError:
        raise Unsaved("unreadable") from None


def _read(items: Iterator[Item]) -> Iterator[Item]:
    """Yield items; what fails while they are read is the unit's."""
    while True:
        with _reading():
            item = next(items, None)
        if item is None:
            return
        yield item


def _record(kind: str, unit: Unit, targets: Sequence[Target]) -> UnitRecord:
    members = [{"run": target.run or target.path[-1], "path": target.path} for target in targets]
    return UnitRecord.model_validate({"kind": kind, "unit": key_text(unit.key), "members": members})


def _check_outside(folder: Path, store: DirectoryStore) -> None:
    """Refuse a folder in the store itself, by whatever path. Raises `UsageError`."""
    root = store.site.root
    for above in (folder, *folder.parents):
        facts = above.stat()
        if (facts.st_dev, facts.st_ino) == (root.device, root.inode):
            raise UsageError(f"{folder} is in the store itself: choose a folder elsewhere")
