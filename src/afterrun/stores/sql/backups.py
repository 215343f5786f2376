"""Backups before a manual removal, as a protocol: each kind of database makes, reads and restores its own."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Final, Literal, Protocol, TypeAlias

from pydantic import JsonValue

from afterrun.core.batch import Pace
from afterrun.core.errors import UnitNotFound
from afterrun.core.facts import Key, Reason, Unit, key_text
from afterrun.core.report import Report
from afterrun.core.row_tables import ROW, kind_of
from afterrun.core.store import Witness
from afterrun.core.sweep import Clock

BackupKind = Literal["removed", "whole"]
Going: TypeAlias = Iterator[tuple[str, Unit]]
"""Units that are to go, each after the name of its kind: all of one kind, then all of the next."""

Rules: TypeAlias = dict[str, JsonValue]
"""A policy as the head of a backup has it, for people."""

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


@dataclass(frozen=True, slots=True)
class Held:
    """What a backup holds of one kind: the ids of its units, and who compares them with the store.

    Of rows of a row table, ``only`` has the keys as the store has them.
    """

    only: Collection[Key]
    witness: Witness


@dataclass(frozen=True, slots=True, kw_only=True)
class Backup:
    """A verified backup that is at hand: what it holds by kind. ``facts`` is what a report says of it.

    ``left`` counts units by kind that it cannot hold, so that they stay; ``notices`` say why.
    """

    held: Mapping[str, Held]
    facts: Mapping[str, object] = field(default_factory=dict)
    left: Mapping[str, int] = field(default_factory=dict)
    notices: Sequence[str] = ()


@dataclass(slots=True, kw_only=True)
class Restored:
    """What a restore came to. ``present`` units were never gone or are back already, unchanged.

    ``kinds`` counts ``units`` by kind, and ``members`` are the runs of trees among them. ``refused`` counts
    units by reason; ``named`` are the first of them, or the one that was asked for.
    """

    store: str
    profile: str
    backup: str
    made_at: str
    units: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    members: int = 0
    present: int = 0
    rows: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    named: list[str] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)

    def count(self, kind: str, unit: Unit) -> None:
        """Take in a unit that was put back."""
        self.units += 1
        self.kinds[kind] += 1
        self.members += len(unit.members) if kind == "tree" else 0

    def refuse(self, unit: Unit, why: str) -> None:
        """Take in a unit that stays in the backup."""
        self.refused[why] += 1
        if len(self.named) < NAMED:
            self.named.append(key_text(unit.key))


class Maker(Protocol):
    """Makes one backup, at a place that was found to be safe."""

    @property
    def draft(self) -> Path:
        """Return the name that the file grows under, and keeps if this process is killed."""

    def made(self, survey: Report, going: Going) -> AbstractContextManager[Backup]:
        """Make one file with all that is ``going``, verify it, and keep it at hand.

        ``survey`` is what a plan told of it. Raises `BackupFailed` or `Refused`: the store is unchanged, no
        file stays.
        """


class Restorer(Protocol):
    """Puts units back into a live store.

    ``so_far`` is what has come back, also when the restore is cut off; nothing until the backup was read.
    """

    so_far: Restored | None

    def run(self, path: Path, run: str | None) -> Restored:
        """Restore the unit with one id, or all, trees first and rows of row tables last.

        Raises `Refused`, `BackupFailed`, and `UnitNotFound`.
        """


class Backups(Protocol):
    """What a store can do about backups of it."""

    def notices(self, kind: BackupKind, *, rows: Collection[str] = ()) -> Sequence[str]:
        """Say what a backup of this kind means for the engine while it is made.

        ``rows`` are row tables of which rows go, too.
        """

    def maker(self, order: BackupOrder, *, pace: Pace, clock: Clock, rows: Collection[str] = ()) -> Maker:
        """Prepare a backup; nothing is written yet. Raises `UsageError` or `Refused` for an unsafe place.

        Of the row tables in ``rows``, those rows are in it that go by themselves.
        """

    def restorer(self, *, clock: Clock, rest: float, rows: Collection[str] = ()) -> Restorer:
        """Prepare a restore; ``rest`` is the pause after a transaction, as a multiple of its time.

        With ``rows``, only rows of these row tables come back: the one whose key is the id, or all.
        """


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a restore shall put back: a unit with one id, or all; with ``rows``, of these row tables alone."""

    run: str | None
    rows: Collection[str]

    def kinds(self, held: Collection[str], *, backup: str) -> Collection[str]:
        """Return the kinds that it may be of, out of those that a backup holds. Raises `UnitNotFound`."""
        wanted = {kind_of(name): name for name in self.rows}
        strange = [name for kind, name in wanted.items() if kind not in held]
        if strange:
            known = ", ".join(kind.removeprefix(ROW) for kind in held if kind.startswith(ROW)) or "none"
            raise UnitNotFound(
                f"the backup {backup} has no rows of {strange[0][:40]}; row tables in it: {known}"
            )
        if wanted:
            return list(wanted)
        return [kind for kind in held if self.run is None or not kind.startswith(ROW)]

    @property
    def lacking(self) -> str:
        """Return what is said where there is nothing with the id."""
        rows = "row of these tables" if self.rows else "unit"
        return f"has no {rows} with the id {(self.run or '')[:120]!r}"


LEFT: Final = "what it refers to is gone, or what must be there once is there again"
"""What is said of a row that a constraint of the database refuses."""


class NotRestoredError(Exception):
    """A unit that stays in the backup, and why."""

    def __init__(self, reason: Reason) -> None:
        """Take the reason; its detail is for people."""
        super().__init__(reason.detail)
        self.reason = reason.name


IS_BACK: Final = "id-is-back"
"""Name of the reason why most units are not put back: something of them is in the store again."""


def by_kind(going: Going) -> Iterator[tuple[str, Iterator[Unit]]]:
    """Yield each kind with its units, which are to be read before the next one is asked for."""
    for kind, pairs in groupby(going, key=itemgetter(0)):
        yield kind, (unit for _, unit in pairs)


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
