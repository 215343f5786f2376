"""The run of one sweep or manual apply: from its batches to its report, on record."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from itertools import chain, islice
from typing import Final

from afterrun.core.errors import StoreFailure, UnitFailure
from afterrun.core.events import Event, Observer, SweepEnded
from afterrun.core.facts import Key
from afterrun.core.plan import WHOLE_RUNS, Only, Plan, new_report
from afterrun.core.report import COUNTED_ENDS, Report, UnitCounts
from afterrun.core.row_tables import kind_of
from afterrun.core.space import ReclaimOptions
from afterrun.core.store import Cursor, Witness
from afterrun.core.sweep import Clock, Deferrals, Sweep, SweepRequest, check_census
from afterrun.service.asking import PLAN_PAGE
from afterrun.service.interrupted import Interrupted
from afterrun.service.options import SweepOptions
from afterrun.service.passes import Pass, Passes, Surveys
from afterrun.service.records import FINISHED, RetryAll, record_of
from afterrun.service.rows import RowTurns, fair_counts, going_rows
from afterrun.state import StoreState
from afterrun.state.restores import last_sweep
from afterrun.stores.reclaim import try_reclaim
from afterrun.stores.recognise import marks_of, subject_of
from afterrun.stores.sql.backups import PAGE, Backup, Maker
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
class Narrowing:
    """What else bounds a pass: ``only`` units with these ids, and only as the ``witness`` knows them."""

    only: Collection[Key] | None = None
    witness: Witness | None = None


NOT_NARROWED: Final[Mapping[str, Narrowing]] = {}


@dataclass(slots=True)
class Ran:
    """What became of the passes that were made.

    ``cut`` is the plan of the last of them and ``cursor`` where it goes on, if it was cut off. ``runs_left``
    is as in `Sweep`, of run trees.
    """

    report: Report
    cut: Plan
    cursor: Cursor | None
    runs_left: int | None

    @classmethod
    def joined(cls, earlier: Ran | None, report: Report, plan: Plan, sweep: Sweep) -> Ran:
        """Take in one more pass."""
        runs_left = sweep.runs_left if plan.kind in WHOLE_RUNS else None
        if earlier is None:
            return cls(report, plan, sweep.cursor, runs_left)
        earlier.report.add(report)
        kept = earlier.runs_left if runs_left is None else runs_left
        return cls(earlier.report, plan, sweep.cursor, kept)


def _but_ends(observer: Observer) -> Observer:
    """Return an observer of one pass: the end of the sweep is told after the last."""

    def tell(event: Event) -> None:
        if not isinstance(event, SweepEnded):
            observer(event)

    return tell


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

    def run(
        self,
        passes: Sequence[Pass],
        options: SweepOptions,
        deferrals: Deferrals,
        *,
        start: Cursor | None = None,
        narrowed: Mapping[str, Narrowing] = NOT_NARROWED,
        rows: Passes | None = None,
    ) -> Ran:
        """Make one pass after another, as far as the budget goes, and put them on record, whatever their end.

        ``start`` is where the first one goes on. ``narrowed`` says by kind what else bounds a pass. ``rows``
        has row tables, which come first.
        """
        before = self.store.sizes().total
        previous = last_sweep(self.state)
        with self.store.asynchronous() as wait_for_disk:
            if rows is None or (passes and not rows.rows):
                ran = self._made(passes, options, deferrals, start=start, narrowed=narrowed)
            else:
                ran = self._with_rows(rows, passes, options, deferrals, start=start, narrowed=narrowed)
            report = ran.report
            _made_durable(report, wait_for_disk)
        self.interrupted.tell(report)
        report.file_before = report.file_after = before
        if options.reclaim and report.ended in COUNTED_ENDS:
            asked = ReclaimOptions(gate=options.gate, rest=0.0, worth_only=True)
            report.reclaim = try_reclaim(self.store, asked)
        self._measure(report)
        if previous is not None and report.ended != "failed" and not options.halt():
            report.gaining = report.backlog_after == 0 or report.backlog_after < previous.backlog
        options.observer(SweepEnded(report.ended, report.removed, report.seconds))
        self._finish(report, runs=ran.runs_left)
        return ran

    def _with_rows(
        self,
        whole: Passes,
        passes: Sequence[Pass],
        options: SweepOptions,
        deferrals: Deferrals,
        *,
        start: Cursor | None,
        narrowed: Mapping[str, Narrowing],
    ) -> Ran:
        """Give row tables their turns around the passes over runs, which have one share beside theirs."""
        plan = whole.trees.plan
        turns = RowTurns(
            whole.rows, options, self.state, clock=options.clock(self.clock), plan=plan, hold=self.store.hold
        )
        with heeding(self.store, options.halt):
            turns.take(seconds=0.0, removed=0, others=1 if passes else 0)
        left = options.without(seconds=turns.seconds, units=turns.removed)
        if passes and turns.ended in ("completed", "budget"):
            ran = self._made(passes, left, deferrals, start=start, narrowed=narrowed)
        else:
            cut = passes[0].plan if passes else plan
            ran = Ran(new_report(self.store, plan, dry_run=False), cut, start, None)
            self.interrupted.count(ran.report)
            ran.report.others.update(
                {part.plan.kind: UnitCounts() for part in passes if part.plan is not plan}
            )
        report = ran.report
        if report.ended == "completed" and turns.ended == "budget":
            with heeding(self.store, options.halt):
                seconds, removed = turns.seconds + report.seconds, turns.removed + report.removed
                turns.take(seconds=seconds, removed=removed, others=0)
        turns.tell(report, self.store)
        return ran

    def _made(
        self,
        passes: Sequence[Pass],
        options: SweepOptions,
        deferrals: Deferrals,
        *,
        start: Cursor | None,
        narrowed: Mapping[str, Narrowing],
    ) -> Ran:
        """Make the passes until one is cut off; those that never began count nothing."""
        ran: Ran | None = None
        for part in passes:
            if ran is not None and ran.report.ended != "completed":
                ran.report.others[part.plan.kind] = UnitCounts()
                continue
            bound = narrowed.get(part.plan.kind, Narrowing())
            left = options.after(None if ran is None else ran.report)
            last = part is passes[-1] and all(other == Narrowing() for other in narrowed.values())
            sweep = self._sweep(part, left, deferrals, start=start, bound=bound, last=last)
            start = None
            if ran is None:
                self.interrupted.count(sweep.report)
            with heeding(self.store, options.halt):
                report = sweep.run()
            if sweep.passed is not None:
                self.state.note_full_pass(report.now, left=sweep.passed.young > 0)
            ran = Ran.joined(ran, report, part.plan, sweep)
        if ran is None:
            raise ValueError("a policy lets something go, or it is refused")
        return ran

    def _sweep(
        self,
        part: Pass,
        options: SweepOptions,
        deferrals: Deferrals,
        *,
        start: Cursor | None,
        bound: Narrowing,
        last: bool,
    ) -> Sweep:
        return Sweep(
            part.store,
            SweepRequest(
                plan=part.plan,
                pace=options.pace(self.store.hold),
                clock=options.clock(self.clock),
                deferrals=deferrals,
                budget=options.budget,
                gate=options.gate,
                halt=options.halt,
                observer=_but_ends(options.observer),
                only=bound.only,
                start=start,
                witness=bound.witness,
                full_pass=last and self.state.is_full_pass_due(part.plan.rules.now),
            ),
        )

    def _measure(self, report: Report) -> None:
        """Measure the store again; what ended the sweep may still be in the way of that."""
        with suppress(StoreFailure, UnitFailure):
            report.file_after = self.store.sizes().total
            if report.removed:
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

    def backed_up(self, maker: Maker, passes: Passes, options: SweepOptions, *, only: Only | None) -> Report:
        """Make one backup of all that is to go, then remove what is in it and has not changed."""
        for part in passes.removing:
            check_census(part.store.census(), profile=self.store.profile_name)
        found = Surveys(passes, only=only)
        whole = sum(1 for _ in found.going(page=PLAN_PAGE))
        rows = {table.name: found.report.tables[table.name].rows for table in passes.rows}
        most = fair_counts(options.budget.units, {**rows, "": whole})
        again = Surveys(passes, only=only, rows=False)
        going = chain(going_rows(passes.rows, most), islice(again.going(page=PAGE), most[""]))
        made = maker.made(found.report, going) if any(most.values()) else nullcontext(Backup(held={}))
        with made as backup:
            narrowed = {part.plan.kind: _narrowing(backup, part.plan.kind) for part in passes.removing}
            for table in passes.rows:
                bound = _narrowing(backup, kind_of(table.name))
                table.only, table.witness = bound.only, bound.witness
            report = self.run(
                passes.removing, options, RetryAll(self.state), narrowed=narrowed, rows=passes
            ).report
            report.backup = dict(backup.facts) or None
            report.notices.extend([*self.store.reach.unsaved(), *backup.notices])
            for kind, units in report.kinds.items():
                units.deferred += found.report.kinds[kind].deferred + backup.left.get(kind, 0)
            report.oversized.extend(found.report.oversized)
            return report


def _made_durable(report: Report, wait_for_disk: Callable[[], None]) -> None:
    """See that what a report tells as removed does not come back with the next crash of the server."""
    try:
        wait_for_disk()
    except StoreFailure as error:
        if report.ended != "failed":  # whatever ended the sweep may be in the way of this, too
            report.ended, report.message = "failed", str(error)


def _narrowing(backup: Backup, kind: str) -> Narrowing:
    """Return the bounds of a pass: what the backup holds of its kind, and only as it is in there."""
    held = backup.held.get(kind)
    return Narrowing(frozenset()) if held is None else Narrowing(held.only, held.witness)
