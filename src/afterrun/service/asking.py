"""Whether an automatic sweep may begin, and what it reports instead if it has to ask or is cut off.

`core.guard` decides; here stands what it is told of the store, and what becomes of its approvals.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from afterrun.core.guard import (
    LARGE_COUNT,
    LARGE_ROWS,
    LARGE_SHARE,
    Count,
    Decision,
    counting_limit,
    decide,
    is_first_contact,
    is_large_table,
)
from afterrun.core.judge import Rules
from afterrun.core.plan import WHOLE_RUNS, Plan, count_expired, fingerprint, new_report
from afterrun.core.policy import Policy
from afterrun.core.report import Report
from afterrun.core.store import Cursor
from afterrun.core.times import Instant
from afterrun.service.passes import Pass, Passes
from afterrun.service.records import FINISHED
from afterrun.service.rows import COUNTING_PAGE
from afterrun.state import StoreState
from afterrun.stores.sql.rows import SqlRows
from afterrun.stores.sql.store import SqlStore

PLAN_PAGE: Final = 1_000
"""Raw keys of a page of a plan that removes nothing."""


@dataclass(frozen=True, slots=True)
class Approval:
    """What a caller brings along for a sweep that would ask: a fingerprint, or leave for every sweep."""

    fingerprint: str | None = None
    always: bool = False

    def is_spent(self, fingerprint: str, state: StoreState) -> bool:
        """Say whether it is of this plan and has served for an earlier sweep."""
        return self.fingerprint == fingerprint and state.is_spent(fingerprint)


def empty_streams(store: SqlStore, state: StoreState) -> frozenset[int]:
    """Return streams of old rows that need no look: they were empty under this schema version."""
    version = store.schema().version
    empty = set()
    for place, stream in enumerate(store.streams()):
        name = f"{stream.name}@{version}"
        if not stream.rare:
            continue
        if not state.stream_is_empty(name) and not store.has_rows(place):
            state.note_empty(name)
        if state.stream_is_empty(name):
            empty.add(place)
    return frozenset(empty)


def may_begin(passes: Passes, state: StoreState, approval: Approval) -> Decision:
    """Decide whether a sweep may remove, after counting as little as that takes.

    Only run trees and rows are counted in a store that was swept before: of generations, most go each time.
    """
    history = state.history(passes.fingerprint)
    if approval.always:
        return Decision(allowed=True)
    store, now = passes.trees.store, passes.rules.now
    first = is_first_contact(history, now=now, newest=store.newest(now))
    counted = [part for part in passes.removing if first or part.plan.kind in WHOLE_RUNS]
    tables = [table for table in passes.rows if not table.problems]
    large = None if first else next(filter(_loses_most, tables), None)
    if not first and large is None and sum(map(_most_that_could_go, counted)) <= LARGE_COUNT:
        return Decision(allowed=True)
    limit, expired = counting_limit(history), Count(0, 0)
    for part in counted:
        found = count_expired(part.store, part.plan, limit=limit, page=PLAN_PAGE)
        expired = Count(expired.units + found.units, expired.runs + found.runs)
    rows = sum(count_rows(table, most=limit.units) for table in tables)
    expired = Count(expired.units + rows, expired.runs)
    approved = approval.fingerprint == passes.fingerprint
    table = None if large is None else large.name
    return decide(history, first=first, expired=expired, approved=approved, table=table)


def _loses_most(table: SqlRows) -> bool:
    """Say whether a row table would lose unusually many rows, after counting as little as that takes."""
    if table.candidates(LARGE_ROWS + 1) <= LARGE_ROWS or count_rows(table, most=LARGE_ROWS) <= LARGE_ROWS:
        return False
    rows = table.rows()
    return is_large_table(rows, expired=count_rows(table, most=max(LARGE_ROWS, int(rows * LARGE_SHARE))))


def count_rows(table: SqlRows, *, most: int) -> int:
    """Count rows that would go, but stop once there are more than ``most``."""
    found, place = 0, None
    while True:
        page = table.page(place, limit=COUNTING_PAGE)
        found, place = found + len(page.going), page.place
        if place is None or found > most:
            return found


def _most_that_could_go(part: Pass) -> int:
    """Count candidates without judging them: an upper bound that costs one statement a stream."""
    plan = part.plan
    if plan.rules.cutoff is None or not plan.streams:
        return 0
    start = Cursor(plan.streams[0])
    return part.store.remaining(start, cutoff=plan.rules.cutoff, streams=plan.streams)


def ask(report: Report, why: str, *, stale: bool) -> None:
    """Make a plan's report the question of a sweep; ``stale``: it came with an approval that is spent."""
    report.ended = "guard"
    answer = f"If this is what you want, run it again with --approve {report.fingerprint}"
    if stale:
        answer = (
            "The --approve that it was given has served for an earlier sweep. Run it once without, look "
            "at what would go, and approve that. A timer's command should have no --approve"
        )
    report.message = f"{why}. Nothing was removed. {answer}"


def show(report: Report, state: StoreState, *, stale: bool) -> None:
    """Remember what was asked, so that an approval can refer to it."""
    if state.replaced:
        report.message = f"{state.replaced}; {report.message}"
    if not stale:  # who brings the last answer along has not seen this question
        state.show(report.fingerprint, report.would_go)


def keep_rest(report: Report, state: StoreState, fingerprint: str, *, allowance: int) -> None:
    """Give back what a sweep left of its approval, unless that has served."""
    rest = allowance - report.removed
    state.allow(fingerprint, rest if report.ended != "completed" and rest > 0 else None)
    if report.ended in FINISHED:
        state.spend(fingerprint)


def cut_off(store: SqlStore, policy: Policy, *, now: Instant) -> Report:
    """Report a sweep that the host's end cut off while it planned."""
    rules = Rules(now=now, policy=policy, cutoff=None, places=(), newest={})
    plan = Plan(kind=store.kind, rules=rules, fingerprint=fingerprint(store, policy), streams=())
    report = new_report(store, plan, dry_run=False)
    report.ended = "interrupted"
    return report
