"""Result files as units: one page takes from all areas and sessions in turn."""

from __future__ import annotations

import heapq
import os
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from typing import Any, Final

from afterrun.core.errors import UnitNotFound
from afterrun.core.facts import UNREADABLE, Flag, Key, Newest, Reason, Scalar, Unit
from afterrun.core.judge import Group, Rank, rank
from afterrun.core.store import Census, Cursor, Outside, Page, Stream
from afterrun.core.times import CLOCK_SKEW, Instant, Micros, micros
from afterrun.profiles.directory import Results
from afterrun.stores.directory.discovery import Discovery
from afterrun.stores.directory.fair_cursor import FairCursor, remaining, take
from afterrun.stores.directory.folders import folder_at, lstat_at
from afterrun.stores.directory.journal import looking
from afterrun.stores.directory.kind import SAMPLE, DirectoryKind, Work, newest_of
from afterrun.stores.directory.names import shown, validate
from afterrun.stores.directory.order import names_in_order
from afterrun.stores.directory.removal import Places, Target
from afterrun.stores.directory.result_entries import ResultEntry, ResultLooker, read_result
from afterrun.stores.directory.site import Site, failure
from afterrun.stores.directory.sweeping import Done

STREAMS: Final = (Stream("areas", indexed=True),)
ONE_SOURCE: Final = "0"
SESSION: Final = "1"
"""How the names of sources begin: areas that are one folder come before those with a folder a session."""


