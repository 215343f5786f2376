"""Retention of one store: opens store, lock and state, and runs plan, explanation, removal and check.

This is the one caller of the layers below, for the command line and for programs that embed afterrun.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from afterrun.core.batch import Pace, live_pace, offline_pace
from afterrun.core.errors import Refused, StoreFailure, StoreLocked, UnitFailure, UsageError
from afterrun.core.events import Observer
from afterrun.core.facts import Reason, Scalar, key_text
from afterrun.core.guard import LARGE_COUNT, Decision, counting_limit, decide, is_first_contact
from afterrun.core.inspection import Inspection
from afterrun.core.judge import Rules, Verdict, judge
from afterrun.core.outlook import Outlook
from afterrun.core.plan import Plan, Survey, count_expired, fingerprint, make_plan, new_report
from afterrun.core.policy import Policy
from afterrun.core.report import COUNTED_ENDS, Report
from afterrun.core.space import Reclaim, ReclaimOptions
from afterrun.core.store import Cursor, Witness
from afterrun.core.sweep import Budget, Deferrals, Sweep, SweepRequest, check_census
from afterrun.core.times import Instant
from afterrun.interrupted import Interrupted
from afterrun.state import StateDirectory, StoreState, SweepLock
from afterrun.state.attempts import Attempts, failure_word, note_attempt
from afterrun.state.drafts import clear_leftovers, leftovers
from afterrun.state.files import Record, StateError
from afterrun.state.intents import Intents
from afterrun.state.restores import last_sweep, restore_on_record
from afterrun.stores import open_store
from afterrun.stores.backups import backups_of
from afterrun.stores.inspect import inspect_store
from afterrun.stores.outlook import SqlSurroundings
from afterrun.stores.reclaim import reclaim_space, survey_space, try_reclaim
from afterrun.stores.recognise import marks_of, other_file, subject_of
from afterrun.stores.sql.backups import BackupKind, BackupOrder, Maker, Restored
from afterrun.telemetry import Watched

PLAN_PAGE: Final = 1_000
FINISHED: Final = ("completed", "budget")
"""Endings of a sweep after which the store is no longer one of first contact."""


class SystemClock:
    """The monotonic clock and the pause of this machine."""

    def monotonic(self) -> float:
        """Return seconds from some fixed moment."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)


class HostedClock(SystemClock):
    """The monotonic clock of this machine, and a pause that the host spends."""

    def __init__(self, sleep: Callable[[float], None]) -> None:
        """Take the host's way to wait."""
        self._sleep = sleep

    def sleep(self, seconds: float) -> None:
        """Wait."""
        self._sleep(seconds)


