"""The run of one sweep or manual apply: from its batches to its report, on record."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass

from afterrun.core.errors import StoreFailure, UnitFailure
from afterrun.core.plan import Plan, Survey
from afterrun.core.report import COUNTED_ENDS, Report
from afterrun.core.space import ReclaimOptions
from afterrun.core.store import Cursor, Witness
from afterrun.core.sweep import Clock, Deferrals, Sweep, SweepRequest, check_census
from afterrun.service.asking import PLAN_PAGE
from afterrun.service.interrupted import Interrupted
from afterrun.service.options import SweepOptions
from afterrun.service.records import FINISHED, RetryAll, record_of
from afterrun.state import StoreState
from afterrun.state.restores import last_sweep
from afterrun.stores.reclaim import try_reclaim
from afterrun.stores.recognise import marks_of, subject_of
from afterrun.stores.sql.backups import Maker
from afterrun.stores.sql.store import SqlStore
from afterrun.telemetry import Watched


@contextmanager
def heeding(store: SqlStore, halt: Callable[[], bool]) -> Iterator[None]:
    """Let the host end meanwhile whatever the store is asked."""
    store.heed(halt)
    try:
        yield
    finally:
        store.heed(lambda: False)


@dataclass(frozen=True, slots=True)
class Running:
    """Runs one command on a store whose sweep lock is held, and keeps what became of it.

    ``clock`` is this process's own; a host's pauses come with the options.
    """

    store: SqlStore
    state: StoreState
    interrupted: Interrupted
    command: str
    watched: Watched
    clock: Clock

    def prepare(
        self,
        plan: Plan,
        options: SweepOptions,
        deferrals: Deferrals,
        *,
        start: Cursor | None = None,
        only: Collection[str] | None = None,
        witness: Witness | None = None,
    ) -> Sweep:
        """Return a sweep that has not begun."""
        return Sweep(
            self.store,
            SweepRequest(
                plan=plan,
                pace=options.pace(self.store.hold),
                clock=options.clock(self.clock),
                deferrals=deferrals,
                budget=options.budget,
                gate=options.gate,
                halt=options.halt,
                observer=options.observer,
                only=only,
                start=start,
                witness=witness,
            ),
        )

    def run(self, sweep: Sweep, *, reclaim: bool = False) -> Report:
        """Run a sweep and put it on record, whatever its end."""
        before = self.store.sizes().total
        previous = last_sweep(self.state)
        self.interrupted.count(sweep.report)
        with heeding(self.store, sweep.halt):
            report = sweep.run()
        self.interrupted.tell(report)
        report.file_before = report.file_after = before
        if reclaim and report.ended in COUNTED_ENDS:
            asked = ReclaimOptions(gate=sweep.gate, rest=0.0, worth_only=True)
            report.reclaim = try_reclaim(self.store, asked)
        self._measure(report)
        if previous is not None and report.ended != "failed" and not sweep.halt():
            report.gaining = report.backlog_after == 0 or report.backlog_after < previous.backlog
        self._finish(report, runs=sweep.runs_left)
        return report

    def _measure(self, report: Report) -> None:
        """Measure the store again; what ended the sweep may still be in the way of that."""
        with suppress(StoreFailure, UnitFailure):
            report.file_after = self.store.sizes().total
            if report.units.removed:
                self.state.keep_marks(subject_of(self.store), marks_of(self.store))

    def _finish(self, report: Report, *, runs: int | None) -> None:
        record = record_of(report, self.command, self.watched)
        self.state.finish(record, finished=report.ended in FINISHED, runs=runs)
        self.state.save()

    def unbegun(self, report: Report) -> Report:
        """Put a sweep on record that ended before its first batch."""
        self.interrupted.tell(report)
        self.watched.end(report.ended)
        self.state.finish(record_of(report, self.command, self.watched), finished=False, runs=None)
        self.state.save()
        return report

    def backed_up(
        self, maker: Maker, plan: Plan, options: SweepOptions, *, only: Collection[str] | None
    ) -> Report:
        """Make a backup of what is to go, then remove what is in it and has not changed."""
        check_census(self.store.census(), profile=self.store.profile_name)
        found, again = (Survey(self.store, plan, only=only) for _ in range(2))
        expired = sum(1 for _ in found.expired(page=PLAN_PAGE))
        made = maker.made(found, again, limit=options.budget.units) if expired else nullcontext(None)
        with made as backup:
            listed = frozenset[str]() if backup is None else backup.only
            witness = None if backup is None else backup.witness
            sweep = self.prepare(plan, options, RetryAll(self.state), only=listed, witness=witness)
            sweep.report.backup = None if backup is None else dict(backup.facts)
            sweep.report.notices.extend(self.store.reach.unsaved())
            sweep.report.units.deferred += found.report.units.deferred
            sweep.report.oversized.extend(found.report.oversized)
            return self.run(sweep)
