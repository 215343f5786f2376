"""Backups before a manual removal, as a protocol: each kind of database makes, reads and restores its own."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, Protocol

from afterrun.core.batch import Pace
from afterrun.core.plan import Survey
from afterrun.core.store import Witness
from afterrun.core.sweep import Clock

BackupKind = Literal["removed", "whole"]
PAGE: Final = 1_000
"""Raw keys of a page when what goes is selected for a backup."""

NAMED: Final = 20
"""Units that the report of a restore names one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupOrder:
    """Where a backup goes, an absolute path of a file that is not there yet, and of which kind it is.

    ``removed`` has exactly the rows that will go and can be restored tree by tree; ``whole`` is a copy of
    the database, or of the tables that rows go from.
    """

    path: Path
    kind: BackupKind = "removed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Backup:
    """A verified backup that is at hand. ``facts`` is what a report says of it."""

    only: Collection[str]
    witness: Witness
    facts: Mapping[str, object] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class Restored:
    """What a restore came to. ``present`` units were never gone or are back already, unchanged.

    ``refused`` counts units by reason; ``named`` are the first of them, or the one that was asked for.
    """

    store: str
    profile: str
    backup: str
    made_at: str
    units: int = 0
    members: int = 0
    present: int = 0
    rows: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    named: list[str] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)


class Maker(Protocol):
    """Makes one backup, at a place that was found to be safe."""

    @property
    def draft(self) -> Path:
        """Return the name that the file grows under, and keeps if this process is killed."""

    def made(self, found: Survey, again: Survey, *, limit: int | None) -> AbstractContextManager[Backup]:
        """Make the backup, verify it, and keep it at hand.

        ``found`` was walked to its end, ``again`` is the same plan and not walked yet. ``limit`` is the most
        units that will go. Raises `BackupFailed` or `Refused`: the store is unchanged, no file stays.
        """


class Restorer(Protocol):
    """Puts units back into a live store.

    ``so_far`` is what has come back, also when the restore is cut off; nothing until the backup was read.
    """

    so_far: Restored | None

    def run(self, path: Path, run: str | None) -> Restored:
        """Restore the unit of one run, or all. Raises `Refused`, `BackupFailed`, `UnitNotFound`."""


class Backups(Protocol):
    """What a store can do about backups of it."""

    def notices(self, kind: BackupKind) -> Sequence[str]:
        """Say what a backup of this kind means for the engine while it is made."""

    def maker(self, order: BackupOrder, *, pace: Pace, clock: Clock) -> Maker:
        """Prepare a backup; nothing is written yet. Raises `UsageError` or `Refused` for an unsafe place."""

    def restorer(self, *, clock: Clock, rest: float) -> Restorer:
        """Prepare a restore; ``rest`` is the pause after a transaction, as a multiple of its time."""


def identity_digest(identity: str) -> str:
    """Return what names a store in a file that may travel."""
    return hashlib.sha256(identity.encode("utf-8", "surrogateescape")).hexdigest()


def origin_notices(*, same: bool, place: str, version: str, current: str) -> Iterator[str]:
    """Say where a backup that fits by its tables comes from, if not from this store as it is now.

    ``place`` is where its store was, ``version`` the schema version then and ``current`` that of now.
    """
    if not same:
        yield (
            f"the backup was made of {place}, this store is elsewhere; its tables are the same, so it "
            "was taken for the same store, moved"
        )
    if version != current:
        yield (
            f"the backup was made at schema version {version}, the store has {current}; their columns are "
            "the same"
        )
