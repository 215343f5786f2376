"""One run folder as it is read from disk: its row, and what it names. The file of its status is read once."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from afterrun.core.facts import UNREADABLE, Flag, Key, Reason, Scalar, Status
from afterrun.core.times import Instant
from afterrun.core.tree import TreeModel
from afterrun.profiles.directory import Directories
from afterrun.stores.directory.folders import changed, open_folder, read_file
from afterrun.stores.directory.names import shown
from afterrun.stores.directory.records import MAX_FILE_BYTES, parse, status_of
from afterrun.stores.directory.references import named_by, naming
from afterrun.stores.directory.site import Site

MALFORMED: Final = "\0malformed"
"""State of a run whose status says nothing. Its fault blocks it, so the state itself is no further reason."""

ENDED: Final = "\0ended"
"""State of a run of which only age tells that it has ended."""


class Entry(NamedTuple):
    """A run folder.

    Attributes:
        path: where it is, below the store.
        run: its id, by which others refer to it.
        state: the word of its status, `MALFORMED` or `ENDED`.
        end: the newest of its logical end and the changes of its folder and status.
        inode: that of its folder; 0 if it could not be opened.
        faults: what blocks it, whatever the policy says.
        parent: the id of its parent.
        children: ids that it names as its children.
        named: what its status names, for each reference of the profile.
        logical: the end in its status, without the changes of files.
    """

    path: tuple[str, ...]
    run: str
    state: str
    end: Instant | None
    inode: int
    faults: tuple[Reason, ...] = ()
    parent: str | None = None
    children: tuple[str, ...] = ()
    group: tuple[Scalar, ...] = ()
    named: tuple[tuple[object, ...], ...] = ()
    logical: Instant | None = None


class EntryTable(Mapping[Key, Entry]):
    """Entries by key, each kept as a plain tuple.

    Python's search for cycles forgets plain tuples of plain values, and looks at named ones again and again:
    with 34,000 of these one such search stopped a host's event loop for 200 ms.
    """

    def __init__(self, entries: Iterable[tuple[Key, Entry]] = ()) -> None:
        """Take some entries."""
        self._kept: dict[Key, tuple[Any, ...]] = {}
        self.update(entries)

    def __setitem__(self, key: Key, entry: Entry) -> None:
        """Keep an entry."""
        plain = entry if not entry.faults else entry._replace(faults=tuple(map(tuple, entry.faults)))  # type: ignore[arg-type]
        self._kept[key] = tuple(plain)

    def __getitem__(self, key: Key) -> Entry:
        """Return an entry."""
        entry = Entry._make(self._kept[key])
        if entry.faults:
            return entry._replace(faults=tuple(Reason(*fault) for fault in entry.faults))
        return entry

    def __contains__(self, key: object) -> bool:
        """Say whether there is an entry."""
        return key in self._kept

    def __iter__(self) -> Iterator[Key]:
        """Yield the keys."""
        return iter(self._kept)

    def __len__(self) -> int:
        """Return how many entries there are."""
        return len(self._kept)

    def update(self, entries: Iterable[tuple[Key, Entry]]) -> None:
        """Keep several entries."""
        for key, entry in entries:
            self[key] = entry

    def clear(self) -> None:
        """Forget all, one by one."""
        while self._kept:
            self._kept.popitem()

    def state(self, key: Key) -> str:
        """Return the word of a run's status."""
        return str(self._kept[key][STATE])


STATE: Final = Entry._fields.index("state")


def tree_model(units: Directories) -> TreeModel:
    """Return what the profile says of trees, with our own two states."""
    states: dict[Scalar, Status] = {MALFORMED: Status.TERMINAL, ENDED: Status.TERMINAL}
    status = units.status
    if status is None:
        return TreeModel(states, 1, "root")
    states |= dict.fromkeys(status.live, Status.LIVE)
    states |= dict.fromkeys(status.terminal, Status.TERMINAL)
    states |= dict.fromkeys(status.successful, Status.SUCCESSFUL)
    return TreeModel(states, status.max_depth, status.missing)


