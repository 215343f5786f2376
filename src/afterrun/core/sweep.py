"""The sweep: page of candidates, judge, batches, next page, report. One loop for every store.

Facts are read twice: by the page, without a lock, and again inside the transaction that removes. A unit that
changed in between is skipped alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from afterrun.core.batch import Batch, Pace, Pending, Sizer, Weights, parts
from afterrun.core.blobs import Collector, FullPass
from afterrun.core.errors import Refused, StoreFailure, UnitFailure
from afterrun.core.events import BatchDone, BatchFailed, Event, Observer, PageRead, SweepEnded, UnitDeferred
from afterrun.core.facts import Key, Unit, key_text
from afterrun.core.judge import Rules, Verdict, judge
from afterrun.core.plan import MAX_UNIT_ROWS, NAMED, WHOLE_RUNS, Plan, judged_pages, new_report, tally
from afterrun.core.report import Ended, Report
from afterrun.core.store import Census, Cursor, Store, Transaction, Witness

MAX_DEFERRALS: Final = 10
"""Units deferred one after another, after which the fault is the store's and the sweep ends ``failed``."""

MAX_WORD: Final = 40
"""Characters of an unknown status that a message repeats."""

RECOUNT_SECONDS: Final = 60.0
"""How long a census is trusted: an engine that was upgraded meanwhile may write states of a new kind."""

SECONDS_A_ROW: Final = 100e-6
MAX_UNIT_SECONDS: Final = 60.0
"""Deadline of a unit that goes alone: 100 microseconds a row, between that of the pace and this."""

WEIGHED: Final = 200
"""Units at most of which the rows are counted where the others are guessed by them."""


class Clock(Protocol):
    """A monotonic clock and a pause; handed in, so that tests need no time."""

    def monotonic(self) -> float:
        """Return seconds from some fixed moment."""

    def sleep(self, seconds: float) -> None:
        """Wait."""


class Deferrals(Protocol):
    """Memory of units that failed alone."""

    def any(self) -> bool:
        """Say whether there is any."""

    def waiting(self, unit: str) -> bool:
        """Say whether this unit is to be left alone in this sweep."""

    def defer(self, unit: str, kind: str) -> None:
        """Note that this unit failed."""

    def clear(self, unit: str) -> None:
        """Forget a unit that went."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Bounds of one sweep; ``None`` is no bound. ``units`` counts removals."""

    seconds: float | None = None
    units: int | None = None


@dataclass(slots=True, kw_only=True)
class SweepRequest:
    """What one sweep shall do.

    ``only`` narrows it to units with these keys; it never adds any. ``gate`` is asked between batches
    whether to go on; after ``halt`` has said yes, a failure of the store is only the host's end. ``start`` is
    where an earlier sweep was cut off. ``witness`` is asked within each batch about the units that are to go.
    With ``full_pass``, a sweep that came to its end also looks for blobs that an earlier one left.
    """

    plan: Plan
    pace: Pace
    clock: Clock
    deferrals: Deferrals
    budget: Budget = field(default_factory=Budget)
    gate: Callable[[], bool] = lambda: True
    halt: Callable[[], bool] = lambda: False
    observer: Observer = lambda _event: None
    only: Collection[Key] | None = None
    start: Cursor | None = None
    witness: Witness | None = None
    full_pass: bool = False


