"""One store under retention: every command, in terms of what the other modules here and below do."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from afterrun.core.errors import Refused, StoreFailure, StoreLocked, UnitFailure
from afterrun.core.guard import Decision
from afterrun.core.inspection import Inspection
from afterrun.core.outlook import Outlook
from afterrun.core.plan import Only, Survey, only_of
from afterrun.core.policy import Policy
from afterrun.core.report import Report
from afterrun.core.space import Reclaim, ReclaimOptions
from afterrun.core.times import Instant
from afterrun.service.asking import (
    PLAN_PAGE,
    Approval,
    ask,
    cut_off,
    empty_streams,
    keep_rest,
    may_begin,
    show,
)
from afterrun.service.engine_reading import Reading, read_engine
from afterrun.service.explanation import Explanation, explained
from afterrun.service.interrupted import Interrupted
from afterrun.service.locking import attempt, locked, sweep_lock
from afterrun.service.options import SweepOptions, SystemClock
from afterrun.service.passes import Passes, Surveys, apart_in, narrowed, passes_of, row_surveys
from afterrun.service.records import RetryAll, on_record
from afterrun.service.rows import RowSurvey, row_faults, saved_tables, unsaved_rows
from afterrun.service.running import Narrowing, Running, heeding
from afterrun.state import StateDirectory, StoreState
from afterrun.state.attempts import Attempts
from afterrun.state.drafts import clear_leftovers, leftovers
from afterrun.state.files import Record
from afterrun.state.intents import Intents
from afterrun.state.restores import restore_on_record
from afterrun.stores import open_store
from afterrun.stores.backups import backups_of
from afterrun.stores.inspect import inspect_store
from afterrun.stores.outlook import SqlSurroundings
from afterrun.stores.reclaim import reclaim_space, survey_space
from afterrun.stores.sql.backed_kinds import kinds_of
from afterrun.stores.sql.backups import BackupKind, BackupOrder, Maker, Restored
from afterrun.telemetry import Watched


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
        self._location = location
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

    def survey(self, policy: Policy, *, only: Only | None = None) -> Surveys:
        """Prepare a plan that yields the units that would go, one by one; its report is whole at the end."""
        survey = Surveys(narrowed(self._plan(policy), only), only=only)
        survey.report.file_before = survey.report.file_after = self.store.sizes().total
        return survey

    def plan(self, policy: Policy, *, only: Only | None = None) -> Report:
        """Say what a policy would remove, what stays and why. Removes nothing.

        ``only`` narrows it to units with these ids, as in `prune`.
        """
        report = self._planned(policy, only=only)
        self._interrupted.mention(report)
        return report

    def _planned(self, policy: Policy, *, only: Only | None = None) -> Report:
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
        passes = self._plan(policy)
        apart_in(passes)
        others: list[Survey | RowSurvey] = [
            Survey(part.store, part.plan) for part in passes.looking if part.plan.kind != "tree"
        ]
        others += row_surveys(passes)
        outlook = Outlook(
            self.store, SqlSurroundings(self.store), passes.trees.plan, calendar=calendar, others=others
        )
        outlook.report.policy = policy.canonical()
        outlook.report.notices += [remark for part in passes.looking for remark in part.store.remarks()]
        outlook.report.file_before = outlook.report.file_after = self.store.sizes().total
        self._interrupted.mention(outlook.report)
        return outlook

    def statements(self, policy: Policy) -> Mapping[str, str]:
        """Return the SQL that reads and would remove, by name, for every kind of unit of a policy."""
        found: dict[str, str] = {}
        passes = self._plan(policy)
        for part in passes.looking:
            found |= part.store.statements()
        for table in passes.rows:
            found |= table.sql()
        return found

    def explain(self, run: str, policy: Policy) -> Explanation:
        """Say everything that decides about the unit of one run. Raises `UnitNotFound`."""
        return explained(self._plan(policy), run)

    def prune(
        self,
        policy: Policy,
        *,
        options: SweepOptions | None = None,
        only: Only | None = None,
        backup: BackupOrder | None = None,
    ) -> Report:
        """Remove what a policy lets go, at a person's word: no guard, and failed units are tried again.

        ``only`` narrows it to units with these ids, or with those of their kind; it never adds any. With a
        ``backup``, only units that are
        in it go, and only as they are in it.

        Raises `StoreLocked`, `Refused` for a schema that may not be written to or a backup that cannot be
        made safely, and `BackupFailed`; all of them before anything is removed.
        """
        options = options or SweepOptions()
        with self._watched(options) as watched, locked(self.store, self._state) as state:
            options = replace(options, observer=watched)
            self._interrupted.check()
            passes = narrowed(self._plan(policy), only)
            maker = None if backup is None else self._maker(backup, passes, options)
            cleared = list(clear_leftovers(state))
            if maker is not None:
                state.keep_drafts([*state.drafts, maker.draft])
            running = self._running(state, command="prune", watched=watched)
            with on_record(state, passes.trees.plan, command="prune"):
                # With a backup, what an earlier removal left goes like all else, once it is in the backup.
                self._interrupted.settle(passes.rules, gate=options.gate, remove=maker is None)
                if maker is not None:
                    report = running.backed_up(maker, passes, options, only=only)
                else:
                    bounds = {
                        part.plan.kind: Narrowing(only_of(only, part.plan.kind)) for part in passes.removing
                    }
                    retry = RetryAll(state)
                    report = running.run(passes.removing, options, retry, narrowed=bounds, rows=passes).report
                report.policy = policy.canonical()
                report.notices.extend([*cleared, *passes.notices])
                if report.backup is not None:
                    report.backup["cleared"] = int(str(report.backup["cleared"])) + len(cleared)
                return report

    def _maker(self, backup: BackupOrder, passes: Passes, options: SweepOptions) -> Maker:
        """Prepare a backup. Raises `UsageError` or `Refused` for a place or kind that is not safe."""
        beyond = {part.plan.kind for part in passes.removing} - kinds_of(self.store).keys()
        if beyond:
            raise Refused(
                "backup-kind",
                f"a backup of this store holds whole runs alone: a {min(beyond)} shares what it needs with "
                "others. Remove units of that kind by a policy of their own, with --no-backup",
            )
        pace = options.pace(self.store.hold)
        rows = saved_tables(passes.rows, backup.kind)
        return backups_of(self.store).maker(backup, pace=pace, clock=self._clock, rows=rows)

    def backup_notices(self, kind: BackupKind, policy: Policy | None = None) -> Sequence[str]:
        """Say what a backup of this kind, of what a policy lets go, means for the engine meanwhile."""
        rows = () if policy is None else tuple(policy.tables)
        unsaved = [*self.store.reach.unsaved(), *unsaved_rows(self.store, rows, kind)]
        return [*backups_of(self.store).notices(kind, rows=rows), *unsaved]

    def restore(
        self, backup: Path, run: str | None = None, *, rows: Collection[str] = (), rest: float = 1.0
    ) -> Restored:
        """Put the unit with one id, or all, back from a ``removed`` backup: trees, generations, then rows.

        With ``rows``, only rows of these row tables: the one with this key, or all. A tree whose ids are in
        the store again is refused, and so is a generation whose run is gone. Raises
        `StoreLocked`, `Refused`, `BackupFailed`, `UnitNotFound` for an id that the backup lacks, and
        `StoreUnreadable` for a file that is not there.
        """
        with locked(self.store, self._state) as state:
            restorer = backups_of(self.store).restorer(clock=self._clock, rest=rest, rows=rows)
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
        approval = Approval(approve, always=always)
        with self._watched(options) as watched, attempt(self.store, self._state) as state:
            options = replace(options, observer=watched)
            if since is not None and (state.last_completed or 0) > since:
                raise StoreLocked("another sweep of this store has just been completed")
            now = state.now = self.store.now()
            running = self._running(state, command="sweep", watched=watched)
            try:
                with heeding(self.store, options.halt):
                    passes = self._settled(policy, options, state, now=now)
                    decision = may_begin(passes, state, approval)
                    stale = approval.is_spent(passes.fingerprint, state)
                    asked = None if decision.allowed else self._asked(policy, decision, stale=stale)
            except (StoreFailure, UnitFailure):
                if not options.halt():
                    raise
                return running.unbegun(cut_off(self.store, policy, now=now))
            if asked is not None:
                show(asked, state, stale=stale)
                return running.unbegun(asked)
            return self._admitted(running, passes, options, allowance=decision.allowance)

    def _settled(self, policy: Policy, options: SweepOptions, state: StoreState, *, now: Instant) -> Passes:
        """Plan a sweep, and end what an interrupted removal left by that plan's rules."""
        self._interrupted.check()
        skipped = empty_streams(self.store, state)
        passes = passes_of(self.store, policy, now=now, skip_streams=skipped)
        self._interrupted.settle(passes.rules, gate=options.gate)
        return passes

    def _asked(self, policy: Policy, decision: Decision, *, stale: bool) -> Report:
        """Plan instead of a sweep that may not remove."""
        report = self._planned(policy)
        ask(report, decision.why, stale=stale)
        return report

    def _admitted(
        self, running: Running, passes: Passes, options: SweepOptions, *, allowance: int | None
    ) -> Report:
        """Remove what a sweep may remove, and keep where it stopped and what is left of its approval."""
        state = running.state
        if allowance is not None:
            options = options.within(allowance)
            state.allow(passes.fingerprint, None)  # used up, unless this sweep lives to give the rest back
        with on_record(state, passes.trees.plan, command=running.command):
            turn, start = passes.turn(state)
            ran = running.run(turn, options, state, start=start, rows=passes)
        report = ran.report
        report.policy = passes.policy.canonical()
        done = report.reclaim
        kept = done is None or done.ended == "skipped" or not done.before.moves_content
        # a VACUUM may number anew the rows that the cursor stands on
        state.keep_cursor(ran.cut.cursor_name, ran.cursor if kept else None)
        if not kept:
            state.keep_row_places("", {})
        if allowance is not None:
            keep_rest(report, state, passes.fingerprint, allowance=allowance)
        state.save()
        return report

    def row_faults(self) -> Sequence[str]:
        """Say why nothing of some row tables of the profile could go, whatever a policy says."""
        return row_faults(self.store)

    def survey_space(self) -> Reclaim:
        """Say what could be given back to the file system, how, and with how much room. Changes nothing."""
        return survey_space(self.store)

    def reclaim(self, options: ReclaimOptions | None = None) -> Reclaim:
        """Give free pages back to the file system, in place, under the sweep lock. Removes no row.

        Raises `StoreLocked`, and `Refused` where a volume lacks room or a reader pins the WAL.
        """
        with sweep_lock(self.store):
            state = self._state.load(self.store.identity)
            state.keep_cursor("", None)  # it stands on a row's number, and a VACUUM may number rows anew
            state.keep_row_places("", {})
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
        with sweep_lock(self.store):
            self._state.load(self.store.identity).keep_due_since(moment)

    def verify(self) -> Iterator[str]:
        """Check integrity, foreign keys, rows of no run, and leftovers. Yield a line for each fault."""
        yield from self.store.problems()
        yield from leftovers(self._state, self.store.identity)
        yield from self._interrupted.faults(lambda: sweep_lock(self.store))

    def engine_reading(self, *, python: str | None = None) -> Reading:
        """Have the engine itself read the whole store, by the Python that has it; default: this one.

        Raises `Refused` for a profile whose engine cannot be asked, `StoreUnreadable` if it fails.
        """
        return read_engine(self._location, self.store.profile_name, python=python)

    def _plan(self, policy: Policy) -> Passes:
        return passes_of(self.store, policy, now=self.store.now())

    def _watched(self, options: SweepOptions) -> Watched:
        """Wrap the observer: one that fails fails nothing, and every sweep has its end."""
        return Watched(options.observer, monotonic=self._clock.monotonic)

    def _running(self, state: StoreState, *, command: str, watched: Watched) -> Running:
        return Running(self.store, state, self._interrupted, command, watched, self._clock)
