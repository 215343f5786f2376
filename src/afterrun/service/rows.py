"""Row tables of one store under a policy: what a plan says of them, and their turns in a sweep.

They come before runs. So a row that a row policy takes is counted there, and a run that goes takes what is
left; a plan counts by the same rule.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

from afterrun.core.errors import StoreFailure, UnitFailure, did_you_mean
from afterrun.core.facts import Key, Unit
from afterrun.core.plan import NOT_IN_PLAN, SAMPLE, SAMPLE_A_PAGE, Plan, new_report
from afterrun.core.policy import FOREVER, Policy
from afterrun.core.report import Ended, Report
from afterrun.core.row_rules import RowRules
from afterrun.core.row_tables import Place, kind_of, row_unit
from afterrun.core.rows import RowBudget, RowRequest, RowResult, RowSweep, fair_turns, row_pace, turned
from afterrun.core.store import Store
from afterrun.core.sweep import Clock
from afterrun.core.times import Instant
from afterrun.service.options import SweepOptions
from afterrun.state import StoreState
from afterrun.stores.directory.store import DirectoryStore
from afterrun.stores.sql.backed_rows import uncopied
from afterrun.stores.sql.backups import BackupKind, Going
from afterrun.stores.sql.row_binding import RowBinding
from afterrun.stores.sql.rows import SqlRows
from afterrun.stores.sql.store import SqlStore

COUNTING_PAGE: Final = 5_000
"""Raw rows of a page of a plan: rows are small, and nothing is held while one is read."""


def row_tables(store: SqlStore, policy: Policy, *, now: Instant) -> Sequence[SqlRows]:
    """Resolve a policy against the row tables of a store, in the order of its profile."""
    tables = [
        SqlRows(store, name, profile, policy.tables[name], now=now, grace=policy.grace)
        for name, profile in store.profile.units.rows.items()
        if name in policy.tables
    ]
    sound = {table.binding.rows.table: table for table in tables if not table.problems}
    for table in sound.values():
        owned = (part.table for part in table.binding.owned)
        table.apart = [sound[name] for name in owned if name in sound]
    return tables


def saved_tables(tables: Sequence[SqlRows], kind: BackupKind) -> Collection[str]:
    """Return the row tables whose rows a backup can hold; the others are blocked, and say so."""
    for table in tables:
        if kind == "removed" and not table.problems:
            table.problems = list(uncopied(table.binding))
    return [table.name for table in tables if not table.problems]


def unsaved_rows(store: SqlStore, names: Collection[str], kind: BackupKind) -> Iterator[str]:
    """Yield of which of these row tables nothing goes, since a backup of this kind cannot hold it."""
    for name, profile in store.profile.units.rows.items():
        if name in names and kind == "removed":
            binding = RowBinding(store.binding, name, profile)
            problems = [] if binding.problems else uncopied(binding)
            yield from (f"{kind_of(name)} stays whole: {problem}" for problem in problems)


def going_rows(tables: Sequence[SqlRows], most: Mapping[str, int]) -> Going:
    """Yield the rows that would go, so many of each table, those first that other tables take along."""
    taken = {other.name for table in tables for other in table.apart}
    for name in turned([table.name for table in tables], by=0, first=list(taken)):
        table = next(table for table in tables if table.name == name)
        yield from ((kind_of(name), row_unit(key)) for key in islice(_keys(table), most.get(name, 0)))


def _keys(table: SqlRows) -> Iterator[Key]:
    place: Place | None = None
    while not table.problems:
        page = table.page(place, limit=COUNTING_PAGE)
        yield from page.going
        place = page.place
        if place is None:
            return


def fair_counts(whole: int | None, wants: Mapping[str, int]) -> Mapping[str, int]:
    """Share a number equally; what one does not want goes to the others."""
    if whole is None:
        return wants
    counts, left = dict[str, int](), whole
    for place, name in enumerate(sorted(wants, key=lambda name: (wants[name], name))):
        counts[name] = min(wants[name], left // (len(wants) - place))
        left -= counts[name]
    return counts


def stray_names(store: SqlStore, policy: Policy) -> Iterator[str]:
    """Yield a notice for each table of a policy that the profile of the store does not know."""
    known = store.profile.units.rows
    for name in sorted(policy.tables.keys() - known.keys()):
        told = f"; it knows {', '.join(known)}" if known else ""
        yield (
            f"the rules for the table {name} decide nothing: the profile {store.profile_name} has no such "
            f"row table{did_you_mean(name, known)}{told}"
        )


def row_faults(store: SqlStore | DirectoryStore) -> Sequence[str]:
    """Say why nothing of some row tables of a store's profile could go, whatever a policy says."""
    if isinstance(store, DirectoryStore):
        return []
    rules = {name: RowRules(keep_for=FOREVER) for name in store.profile.units.rows}
    tables = row_tables(store, Policy(tables=rules), now=store.now()) if rules else []
    return [f"rows.{table.name}: {problem}" for table in tables for problem in table.problems]


def row_report(store: Store, plan: Plan, table: SqlRows, result: RowResult, *, dry_run: bool) -> Report:
    """Return what came of one row table as a report of its own kind."""
    report = new_report(store, plan, dry_run=dry_run)
    figures = result.figures
    report.kind, report.units, report.rows = kind_of(table.name), result.units, result.rows
    report.tables = {table.name: figures}
    report.backlog_after = figures.backlog
    report.backlog_before = figures.backlog + (0 if dry_run else figures.rows)
    report.longest_batch, report.batches = result.longest, figures.batches
    report.notices = [f"{kind_of(table.name)}: {notice}" for notice in (*table.problems, *table.notices)]
    if figures.why and figures.outcome == "failed":
        report.notices.append(f"{kind_of(table.name)} failed: {figures.why}")
    return report


