"""What an engine does for its own store: sweeps while it is idle, and the commands of people beside them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Final

from afterrun.core.policy import Policy
from afterrun.core.report import Report
from afterrun.core.space import Reclaim, ReclaimOptions
from afterrun.core.sweep import Budget
from afterrun.core.times import to_datetime
from afterrun.hosting import Opening, scheduled
from afterrun.schedule import IdleGate, Outcome, Reason, Scheduler, Standing, log_outcome
from afterrun.server.settings import EngineSettings
from afterrun.service import Retention, SweepOptions
from afterrun.stores.sql.backups import BackupOrder

PROFILE: Final = "native"

PATIENCE: Final = 60.0
"""Seconds that a command waits for a sweep that runs."""


class Upkeep:
    """The retention of the store that an engine serves. Methods may be called from any thread."""

    def __init__(self, settings: EngineSettings, gate: IdleGate) -> None:
        """Prepare; nothing is swept before `start`."""
        self._settings = settings
        self._gate = gate
        self._last: Outcome | None = None
        self.sweeps: Scheduler = scheduled(
            settings.store,
            settings.policy,
            gate=gate,
            timing=settings.timing,
            options=settings.sweeping,
            opening=Opening(profile=PROFILE, state=settings.state, always=settings.approve),
            observer=self._told,
        )
        self._started = self._stopping = False

    def begin(self) -> None:
        """Sweep a store that was made just now and holds nothing, so that later sweeps need not ask first."""
        with Retention(self._settings.store, profile=PROFILE, state=self._settings.state) as retention:
            retention.sweep(self._settings.policy, always=True)

    def start(self) -> None:
        """Start to sweep, as after every start-up."""
        self._started = True
        self.sweeps.start()

    def request(self, reason: Reason) -> None:
        """Ask for a sweep; it joins the one that is scheduled or running."""
        if self._started:
            self.sweeps.request(reason)

    def stop(self) -> None:
        """Start no sweep any more, and tell one that runs to end after its batch, also a person's."""
        self._stopping = True
        if self._started:
            self.sweeps.stop()

    def close(self) -> None:
        """Start no sweep any more, and wait until a running one is settled."""
        if self._started:
            self.sweeps.close()

    @property
    def standing(self) -> Standing:
        """Return where the sweeps stand."""
        return self.sweeps.standing()

    @property
    def last_ended(self) -> datetime | None:
        """Return when the last completed sweep of this process ended."""
        report = None if self._last is None else self._last.report
        return None if report is None else to_datetime(report.now)

    # ------------------------------------------------------------------------- the commands of people

    def plan(self, policy: Policy) -> Report:
        """Say what would go."""
        with Retention(
            self._settings.store, profile=PROFILE, writable=False, state=self._settings.state
        ) as retention:
            return retention.plan(policy)

    def prune(self, policy: Policy, *, budget: Budget, backup: BackupOrder | None) -> Report:
        """Remove at a person's word."""
        options = SweepOptions(budget=budget, gate=self._goes_on)
        with self._command() as retention:
            return retention.prune(policy, options=options, backup=backup)

    def sweep(self, policy: Policy, *, budget: Budget, approve: str | None) -> Report:
        """Run one automatic sweep now."""
        with self._command() as retention:
            options = SweepOptions(budget=budget, gate=self._goes_on)
            always = self._settings.approve
            return retention.sweep(policy, options=options, approve=approve, always=always)

    def reclaim(self, *, apply: bool) -> Reclaim:
        """Give space back, or say what could be given back."""
        with self._command() as retention:
            if not apply:
                return retention.survey_space()
            return retention.reclaim(ReclaimOptions(gate=self._goes_on))

    @contextmanager
    def _command(self) -> Iterator[Retention]:
        """Open the store for a command: a sweep that runs is waited for, and none starts."""
        with (
            self._gate.busy("maintenance"),
            self.sweeps.manual(PATIENCE),
            Retention(self._settings.store, profile=PROFILE, state=self._settings.state) as retention,
        ):
            yield retention

    def _goes_on(self) -> bool:
        return not self._stopping

    def _told(self, outcome: Outcome) -> None:
        self._last = outcome
        log_outcome(outcome)