def broken(path: tuple[str, ...], fault: Reason) -> Entry:
    """Return an entry of which nothing is known but that it may not be touched."""
    return Entry(path, path[-1], MALFORMED, 0, 0, (fault,))


def read_entry(site: Site, path: tuple[str, ...], parent: int, *, name: str, source: int) -> Entry | None:
    """Read the run folder ``path[-1]`` of an open folder; nothing if it is gone.

    ``name`` is what the folder is called when it is in its place, so that a run can be read under the name
    of its tombstone. Raises nothing.
    """
    try:
        folder = open_folder(path[-1], parent)
    except FileNotFoundError:
        return None
    except OSError as error:
        return broken((*path[:-1], name), _unopened(path[-1], parent, error))
    try:
        return _read(site, (*path[:-1], name), folder, source)
    except OSError as error:
        return broken((*path[:-1], name), Reason("unreadable", f"its folder: {error.strerror}"))
    finally:
        os.close(folder)


def _unopened(name: str, parent: int, error: OSError) -> Reason:
    try:
        facts = os.stat(name, dir_fd=parent, follow_symlinks=False)
    except OSError:
        return Reason("unreadable", f"its folder: {error.strerror}")
    if stat.S_ISLNK(facts.st_mode):
        return Reason("unsafe-path", "it is a symbolic link")
    if not stat.S_ISDIR(facts.st_mode):
        return Reason("unsafe-path", "it is no folder")
    return Reason("unreadable", f"its folder: {error.strerror}")


def _read(site: Site, path: tuple[str, ...], folder: int, source: int) -> Entry:
    facts = os.fstat(folder)
    if facts.st_dev != site.root.device:
        return broken(path, Reason("mount-point", "another file system is mounted there"))
    model = site.profile.units.directory.status
    if model is None:
        return Entry(path, path[-1], ENDED, changed(facts), facts.st_ino)
    newest = changed(facts)
    site.statuses_read += 1
    try:
        raw, file = read_file(model.file, folder, limit=MAX_FILE_BYTES)
    except FileNotFoundError:
        return _malformed(path, newest, facts.st_ino, f"it has no {model.file}")
    except OSError as error:
        return _malformed(path, newest, facts.st_ino, f"its {model.file}: {error.strerror or error}")
    newest = max(newest, changed(file))
    record = parse(raw)
    status = status_of(record, model)
    if status.fault:
        return _malformed(path, newest, facts.st_ino, f"its {model.file}: {status.fault}")
    faults = []
    if status.run is not None and status.run != path[-1]:
        faults.append(Reason("identity-mismatch", f"its status names {shown(status.run)!r}"))
    above = _folder_above(site, path, source)
    if status.nested and status.parent is None and above is None:
        faults.append(Reason("nested-reference", "it was started by a run that it does not name"))
    protect = site.profile.units.directory.protect
    end = UNREADABLE if status.end == UNREADABLE else max(newest, status.end or 0)
    return Entry(
        path,
        path[-1],
        sys.intern(status.state),  # there are few words, and many runs
        end,
        facts.st_ino,
        tuple(faults),
        above or status.parent,
        status.children,
        status.group,
        named_by(record, protect, _places(site)),
        status.end,
    )


def _places(site: Site) -> tuple[int, ...]:
    """Return `naming` of a site's references, found out once."""
    if site.naming is None:
        site.naming = naming(site.profile.units.directory.protect)
    return site.naming


def _malformed(path: tuple[str, ...], newest: Instant, inode: int, why: str) -> Entry:
    return broken(path, Reason("invalid-status", why))._replace(end=newest, inode=inode)


def _folder_above(site: Site, path: Sequence[str], source: int) -> str | None:
    """Return the id of the run in whose folder of nested runs an entry lies."""
    parts = site.runs[source]
    return path[parts.fixed] if source and len(parts.parts) - parts.fixed > 1 else None


def flags_of(faults: Sequence[Reason]) -> list[Flag]:
    """Turn what blocks an entry into flags."""
    return [Flag(fault, blocks=True) for fault in faults]
