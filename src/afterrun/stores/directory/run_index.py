"""All runs of one scan in memory: names, rows and links, but nothing of their content.

One scan feeds every page, count and census of a plan. A run takes some hundred bytes; what is in its folder
is looked at only when it might go.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from afterrun.core.errors import StoreFailure
from afterrun.core.facts import UNREADABLE, Flag, Key, Reason, Row, Status
from afterrun.core.times import Instant
from afterrun.stores.directory.discovery import Discovery
from afterrun.stores.directory.entries import MALFORMED, Entry, EntryTable, broken, read_entry, tree_model
from afterrun.stores.directory.folders import Folders, changed
from afterrun.stores.directory.names import Proposal, shown, validate
from afterrun.stores.directory.order import in_order
from afterrun.stores.directory.site import Site

MAX_RUNS: Final = 2_000_000
"""Runs that are held in memory; a store with more is refused, since half of a tree says nothing."""


class RunIndex:
    """The runs that one scan found.

    ``faults`` are folders that it could not read; ``links`` is that of `Discovery`.
    """

    def __init__(self, entries: EntryTable, site: Site, scan: Discovery | None = None) -> None:
        """Link entries to their parents. ``order`` holds the keys of all roots, by name."""
        self.entries = entries
        self.faults = () if scan is None else tuple(scan.faults)
        self.links: Mapping[tuple[str, ...], int] = {} if scan is None else scan.links
        self.model = tree_model(site.profile.units.directory)
        self.ids: dict[str, Key] = {}
        if site.profile.units.directory.status is not None:  # else the last part of a path names no run
            for key, entry in entries.items():
                self.ids.setdefault(entry.run, key)
        self.parents: dict[Key, Key] = {}
        self.claims: dict[Key, list[Key]] = defaultdict(list)
        self._link()
        below: dict[Key, list[Key]] = defaultdict(list)
        for key, parent in self.parents.items():
            below[parent].append(key)
        self._below = {key: tuple(children) for key, children in below.items()}
        self.order = in_order(key for key in entries if self.is_root(key))

    @classmethod
    def scan(cls, site: Site) -> RunIndex:
        """Read the names and the statuses of all runs, each once. Raises `StoreFailure`."""
        found = EntryTable()
        scan = Discovery(site, site.runs)
        reader = Reader(site)
        try:
            for proposal in scan.proposals():
                if site.halt():
                    raise StoreFailure("interrupted", "the host ends")
                entry = reader.entry(proposal)
                if entry is not None:
                    found[free_key(key_of(site, proposal), entry, found)] = entry
                if len(found) > MAX_RUNS:
                    raise StoreFailure("too-many", f"it has more than {MAX_RUNS} runs")
        finally:
            reader.close()
        return cls(found, site, scan)

    def _link(self) -> None:
        naming: list[tuple[Key, tuple[str, ...]]] = []
        for key, entry in self.entries.items():
            if entry.parent is not None:
                self.parents[key] = self.ids.get(entry.parent, entry.parent)
            if entry.children:
                naming.append((key, entry.children))
        for key, children in naming:
            for child in children:
                named = self.ids.get(child)
                if named is None or named == key:
                    continue
                if self.parents.setdefault(named, key) != key:
                    self.claims[named].append(key)

    def release(self) -> None:
        """Let go of all runs, one by one: at once, a million of them would stop a host's other threads."""
        self.order, self.ids, self.parents, self._below = [], {}, {}, {}
        self.entries.clear()

    def row(self, key: Key, end: Instant | None = None) -> Row:
        """Return a run's row; ``end`` replaces its own where a closer look has found another one."""
        entry = self.entries[key]
        return Row(key, self.parents.get(key), entry.state, entry.end if end is None else end, entry.group)

    def below(self, key: Key) -> Sequence[Key]:
        """Return the keys of a run's children."""
        return self._below.get(key, ())

    def is_root(self, key: Key) -> bool:
        """Say whether a run has no parent here."""
        return self.parents.get(key) not in self.entries

    def root_of(self, key: Key) -> Key:
        """Climb to a run's root; where that turns in a circle, the run it began to turn at."""
        seen = {key}
        while not self.is_root(key):
            key = self.parents[key]
            if key in seen:
                break
            seen.add(key)
        return key

    def tree(self, root: Key) -> set[Key]:
        """Return the keys of a root and all that is below it."""
        found, frontier = {root}, [root]
        while frontier:
            frontier = [child for key in frontier for child in self.below(key) if child not in found]
            found.update(frontier)
        return found

    def status(self, key: Key) -> Status:
        """Return what a run's state means."""
        return self.model.statuses.get(self.entries.state(key), Status.UNKNOWN)

    def claimed(self, key: Key) -> Iterator[Flag]:
        """Yield what holds a run since another tree's run names it as its child."""
        for claimant in self.claims.get(key, ()):
            if self.root_of(claimant) != self.root_of(key):
                yield Flag(Reason("cross-tree-reference", f"{shown(str(claimant))} names it as its child"))
                return

    def census(self) -> Counter[str]:
        """Count runs by state; what has no readable status is not counted, since it blocks itself."""
        states = Counter(map(self.entries.state, self.entries))
        states.pop(MALFORMED, None)
        return states

    def ended(self, key: Key) -> Instant | None:
        """Return when a root ended, without a closer look; nothing if it has not, or at no known time."""
        entry = self.entries[key]
        if entry.state == MALFORMED or self.status(key) not in (Status.TERMINAL, Status.SUCCESSFUL):
            return None
        return None if entry.end == UNREADABLE else entry.end


class Reader:
    """Reads entries that a scan proposed."""

    def __init__(self, site: Site) -> None:
        """Take a site; nothing is opened yet."""
        self._site = site
        self._folders = Folders(site.root.descriptor)

    def entry(self, proposal: Proposal) -> Entry | None:
        """Return an entry, or nothing if it is gone."""
        path = proposal.path
        fault = validate(proposal, self._site.runs)
        if fault is not None:
            return self._seen(broken(path, fault))
        try:
            parent = self._folders.at(path[:-1])
        except FileNotFoundError:
            return None
        except OSError as error:
            return broken(path, Reason("unreadable", f"the folder above it: {error.strerror}"))
        return read_entry(self._site, path, parent, name=path[-1], source=proposal.source)

    def _seen(self, entry: Entry) -> Entry:
        """Add when something that is no run was last changed, since its fault says enough."""
        try:
            facts = self._folders.lstat(entry.path)
        except OSError:
            facts = None
        return entry._replace(end=0 if facts is None else changed(facts))

    def close(self) -> None:
        """Let go of the folder."""
        self._folders.close()


def key_of(site: Site, proposal: Proposal) -> str:
    """Return what a run is called: its id where it has one, else its path below the store."""
    if proposal.source == 0 and site.profile.units.directory.status is not None:
        return "/".join(proposal.path[site.runs[0].fixed :])
    return "/".join(proposal.path)


def free_key(key: str, entry: Entry, found: Mapping[Key, Entry]) -> str:
    """Return a key that no other run has: where ids collide, the path."""
    return "/".join(entry.path) if key in found else key
