"""Sweeps inside a host: ties the retention of one store to a scheduler.

A host is a program that runs an engine, or a process that looks after stores for others.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path

from afterrun.core.errors import AfterrunError
from afterrun.core.policy import Policy
from afterrun.core.space import ReclaimOptions
from afterrun.core.times import Instant
from afterrun.schedule import (
    Clock,
    IdleGate,
    Outcome,
    Reason,
    Request,
    Scheduler,
    Standing,
    Timing,
    log_outcome,
)
from afterrun.service import Retention, SweepOptions, open_retention
from afterrun.state import StateDirectory, StoreState
from afterrun.state.attempts import Attempts
from afterrun.state.files import Record

__all__ = [
    "Clock",
    "HostedStore",
    "IdleGate",
    "Opening",
    "Outcome",
    "Reason",
    "Scheduler",
    "Standing",
    "Timing",
    "log_outcome",
    "scheduled",
]

log = logging.getLogger("afterrun")


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """How a hosted store is opened, and what admits a sweep that asks; see `Retention`.

    ``trash``: of a directory, what goes can be put back for so long.
    ``reclaim``: give free pages back after a completed sweep, while the host is still idle and if it is worth
    it. On SQLite that is a VACUUM in place: the engine can write nothing until it is done.
    """

    profile: str | None = None
    datasources: Sequence[str] = ()
    schema_unverified: bool = False
    secure_delete: bool = False
    trash: timedelta | None = None
    state: Path | None = None
    approve: str | None = None
    always: bool = False
    reclaim: bool = False


@dataclass(slots=True)
class HostedStore:
    """One store, swept whenever a scheduler says so; also what the scheduler remembers of it.

    Without a ``policy``, that of its profile holds, if it has one.

    The store is opened for each sweep and closed again, so that it may be made, moved or replaced meanwhile.
    """

    location: str
    policy: Policy | None
    options: SweepOptions
    opening: Opening
    _identity: str = field(default="", init=False)

    def run(self, request: Request) -> Outcome:
        """Do one sweep. Raises what `Retention` raises."""
        host, own = request.gate, self.options.gate
        options = replace(self.options, gate=lambda: own() and host(), halt=request.halt, sleep=request.pause)
        if request.one_at_a_time:
            options = replace(options, batch_units=1)
        with self._attempt(writable=True) as retention:
            opening = self.opening
            report = retention.sweep(
                self.policy,
                options=options,
                approve=opening.approve,
                always=opening.always,
                since=request.since,
            )
            if opening.reclaim and report.ended == "completed" and host():
                _give_back(retention, gate=host)
        return Outcome.of(report)

    def last_completed(self) -> Instant | None:
        """Return when the last sweep of this store was completed, by whichever process."""
        return self._remembered().last_completed

    def due_since(self) -> Instant | None:
        """Return since when a first sweep is due."""
        return self._remembered().due_since

    def keep_due_since(self, moment: Instant) -> None:
        """Remember since when a first sweep is due. Raises `StoreLocked` while another process sweeps."""
        with self._open(writable=True) as retention:
            retention.keep_due_since(moment)

    def _open(self, *, writable: bool) -> Retention:
        opening = self.opening
        return open_retention(
            self.location,
            profile=opening.profile,
            datasources=opening.datasources,
            writable=writable,
            schema_unverified=opening.schema_unverified,
            secure_delete=opening.secure_delete and writable,
            trash=opening.trash,
            state=opening.state,
        )

    def records(self) -> Sequence[Record]:
        """Return what is on record of this store, the newest last, also while it cannot be opened."""
        attempts = Attempts(self.location, state=self.opening.state)
        return attempts.records(identity=self._identity or None)

    def _attempt(self, *, writable: bool) -> Retention:
        """Open the store for a sweep; that it could not be opened is put on record."""
        try:
            return self._open(writable=writable)
        except (AfterrunError, OSError) as error:
            with suppress(AfterrunError):  # the records may be on the disk that is full
                attempts = Attempts(self.location, state=self.opening.state)
                attempts.note(error, at=time.time_ns() // 1_000)
            raise

    def _remembered(self) -> StoreState:
        if not self._identity:
            with self._attempt(writable=False) as retention:
                self._identity = retention.store.identity
        return StateDirectory(self.opening.state).load(self._identity)


def _give_back(retention: Retention, *, gate: Callable[[], bool]) -> None:
    """Give free pages back. What stands in the way undoes no removal, and the next sweep tries again."""
    try:
        done = retention.reclaim(ReclaimOptions(gate=gate, worth_only=True))
    except AfterrunError as error:
        log.warning("no space was given back after a sweep: %s", type(error).__name__)
    else:
        log.info("reclaim after a sweep ended %s, %d bytes", done.ended, done.given_back)


def scheduled(
    location: str,
    policy: Policy | None = None,
    *,
    gate: IdleGate,
    timing: Timing | None = None,
    options: SweepOptions | None = None,
    opening: Opening | None = None,
    observer: Callable[[Outcome], None] = log_outcome,
    clock: Clock | None = None,
) -> Scheduler:
    """Prepare the sweeps of one store; enter what is returned, or start and close it.

    ``location`` is a URL or a path. The store is opened by the scheduler's thread, so it need not exist yet.
    Without a ``policy``, the profile's own holds, if it has one: that of our own run store does.
    ``gate`` says when the host is idle; one gate serves all stores of a host. ``options`` hold for each
    sweep: its budget, say, or an observer of its batches. ``observer`` is told how each sweep ended.
    """
    store = HostedStore(location, policy, options or SweepOptions(), opening or Opening())
    return Scheduler(store.run, gate=gate, memory=store, timing=timing, clock=clock, observer=observer)
