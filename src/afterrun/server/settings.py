"""What an engine is told: its app, its store, what it keeps, and how patient it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Final

from afterrun.core.errors import UsageError
from afterrun.core.policy import Policy
from afterrun.runs import DEFAULT_POLICY
from afterrun.runs.identity import Choice
from afterrun.schedule import Timing
from afterrun.service import SweepOptions

LEASE: Final = timedelta(seconds=15)
"""How long the store and its runs are held without a sign of life."""

GRACE: Final = timedelta(seconds=10)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """What an engine is told.

    Attributes:
        app: ``module:attribute`` or ``path.py:attribute``; it is imported by runners alone.
        store: path or URL of the run store.
        sealing: its keys, by default those of the environment, or ``"off"``.
        runners: processes that execute workflows.
        slots: runs that a runner executes at a time; those that wait take none.
        remembered: waiting runs that a runner keeps in memory, so that they go on without a replay.
        lease: how long the store and its runs are held without a renewal, which comes three times as often.
        patience: how long the start waits for another server's lease to end; ``None`` is a lease and a half.
        grace: how long running steps have to end when the engine is stopped.
        policy: what is kept of the store's own runs.
        timing: how often that is swept.
        sweeping: options of each sweep.
        approve: let sweeps remove without asking first, as the first one of a store that holds runs does.
        state: folder of what retention remembers; ``None`` is the user's.
        backups: folder of backups that are asked for over HTTP; ``None`` allows none.
        environment: variables of runners besides those that they inherit.
    """

    app: str
    store: str
    sealing: Choice = None
    runners: int = 2
    slots: int = 16
    remembered: int = 200
    lease: timedelta = LEASE
    patience: timedelta | None = None
    grace: timedelta = GRACE
    policy: Policy = DEFAULT_POLICY
    timing: Timing = field(default_factory=Timing)
    sweeping: SweepOptions = field(default_factory=SweepOptions)
    approve: bool = False
    state: Path | None = None
    backups: Path | None = None
    environment: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        if self.runners < 1 or self.slots < 1 or self.remembered < 0:
            raise UsageError("a server needs a runner with a slot, and remembers no fewer than zero runs")
        if self.lease < timedelta(seconds=1):
            raise UsageError("the lease of a server is a second at least")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outside:
    """How a server is reached: where it listens, by which names, and the file of its token."""

    listen: str
    hosts: Sequence[str] = ()
    token_file: Path | None = None
