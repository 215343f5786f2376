"""What elsewhere holds a run: wait records, indexes of active runs, missions, hand-offs, sessions, owners.

Every check fails closed: what cannot be looked at holds its run, and says so.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final, NamedTuple

from afterrun.core.facts import UNREADABLE, Flag, Reason
from afterrun.core.times import SECOND, Instant
from afterrun.profiles.directory import (
    Inside,
    Lacking,
    Manifest,
    Marker,
    Records,
    Recovery,
    Reference,
    Session,
)
from afterrun.reading import read_small_file
from afterrun.stores.directory.folders import folder_at, read_file
from afterrun.stores.directory.names import filled, is_pattern, shown
from afterrun.stores.directory.records import MAX_FILE_BYTES, parse, texts, value, values
from afterrun.stores.directory.site import Site
from afterrun.stores.directory.usage import lives
from afterrun.stores.directory.waits import Waits

UNEXAMINABLE: Final = "\0"
"""Stands for the path of a session that is no text: it cannot be looked at."""


class Subject(NamedTuple):
    """A run as its references are asked about it: its id, its open folder, what its status names, its end.

    ``names`` are those of the entries of its folder. ``named`` holds, for each reference of the profile, the
    values that the status has for it.
    """

    run: str
    folder: int
    names: frozenset[str]
    named: tuple[tuple[object, ...], ...]
    end: Instant | None


NAMING: Final = ("session", "manifest", "owner", "equals")
"""Kinds of references that read the status."""

IN_FOLDER: Final = ("inside", "lacking", "manifest", "recovery")
"""Kinds of references that look at the names in the run's folder."""


def naming(references: Sequence[Reference]) -> tuple[int, ...]:
    """Return the places of the references that read the status."""
    return tuple(place for place, reference in enumerate(references) if reference.kind in NAMING)


def named_by(
    record: dict[str, Any] | None, references: Sequence[Reference], places: Sequence[int]
) -> tuple[tuple[object, ...], ...]:
    """Return what a status names for each reference, or nothing at all; ``places`` are those of `naming`.

    It is kept from the scan, so that no status is read twice.
    """
    found = {place: named for place in places if (named := tuple(_named(record, references[place])))}
    return tuple(found.get(place, ()) for place in range(len(references))) if found else ()


def _named(record: object, reference: Reference) -> Iterator[object]:
    if reference.kind == "session":
        for path in reference.fields:
            yield from (_path(found) for found in values(record, path) if found)
    elif reference.kind == "manifest" and reference.field is not None:
        top = reference.field.partition(".")[0]
        if value(record, top) is not None:
            yield _path(value(record, reference.field))
    elif reference.kind == "owner":
        yield from values(record, reference.pid)[:1]
    elif reference.kind == "equals":
        yield from values(record, reference.field)[:1]


def _path(found: object) -> str:
    return found if isinstance(found, str) and found else UNEXAMINABLE


