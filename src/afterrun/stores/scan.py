"""Find stores on this machine: walk, tell what files and folders are, look at those of engines we know."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from afterrun.core.errors import AfterrunError
from afterrun.core.store import Schema
from afterrun.profiles import Profile
from afterrun.profiles.detect import fitting
from afterrun.profiles.directory import DirectoryProfile
from afterrun.stores.scan_folders import examine_folder, first_names
from afterrun.stores.sql.made import sql_store
from afterrun.stores.sql.sqlite.backup_meta import OWN_TABLES
from afterrun.stores.sql.sqlite.dialect import SQLite
from afterrun.stores.sql.sqlite.files import table_names
from afterrun.stores.sql.store import SqlStore
from afterrun.stores.walk import Bounds, Marked, Place, Unreadable, Walk

MOST_RUNS: Final = 1_000_000
"""Runs that are counted; of more, only that there are more is said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundStore:
    """A store of an engine we know. ``runs_exact`` is false where there are more than were counted.

    ``problems`` say why no sweep may remove from it now; without any, one may. ``bytes`` of a directory are
    not known: measuring it means to walk through all of it.
    """

    path: Path
    profile: str
    engine: str
    schema: Schema
    bytes: int | None
    runs: int
    runs_exact: bool
    problems: tuple[str, ...]

    def as_json(self) -> Mapping[str, object]:
        """Return it as the command line prints it."""
        return {
            "path": str(self.path),
            "profile": self.profile,
            "engine": self.engine,
            "schema": {"version": self.schema.version, "read": self.schema.read},
            "bytes": self.bytes,
            "runs": self.runs,
            "runs_exact": self.runs_exact,
            "can_sweep": not self.problems,
            "problems": list(self.problems),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """What a scan found. ``unknown`` counts SQLite files of others, ``backups`` those that `prune` made."""

    places: Sequence[Place]
    stores: Sequence[FoundStore]
    unknown: int
    backups: int
    walk: Walk
    seconds: float

    @property
    def blind(self) -> bool:
        """Say whether something could not be read, and nothing could."""
        return bool(self.walk.unreadable) and not (self.stores or self.unknown or self.backups)

    def as_json(self) -> Mapping[str, object]:
        """Return it as the command line prints it."""
        return {
            "places": [str(place.path / (place.pattern or "")) for place in self.places],
            "stores": [store.as_json() for store in self.stores],
            "unknown": self.unknown,
            "backups": self.backups,
            "unreadable": [{"path": str(path), "reason": why} for path, why in self.walk.unreadable],
            "left_out": dict(self.walk.left_out),
            "folders": self.walk.folders,
            "entries": self.walk.entries,
            "stopped": self.walk.stopped,
            "seconds": round(self.seconds, 3),
        }


def default_places(profiles: Sequence[Profile | DirectoryProfile]) -> list[Place]:
    """Return where the engines of these profiles keep stores unless they are told otherwise."""
    found: dict[Place, None] = {}
    for profile in profiles:
        for text in profile.detect.places:
            path = Path(os.path.expanduser(text))  # noqa: PTH111 - Path raises where there is no home
            folders = isinstance(profile, DirectoryProfile)
            found[Place(path.parent.absolute(), path.name, folders)] = None
    return list(found)


def scan_places(
    places: Sequence[Place], profiles: Sequence[Profile | DirectoryProfile], *, bounds: Bounds
) -> Scan:
    """Look for stores of these profiles. Changes no byte, and ends by its bounds.

    What cannot be read is told of in ``walk.unreadable`` and stops nothing.
    """
    began = time.monotonic()
    known = _Known.of(profiles)
    walk = Walk(bounds, first_names(known.directories))
    stores: list[FoundStore] = []
    others = {"unknown": 0, "backups": 0}
    for met in _candidates(walk, places):
        try:
            found = _examine(met, known.databases) if isinstance(met, Path) else _look_into(met, known, walk)
        except AfterrunError as error:
            walk.unreadable.append(Unreadable(met if isinstance(met, Path) else met.path, str(error)))
        else:
            if isinstance(found, FoundStore):
                stores.append(found)
            elif found is not None:
                others[found] += 1
    return Scan(
        places=places,
        stores=sorted(stores, key=lambda store: store.path),
        unknown=others["unknown"],
        backups=others["backups"],
        walk=walk,
        seconds=time.monotonic() - began,
    )


class _Known(NamedTuple):
    """Profiles by what they are of."""

    databases: Sequence[Profile]
    directories: Sequence[DirectoryProfile]

    @classmethod
    def of(cls, profiles: Sequence[Profile | DirectoryProfile]) -> _Known:
        return cls(
            [profile for profile in profiles if isinstance(profile, Profile)],
            [profile for profile in profiles if isinstance(profile, DirectoryProfile)],
        )


def _look_into(marked: Marked, known: _Known, walk: Walk) -> FoundStore | None:
    """Tell what a folder is; what is read of it counts as part of the walk."""
    met = walk.entries

    def over(entries: int) -> bool:
        walk.entries = met + entries
        return walk.over()

    found = examine_folder(marked, known.directories, most=MOST_RUNS, over=over)
    if found is None:
        return None
    walk.entries = met + found.entries
    return FoundStore(
        path=marked.path,
        profile=found.profile.name,
        engine=found.profile.engine,
        schema=found.schema,
        bytes=None,
        runs=found.runs,
        runs_exact=found.runs_exact,
        problems=found.problems,
    )


def _candidates(walk: Walk, places: Sequence[Place]) -> Iterator[Path | Marked]:
    for place in places:
        if walk.over():
            return
        if place.pattern is None:
            yield from walk.found(place.path)
        elif place.folders:
            yield from walk.marked(place.path, place.pattern)
        else:
            yield from walk.matching(place.path, place.pattern)


def _examine(path: Path, profiles: Sequence[Profile]) -> FoundStore | str:
    """Tell what a database is. Raises `AfterrunError` where it cannot be read or fits several profiles."""
    tables = table_names(path)
    if tables.issuperset(OWN_TABLES):
        return "backups"
    found = fitting(tables, profiles)
    if not found:
        return "unknown"
    if len(found) > 1:
        names = ", ".join(sorted(profile.name for profile in found))
        raise AfterrunError(f"several profiles fit: {names}; say which with --profile NAME")
    with closing(SQLite(path, writable=False, recover=False)) as dialect:
        return _look(sql_store(dialect, found[0]), path)


def _look(store: SqlStore, path: Path) -> FoundStore:
    schema = store.schema()
    runs = store.count_runs(MOST_RUNS + 1)
    return FoundStore(
        path=path,
        profile=store.profile_name,
        engine=store.profile.engine,
        schema=schema,
        bytes=path.stat().st_size,
        runs=min(runs, MOST_RUNS),
        runs_exact=runs <= MOST_RUNS,
        problems=(*schema.problems, *_missing_rights(path)),
    )


def _missing_rights(path: Path) -> Iterator[str]:
    if not os.access(path, os.W_OK):
        yield "this user may not write to the file"
    if not os.access(path.parent, os.W_OK | os.X_OK):
        yield "this user may not write to its folder, where SQLite's journal and the sweep lock lie"
