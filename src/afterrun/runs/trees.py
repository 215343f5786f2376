"""Trees of runs: all that hang from one, and their cancellation."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass

import sqlalchemy as sa

from afterrun.runs.access import hold
from afterrun.runs.database import Transaction
from afterrun.runs.endings import Scope, end_runs, end_work, forget_checkpoints
from afterrun.runs.lifecycle import wake_parent
from afterrun.runs.obligations import open_kinds
from afterrun.runs.schema import runs
from afterrun.runs.scrub import scrub
from afterrun.runs.views import COLUMNS, Run, runs_of
from afterrun.runs.words import LIVE, RunStatus, Work


@dataclass(frozen=True, slots=True)
class Tree:
    """A run and all below it, the run first and each before what hangs from it.

    ``open`` says whether any of them is live or has open work, whose kinds are ``work``.
    """

    runs: tuple[Run, ...]
    open: bool
    work: tuple[Work, ...]


def tree_of(transaction: Transaction, run: str) -> Tree | None:
    """Return the tree below a run, of any size: children of every attempt, through runs that have ended."""
    root = transaction.value(sa.select(runs.c.root_id).where(runs.c.id == run))
    if root is None:
        return None
    scope = scope_of(run, root)
    found = runs_of(transaction.rows(sa.select(*COLUMNS).where(runs.c.id.in_(scope))))
    kinds = tuple(open_kinds(transaction, scope, root=root))
    alive = any(part.status in LIVE for part in found)
    return Tree(tuple(_downwards(found, run)), alive or bool(kinds), kinds)


def cancel_tree(transaction: Transaction, run: str, *, reason: str) -> int:
    """Cancel a run and all below it; return how many runs that ended. What has ended stays as it is.

    Runs inside are not woken, since what they wait for goes with them; the run's own parent is.
    """
    found = hold(transaction, run)
    scope = scope_of(run, found.root)
    end_work(transaction, scope)
    count = end_runs(transaction, scope, RunStatus.CANCELLED, reason=scrub(reason))
    forget_checkpoints(transaction, scope)
    if count:
        wake_parent(transaction, found)
    return count


def scope_of(run: str, root: str) -> Scope:
    """Return what selects a run and all below it: by the root that each run knows, else level by level."""
    if run == root:
        return sa.select(runs.c.id).where(runs.c.root_id == root)
    below = sa.select(runs.c.id).where(runs.c.id == run).cte("below", recursive=True)
    child = runs.alias("child")
    orphan = child.c.parent_id.is_(None)
    hangs = sa.or_(
        child.c.parent_id == below.c.id,
        sa.and_(orphan, child.c.restart_of == below.c.id),
        sa.and_(orphan, child.c.restart_of.is_(None), child.c.continuation_of == below.c.id),
    )
    walked = below.union(sa.select(child.c.id).where(hangs))  # UNION meets a run once, so a cycle ends
    return sa.select(walked.c.id)


def _downwards(found: Iterable[Run], run: str) -> Iterable[Run]:
    """Yield runs from the top, siblings by their ids, which is the order in which they were created."""
    known = {part.id: part for part in found}
    below: defaultdict[str | None, list[str]] = defaultdict(list)
    for part in sorted(known):
        below[known[part].above].append(part)
    met = {run}
    queue = deque([run])
    while queue:
        top = queue.popleft()
        yield known[top]
        for part in below[top]:
            if part not in met:
                met.add(part)
                queue.append(part)
