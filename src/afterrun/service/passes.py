"""What a policy means for a store: one pass for each kind of unit that it lets go.

Trees come first, so that what goes with a tree need not go by itself; the plan counts by the same rule.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from afterrun.core.errors import Refused
from afterrun.core.facts import Key, Unit
from afterrun.core.judge import Rules, Verdict, judge
from afterrun.core.plan import Only, Plan, Survey, make_plan, only_of
from afterrun.core.policy import FOREVER, Policy
from afterrun.core.report import Report
from afterrun.core.row_tables import kind_of
from afterrun.core.store import Cursor, Store
from afterrun.core.times import Instant
from afterrun.service.rows import RowSurvey, row_tables, stray_names
from afterrun.state import StoreState
from afterrun.stores.directory.store import DirectoryStore
from afterrun.stores.sql.made import generations_of
from afterrun.stores.sql.rows import RowsApart, SqlRows
from afterrun.stores.sql.store import SqlStore


class Kind(Store, Protocol):
    """One kind of unit of a store, with what a plan says of it beside its counts."""

    def statements(self) -> Mapping[str, str]:
        """Return the SQL by which it is read and removed, by name, as the database gets it."""

    def remarks(self) -> Sequence[str]:
        """Say what a reader of a plan should know of these units; it may read all of them."""


class Pass(NamedTuple):
    """One kind of unit of a store, and what a policy means for it."""

    store: Kind
    plan: Plan


@dataclass(frozen=True, slots=True)
class Passes:
    """A policy resolved against every kind of unit of one store at one ``now``.

    Attributes:
        policy: the whole policy.
        trees: what it means for run trees, of which it may let none go.
        removing: the kinds that it lets go, in the order in which they go.
        rows: the row tables that it has rules for, of those that the profile knows. They have turns of their
            own, before these passes.
        unlisted: the names of further ones, of which a list of ids has no row.
    """

    policy: Policy
    trees: Pass
    removing: tuple[Pass, ...]
    rows: tuple[SqlRows, ...] = ()
    unlisted: tuple[str, ...] = ()

    @property
    def notices(self) -> Sequence[str]:
        """Return what is to be said of tables without a turn."""
        if not self.unlisted:
            return ()
        return [f"the plan file lists no rows of {', '.join(self.unlisted)}, so none of them go with it"]

    @property
    def looking(self) -> tuple[Pass, ...]:
        """Return the passes of a plan: it tells of trees, too, where none of them goes."""
        kinds = {part.plan.kind: part for part in (self.trees, *self.removing)}
        return tuple(kinds.values())

    @property
    def fingerprint(self) -> str:
        """Return the name of the whole policy on this store."""
        return self.trees.plan.fingerprint

    @property
    def rules(self) -> Rules:
        """Return the rules for run trees."""
        return self.trees.plan.rules

    def turn(self, state: StoreState) -> tuple[Sequence[Pass], Cursor | None]:
        """Return the passes in the order in which a sweep makes them, and where the first of them goes on.

        The kind at which an earlier sweep was cut off comes first: else it might never have its turn.
        """
        for place, part in enumerate(self.removing):
            start = state.cursor(part.plan.cursor_name)
            if start is not None:
                return (*self.removing[place:], *self.removing[:place]), start
        return self.removing, None


def passes_of(
    store: SqlStore | DirectoryStore,
    policy: Policy,
    *,
    now: Instant,
    skip_streams: frozenset[int] = frozenset(),
) -> Passes:
    """Resolve a policy. Raises `Refused` if the store has nothing that it could let go."""
    if isinstance(store, DirectoryStore):
        return _of_directory(store, policy, now=now)
    rules = policy.of("tree")
    rows = tuple(row_tables(store, policy, now=now))
    whole = rules or Policy(keep_for=FOREVER, grace=policy.grace, pins=policy.pins)
    plan = make_plan(store, whole, now=now, skip_streams=skip_streams, whole=policy)
    plan = replace(plan, implied=rules is None)
    removing = [] if rules is None else [Pass(store, plan)]
    removing += _generations(store, policy, plan if rules else None, now=now)
    if not (removing or rows):
        raise _nothing_known(store, policy)
    told = list(stray_names(store, policy))
    if policy.generations is not None and not store.profile.units.have_generations:
        told.append(f"the rules for generations decide nothing: the profile {store.profile_name} knows none")
    if told:
        plan = replace(plan, notices=(*plan.notices, *told))
        removing = [Pass(part.store, plan) if part.plan.kind == plan.kind else part for part in removing]
    return Passes(policy, Pass(store, plan), tuple(removing), rows)


def _nothing_known(store: SqlStore, policy: Policy) -> Refused:
    """Say that a store has nothing of what a policy without rules for whole runs has rules for."""
    if policy.generations is not None:
        return Refused(
            "no-generations",
            f"the policy has rules for generations alone, and the profile {store.profile_name} knows none",
        )
    return Refused("no-tables", "; ".join(stray_names(store, policy)))


def _of_directory(store: DirectoryStore, policy: Policy, *, now: Instant) -> Passes:
    """Resolve a policy against run folders, then result files: these go only once their run has gone."""
    if not policy.has_rules:
        what = "generations" if policy.generations is not None else "tables of rows"
        raise Refused("no-generations", f"the policy has rules for {what} alone, and a directory has none")
    plan = make_plan(store.runs, policy, now=now)
    told = [f"the rules for the table {name} decide nothing: a directory has none" for name in policy.tables]
    runs = Pass(store.runs, replace(plan, notices=(*plan.notices, *told)))
    results = store.results
    if results is None:
        return Passes(policy, runs, (runs,))

    def leaving(ids: Collection[str]) -> Collection[str]:
        return [run for run, unit in store.runs.units_of(ids).items() if _goes(unit, runs.plan)]

    # what is in the trash can come back, and its results stay with it
    results.leaving = leaving if store.work.trash is None else None
    return Passes(policy, runs, (runs, Pass(results, make_plan(results, policy, now=now))))


def _generations(store: SqlStore, policy: Policy, trees: Plan | None, *, now: Instant) -> Iterator[Pass]:
    """Yield the pass over superseded generations, if there is one."""
    rules = policy.of("generation")
    if rules is None:
        return

    def leaving(runs: Collection[Key]) -> Collection[Key]:
        units = {} if trees is None else store.units_of(runs)
        return [run for run, unit in units.items() if _goes(unit, trees)]

    view = generations_of(store, rules, leaving=leaving if trees else None)
    if view is not None:
        yield Pass(view, make_plan(view, rules, now=now, whole=policy))


def _goes(unit: Unit, plan: Plan | None) -> bool:
    return plan is not None and judge(unit, plan.rules).verdict is Verdict.EXPIRED


def narrowed(passes: Passes, only: Only | None) -> Passes:
    """Bound the row tables of passes by a list of ids; those of which it lists no row go without a turn."""
    if only is None:
        return passes
    for table in passes.rows:
        table.only = only_of(only, kind_of(table.name))
    listed = tuple(table for table in passes.rows if table.only)
    return replace(passes, rows=listed, unlisted=tuple(t.name for t in passes.rows if not t.only))


class Surveys:
    """Counts every kind of unit of a store under a plan. Its report is whole once `expired` was read."""

    def __init__(self, passes: Passes, *, only: Only | None = None, rows: bool = True) -> None:
        """Prepare; nothing is read yet. Without ``rows``, those of row tables are not counted."""
        self._looking = passes.looking
        apart_in(passes)
        first, *self._others = [
            Survey(part.store, part.plan, only=only_of(only, part.plan.kind)) for part in self._looking
        ]
        self._first = first
        self._rows = row_surveys(passes) if rows else []
        self.report: Report = first.report
        self.report.policy = passes.policy.canonical()
        self.report.notices += passes.notices

    def expired(self, *, page: int) -> Iterator[Unit]:
        """Yield the units that would go, of all kinds, one kind after another."""
        for _, unit in self.going(page=page):
            yield unit
        self.report.notices += [remark for part in self._looking for remark in part.store.remarks()]

    def going(self, *, page: int) -> Iterator[tuple[str, Unit]]:
        """Yield the units that would go, each after the name of its kind; the report has no remarks then."""
        for survey in (self._first, *self._others):
            for unit in survey.expired(page=page):
                yield survey.report.kind, unit
            if survey is not self._first:
                self.report.add(survey.report)
        for rows in self._rows:
            for _ in rows.expired(page=page):
                pass
            self.report.add(rows.report)


def row_surveys(passes: Passes) -> Sequence[RowSurvey]:
    """Return what counts the row tables of a plan."""
    return [RowSurvey(passes.trees.store, passes.trees.plan, table) for table in passes.rows]


def apart_in(passes: Passes) -> None:
    """Let the counts of a plan leave out of runs the rows that row policies take before, if any go."""
    store = passes.trees.store
    if isinstance(store, SqlStore):
        store.apart = RowsApart(store, passes.rows).count if passes.rows else None
