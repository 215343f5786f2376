"""One result file as it is read from disk, and what holds it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from afterrun.core.facts import UNREADABLE, Flag, Reason
from afterrun.core.times import Instant
from afterrun.profiles.directory import Area, Manifest, Results
from afterrun.stores.directory.folders import changed, lstat_at, read_at, read_file
from afterrun.stores.directory.names import filled, shown, unsafe
from afterrun.stores.directory.records import (
    MAX_FILE_BYTES,
    newest_of,
    parse,
    texts,
    value,
    values,
)
from afterrun.stores.directory.references import UNEXAMINABLE, References, manifests, sessions
from afterrun.stores.directory.site import Site


class ResultEntry(NamedTuple):
    """A result file: where it is, of which area, whose, when its run ended, what it names."""

    path: tuple[str, ...]
    area: int
    run: str
    end: Instant | None
    inode: int
    size: int
    ended: bool
    faults: tuple[Reason, ...] = ()
    parents: tuple[str, ...] = ()
    sessions: tuple[str, ...] = ()
    handoff: str | None = None


def read_result(
    site: Site, area: int, path: tuple[str, ...], folder: int, *, name: str
) -> ResultEntry | None:
    """Read a result file; nothing if it is gone. ``name`` is what it is called in its place."""
    results = site.profile.units.result
    if results is None:
        return None
    home = (*path[:-1], name)
    try:
        raw, facts = read_file(path[-1], folder, limit=MAX_FILE_BYTES)
    except FileNotFoundError:
        return None
    except OSError as error:
        return _broken(home, area, f"it cannot be read: {error.strerror or error}", folder, path[-1])
    record = parse(raw)
    run = "" if record is None else _run(record, results, results.areas[area], name)
    if record is None or not run or unsafe(run) or facts.st_dev != site.root.device:
        why = "it is no JSON object" if record is None else "it does not say whose it is"
        if facts.st_dev != site.root.device:
            why = "another file system is mounted there"
        return _broken(home, area, why, folder, path[-1])
    times = newest_of(record, results.times)
    end = UNREADABLE if times == UNREADABLE else max(changed(facts), times or 0)
    return ResultEntry(
        home,
        area,
        run,
        end,
        facts.st_ino,
        facts.st_blocks * 512,
        results.areas[area].any_state or _has_ended(site, record, results),
        parents=tuple(texts(record, results.parent)),
        sessions=tuple(
            found if isinstance(found, str) else UNEXAMINABLE
            for path in results.sessions
            for found in values(record, path)
            if found
        ),
        handoff=_handoff(record, results),
    )


def _broken(home: tuple[str, ...], area: int, why: str, folder: int, name: str) -> ResultEntry | None:
    try:
        facts = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return None
    fault = Reason("invalid-result", why)
    return ResultEntry(home, area, "", changed(facts), facts.st_ino, 0, ended=True, faults=(fault,))


def _run(record: dict[str, Any], results: Results, area: Area, name: str) -> str:
    found = texts(record, results.run)
    if found:
        return found[0]
    return name.rpartition(".")[0] if area.stem else ""


def _has_ended(site: Site, record: dict[str, Any], results: Results) -> bool:
    """Say whether a result tells that its run ended."""
    if results.outcome is not None and isinstance(value(record, results.outcome), bool):
        return True
    status = site.profile.units.directory.status
    if results.state is None or status is None:
        return results.outcome is None
    return value(record, results.state) in status.terminal


def _handoff(record: dict[str, Any], results: Results) -> str | None:
    if results.handoff is None:
        return None
    if value(record, results.handoff.partition(".")[0]) is None:
        return None
    found = value(record, results.handoff)
    return found if isinstance(found, str) and found else UNEXAMINABLE


class ResultLooker:
    """Looks at what holds results: their runs, tombstones, references. Made anew for each page and batch."""

    def __init__(
        self,
        site: Site,
        results: Results,
        tombstones: frozenset[str] | None,
        *,
        leaving: frozenset[str] = frozenset(),
    ) -> None:
        """Read the surroundings.

        ``tombstones`` are ids of runs that our own journal still names, nothing if it cannot be read.
        ``leaving`` are ids of runs that go before any result does, so their folders hold nothing.
        """
        self._site = site
        self._results = results
        self._tombstones = tombstones
        self._leaving = leaving
        self._prefix = site.runs[0].parts[: site.runs[0].fixed]
        self.references = References(site)
        self.stray: list[tuple[str, ...]] = []

    def close(self) -> None:
        """Let go of folders that are open."""
        self.references.close()

    def flags(self, entry: ResultEntry) -> Iterator[Flag]:
        """Yield everything that holds a result. Raises nothing."""
        if entry.faults:
            yield from (Flag(fault, blocks=True) for fault in entry.faults)
            return
        try:
            yield from self._flags(entry)
        except OSError as error:
            text = f"what holds it cannot be looked at: {error.strerror}"
            yield Flag(Reason("unreadable", text), blocks=True)

    def _flags(self, entry: ResultEntry) -> Iterator[Flag]:
        yield from self._by_tombstone(entry.run)
        yield from self.references.held(entry.run)
        if self._is_there(entry.run):
            yield Flag(Reason("run-present", "the folder of its run is there"))
        if any(self._is_there(parent) for parent in entry.parents if not unsafe(parent)):
            yield Flag(Reason("workflow-reference", "the run that its run is part of is there"))
        yield from sessions("resumable", entry.sessions)
        if entry.handoff is not None:
            reference = self._manifest()
            if reference is not None:
                yield from manifests(reference, [entry.handoff])
        area = self._results.areas[entry.area]
        if area.after is not None and any(map(self._stat, filled(area.after, entry.run, area.code))):
            yield Flag(Reason("replay-reference", "a record that needs it is there"))
        if not entry.ended:
            yield Flag(Reason("live-member", "it does not say that its run ended"))

    def _manifest(self) -> Manifest | None:
        protect = self._site.profile.units.directory.protect
        return next((part for part in protect if isinstance(part, Manifest)), None)

    def _is_there(self, run: str) -> bool:
        return run not in self._leaving and self._stat((*self._prefix, run))

    def _stat(self, path: tuple[str, ...]) -> bool:
        return lstat_at(self._site.root.descriptor, path) is not None

    def _by_tombstone(self, run: str) -> Iterator[Flag]:
        if self._tombstones is None:
            text = "a file of the journal cannot be read"
            yield Flag(Reason("run-tombstone-present", text), blocks=True)
        elif run in self._tombstones:
            yield Flag(Reason("run-tombstone-present", "the folder of its run waits in the trash"))
        marks = self._results.tombstones
        if marks is None:
            return
        for path in filled(marks.path, run, marks.code):
            state = self._marker(path, run)
            if state == "stray":
                self.stray.append(path)
            elif state:
                blocks = state == "unreadable"
                yield Flag(Reason("run-tombstone-present", f"{shown(path[-1])}: {state}"), blocks=blocks)

    def _marker(self, path: tuple[str, ...], run: str) -> str:
        """Return what a record of the engine's says of a tombstone: nothing if there is no record."""
        marks = self._results.tombstones
        if marks is None or not self._stat(path):
            return ""
        try:
            record = parse(read_at(self._site.root.descriptor, path, limit=MAX_FILE_BYTES))
        except OSError:
            record = None
        place = None if record is None else value(record, marks.tombstone)
        if value(record, marks.run) != run or not isinstance(place, str) or not Path(place).is_absolute():
            return "unreadable"
        return "the engine is removing its folder" if os.path.lexists(place) else "stray"
