"""The report: what a plan found, or what a sweep did. Its JSON is a contract with scripts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from afterrun.core.blobs import BlobCounts
from afterrun.core.row_tables import UNDONE, TableFigures
from afterrun.core.space import Reclaim
from afterrun.core.store import Schema
from afterrun.core.times import Instant, iso

Ended = Literal["completed", "budget", "interrupted", "guard", "locked", "failed"]
COUNTED_ENDS: Final = ("completed", "budget", "interrupted")
"""Endings after which the work that was done counts as a finished sweep of the store."""


@dataclass(slots=True)
class UnitCounts:
    """Units of one kind. ``protected`` and ``blocked`` count a unit under each of its reasons.

    ``decided``, in plans, counts for each rule of the policy the units that it keeps, and for a cap those
    that it lets go against other rules.
    """

    scanned: int = 0
    expired: int = 0
    recent: int = 0
    protected: Counter[str] = field(default_factory=Counter)
    blocked: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    removed: int = 0
    deferred: int = 0
    members: int = 0
    unrooted: int = 0
    decided: Counter[str] = field(default_factory=Counter)

    @property
    def would_go(self) -> int:
        """Return how many a plan lets go, after what a plan file leaves out."""
        return self.expired - self.skipped.total()

    def as_json(self) -> dict[str, object]:
        """Return plain values, reasons in a fixed order."""
        return {
            "scanned": self.scanned,
            "expired": self.expired,
            "recent": self.recent,
            "protected": dict(sorted(self.protected.items())),
            "blocked": dict(sorted(self.blocked.items())),
            "skipped": dict(sorted(self.skipped.items())),
            "removed": self.removed,
            "deferred": self.deferred,
            "members": self.members,
            "unrooted": self.unrooted,
            "decided": dict(self.decided),
        }


@dataclass(slots=True, kw_only=True)
class Report:
    """What one plan or sweep comes to. Sizes are bytes, times seconds.

    ``units`` are those of ``kind``; ``others`` are those of the kinds that came after it, by kind. ``tables``
    are the figures of row tables, by the profile's names. All else is of all kinds together.
    """

    store: str
    profile: str
    schema: Schema
    dry_run: bool
    now: Instant
    policy: dict[str, object]
    fingerprint: str
    kind: str = "tree"
    units: UnitCounts = field(default_factory=UnitCounts)
    others: dict[str, UnitCounts] = field(default_factory=dict)
    tables: dict[str, TableFigures] = field(default_factory=dict)
    rows: Counter[str] = field(default_factory=Counter)
    blobs: BlobCounts = field(default_factory=BlobCounts)
    keys_forgotten: int = 0
    logical_bytes: int = 0
    file_before: int = 0
    file_after: int = 0
    backlog_before: int = 0
    backlog_after: int = 0
    gaining: bool | None = None
    seconds: float = 0.0
    longest_batch: float = 0.0
    batches: int = 0
    ended: Ended = "completed"
    message: str = ""
    notices: list[str] = field(default_factory=list)
    oversized: list[str] = field(default_factory=list)
    large: list[str] = field(default_factory=list)
    backup: dict[str, object] | None = None
    interrupted: dict[str, object] | None = None
    reclaim: Reclaim | None = None

    @property
    def kinds(self) -> Mapping[str, UnitCounts]:
        """Return the counts of each kind of unit."""
        return {self.kind: self.units, **self.others}

    @property
    def scanned(self) -> int:
        """Return how many candidates were looked at, of all kinds."""
        return sum(units.scanned for units in self.kinds.values())

    @property
    def removed(self) -> int:
        """Return how many units went, of all kinds."""
        return sum(units.removed for units in self.kinds.values())

    @property
    def deferred(self) -> int:
        """Return how many units failed alone, of all kinds."""
        return sum(units.deferred for units in self.kinds.values())

    @property
    def would_go(self) -> int:
        """Return how many units a plan lets go, of all kinds, after what a plan file leaves out."""
        return sum(units.would_go for units in self.kinds.values())

    @property
    def undone(self) -> bool:
        """Say whether some units failed alone, or a row table as a whole."""
        return bool(self.deferred) or any(table.outcome in UNDONE for table in self.tables.values())

    def add(self, later: Report) -> None:
        """Take in what came of the units of another kind, which followed."""
        self.others.update(later.kinds)
        self.tables.update(later.tables)
        self.rows.update(later.rows)
        self.blobs.count += later.blobs.count
        self.blobs.size += later.blobs.size
        self.keys_forgotten += later.keys_forgotten
        self.logical_bytes += later.logical_bytes
        self.backlog_before += later.backlog_before
        self.backlog_after += later.backlog_after
        self.seconds += later.seconds
        self.longest_batch = max(self.longest_batch, later.longest_batch)
        self.batches += later.batches
        self.ended, self.message = later.ended, later.message or self.message
        self.notices += [notice for notice in later.notices if notice not in self.notices]
        self.oversized += later.oversized
        self.large += later.large

    def as_json(self) -> dict[str, object]:
        """Return the object that ``--json`` prints."""
        return {
            "store": self.store,
            "profile": self.profile,
            "schema": {"version": self.schema.version, "read": self.schema.read},
            "dry_run": self.dry_run,
            "now": iso(self.now),
            "policy": self.policy,
            "fingerprint": self.fingerprint,
            "units": {kind: units.as_json() for kind, units in self.kinds.items()},
            "tables": {name: table.as_json() for name, table in self.tables.items()},
            "rows": dict(self.rows),
            "blobs": self.blobs.as_json(),
            "keys_forgotten": self.keys_forgotten,
            "bytes": {
                "logical": self.logical_bytes,
                "file_before": self.file_before,
                "file_after": self.file_after,
            },
            "backlog": {
                "before": self.backlog_before,
                "after": self.backlog_after,
                "gaining": self.gaining,
            },
            "seconds": {
                "total": round(self.seconds, 6),
                "longest_batch": round(self.longest_batch, 6),
            },
            "batches": self.batches,
            "ended": self.ended,
            "message": self.message,
            "notices": self.notices,
            "oversized": self.oversized,
            "large": self.large,
            "backup": self.backup,
            "interrupted": self.interrupted,
            "reclaim": None if self.reclaim is None else self.reclaim.as_json(),
        }