class ResultUnits(DirectoryKind):
    """The kind ``result``. Names are scanned once a plan; contents are read page by page.

    ``leaving`` says which of these runs go before any result does: pages count their results as what will
    have no run any more. Before one is removed, its run is looked for without that.
    """

    kind = "result"

    def __init__(self, site: Site, work: Work, results: Results) -> None:
        """Take a site; nothing is read yet."""
        super().__init__(site, work)
        self._results = results
        self._names: dict[str, list[str]] | None = None
        self._areas: dict[str, int] = {}
        self._seen: dict[Key, tuple[Any, ...]] = {}
        self._waiting: frozenset[str] | None = None
        self._waiting_at: tuple[object, ...] | None = None
        self._again: dict[Key, Mapping[str, int]] = {}
        self.leaving: Callable[[Collection[str]], Collection[str]] | None = None
        self._faults: tuple[Reason, ...] = ()

    def forget(self) -> None:
        """Forget what was scanned."""
        self._names = None
        self._areas = {}
        self._seen = {}

    @property
    def sources(self) -> Mapping[str, Sequence[str]]:
        """Return the paths of all results by source, sorted."""
        if self._names is None:
            names: dict[str, list[str]] = defaultdict(list)
            scan = Discovery(self.site, self.site.results)
            for proposal in scan.proposals():
                path = "/".join(proposal.path)
                self._areas[path] = proposal.source
                self._add(validate(proposal, self.site.results), path)
                names[self._source(proposal.source, proposal.path)].append(path)
            self._faults = tuple(scan.faults)
            self._names = {source: names_in_order(found) for source, found in names.items()}
        return self._names

    def _add(self, fault: Reason | None, path: str) -> None:
        """Keep what is wrong with a name; anything else is read when its page comes."""
        if fault is not None:
            parts = tuple(path.split("/"))
            broken = ResultEntry(parts, self._areas[path], "", 0, 0, 0, ended=True, faults=(fault,))
            self._keep(path, broken)

    def _keep(self, key: Key, entry: ResultEntry) -> None:
        """Remember an entry, as a plain tuple, as `EntryTable` does."""
        self._seen[key] = tuple(entry)

    def _entry_of(self, unit: Unit) -> ResultEntry:
        return ResultEntry._make(self._seen[unit.key])

    def _source(self, area: int, path: tuple[str, ...]) -> str:
        parts = self.site.results[area]
        between = path[parts.fixed : -1]
        return "/".join([SESSION if between else ONE_SOURCE, self._results.areas[area].name, *between])

    @property
    def faults(self) -> tuple[Reason, ...]:
        """Return the folders that the scan could not read."""
        self.sources  # noqa: B018 - scan first
        return self._faults

    @property
    def group_columns(self) -> tuple[str, ...]:
        """Return the columns of the runs, so that one policy serves both; results have no value there."""
        status = self.site.profile.units.directory.status
        return () if status is None else status.group

    def streams(self) -> tuple[Stream, ...]:
        """Return the one order: all sources in turn."""
        return STREAMS

    def has_rows(self, stream: int) -> bool:  # noqa: ARG002 - there is one
        """Say whether there is any result."""
        return bool(self.sources)

    def newest(self, now: Instant) -> Instant | None:  # noqa: ARG002 - the runs tell
        """Return nothing: the runs tell how old a store is."""
        return None

    def page(self, cursor: Cursor, *, cutoff: Instant, limit: int) -> Page:
        """Return the next results, one of each source in turn."""
        place = FairCursor() if cursor.tie is None else FairCursor.read(cursor.tie)
        taken, following = take(self.sources, place, limit=limit)
        entries = [entry for _, path in taken if (entry := self._entry(path)) is not None]
        units = self._units(entries, cutoff=cutoff)
        for unit, entry in zip(units, entries, strict=True):
            if entry.end is None or entry.end < cutoff:
                self._keep(unit.key, entry)
        after = None if following is None else Cursor(cursor.stream, None, following.text())
        return Page(units, len(taken), after)

    def _entry(self, path: str) -> ResultEntry | None:
        kept = self._seen.get(path)
        known = None if kept is None else ResultEntry._make(kept)
        if known is not None and known.faults and not known.inode:
            return known
        parts = tuple(path.split("/"))
        return self._read(self._areas[path], parts, name=parts[-1])

    def _read(self, area: int, path: tuple[str, ...], *, name: str) -> ResultEntry | None:
        try:
            with folder_at(self.site.root.descriptor, path[:-1]) as folder:
                return read_result(self.site, area, path, folder, name=name)
        except FileNotFoundError:
            return None
        except OSError as error:
            fault = Reason("invalid-result", f"the folder above it: {error.strerror}")
            return ResultEntry((*path[:-1], name), area, "", 0, 0, 0, ended=True, faults=(fault,))

    def _units(self, entries: Sequence[ResultEntry], *, cutoff: Instant | None) -> list[Unit]:
        if not entries:
            return []
        runs = {run for entry in entries for run in (entry.run, *entry.parents)}
        leaving = frozenset(() if self.leaving is None else self.leaving(runs))
        with closing(self._looker(leaving)) as looker:
            return [self._unit(entry, self._flags(looker, entry, cutoff)) for entry in entries]

    def _unit(self, entry: ResultEntry, flags: Sequence[Flag]) -> Unit:
        key = "/".join(entry.path)
        blocked = [flag.reason for flag in flags if flag.blocks]
        protected = [flag.reason for flag in flags if not flag.blocks]
        end = entry.end
        if end is None or end == UNREADABLE:
            blocked.append(Reason("unreadable-end-time", "one of its times is malformed"))
            end = None
        counted = Counter(reason.name for reason in (*blocked, *protected))
        return Unit(
            key,
            (key,),
            end,
            end,
            successful=True,
            group=(None,) * len(self.group_columns),
            blocked=_first(blocked, counted),
            protected=_first(protected, counted),
            settled=end is not None,
            run=entry.run or None,
        )

    def _looker(self, leaving: frozenset[str] = frozenset()) -> ResultLooker:
        return ResultLooker(self.site, self._results, self._tombstones(), leaving=leaving)

    @staticmethod
    def _flags(looker: ResultLooker, entry: ResultEntry, cutoff: Instant | None) -> list[Flag]:
        young = cutoff is not None and entry.end is not None and entry.end >= cutoff and not entry.faults
        return [] if young else list(looker.flags(entry))

    def _tombstones(self) -> frozenset[str] | None:
        """Return the ids of runs that our own journal names; nothing if a part of it cannot be read.

        While the store is held nobody else writes there, so it is read again only once runs were moved.
        """
        held = self.work.held
        mark = None if held is None else (held.lock.token, *_moves(held.done))
        if mark is None or mark != self._waiting_at:
            self._waiting_at, self._waiting = mark, self._read_tombstones()
        return self._waiting

    def _read_tombstones(self) -> frozenset[str] | None:
        try:
            with looking(self.site.root.descriptor) as journal:
                batches = [] if journal is None else list(journal.batches())
        except OSError as error:
            raise failure(error, f"the journal of {self.site.url}") from None
        if any(isinstance(batch, str) for batch in batches):
            return None
        return frozenset(
            entry.run
            for batch in batches
            if not isinstance(batch, str)
            for entry in batch.entries
            if entry.kind == "directory" and lstat_at(self.site.root.descriptor, entry.place) is not None
        )

    def remaining(self, cursor: Cursor, *, cutoff: Instant, streams: Collection[int]) -> int:  # noqa: ARG002 - ages are not known before they are read
        """Count results after the cursor, of whatever age."""
        place = FairCursor() if cursor.tie is None else FairCursor.read(cursor.tie)
        return len(remaining(self.sources, place)) if streams else 0

    def find(self, text: str) -> Unit:
        """Return the result at a path below the store. Raises `UnitNotFound`."""
        entry = self._entry(text) if any(text in names for names in self.sources.values()) else None
        if entry is None:
            raise UnitNotFound(f"no result of {self.site.url} is {shown(text)!r}")
        unit = self._units([entry], cutoff=None)[0]
        self._keep(unit.key, entry)
        return unit

    def known(self, texts: Collection[str]) -> frozenset[str]:
        """Return all of these ids: which runs there are is asked of the runs."""
        return frozenset(texts)

    def describe(self, unit: Unit) -> Sequence[Mapping[str, Scalar]]:
        """Return path, run and end."""
        entry = self._entry_of(unit)
        return [{"run": entry.run, "parent": None, "status": None, "end": unit.end}]

    def newest_kept(
        self, places: Sequence[int], *, count: int, any_status: bool, now: Instant
    ) -> Mapping[Group, Rank]:
        """Return the rank of the last of the newest results; all make one group. Reads them all."""
        del any_status
        ranks = [rank(end, path) for _, end, path in self._counted(places, now=now)]
        group = tuple(None for _ in places)
        return {group: heapq.nlargest(count, ranks)[-1]} if len(ranks) >= count else {}

    def newest_in(
        self, places: Sequence[int], *, slot: Micros, any_status: bool, now: Instant
    ) -> Iterable[Newest]:
        """Return the newest result of each slot of time; all make one group. Reads them all."""
        del any_status
        return newest_of(self._counted(places, now=now), slot=slot)

    def _counted(self, places: Sequence[int], *, now: Instant) -> Iterator[Newest]:
        """Yield the results that rules by number count."""
        latest, group = now + micros(CLOCK_SKEW), tuple(None for _ in places)
        for path in self._paths():
            entry = self._entry(path)
            if entry is None or entry.end is None or entry.faults:
                continue
            if 0 <= entry.end <= latest:
                yield Newest(group, entry.end, path)

    def content(self) -> tuple[int, int]:
        """Return about how many bytes all results take on disk, as a sample tells, and their number."""
        paths = list(self._paths())
        taken = [self._entry(path) for path in paths[:: max(1, len(paths) // SAMPLE)]]
        size = sum(entry.size for entry in taken if entry is not None)
        return (size * len(paths) // len(taken) if taken else 0), len(paths)

    def _paths(self) -> Iterator[str]:
        return (path for names in self.sources.values() for path in names)

    def groups(self, places: Sequence[int]) -> int:  # noqa: ARG002 - all make one
        """Count groups."""
        return 1 if self.sources else 0

    def census(self) -> Census:
        """Count results; they have no state."""
        number = sum(len(names) for names in self.sources.values())
        return Census({"result": number} if number else {}, {})

    def outside(self, *, cutoff: Instant | None, now: Instant) -> Outside:  # noqa: ARG002 - pages yield all
        """Count what pages do not yield: nothing, unless no age is ever reached."""
        number = 0 if cutoff is not None else self.census().rows
        return Outside(recent=number, members=number)

    def weigh(self, units: Sequence[Unit]) -> Sequence[int]:
        """Return one for each."""
        return [1] * len(units)

    def count(self, units: Sequence[Unit]) -> Mapping[str, int]:
        """Return the files that removing these units would take."""
        return {"files": len(units)} if units else {}

    def measure(self, units: Sequence[Unit]) -> tuple[int, int]:
        """Return bytes on disk, and files."""
        return sum(self._entry_of(unit).size for unit in units), len(units)

    def targets(self, unit: Unit) -> Sequence[Target]:
        """Return the file of a unit."""
        entry = self._entry_of(unit)
        return [Target(unit.key, entry.run, entry.path, entry.inode)]

    def again(self, units: Sequence[Unit], places: Places) -> Sequence[Unit]:
        """Read results again under the names that they have now."""
        found = []
        with closing(self._looker()) as looker:
            for unit in units:
                entry = self._entry_of(unit)
                fresh = self._read(entry.area, places[unit.key], name=entry.path[-1])
                if fresh is not None:
                    found.append(self._unit(fresh, list(looker.flags(fresh))))
        self._drop(looker.stray)
        self._again = {unit.key: {"files": 1} for unit in found}
        return found

    def _drop(self, stray: Sequence[tuple[str, ...]]) -> None:
        """Remove records of the engine's about tombstones that are gone; they would hold results for ever."""
        for path in stray:
            with suppress(OSError), folder_at(self.site.root.descriptor, path[:-1]) as folder:
                os.unlink(path[-1], dir_fd=folder)

    def taken(self, unit: Unit) -> Mapping[str, int]:
        """Return what a unit took when it was read again."""
        return self._again.get(unit.key, {})


def _moves(done: Done) -> tuple[int, int]:
    """Count the units that were moved out of their place so far."""
    return done.removed["directory"], done.skipped["came-back"]


def _first(reasons: Sequence[Reason], counted: Counter[str]) -> tuple[Reason, ...]:
    """Keep one reason of each name."""
    if all(number == 1 for number in counted.values()):
        return tuple(reasons)
    return tuple({reason.name: reason for reason in reversed(reasons)}.values())
