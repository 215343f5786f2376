"""What the outside of a server needs of its inside, as a protocol: the engine is one, tests have another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Protocol

from afterrun.core.policy import Policy
from afterrun.core.report import Report
from afterrun.core.space import Reclaim
from afterrun.core.sweep import Budget
from afterrun.runs import RunStore
from afterrun.stores.sql.backups import BackupOrder


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """How a server is: counts and moments by name. No id, path, payload, token or process stands in it."""

    ready: bool
    counts: Mapping[str, int] = field(default_factory=dict)
    moments: Mapping[str, datetime | None] = field(default_factory=dict)


class Host(Protocol):
    """One store with what runs and sweeps it. Every method may be called from any thread.

    Those of maintenance wait for a sweep that runs and keep a new one from starting. They raise what
    `Retention` raises.
    """

    @property
    def ready(self) -> bool:
        """Say whether it takes work."""

    @property
    def store(self) -> RunStore:
        """Return the open store."""

    @property
    def policy(self) -> Policy:
        """Return what the server keeps of its own runs."""

    @property
    def backups(self) -> Path | None:
        """Return the folder for backups that are asked for over HTTP; ``None`` allows none."""

    def nudge(self) -> None:
        """Look now for work, and at what runs: something may have changed for them."""

    def look_for_work(self) -> None:
        """Look now for queued work."""

    def status(self) -> Status:
        """Say how the server is."""

    def plan(self, policy: Policy) -> Report:
        """Say what would go."""

    def prune(self, policy: Policy, *, budget: Budget, backup: BackupOrder | None) -> Report:
        """Remove at a person's word."""

    def sweep(self, policy: Policy, *, budget: Budget, approve: str | None) -> Report:
        """Run one automatic sweep now."""

    def reclaim(self, *, apply: bool) -> Reclaim:
        """Give space back, or say what could be given back."""
