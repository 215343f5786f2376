"""Run folders as units: the store protocol over one scan, and the closer look where a run might go."""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Final

from afterrun.core.errors import StoreFailure, UnitNotFound
from afterrun.core.facts import UNREADABLE, Key, Newest, Reason, Scalar, Status, Unit, key_order, key_text
from afterrun.core.judge import Group, Rank, rank
from afterrun.core.store import Census, Cursor, Outside, Page, Stream
from afterrun.core.times import CLOCK_SKEW, Instant, Micros, micros
from afterrun.core.tree import build_units
from afterrun.stores.directory.entries import Entry, EntryTable, read_entry
from afterrun.stores.directory.folders import Folders
from afterrun.stores.directory.kind import SAMPLE, DirectoryKind, Work, newest_of
from afterrun.stores.directory.looks import Looker, LookTable
from afterrun.stores.directory.names import shown
from afterrun.stores.directory.newcomers import Newcomers
from afterrun.stores.directory.removal import Places, Target
from afterrun.stores.directory.run_index import RunIndex
from afterrun.stores.directory.run_source import RunSource
from afterrun.stores.directory.site import Site

STREAMS: Final = (Stream("folders", indexed=True),)


class RunUnits(DirectoryKind):
    """The kind ``directory``. ``now`` begins a new look at the store: what was scanned is forgotten."""

    kind = "directory"

    def __init__(self, site: Site, work: Work) -> None:
        """Take a site; nothing is read yet."""
        super().__init__(site, work)
        self._index: RunIndex | None = None
        self._looks = LookTable()
        self._newcomers: Newcomers | None = None
        self._again: dict[Key, Mapping[str, int]] = {}
        self.widest: Instant | None = None

    def forget(self) -> None:
        """Forget what was scanned."""
        if self._index is not None:
            self._index.release()
        self._index = self._newcomers = None
        self._looks.clear()
        self.widest = None

    @property
    def index(self) -> RunIndex:
        """Return all runs, scanned once."""
        if self._index is None:
            self._index = RunIndex.scan(self.site)
        return self._index

    @property
    def faults(self) -> tuple[Reason, ...]:
        """Return the folders that the scan could not read."""
        return self.index.faults

    @property
    def group_columns(self) -> tuple[str, ...]:
        """Return the fields by which runs can be grouped."""
        status = self.site.profile.units.directory.status
        return () if status is None else status.group

    def streams(self) -> tuple[Stream, ...]:
        """Return the one order: by name."""
        return STREAMS

    def has_rows(self, stream: int) -> bool:  # noqa: ARG002 - there is one
        """Say whether there is any run."""
        return bool(self.index.entries)

    def newest(self, now: Instant) -> Instant | None:
        """Return the newest credible time of any run."""
        latest = now + micros(CLOCK_SKEW)
        ends = (entry.end for entry in self.index.entries.values())
        return max((end for end in ends if end is not None and 0 <= end <= latest), default=None)

    def in_range(self, key: Key, cutoff: Instant) -> bool:
        """Say whether pages up to a cutoff yield this root; ``widest`` makes them reach further."""
        if self.widest is not None:
            cutoff = max(cutoff, self.widest)
        index = self.index
        if index.status(key) is Status.LIVE:
            return False
        end = index.ended(key)
        return end is None or end < cutoff

    def page(self, cursor: Cursor, *, cutoff: Instant, limit: int) -> Page:
        """Return the next units whose roots may have expired, in the order of their names."""
        keys = self._after(cursor, limit=limit)
        if not keys:
            return Page([], 0, None)
        units = self._build([key for key in keys if self.in_range(key, cutoff)])
        following = Cursor(cursor.stream, None, str(keys[-1])) if len(keys) == limit else None
        return Page(units, len(keys), following)

    def _build(self, roots: Sequence[Key]) -> list[Unit]:
        """Build the units of these roots, with a closer look at each member."""
        if not roots:
            return []
        if len(self._looks) >= MAX_LOOKS:
            self._looks.clear()
        with closing(Looker(self.site)) as looker:
            source = RunSource(self.index, looker, self._looks, {})
            return build_units(source, [source.row(key) for key in roots], self.index.model)

    def remaining(self, cursor: Cursor, *, cutoff: Instant, streams: Collection[int]) -> int:
        """Count candidates after the cursor."""
        left = self._after(cursor) if streams else []
        return sum(1 for key in left if self.in_range(key, cutoff))

    def _after(self, cursor: Cursor, *, limit: int | None = None) -> Sequence[Key]:
        """Return the roots behind a cursor, in order."""
        order = self.index.order
        start = 0 if cursor.tie is None else bisect_right(order, key_order(cursor.tie), key=key_order)
        return order[start : None if limit is None else start + limit]

    def find(self, text: str) -> Unit:
        """Return the unit of a run, by its id or its path. Raises `UnitNotFound`."""
        index = self.index
        key: Key = text if text in index.entries else index.ids.get(text)
        if key is None:
            raise UnitNotFound(f"no run of {self.site.url} has the id {shown(text)!r}")
        return self._build([index.root_of(key)])[0]

    def units_of(self, ids: Collection[str]) -> Mapping[str, Unit]:
        """Return the unit that each of these runs belongs to, for those that are there."""
        index = self.index
        roots = {run: index.root_of(index.ids[run]) for run in ids if run in index.ids}
        units = {unit.key: unit for unit in self._build(list(dict.fromkeys(roots.values())))}
        return {run: units[root] for run, root in roots.items()}

    def known(self, texts: Collection[str]) -> frozenset[str]:
        """Return those of these ids that a run has."""
        return frozenset(text for text in texts if text in self.index.entries)

    def describe(self, unit: Unit) -> Sequence[Mapping[str, Scalar]]:
        """Return key, parent, state and end of each member."""
        index = self.index
        rows = [index.row(key) for key in unit.members if key in index.entries]
        return [
            {
                "run": key_text(row.key),
                "parent": None if row.parent is None else key_text(row.parent),
                "status": None if str(row.status).startswith("\0") else row.status,
                "end": index.ended(row.key),
            }
            for row in rows
        ]

    def newest_kept(
        self, places: Sequence[int], *, count: int, any_status: bool, now: Instant
    ) -> Mapping[Group, Rank]:
        """Return the rank of the last unit that ``keep_last`` keeps, by group."""
        ranks: defaultdict[Group, list[Rank]] = defaultdict(list)
        for group, end, key in self._counted(places, any_status=any_status, now=now):
            ranks[group].append(rank(end, key))
        return {
            group: heapq.nlargest(count, found)[-1] for group, found in ranks.items() if len(found) >= count
        }

    def newest_in(
        self, places: Sequence[int], *, slot: Micros, any_status: bool, now: Instant
    ) -> Iterable[Newest]:
        """Return the newest counted run of each group in each slot of time."""
        return newest_of(self._counted(places, any_status=any_status, now=now), slot=slot)

    def _counted(self, places: Sequence[int], *, any_status: bool, now: Instant) -> Iterator[Newest]:
        """Yield the roots that rules by number count."""
        latest, index = now + micros(CLOCK_SKEW), self.index
        for key in index.order:
            end = index.ended(key)
            counts = any_status or index.status(key) is Status.SUCCESSFUL
            if end is not None and end <= latest and counts and not index.entries[key].faults:
                yield Newest(tuple(index.entries[key].group[place] for place in places), end, key)

    def content(self) -> tuple[int, int]:
        """Return about how many bytes all runs take on disk, as a sample tells, and the units."""
        keys = list(self.index.entries)
        taken = keys[:: max(1, len(keys) // SAMPLE)]
        size, _ = self.measure_all(taken)
        return (size * len(keys) // len(taken) if taken else 0), len(self.index.order)

    def groups(self, places: Sequence[int]) -> int:
        """Count the groups of roots."""
        index = self.index
        groups = (index.entries[key].group for key in self.index.order if index.entries[key].group)
        return len({tuple(group[place] for place in places) for group in groups})

    def census(self) -> Census:
        """Count runs by state."""
        index = self.index
        states = index.census()
        known = index.model.statuses
        unknown = {state: number for state, number in states.items() if state not in known}
        words = Counter({state.lstrip("\0"): number for state, number in states.items()})
        words["malformed"] += len(index.entries) - sum(states.values())
        return Census({word: number for word, number in words.items() if number}, unknown)

    def outside(self, *, cutoff: Instant | None, now: Instant) -> Outside:
        """Count the units that pages do not yield: recent ones, and those whose root lives."""
        index, reached, inside = self.index, 0, 0
        protected: Counter[str] = Counter()
        blocked: Counter[str] = Counter()
        recent = members = 0
        for key in self.index.order:
            size = len(index.tree(key)) if index.below(key) else 1
            reached += size
            if cutoff is not None and self.in_range(key, cutoff):
                inside += size
                continue
            members += size
            end = index.ended(key)
            if index.status(key) is Status.LIVE:
                protected["live-member"] += 1
            elif end is None:
                blocked[_why(index.entries[key])] += 1
            elif end > now + micros(CLOCK_SKEW):
                blocked["future-end-time"] += 1
            else:
                recent += 1
        return Outside(recent, protected, blocked, members, inside, len(index.entries) - reached)

    def weigh(self, units: Sequence[Unit]) -> Sequence[int]:
        """Return folders and files of each unit; no more than a batch takes, as no lock waits for them."""
        return [min(sum(self._inside(unit).values()) or 1, MAX_WEIGHT) for unit in units]

    def count(self, units: Sequence[Unit]) -> Mapping[str, int]:
        """Return the folders and files that removing these units would take."""
        total: Counter[str] = Counter()
        for unit in units:
            total.update(self._inside(unit))
        return total

    def _inside(self, unit: Unit) -> Mapping[str, int]:
        return _inside_of(self._looks, unit)

    def measure(self, units: Sequence[Unit]) -> tuple[int, int]:
        """Return bytes on disk, and folders and files."""
        looks = self._looks.inside(key for unit in units for key in unit.members)
        return sum(i.size for i in looks), sum(i.folders + i.files for i in looks)

    def measure_all(self, keys: Sequence[Key]) -> tuple[int, int]:
        """Walk through the folders of runs, whatever their state; return bytes, and folders and files."""
        with closing(Looker(self.site)) as looker:
            inside = [looker.look(self.index.entries[key]).inside for key in keys]
        return sum(i.size for i in inside), sum(i.folders + i.files for i in inside)

    def targets(self, unit: Unit) -> Sequence[Target]:
        """Return the members of a unit and where they are, the root first."""
        entries = [(key, self.index.entries[key]) for key in unit.members]
        return [Target(key, entry.run, entry.path, entry.inode) for key, entry in entries]

    def again(self, units: Sequence[Unit], places: Places) -> Sequence[Unit]:
        """Read units again where their members are now, and what refers to them."""
        with Folders(self.site.root.descriptor) as folders:
            entries = {key: self._read_again(key, place, folders) for key, place in places.items()}
        there = EntryTable((key, entry) for key, entry in entries.items() if entry is not None)
        if self._newcomers is None:
            self._newcomers = Newcomers(self.site, self.index)
        there.update(self._newcomers.of(list(places)))
        index = RunIndex(there, self.site)
        looks = LookTable()
        with closing(Looker(self.site)) as looker:
            source = RunSource(index, looker, looks, places)
            roots = [source.row(unit.key) for unit in units if unit.key in there]
            found = build_units(source, roots, index.model)
        self._again = {unit.key: _inside_of(looks, unit) for unit in found}
        return found

    def _read_again(self, key: Key, place: tuple[str, ...], folders: Folders) -> Entry | None:
        path = self.index.entries[key].path
        parts = self.site.runs
        number = next((i for i, part in enumerate(parts) if _is_of(path, part.parts)), 0)
        try:
            return read_entry(self.site, place, folders.at(place[:-1]), name=path[-1], source=number)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StoreFailure("io", f"{shown('/'.join(place[:-1]))}: {error.strerror}") from None

    def taken(self, unit: Unit) -> Mapping[str, int]:
        """Return what a unit took when it was read again."""
        return self._again.get(unit.key, {})


MAX_LOOKS: Final = 200_000
"""Closer looks that one plan remembers, but for those of a page."""

MAX_WEIGHT: Final = 20_000
"""Most folders and files that one unit counts for when batches are packed."""


def _is_of(path: tuple[str, ...], parts: tuple[str, ...]) -> bool:
    return len(path) == len(parts) and path[0] == parts[0]


def _why(entry: Entry) -> str:
    """Return what blocks a root of which no closer look was taken."""
    if entry.faults:
        return entry.faults[0].name
    return "unreadable-end-time" if entry.end == UNREADABLE else "unknown-status"


def _inside_of(looks: LookTable, unit: Unit) -> Mapping[str, int]:
    inside = looks.inside(unit.members)
    return {"folders": sum(i.folders for i in inside), "files": sum(i.files for i in inside)}
