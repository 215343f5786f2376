"""The engine as a host of the API: what the API asks of it, answered by its store and by retention."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path

from afterrun.core.policy import Policy
from afterrun.core.report import Report
from afterrun.core.space import Reclaim, ReclaimOptions
from afterrun.core.sweep import Budget
from afterrun.runs import RunStore
from afterrun.server.engine import Engine
from afterrun.server.host import Status
from afterrun.service import Retention, SweepOptions
from afterrun.stores.sql.backups import BackupOrder

Manual = Callable[[], AbstractContextManager[None]]


class EngineHost:
    """An engine under the API. ``manual`` keeps its own sweeps away while a person's command runs."""

    def __init__(self, engine: Engine, *, manual: Manual = nullcontext) -> None:
        """Take an engine that was opened."""
        self._engine = engine
        self._manual = manual
        self._one = threading.Lock()
        self._stopping = False

    @property
    def ready(self) -> bool:
        """Say whether the engine takes work."""
        return self._engine.ready and not self._stopping

    @property
    def store(self) -> RunStore:
        """Return the open store."""
        return self._engine.store

    @property
    def policy(self) -> Policy:
        """Return what the server keeps of its own runs."""
        return self._engine.settings.policy

    @property
    def backups(self) -> Path | None:
        """Return the folder for backups that are asked for over HTTP."""
        return self._engine.settings.backups

    def nudge(self) -> None:
        """Let the engine look for work now."""
        self._engine.nudge()

    def stop(self) -> None:
        """End a removal that runs after its batch, so that the server can end."""
        self._stopping = True

    def status(self) -> Status:
        """Count what the engine did since it began."""
        engine = self._engine
        counts = {
            "finished": engine.finished,
            "failed": engine.failures,
            "handed_off": engine.handed_off,
            "runner_exits": engine.runner_exits,
        }
        return Status(ready=self.ready, counts=counts, moments={"started_at": engine.started_at})

    def plan(self, policy: Policy) -> Report:
        """Say what would go; that holds up nothing."""
        with self._retention(writable=False) as retention:
            return retention.plan(policy)

    def prune(self, policy: Policy, *, budget: Budget, backup: BackupOrder | None) -> Report:
        """Remove at a person's word."""
        with self._alone(), self._retention() as retention:
            return retention.prune(policy, options=self._options(budget), backup=backup)

    def sweep(self, policy: Policy, *, budget: Budget, approve: str | None) -> Report:
        """Run one automatic sweep now."""
        with self._alone(), self._retention() as retention:
            return retention.sweep(policy, options=self._options(budget), approve=approve)

    def reclaim(self, *, apply: bool) -> Reclaim:
        """Give space back, or say what could be given back."""
        if not apply:
            with self._retention(writable=False) as retention:
                return retention.survey_space()
        with self._alone(), self._retention() as retention:
            return retention.reclaim(ReclaimOptions(gate=self._goes_on))

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Wait for a sweep that runs, and for another command; keep new ones away."""
        with ExitStack() as held:
            held.enter_context(self._one)
            held.enter_context(self._engine.gate.busy("maintenance"))
            held.enter_context(self._manual())
            yield

    @contextmanager
    def _retention(self, *, writable: bool = True) -> Iterator[Retention]:
        settings = self._engine.settings
        with Retention(settings.store, writable=writable, state=settings.state) as retention:
            yield retention

    def _options(self, budget: Budget) -> SweepOptions:
        return SweepOptions(budget=budget, gate=self._goes_on)

    def _goes_on(self) -> bool:
        return not self._stopping