class RowSurvey:
    """Counts one row table under a plan. It yields the rows that would go, as units that are a key each."""

    def __init__(self, store: Store, plan: Plan, table: SqlRows) -> None:
        """Prepare; nothing is read yet."""
        self._table = table
        self._result = RowResult()
        self._sampled: list[tuple[int, int]] = []
        self.report = row_report(store, plan, table, self._result, dry_run=True)

    def expired(self, *, page: int) -> Iterator[Unit]:  # noqa: ARG002 - rows have a page of their own
        """Read all candidates; the report is whole at the end."""
        table, result = self._table, self._result
        if table.problems:
            result.figures.outcome, result.figures.why = "blocked", table.problems[0]
        else:
            yield from self._count()
        self.report.backlog_before = self.report.backlog_after = result.figures.backlog

    def _count(self) -> Iterator[Unit]:
        table, units = self._table, self._result.units
        place: Place | None = None
        while True:
            page = table.page(place, limit=COUNTING_PAGE)
            units.scanned += page.scanned
            units.expired += len(page.going) + page.unlisted
            if page.unlisted:
                units.skipped[NOT_IN_PLAN] += page.unlisted
            units.recent += page.kept.recent
            units.protected.update(page.kept.protected)
            units.blocked.update(page.kept.blocked)
            self._weigh(page.going)
            yield from map(row_unit, page.going)
            place = page.place
            if place is None:
                break
        beyond = table.beyond()
        units.recent += beyond.recent
        units.protected.update(beyond.protected)
        units.blocked.update(beyond.blocked)
        kept = units.recent + units.protected.total() + units.blocked.total()
        units.members = units.expired + kept
        self._result.figures.rows = self._result.figures.backlog = units.would_go
        size, rows = (sum(part) for part in zip(*self._sampled, strict=True)) if self._sampled else (0, 0)
        self.report.logical_bytes = size * self._result.rows.total() // rows if rows else 0

    def _weigh(self, keys: Sequence[Key]) -> None:
        """Count all rows that would go with these, and measure a few, to estimate the size of all."""
        if not keys:
            return
        self._result.rows.update(self._table.count(keys))
        if len(self._sampled) * SAMPLE_A_PAGE < SAMPLE:
            self._sampled.append(self._table.measure(keys[:SAMPLE_A_PAGE]))


class RowTurns:
    """The turns that the row tables of one sweep have: before the runs, and again with what these leave."""

    def __init__(
        self,
        tables: Sequence[SqlRows],
        options: SweepOptions,
        state: StoreState,
        *,
        clock: Clock,
        plan: Plan,
        hold: float,
    ) -> None:
        """Order the tables for this sweep; nothing is read yet."""
        self._plan = plan
        self._state = state
        self._options = options
        self._tables = {table.name: table for table in tables}
        ask = RowRequest(clock=clock, gate=options.gate, halt=options.halt, observer=options.observer)
        pace = options.pace(hold)
        places = state.row_places(plan.fingerprint)
        taken = {other.name for table in tables for other in table.apart}
        order = turned(list(self._tables), by=state.sweeps, first=list(taken))
        self._sweeps = [
            RowSweep(
                self._tables[name],
                ask,
                row_pace(self._tables[name], pace, offline=options.offline),
                start=places.get(name),
            )
            for name in order
        ]
        self._failure = ""

    @property
    def seconds(self) -> float:
        """Return the seconds that were spent so far."""
        return sum(sweep.seconds for sweep in self._sweeps)

    @property
    def removed(self) -> int:
        """Return how many rows of the tables went so far."""
        return sum(sweep.result.units.removed for sweep in self._sweeps)

    @property
    def ended(self) -> Ended:
        """Return how the work ended so far; a table that failed alone ends nothing."""
        if self._failure:
            return "failed"
        outcomes = {sweep.outcome for sweep in self._sweeps}
        if "interrupted" in outcomes:
            return "interrupted"
        return "budget" if "budget" in outcomes else "completed"

    def take(self, *, seconds: float, removed: int, others: int) -> None:
        """Give each table that goes on its share of what is left after so much; ``others`` is for more."""
        budget = self._options.without(seconds=seconds, units=removed).budget
        if budget.seconds == 0.0 or budget.units == 0:
            return
        shares = RowBudget(seconds=budget.seconds, rows=budget.units)
        try:
            fair_turns(self._sweeps, shares, others=others, gate=self._options.gate)
        except (StoreFailure, UnitFailure) as failure:
            self._failure = str(failure)

    def tell(self, report: Report, store: Store) -> None:
        """Put on the report of the runs what came of the tables, and remember where they were cut off."""
        ended, message = report.ended, report.message
        for sweep in self._sweeps:
            result = sweep.result
            result.units.expired = max(result.units.expired, result.units.removed)
            part = row_report(store, self._plan, self._tables[sweep.name], result, dry_run=False)
            part.seconds = sweep.seconds
            report.add(part)
        report.ended, report.message = ended, message
        if ended == "completed":
            report.ended, report.message = self.ended, self._failure
        self._state.keep_row_places(self._plan.fingerprint, self._places())

    def _places(self) -> Mapping[str, Place]:
        return {sweep.name: sweep.place for sweep in self._sweeps if sweep.place is not None}
