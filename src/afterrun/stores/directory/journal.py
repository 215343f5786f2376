"""The journal of removals: what every tombstone was, written durably before any run is renamed.

One file a batch, replaced whole. Whoever is killed leaves a file from which the next sweep puts back what was
only moved, and ends what was being deleted.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, get_args

from afterrun.core.times import Instant
from afterrun.stores.directory.folders import open_folder, read_file
from afterrun.stores.directory.names import OURS

FOLDER: Final = "journal"
SUFFIX: Final = ".json"
NEW: Final = ".new"
VERSION: Final = 1
MAX_BYTES: Final = 64 * 1024 * 1024
State = Literal["moved", "deleting", "trash", "laying"]
"""What becomes of a tombstone: back, away, away in its time; or it comes from a backup and is not whole."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One run folder or result file that was renamed.

    ``unit`` is the key of the unit it belongs to, ``run`` the run's id, ``path`` where it was, ``tombstone``
    its name now, in the same folder. ``at`` is when it was renamed, ``until`` how long it stays in the trash.
    What comes from a backup has no ``inode`` in the journal before it is whole.
    """

    unit: str
    kind: str
    run: str
    path: tuple[str, ...]
    tombstone: str
    inode: int
    device: int
    end: Instant | None
    at: Instant
    state: State
    until: Instant = 0

    @property
    def place(self) -> tuple[str, ...]:
        """Return where the tombstone is."""
        return (*self.path[:-1], self.tombstone)


@dataclass(frozen=True, slots=True)
class Batch:
    """The entries of one batch; ``root`` is the device that the store was on."""

    name: str
    root: int
    entries: tuple[Entry, ...]

    def having(self, state: State, units: frozenset[str], *, until: Instant = 0) -> Batch:
        """Return the same batch with the entries of these units in another state."""
        changed = (
            replace(entry, state=state, until=until) if entry.unit in units else entry
            for entry in self.entries
        )
        return replace(self, entries=tuple(changed))

    def without(self, gone: Sequence[Entry]) -> Batch:
        """Return the same batch without these entries."""
        left = set(gone)
        return replace(self, entries=tuple(entry for entry in self.entries if entry not in left))


class Journal:
    """The batches that are not done, below our own folder in a store."""

    def __init__(self, folder: int, *, make: bool = True) -> None:
        """Take a descriptor of our own folder; without ``make``, a journal is there. Raises `OSError`."""
        if make:
            with suppress(FileExistsError):
                os.mkdir(FOLDER, 0o700, dir_fd=folder)
        self._folder = open_folder(FOLDER, folder)

    def close(self) -> None:
        """Let go of the folder."""
        os.close(self._folder)

    def write(self, batch: Batch) -> None:
        """Write a batch durably. Raises `OSError`."""
        name = batch.name + SUFFIX
        raw = json.dumps(
            {"version": VERSION, "root": batch.root, "entries": [_plain(entry) for entry in batch.entries]}
        )
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(name + NEW, flags, 0o600, dir_fd=self._folder)
        try:
            with os.fdopen(descriptor, "wb", closefd=False) as file:
                file.write(raw.encode())
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.rename(name + NEW, name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        os.fsync(self._folder)

    def forget(self, batch: Batch) -> None:
        """Drop a batch that is done. Not durably: what it names is gone, so it says nothing any more."""
        with suppress(FileNotFoundError):
            os.unlink(batch.name + SUFFIX, dir_fd=self._folder)

    def settle(self, batch: Batch) -> None:
        """Keep what is left of a batch, or drop it."""
        if batch.entries:
            self.write(batch)
        else:
            self.forget(batch)

    def names(self) -> list[str]:
        """Return the names of all batches, and of what is no batch."""
        return sorted(name for name in self._all() if not name.endswith(NEW))

    def _all(self) -> list[str]:
        with os.scandir(self._folder) as entries:
            return [entry.name for entry in entries]

    def clear_new(self) -> None:
        """Remove halves of files that a killed writer left."""
        for name in self._all():
            if name.endswith(NEW):
                os.unlink(name, dir_fd=self._folder)

    def batches(self) -> Iterator[Batch | str]:
        """Yield all batches; of one that cannot be read, the name of its file."""
        for name in self.names():
            batch = self._read(name)
            yield name if batch is None else batch

    def _read(self, name: str) -> Batch | None:
        try:
            data: Any = json.loads(read_file(name, self._folder, limit=MAX_BYTES)[0])
            entries = tuple(_entry(item) for item in data["entries"])
            good = data["version"] == VERSION and type(data["root"]) is int
        except (OSError, ValueError, TypeError, KeyError, RecursionError):
            return None
        return Batch(name.removesuffix(SUFFIX), data["root"], entries) if good else None


@contextmanager
def looking(root: int) -> Iterator[Journal | None]:
    """Give the journal of a store to read; nothing if it has none. Raises `OSError`."""
    try:
        folder = open_folder(OURS, root)
    except FileNotFoundError:
        yield None
        return
    try:
        journal = Journal(folder, make=False)
    except FileNotFoundError:
        yield None
        return
    finally:
        os.close(folder)
    try:
        yield journal
    finally:
        journal.close()


def _plain(entry: Entry) -> dict[str, object]:
    """Return an entry as plain values; by hand, since a sweep writes two of these for each run."""
    return {
        "unit": entry.unit,
        "kind": entry.kind,
        "run": entry.run,
        "path": entry.path,
        "tombstone": entry.tombstone,
        "inode": entry.inode,
        "device": entry.device,
        "end": entry.end,
        "at": entry.at,
        "state": entry.state,
        "until": entry.until,
    }


def _entry(item: dict[str, Any]) -> Entry:
    """Read one entry. Raises `ValueError`, `TypeError` or `KeyError` for a malformed one."""
    entry = Entry(**{**item, "path": tuple(item["path"])})
    parts = (*entry.path, entry.tombstone)
    if not entry.path or any(part in ("", ".", "..") or "/" in part for part in parts):
        raise ValueError("a path that leads out of the store")
    if entry.state not in get_args(State) or not entry.tombstone.startswith(OURS):
        raise ValueError("a malformed entry")
    if not all(type(number) is int for number in (entry.inode, entry.device, entry.at, entry.until)):
        raise ValueError("a malformed number")
    return entry