class References:
    """The references of a store as they are now. Read anew for each page and each batch."""

    def __init__(self, site: Site, now: Instant | None = None) -> None:
        """Read the records; what is a run's own is read when it is asked about."""
        self._site = site
        moment = time.time_ns() // 1_000 if now is None else now
        self._folders: dict[tuple[str, ...], int | None] = {}
        self._protect = site.profile.units.directory.protect
        self._waiting = {
            number: Waits(site, reference, now=moment)
            for number, reference in enumerate(self._protect)
            if isinstance(reference, Records)
        }
        numbered = list(enumerate(self._protect))
        self._by_id = [pair for pair in numbered if isinstance(pair[1], Records | Marker)]
        self._by_names = [pair for pair in numbered if pair[1].kind in IN_FOLDER]
        self._by_status = [pair for pair in numbered if pair[1].kind in NAMING]

    def notices(self) -> Iterator[str]:
        """Yield what could not be read of the records, for people."""
        for waiting in self._waiting.values():
            for name, why in waiting.unreadable.items():
                yield (
                    f"{shown(name)} cannot be read ({why}): for a day it stops all, then it holds a run "
                    "of its name"
                )

    def held(self, run: str) -> Iterator[Flag]:
        """Yield what holds a run by its id alone."""
        for number, reference in self._by_id:
            if isinstance(reference, Records):
                yield from self._waiting[number].flags(run)
            elif isinstance(reference, Marker):
                yield from self._by_marker(reference, run)

    def flags(self, subject: Subject) -> Iterator[Flag]:
        """Yield everything that holds a run whose folder is open."""
        yield from self.held(subject.run)
        for _, reference in self._by_names:
            there = _has(subject.names, reference.file) if reference.kind in IN_FOLDER else False
            if there or isinstance(reference, Lacking):
                yield from self._in_folder(reference, subject, there=there)
        for number, reference in self._by_status:
            if subject.named and subject.named[number]:
                yield from self._in_status(reference, subject, subject.named[number])

    def _in_folder(self, reference: Reference, subject: Subject, *, there: bool) -> Iterator[Flag]:
        """Yield what a file of the run's own folder says, or that it is not there."""
        if isinstance(reference, Inside):
            yield Flag(Reason(reference.reason, f"its folder has {reference.file}"))
        elif isinstance(reference, Lacking):
            if not there:
                yield Flag(Reason(reference.reason, f"its folder has no {reference.file}"))
        elif isinstance(reference, Manifest):
            name, folder = reference.file, subject.folder
            yield from _manifest(reference, lambda: read_file(name, folder, limit=MAX_FILE_BYTES)[0])
        elif isinstance(reference, Recovery):
            yield from self._by_recovery(reference, subject)

    @staticmethod
    def _in_status(reference: Reference, subject: Subject, named: Sequence[object]) -> Iterator[Flag]:
        """Yield what the status says, or names."""
        if isinstance(reference, Session):
            yield from sessions(reference.reason, named)
        elif isinstance(reference, Manifest):
            yield from manifests(reference, named)
        elif reference.kind == "owner":
            before = None if subject.end is None or subject.end == UNREADABLE else subject.end / SECOND
            if any(lives(pid, before=before) for pid in named):
                yield Flag(Reason(reference.reason, "the process that has it lives"))
        elif reference.kind == "equals" and any(word in reference.words for word in named):
            yield Flag(Reason(reference.reason, f"its {reference.field} says so"))

    def _by_marker(self, reference: Marker, run: str) -> Iterator[Flag]:
        for path in filled(reference.path, run, reference.code):
            try:
                if self._is_there(path):
                    yield Flag(Reason(reference.reason, f"{shown('/'.join(path))} is there"))
                    return
            except OSError as error:
                text = f"{shown('/'.join(path))} cannot be looked at: {error.strerror}"
                yield Flag(Reason(reference.reason, text), blocks=True)

    def _is_there(self, path: tuple[str, ...]) -> bool:
        """Say whether an entry is there; its folder stays open, since many are asked for."""
        above = path[:-1]
        if above not in self._folders:
            try:
                with folder_at(self._site.root.descriptor, above) as folder:
                    self._folders[above] = os.dup(folder)
            except FileNotFoundError:
                self._folders[above] = None
        descriptor = self._folders[above]
        return descriptor is not None and _is_there(path[-1], descriptor)

    def close(self) -> None:
        """Let go of folders that are open."""
        for descriptor in self._folders.values():
            if descriptor is not None:
                os.close(descriptor)
        self._folders = {}

    @staticmethod
    def _by_recovery(reference: Recovery, subject: Subject) -> Iterator[Flag]:
        try:
            record = parse(read_file(reference.file, subject.folder, limit=MAX_FILE_BYTES)[0])
        except FileNotFoundError:
            return
        except OSError:
            record = None
        if record is None:
            yield Flag(Reason(reference.reason, f"{reference.file} cannot be read"), blocks=True)
        elif value(record, reference.run) != subject.run:
            yield Flag(Reason(reference.reason, f"{reference.file} names another run"), blocks=True)
        else:
            yield from sessions(reference.reason, texts(record, reference.fields))


def _has(names: frozenset[str], pattern: str) -> bool:
    """Say whether a name fits a pattern."""
    if not is_pattern(pattern):
        return pattern in names
    return any(fnmatchcase(name, pattern) for name in names)


def _is_there(name: str, folder: int) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def manifests(reference: Manifest, named: Sequence[object]) -> Iterator[Flag]:
    """Yield what holds a run by manifests that lie anywhere."""
    for name in named:
        path = str(name)
        yield from _manifest(reference, lambda path=path: _read_anywhere(path))  # type: ignore[misc]


def _read_anywhere(path: str) -> bytes:
    if not Path(path).is_absolute() or "\0" in path:
        raise OSError(0, "it is no absolute path")
    return read_small_file(Path(path), limit=MAX_FILE_BYTES)


def _manifest(reference: Manifest, read: Callable[[], bytes]) -> Iterator[Flag]:
    try:
        record = parse(read())
    except OSError:
        record = None
    items = None if record is None else value(record, reference.items)
    if not isinstance(items, list) or not items:
        yield Flag(Reason(reference.reason, "its hand-off cannot be read"), blocks=True)
    elif any(value(item, reference.state) not in reference.done for item in items):
        yield Flag(Reason(reference.reason, "its hand-off is not finished"))


def sessions(reason: str, named: Sequence[object]) -> Iterator[Flag]:
    """Yield what holds a run by session files that are there, or that cannot be looked at."""
    for name in named:
        path = str(name)
        if "\0" in path or not Path(path).is_absolute():
            yield Flag(Reason(reason, "its session file cannot be looked at"), blocks=True)
            return
        try:
            facts = os.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            yield Flag(Reason(reason, f"its session file cannot be looked at: {error.strerror}"), blocks=True)
            return
        if not stat.S_ISDIR(facts.st_mode):
            yield Flag(Reason(reason, "its session file is there"))
            return