class RetryAll:
    """Memory of failed units for a manual apply: it notes failures, and leaves nothing out."""

    def __init__(self, state: StoreState) -> None:
        """Write through to the store's state."""
        self._state = state

    def waiting(self, unit: str) -> bool:  # noqa: ARG002 - the protocol's signature
        """Leave no unit out: a person asked."""
        return False

    def defer(self, unit: str, kind: str) -> None:
        """Note that this unit failed."""
        self._state.defer(unit, kind)

    def clear(self, unit: str) -> None:
        """Forget a unit that went."""
        self._state.clear(unit)


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Everything that decides about one unit. Instants are UTC."""

    unit: str
    kind: str
    verdict: Verdict
    reasons: tuple[Reason, ...]
    members: Sequence[Mapping[str, Scalar]]
    ended_at: Instant | None
    eligible_at: Instant | None
    group: Mapping[str, Scalar]
    rows: int
    now: Instant
    policy: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepOptions:
    """How a sweep or manual apply runs.

    ``gate`` is asked between batches whether to go on. ``observer`` is told of pages and batches. ``sleep``
    spends the pause after a batch, in seconds; a host's own can end it early. ``halt`` is asked all the
    time, and ends the sweep ``interrupted`` even within a batch or a plan, which then did not happen: the
    host shuts down.
    ``rest`` is the pause after a batch, as a multiple of the time its locks were held. ``offline`` says that
    no engine uses the store meanwhile; with it, ``reclaim`` gives free pages back after a sweep, if there are
    enough of them.
    """

    budget: Budget = field(default_factory=Budget)
    gate: Callable[[], bool] = lambda: True
    observer: Observer = lambda _event: None
    sleep: Callable[[float], None] | None = None
    halt: Callable[[], bool] = lambda: False
    batch_units: int | None = None
    rest: float = 1.0
    offline: bool = False
    reclaim: bool = False

    def __post_init__(self) -> None:
        """Refuse to compact a store that an engine may be using."""
        if self.reclaim and not self.offline:
            raise UsageError("a sweep reclaims space only offline: while no engine uses the store")


class Retention:
    """One store under retention. Use it as a context manager; it is not safe for two threads at once.

    A method that removes takes the store's sweep lock and raises `StoreLocked` if another process has it.
    """

    def __init__(
        self,
        location: str,
        *,
        profile: str | None = None,
        writable: bool = True,
        schema_unverified: bool = False,
        secure_delete: bool = False,
        datasources: Sequence[str] = (),
        state: Path | None = None,
    ) -> None:
        """Open a store by URL or path.

        ``profile`` is a name or a file; the tables tell if it is not given. ``writable=False`` is for
        looking. ``datasources`` are other databases with rows of its runs, as its profile declares them:
        these rows go with the runs. ``state`` is afterrun's own folder, by default ``AFTERRUN_STATE_DIR`` or
        the user's.

        Raises `StoreUnreadable`, `ProfileError`, `UsageError` or `Refused`.
        """
        self.store = open_store(
            location,
            profile=profile,
            writable=writable,
            schema_unverified=schema_unverified,
            datasources=datasources,
        )
        if secure_delete:
            self.store.secure_delete()
        self._state = StateDirectory(state)
        self._interrupted = Interrupted(self.store, Intents(self._state, self.store.identity))
        self._attempts = Attempts(location, state=state)
        self._clock = SystemClock()

    def __enter__(self) -> Self:
        """Return the open store."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the store."""
        self.close()

    def close(self) -> None:
        """Let go of the store."""
        self.store.close()

    def survey(self, policy: Policy, *, only: Collection[str] | None = None) -> Survey:
        """Prepare a plan that yields the units that would go, one by one; its report is whole at the end."""
        survey = Survey(self.store, self._plan(policy), only=only)
        survey.report.file_before = survey.report.file_after = self.store.sizes().total
        return survey

    def plan(self, policy: Policy, *, only: Collection[str] | None = None) -> Report:
        """Say what a policy would remove, what stays and why. Removes nothing.

        ``only`` narrows it to units with these ids, as in `prune`.
        """
        report = self._planned(policy, only=only)
        self._interrupted.mention(report)
        return report

    def _planned(self, policy: Policy, *, only: Collection[str] | None = None) -> Report:
        began = self._clock.monotonic()
        survey = self.survey(policy, only=only)
        for _ in survey.expired(page=PLAN_PAGE):
            pass
        survey.report.seconds = self._clock.monotonic() - began
        return survey.report

    def outlook(self, policy: Policy, *, calendar: bool = False) -> Outlook:
        """Prepare a plan that also says what other ages would do, what stays and how old it is.

        Read its ``expired`` to the end; ``calendar`` counts units by day as well.
        """
        outlook = Outlook(self.store, SqlSurroundings(self.store), self._plan(policy), calendar=calendar)
        outlook.report.file_before = outlook.report.file_after = self.store.sizes().total
        self._interrupted.mention(outlook.report)
        return outlook

    def explain(self, run: str, policy: Policy) -> Explanation:
        """Say everything that decides about the unit of one run. Raises `UnitNotFound`."""
        plan = self._plan(policy)
        unit = self.store.find(run)
        judgement = judge(unit, plan.rules)
        return Explanation(
            unit=key_text(unit.key),
            kind=self.store.kind,
            verdict=judgement.verdict,
            reasons=judgement.reasons,
            members=self.store.describe(unit),
            ended_at=unit.end if unit.settled else None,
            eligible_at=judgement.eligible_at,
            group=dict(zip(self.store.group_columns, unit.group, strict=False)),
            rows=sum(self.store.count([unit]).values()) if unit.complete else 0,
            now=plan.rules.now,
            policy=policy.canonical(),
        )

    def prune(
        self,
        policy: Policy,
        *,
        options: SweepOptions | None = None,
        only: Collection[str] | None = None,
        backup: BackupOrder | None = None,
    ) -> Report:
        """Remove what a policy lets go, at a person's word: no guard, and failed units are tried again.

        ``only`` narrows it to units with these ids; it never adds any. With a ``backup``, only units that are
        in it go, and only as they are in it.

        Raises `StoreLocked`, `Refused` for a schema that may not be written to or a backup that cannot be
        made safely, and `BackupFailed`; all of them before anything is removed.
        """
        options = options or SweepOptions()
        with self._watched(options) as watched, self._locked() as state:
            options = replace(options, observer=watched)
            self._interrupted.check()
            plan = self._plan(policy)
            maker = None
            if backup is not None:
                maker = backups_of(self.store).maker(backup, pace=self._pace(options), clock=self._clock)
            cleared = list(clear_leftovers(state))
            if maker is not None:
                state.keep_drafts([*state.drafts, maker.draft])
            with _on_record(state, plan, command="prune"):
                # With a backup, what an earlier removal left goes like all else, once it is in the backup.
                self._interrupted.settle(plan.rules, gate=options.gate, remove=maker is None)
                if maker is not None:
                    report = self._backed_up(maker, plan, options, state, only=only, watched=watched)
                else:
                    sweep = self._sweep(plan, options, RetryAll(state), only=only)
                    report = self._run(sweep, state, command="prune", watched=watched)
                report.notices.extend(cleared)
                if report.backup is not None:
                    report.backup["cleared"] = int(str(report.backup["cleared"])) + len(cleared)
                return report

    def _backed_up(
        self,
        maker: Maker,
        plan: Plan,
        options: SweepOptions,
        state: StoreState,
        *,
        only: Collection[str] | None,
        watched: Watched,
    ) -> Report:
        """Make a backup of what is to go, then remove what is in it and has not changed."""
        check_census(self.store.census(), profile=self.store.profile_name)
        found, again = (Survey(self.store, plan, only=only) for _ in range(2))
        expired = sum(1 for _ in found.expired(page=PLAN_PAGE))
        made = maker.made(found, again, limit=options.budget.units) if expired else nullcontext(None)
        with made as backup:
            listed = frozenset[str]() if backup is None else backup.only
            witness = None if backup is None else backup.witness
            sweep = self._sweep(plan, options, RetryAll(state), only=listed, witness=witness)
            sweep.report.backup = None if backup is None else dict(backup.facts)
            sweep.report.notices.extend(self.store.reach.unsaved())
            sweep.report.units.deferred += found.report.units.deferred
            sweep.report.oversized.extend(found.report.oversized)
            return self._run(sweep, state, command="prune", watched=watched)

    def backup_notices(self, kind: BackupKind) -> Sequence[str]:
        """Say what a backup of this kind means for the engine while it is made."""
        return [*backups_of(self.store).notices(kind), *self.store.reach.unsaved()]

    def restore(self, backup: Path, run: str | None = None, *, rest: float = 1.0) -> Restored:
        """Put the tree of one run, or all, back from a ``removed`` backup.

        A tree whose ids are in the store again is refused. Raises `StoreLocked`, `Refused`, `BackupFailed`,
        `UnitNotFound` for a run that the backup lacks, and `StoreUnreadable` for a file that is not there.
        """
        with self._locked() as state:
            restorer = backups_of(self.store).restorer(clock=self._clock, rest=rest)
            with restore_on_record(state, restorer, store=self.store):
                return restorer.run(backup, run)

    def sweep(
        self,
        policy: Policy,
        *,
        options: SweepOptions | None = None,
        approve: str | None = None,
        always: bool = False,
        since: Instant | None = None,
    ) -> Report:
        """Run one automatic sweep.

        The first one of a store, and one that would remove more than half of it, removes nothing: it ends
        ``guard`` and its report has the fingerprint that, given as ``approve``, admits it once. When it
        has served, a sweep that is given it again and has to ask shows nothing. ``always`` admits every
        sweep. If another process has completed one after ``since``, this one comes too late: `StoreLocked`.

        Raises `StoreLocked`, and `Refused` for a schema that may not be written to.
        """
        options = options or SweepOptions()
        with self._watched(options) as watched, self._attempt() as state:
            options = replace(options, observer=watched)
            if since is not None and (state.last_completed or 0) > since:
                raise StoreLocked("another sweep of this store has just been completed")
            now = state.now = self.store.now()
            try:
                with self._heeding(options.halt):
                    self._interrupted.check()
                    plan = make_plan(self.store, policy, now=now, skip_streams=self._empty_streams(state))
                    self._interrupted.settle(plan.rules, gate=options.gate)
                    decision = self._guard(plan, state, approve=approve, always=always)
                    stale = approve == plan.fingerprint and state.is_spent(plan.fingerprint)
                    asked = None if decision.allowed else self._asked(policy, decision, stale=stale)
            except (StoreFailure, UnitFailure):
                if not options.halt():
                    raise
                return self._unbegun(self._unplanned(policy, now), state, watched=watched)
            if asked is not None:
                if state.replaced:
                    asked.message = f"{state.replaced}; {asked.message}"
                if not stale:  # who brings the last answer along has not seen this question
                    state.show(asked.fingerprint, asked.units.expired)
                return self._unbegun(asked, state, watched=watched)
            left = decision.allowance
            if left is not None:
                units = options.budget.units
                bound = left if units is None else min(left, units)
                options = replace(options, budget=replace(options.budget, units=bound))
                state.allow(plan.fingerprint, None)  # used up, unless this sweep lives to give the rest back
            with _on_record(state, plan, command="sweep"):
                sweep = self._sweep(plan, options, state, start=state.cursor(plan.fingerprint))
                report = self._run(sweep, state, command="sweep", reclaim=options.reclaim, watched=watched)
            done = report.reclaim
            kept = done is None or done.ended == "skipped" or not done.before.moves_content
            # a VACUUM may number anew the rows that the cursor stands on
            state.keep_cursor(plan.fingerprint, sweep.cursor if kept else None)
            if left is not None:
                rest = left - report.units.removed
                state.allow(plan.fingerprint, rest if report.ended != "completed" and rest > 0 else None)
                if report.ended in FINISHED:
                    state.spend(plan.fingerprint)
            state.save()
            return report

    def survey_space(self) -> Reclaim:
        """Say what could be given back to the file system, how, and with how much room. Changes nothing."""
        return survey_space(self.store)

    def reclaim(self, options: ReclaimOptions | None = None) -> Reclaim:
        """Give free pages back to the file system, in place, under the sweep lock. Removes no row.

        Raises `StoreLocked`, and `Refused` where a volume lacks room or a reader pins the WAL.
        """
        with self._sweep_lock():
            state = self._state.load(self.store.identity)
            state.keep_cursor("", None)  # it stands on a row's number, and a VACUUM may number rows anew
            state.save()
            return reclaim_space(self.store, options or ReclaimOptions())

    def inspect(self, *, exact: bool = False) -> Inspection:
        """Say what the store holds, what some ages would let go, and whether the file can shrink.

        ``exact`` reads everything to measure tables; else their sizes are estimated from samples.
        """
        return inspect_store(self.store, exact=exact)

    def history(self) -> Sequence[Record]:
        """Return the records kept of sweeps and manual applies of this store, the newest last."""
        return self._attempts.records(identity=self.store.identity)

    def keep_due_since(self, moment: Instant) -> None:
        """Note since when a first automatic sweep is due, unless that is known. Raises `StoreLocked`."""
        with self._sweep_lock():
            self._state.load(self.store.identity).keep_due_since(moment)

    def verify(self) -> Iterator[str]:
        """Check integrity, foreign keys, rows of no run, and leftovers. Yield a line for each fault."""
        yield from self.store.problems()
        yield from leftovers(self._state, self.store.identity)
        yield from self._interrupted.faults(self._sweep_lock)

    def _plan(self, policy: Policy) -> Plan:
        return make_plan(self.store, policy, now=self.store.now())

    @contextmanager
    def _locked(self) -> Iterator[StoreState]:
        """Hold the store's sweep lock, and give what is remembered of the store."""
        self._refuse_unread_schema()
        with self._sweep_lock(), self.store.before_sweep():
            state = self._state.load(self.store.identity)
            self._recognise(state)
            yield state

    def _recognise(self, state: StoreState) -> None:
        """Forget what is remembered of another file that lay in the store's place."""
        subject, here = subject_of(self.store), marks_of(self.store)
        why = other_file(self.store, known=state.marks(subject), here=here)
        if why:
            state.forget(why, now=self.store.now())
        state.keep_marks(subject, here)

    def _sweep_lock(self) -> AbstractContextManager[object]:
        """Return what keeps one sweep a store: the database's own lock, or a file beside it."""
        path = self.store.lock_path
        return self.store.sweep_lock() or (nullcontext() if path is None else SweepLock(path))

    @contextmanager
    def _attempt(self) -> Iterator[StoreState]:
        """Hold the lock for an automatic sweep, and put on record what keeps it from beginning."""
        with self._sweep_lock(), self.store.before_sweep():
            state = self._state.load(self.store.identity)
            try:
                self._refuse_unread_schema()
                self._recognise(state)
                yield state
            except StoreLocked:  # another one came first, and is on record
                raise
            except Exception as error:
                if not state.begun:
                    with suppress(StateError):  # it may be what the sweep failed at
                        note_attempt(state, error, at=time.time_ns() // 1_000)
                raise

    def _refuse_unread_schema(self) -> None:
        problems = self.store.schema().problems
        if problems:
            raise Refused("schema", "; ".join(problems))

    def _empty_streams(self, state: StoreState) -> frozenset[int]:
        """Return streams of old rows that need no look: they were empty under this schema version."""
        version = self.store.schema().version
        empty = set()
        for place, stream in enumerate(self.store.streams()):
            name = f"{stream.name}@{version}"
            if not stream.rare:
                continue
            if not state.stream_is_empty(name) and not self.store.has_rows(place):
                state.note_empty(name)
            if state.stream_is_empty(name):
                empty.add(place)
        return frozenset(empty)

    def _guard(self, plan: Plan, state: StoreState, *, approve: str | None, always: bool) -> Decision:
        history = state.history(plan.fingerprint)
        if always:
            return Decision(allowed=True)
        now = plan.rules.now
        first = is_first_contact(history, now=now, newest=self.store.newest(now))
        if not first and self._most_that_could_go(plan) <= LARGE_COUNT:
            return Decision(allowed=True)
        expired = count_expired(self.store, plan, limit=counting_limit(history), page=PLAN_PAGE)
        approved = approve == plan.fingerprint
        return decide(history, first=first, expired=expired, approved=approved)

    def _most_that_could_go(self, plan: Plan) -> int:
        """Count candidates without judging them: an upper bound that costs one statement a stream."""
        if plan.rules.cutoff is None or not plan.streams:
            return 0
        start = Cursor(plan.streams[0])
        return self.store.remaining(start, cutoff=plan.rules.cutoff, streams=plan.streams)

    def _watched(self, options: SweepOptions) -> Watched:
        """Wrap the observer: one that fails fails nothing, and every sweep has its end."""
        return Watched(options.observer, monotonic=self._clock.monotonic)

    @contextmanager
    def _heeding(self, halt: Callable[[], bool]) -> Iterator[None]:
        """Let the host end meanwhile whatever the store is asked."""
        self.store.heed(halt)
        try:
            yield
        finally:
            self.store.heed(lambda: False)

    def _asked(self, policy: Policy, decision: Decision, *, stale: bool) -> Report:
        """Plan instead of a sweep that may not remove; ``stale``: it came with an approval that is spent."""
        report = self._planned(policy)
        report.ended = "guard"
        answer = f"If this is what you want, run it again with --approve {report.fingerprint}"
        if stale:
            answer = (
                "The --approve that it was given has served for an earlier sweep. Run it once without, look "
                "at what would go, and approve that. A timer's command should have no --approve"
            )
        report.message = f"{decision.why}. Nothing was removed. {answer}"
        return report

    def _unplanned(self, policy: Policy, now: Instant) -> Report:
        """Report a sweep that the host's end cut off while it planned."""
        rules = Rules(now=now, policy=policy, cutoff=None, places=(), newest={})
        plan = Plan(rules=rules, fingerprint=fingerprint(self.store, policy), streams=())
        report = new_report(self.store, plan, dry_run=False)
        report.ended = "interrupted"
        return report

    def _unbegun(self, report: Report, state: StoreState, *, watched: Watched) -> Report:
        """Put a sweep on record that ended before its first batch."""
        self._interrupted.tell(report)
        watched.end(report.ended)
        state.finish(_record(report, "sweep", watched), finished=False, runs=None)
        state.save()
        return report

    def _sweep(
        self,
        plan: Plan,
        options: SweepOptions,
        deferrals: Deferrals,
        *,
        start: Cursor | None = None,
        only: Collection[str] | None = None,
        witness: Witness | None = None,
    ) -> Sweep:
        return Sweep(
            self.store,
            SweepRequest(
                plan=plan,
                pace=self._pace(options),
                clock=self._clock if options.sleep is None else HostedClock(options.sleep),
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

    def _pace(self, options: SweepOptions) -> Pace:
        if options.offline:
            return offline_pace(max_units=options.batch_units)
        return live_pace(self.store.hold, rest=options.rest, max_units=options.batch_units)

    def _run(
        self, sweep: Sweep, state: StoreState, *, command: str, watched: Watched, reclaim: bool = False
    ) -> Report:
        """Run a sweep and put it on record, whatever its end."""
        before = self.store.sizes().total
        previous = last_sweep(state)
        self._interrupted.count(sweep.report)
        with self._heeding(sweep.halt):
            report = sweep.run()
        self._interrupted.tell(report)
        report.file_before = report.file_after = before
        if reclaim and report.ended in COUNTED_ENDS:
            asked = ReclaimOptions(gate=sweep.gate, rest=0.0, worth_only=True)
            report.reclaim = try_reclaim(self.store, asked)
        with suppress(StoreFailure, UnitFailure):  # what ended the sweep may still be in the way
            report.file_after = self.store.sizes().total
            if report.units.removed:
                state.keep_marks(subject_of(self.store), marks_of(self.store))
        if previous is not None and report.ended != "failed" and not sweep.halt():
            report.gaining = report.backlog_after == 0 or report.backlog_after < previous.backlog
        finished = report.ended in FINISHED
        state.finish(_record(report, command, watched), finished=finished, runs=sweep.runs_left)
        state.save()
        return report


@contextmanager
def _on_record(state: StoreState, plan: Plan, *, command: str) -> Iterator[None]:
    """Keep a sweep on record from before its first batch, whatever its end."""
    state.begin(command, now=plan.rules.now, fingerprint=plan.fingerprint)
    try:
        yield
    except BaseException as error:
        with suppress(StateError):  # what ended the sweep may be what keeps this from being written
            if isinstance(error, KeyboardInterrupt):
                state.abandon("interrupted")
            else:
                state.abandon("failed", why=failure_word(error))
        raise


def _record(report: Report, command: str, watched: Watched) -> Record:
    if watched.notice:
        report.notices.append(watched.notice)
    why = report.message.partition(":")[0] if report.ended == "failed" else ""
    return Record(
        at=report.now,
        command=command,
        ended=report.ended,
        why=why,
        came_back=_counted(report, "came_back"),
        left=_counted(report, "left"),
        observer_failures=watched.failures.total(),
        fingerprint=report.fingerprint,
        scanned=report.units.scanned,
        removed=report.units.removed,
        deferred=report.units.deferred,
        rows=sum(report.rows.values()) if report.ended != "guard" else 0,
        batches=report.batches,
        backlog=report.backlog_after,
        seconds=round(report.seconds, 3),
        file_before=report.file_before,
        file_after=report.file_after,
    )


def _counted(report: Report, name: str) -> int:
    """Return a count of what an interrupted removal left."""
    return int(str((report.interrupted or {}).get(name, 0)))
