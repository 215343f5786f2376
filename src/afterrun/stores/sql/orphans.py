"""What should not be: rows that belong to no run, and links to runs that are gone.

Somebody removed a run in part, or beside a batch a link was made in the moment of its commit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import sqlalchemy as sa

from afterrun.core.times import DAY, Instant
from afterrun.profiles.model import Overdue, Owned, Protection
from afterrun.stores.sql.binding import Binding
from afterrun.stores.sql.facts import Facts
from afterrun.stores.sql.literals import literal, one_of


def faults(facts: Facts) -> Iterator[str]:
    """Yield a sentence with a count for each kind of row or link that leads to no run."""
    for table, count in orphan_counts(facts.binding):
        yield f"orphans: {count} rows of {table} belong to no run"
    for protection, count in lost_references(facts):
        yield (
            f"references: {count} rows of {protection.table} by which live runs refer to others "
            f"({protection.reason}) lead to runs that are gone"
        )
    count = lost_parents(facts)
    if count:
        yield f"parents: {count} runs have a parent that is gone, so their trees are blocked"


def orphan_counts(binding: Binding) -> Iterator[tuple[str, int]]:
    """Yield each owned table that has rows of no run, and how many."""
    for owned in binding.owned:
        count = _count(binding, _orphans(binding, owned))
        if count:
            yield owned.table, count


def _orphans(binding: Binding, owned: Owned) -> sa.Select[int]:
    tree = binding.tree
    table = binding.table(owned.table, "t")
    if owned.via is None:
        holder = binding.table(tree.table, "h")
        on, present = holder.c[tree.key] == table.c[owned.column], holder.c[tree.key]
    else:
        holder = binding.table(owned.via.table, "h")
        on, present = holder.c[owned.via.key] == table.c[owned.column], holder.c[owned.via.key]
    return (
        sa.select(sa.func.count())
        .select_from(table.outerjoin(holder, on))
        .where(present.is_(None), table.c[owned.column].is_not(None))
    )


def lost_references(facts: Facts) -> Iterator[tuple[Protection, int]]:
    """Yield each protection by live runs, and how many of their references lead to no run, if any do."""
    for protection in facts.binding.protect:
        if protection.table is None or protection.by_live is None:
            continue
        count = _count(facts.binding, _lost(facts, protection), {"now": facts.dialect.now()})
        if count:
            yield protection, count


def _lost(facts: Facts, protection: Protection) -> sa.Select[int]:
    """Count from the live runs to their rows, of which there are few, and from those to no run."""
    binding, tree = facts.binding, facts.tree
    live = facts.live_keys().subquery("live")
    referring = binding.table(str(protection.table), "r")
    gone = binding.table(tree.table, "h")
    column = referring.c[str(protection.column)]
    tests = [facts.condition(referring.c[name], test) for name, test in protection.where.items()]
    source = live.join(referring, referring.c[str(protection.by_live)] == next(iter(live.c)))
    return (
        sa.select(sa.func.count())
        .select_from(source.outerjoin(gone, gone.c[tree.key] == column))
        .where(gone.c[tree.key].is_(None), column.is_not(None), *tests)
    )


def overdue(facts: Facts) -> Iterator[str]:
    """Yield a sentence with a count for each kind of row that has held runs for too long since they ended."""
    for protection in facts.binding.protect:
        limit = protection.overdue
        if limit is None:
            continue
        count = _count(facts.binding, *_overdue(facts, protection, limit, facts.dialect.now()))
        if count:
            yield (
                f"{count} runs that ended are held by rows of {protection.table} that have waited for more "
                f"than {limit.days} days ({protection.reason}): does an engine run that takes them?"
            )


def _overdue(
    facts: Facts, protection: Protection, limit: Overdue, now: Instant
) -> tuple[sa.Select[int], dict[str, object]]:
    """Count from the rows that hold runs, of which there are few, to those of the runs that have ended."""
    binding, tree = facts.binding, facts.tree
    referring = binding.table(str(protection.table), "r")
    time = referring.c[limit.column]
    instant = facts.dialect.instant(time, limit.format)
    since = now - limit.days * DAY
    source = binding.with_lookups(facts.runs).join(
        referring, facts.key == referring.c[str(protection.column)]
    )
    statement = (
        sa.select(sa.func.count(facts.key.distinct()))
        .select_from(source)
        .where(
            time < sa.bindparam("bound"),  # by an index, if there is one
            sa.and_(instant >= literal(0), instant < literal(since)),
            one_of(facts.status, tree.terminal),
            *(facts.condition(referring.c[name], test) for name, test in protection.where.items()),
        )
    )
    return statement, {"bound": facts.dialect.bound(since, time, limit.format), "now": now}


def lost_parents(facts: Facts) -> int:
    """Count runs whose parent is gone, where the profile says that this blocks them."""
    if facts.tree.missing != "block" or not facts.tree.edges:
        return 0
    statement = (
        sa.select(sa.func.count())
        .select_from(facts.with_parents(facts.source))
        .where(facts.parent.is_not(None), sa.not_(facts.has_parent()))
    )
    return _count(facts.binding, statement)


def _count(
    binding: Binding, statement: sa.Select[int], parameters: Mapping[str, object] | None = None
) -> int:
    """Run a count."""
    return int(binding.dialect.execute(statement, parameters)[0][0])