class Sweep:
    """One pass over one store. ``cursor`` is where the next one goes on, ``None`` after a whole pass.

    ``passed`` is the full pass over blobs, if one came to its end.
    ``runs_left``: rows of the run table at the last census, but for what went since; ``None`` without one.
    """

    def __init__(self, store: Store, request: SweepRequest) -> None:
        """Prepare a pass; nothing is read yet."""
        self._store = store
        self._ask = request
        self._sizer = Sizer(request.pace, most=request.pace.most_rows)
        self._weights = Weights()
        self._pending = Pending(most_members=request.pace.members)
        self._narrowed: int | None = None
        self._failed = 0
        self._tried = False
        self._deferred_in_a_row = 0
        self._began = request.clock.monotonic()
        self.halt = request.halt
        self.gate = request.gate
        self.census: Census | None = None
        self.runs_left: int | None = None
        self._counted = 0.0
        self.cursor = request.start
        self.report = new_report(store, request.plan, dry_run=False)
        self._collector = self._collecting()
        self.passed: FullPass | None = None

    def run(self) -> Report:
        """Remove what the plan lets go, within budget and gate. Raises nothing that the store failed at.

        A store failure ends the sweep ``failed``, with the reason in the report's message: what was
        committed stays committed.
        """
        report = self.report
        try:
            report.ended = self._pass()
            self._collect_rest(report.ended)
        except (StoreFailure, UnitFailure) as error:
            report.ended, report.message = ("interrupted", "") if self.halt() else ("failed", str(error))
            report.backlog_after = len(self._pending) + report.units.deferred
        self._record_blobs()
        report.seconds = self._ask.clock.monotonic() - self._began
        report.backlog_before = report.units.removed + report.backlog_after
        self._tell(SweepEnded(report.ended, report.units.removed, report.seconds))
        return report

    def _pass(self) -> Ended:
        ask, units = self._ask, self.report.units
        for page in judged_pages(self._store, ask.plan, limit=ask.pace.page, start=self.cursor):
            units.scanned += page.scanned
            going = []
            for unit, judgement in page.units:
                tally(units, unit, judgement)
                if judgement.verdict is Verdict.EXPIRED and self._wanted(unit):
                    going.append(unit)
            self._tell(PageRead(page.scanned, len(going)))
            self._enqueue(going)
            cursor, found = page.cursor, bool(going)
            del page, going  # so that no page is held while its units go and the next one is read
            stopped = self._drain(last=cursor is None, waiting=found and not self._is_late(0.5))
            if not self._pending:
                self.cursor = cursor
            if stopped:
                self._note_backlog(cursor)
                return stopped
        self.report.backlog_after = units.deferred
        self.cursor = None
        return "completed"

    def _wanted(self, unit: Unit) -> bool:
        if self._ask.only is not None and key_text(unit.key) not in self._ask.only:
            return False
        deferrals = self._ask.deferrals
        if deferrals.any() and any(map(deferrals.waiting, self._names(unit))):
            self.report.units.deferred += 1
            return False
        return True

    def _names(self, unit: Unit) -> Sequence[str]:
        """Return the names under which a unit may be deferred; the first is today's.

        What is no whole run has its kind before its id, which a run may have, too. Earlier it had not.
        """
        text, kind = key_text(unit.key), self._ask.plan.kind
        return (text,) if kind in WHOLE_RUNS else (f"{kind} {text}", text)

    def _enqueue(self, units: Sequence[Unit]) -> None:
        if not units:
            return
        if self._ask.pace.weigh:
            self._pending.push(units, self._store.weigh(units))
            return
        if not self._weights.members:
            self._weigh_some(units)
        self._pending.push(units, [self._weights.guess(unit) for unit in units])

    def _weigh_some(self, units: Sequence[Unit]) -> None:
        """Count the rows of some units, from which those of the others are guessed until batches tell."""
        some = units[:: len(units) // WEIGHED + 1]
        self._weights.learn(
            rows=sum(self._store.weigh(some)), members=sum(len(unit.members) for unit in some)
        )

    def _drain(self, *, last: bool, waiting: bool) -> Ended | None:
        """Run batches of what was found, and say why the sweep must stop early.

        What fills no batch may be ``waiting`` for the next page, but not on and on: a sweep whose time runs
        out on pages without a candidate would carry the same few units along, and so would all later ones.
        """
        while self._pending or not last:
            stop = self._stop()
            if stop:
                return stop
            most = self._most_units()
            full = self._pending.fills(rows=self._sizer.rows, max_units=most)
            if not self._pending or (waiting and not last and not full):
                break
            self._count_statuses()
            self._run(self._pending.take(rows=self._sizer.rows, max_units=most))
        return None

    def _stop(self) -> Ended | None:
        limit = self._ask.budget.units
        if limit is not None and self._pending and self.report.units.removed >= limit:
            return "budget"
        # However short its time, a sweep that found something tries one batch: else none would get anywhere.
        if self._is_late(1.0) and (self._tried or not self._pending):
            return "budget"
        return None if self._ask.gate() else "interrupted"

    def _is_late(self, share: float) -> bool:
        """Say whether this share of the time is spent."""
        seconds = self._ask.budget.seconds
        return seconds is not None and self._ask.clock.monotonic() - self._began >= seconds * share

    def _most_units(self) -> int | None:
        """Return the most units the next batch may hold."""
        bounds = [self._ask.pace.max_units, self._narrowed]
        if self._ask.budget.units is not None:
            bounds.append(self._ask.budget.units - self.report.units.removed)
        known = [bound for bound in bounds if bound is not None]
        return min(known) if known else None

    def _count_statuses(self) -> None:
        """Take the census before the first batch, and now and then again.

        A status that the profile lacks forbids removal: such a run may be alive and need others.
        """
        now = self._ask.clock.monotonic()
        if self.census is not None and now - self._counted < RECOUNT_SECONDS:
            return
        self._counted = now
        self.census = self._store.census()
        self.runs_left = self.census.rows
        try:
            check_census(self.census, profile=self._store.profile_name)
        except Refused as refusal:
            if self.report.units.removed:  # what went stays on the report
                raise StoreFailure(refusal.reason, str(refusal)) from None
            raise

    def _run(self, batch: Batch) -> None:
        """Run a batch; after a failure the next one is half as large, and a unit that fails alone waits.

        After a success it is twice as large again, since what failed may have been a lock that is free now.
        """
        self._tried = True
        try:
            self._attempt(batch)
        except UnitFailure as error:
            if len(batch.units) > 1:
                self._tell(BatchFailed(len(batch.units), error.kind))
                self._pending.put_back(batch)
                self._failed = max(self._failed, len(batch.units))
                self._narrowed = len(batch.units) // 2
            else:
                self._defer(batch.units[0], error)
            return
        self._deferred_in_a_row = 0
        if self._narrowed is not None:
            self._narrowed *= 2
            if self._narrowed >= self._failed:
                self._narrowed, self._failed = None, 0

    def _attempt(self, batch: Batch) -> None:
        seconds = self._ask.pace.deadline
        if len(batch.units) == 1:
            batch = self._weighed(batch)
            if batch.rows > MAX_UNIT_ROWS:
                raise UnitFailure("oversized", f"it has {batch.rows} rows, more than {MAX_UNIT_ROWS}")
            seconds = min(max(seconds, batch.rows * SECONDS_A_ROW), MAX_UNIT_SECONDS)
        weights = {unit.key: rows for unit, rows in zip(batch.units, batch.weights, strict=True)}
        if self._ask.witness:
            self._ask.witness.recall(batch.units)
        transaction = self._store.transaction(seconds=seconds)
        asked = self._ask.clock.monotonic()
        with transaction:
            waited = self._ask.clock.monotonic() - asked
            going, skipped = self._recheck(batch.units, transaction)
            keys = self._store.forgets(going)
            rows: Counter[str] = Counter()
            for part in parts(going, weights):
                rows.update(transaction.remove(part, max_rows=MAX_UNIT_ROWS))
            if self._ask.witness and going:
                self._ask.witness.confirm(rows)
        rows.update(transaction.beyond)
        self._record(batch, going, rows=rows, skipped=skipped, held=transaction.held)
        self.report.keys_forgotten += keys
        self._store.settle()
        rest = self._ask.pace.pause(held=transaction.held, waited=waited)
        if rest:
            self._ask.clock.sleep(rest)
        if self._collector is not None:
            self._collector.catch_up()

    def _collecting(self) -> Collector | None:
        blobs, ask = self._store.blobs, self._ask
        if blobs is None:
            return None
        return Collector(
            blobs,
            pace=ask.pace,
            clock=ask.clock,
            settle=self._store.settle,
            observer=ask.observer,
            saved=None if ask.witness is None else ask.witness.saved,
        )

    def _collect_rest(self, ended: Ended) -> None:
        """Remove the blobs that the last batches left: fewer than fill a transaction, so no gate is asked."""
        if self._collector is None or self.halt():
            return
        self._collector.finish()
        if ended == "completed" and self._ask.full_pass:
            whole = self._collector.full_pass(lambda: self._is_late(1.0) or not self._ask.gate())
            self.passed = FullPass(young=self._collector.young) if whole else None

    def _record_blobs(self) -> None:
        """Put on the report what went of the blobs, and what of them stays."""
        report, done = self.report, self._collector
        if done is None:
            return
        report.blobs = done.counts
        report.rows.update(done.rows)
        report.longest_batch = max(report.longest_batch, done.longest)
        report.notices.extend(done.notices())

    def _weighed(self, batch: Batch) -> Batch:
        """Count the rows of a unit that would be deferred on a guess: what a plan counted must go."""
        if self._ask.pace.weigh or batch.rows <= MAX_UNIT_ROWS:
            return batch
        return batch._replace(weights=list(self._store.weigh(batch.units)))

    def _recheck(self, units: Sequence[Unit], transaction: Transaction) -> tuple[list[Unit], Counter[str]]:
        """Judge again, under the lock. What is no longer exactly what was found is skipped, alone."""
        fresh = {unit.key: unit for unit in transaction.units(units)}
        going: list[Unit] = []
        skipped: Counter[str] = Counter()
        for unit in units:
            why = changed(unit, fresh.get(unit.key), self._ask.plan.rules)
            if why:
                skipped[f"recheck: {why}"] += 1
            else:
                going.append(unit)
        witness = self._ask.witness
        differing = set(witness.differing(going)) if witness and going else set()
        if differing:
            going = [unit for unit in going if unit.key not in differing]
            skipped["recheck: changed since the backup"] += len(differing)
        return going, skipped

    def _record(
        self,
        batch: Batch,
        going: Sequence[Unit],
        *,
        rows: Mapping[str, int],
        skipped: Counter[str],
        held: float,
    ) -> None:
        report, total = self.report, sum(rows.values())
        members = sum(len(unit.members) for unit in going)
        report.rows.update(rows)
        report.units.removed += len(going)
        report.units.skipped.update(skipped)
        report.batches += 1
        if self.runs_left is not None:
            self.runs_left -= members
        report.longest_batch = max(report.longest_batch, held)
        self._weights.learn(rows=total, members=members)
        self._sizer.learn(rows=total, held=held, full=batch.full and self._narrowed is None)
        if self._ask.deferrals.any():
            for unit in going:
                for name in self._names(unit):
                    self._ask.deferrals.clear(name)
        self._tell(BatchDone(len(going), members, total, sum(skipped.values()), held))

    def _defer(self, unit: Unit, error: UnitFailure) -> None:
        report = self.report
        report.units.deferred += 1
        if error.kind == "oversized" and len(report.oversized) < NAMED:
            report.oversized.append(key_text(unit.key))
        name, *earlier = self._names(unit)
        for old in earlier:
            self._ask.deferrals.clear(old)
        self._ask.deferrals.defer(name, error.kind)
        self._tell(UnitDeferred(error.kind))
        self._narrowed, self._failed = None, 0
        self._deferred_in_a_row += 1
        if self._deferred_in_a_row >= MAX_DEFERRALS:
            raise StoreFailure("deferrals", f"{MAX_DEFERRALS} units failed one after another; last: {error}")

    def _note_backlog(self, cursor: Cursor | None) -> None:
        """Say how much a pass that was cut off left; beyond its last page that is an upper bound."""
        left = len(self._pending) + self.report.units.deferred
        cutoff = self._ask.plan.rules.cutoff
        if cursor is not None and cutoff is not None:
            left += self._store.remaining(cursor, cutoff=cutoff, streams=self._ask.plan.streams)
        self.report.backlog_after = left

    def _tell(self, event: Event) -> None:
        self._ask.observer(event)


def check_census(census: Census, *, profile: str) -> None:
    """Refuse to remove anything while a run has a status that the profile does not know. Raises `Refused`."""
    if census.unknown:
        unknown = sorted(census.unknown.items())[:5]
        words = ", ".join(f"{word[:MAX_WORD]} ({count})" for word, count in unknown)
        raise Refused(
            "unknown-status",
            f"runs have a status that the profile {profile} does not know: {words}. Nothing goes meanwhile, "
            "since such a run may be alive and need others. If you know what the status means, add it to a "
            "copy of the profile and give that with --profile FILE",
        )


def changed(found: Unit, fresh: Unit | None, rules: Rules) -> str:
    """Say in a word why a unit may not go after all; an empty word if it is as it was found."""
    if fresh is None:
        return "gone"
    if fresh == found:  # the same facts have the same verdict
        return ""
    judgement = judge(fresh, rules)
    if judgement.verdict is not Verdict.EXPIRED:
        return judgement.reasons[0].name
    if set(fresh.members) != set(found.members):
        return "members changed"
    return ""
