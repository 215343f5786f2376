"""Inspection of a store: one scan of its runs, samples of its tables, and a look ahead at some ages."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Final

from afterrun.core.facts import Scalar, Status
from afterrun.core.inspection import HORIZONS, Ended, Held, Inspection, LookAhead, Looker, TableSize
from afterrun.core.plan import make_plan
from afterrun.core.policy import Policy
from afterrun.core.times import DAY, Instant
from afterrun.stores.sql.standing import Standing
from afterrun.stores.sql.store import SqlStore

WINDOW_DAYS: Final = 30
"""Days that growth is averaged over, or the store's age if that is less."""

ENDED: Final = (Status.TERMINAL, Status.SUCCESSFUL)


def inspect_store(store: SqlStore, *, exact: bool) -> Inspection:
    """Say what a store holds. Changes nothing.

    Raises `Refused` where ``exact`` is asked of a database that cannot tell.
    """
    began = time.monotonic()
    now = store.now()
    space = store.space()
    statuses = store.binding.model.statuses
    found = store.standings(now)
    known = [part.oldest for part in found if part.oldest is not None]
    tables = sorted(store.table_sizes(exact=exact), key=lambda size: (-size.total, size.name))
    plan = make_plan(store, Policy(keep_for=timedelta(days=HORIZONS[0])), now=now)
    looker = Looker(store, plan, place=store.cursor_at, bytes_a_row=_beside_content(store, tables))
    look = looker.look(ended_roots(found, statuses))
    add_outside(look, found, statuses)
    oldest = min(known, default=None)
    return Inspection(
        store=store.url,
        profile=store.profile_name,
        engine=store.profile.engine,
        schema=store.schema(),
        now=now,
        exact=exact,
        runs=_states(found, statuses),
        stuck=stuck_runs(found, statuses),
        oldest=oldest,
        newest=store.newest(now),
        growth=_growth(found, statuses, bytes_a_run=_bytes_a_run(store, tables), age=_age(oldest, now)),
        tables=tables,
        look=look,
        space=space,
        rooms=store.rooms(),
        seconds=time.monotonic() - began,
    )


def _states(found: Sequence[Standing], statuses: Mapping[Scalar, Status]) -> Mapping[str, int]:
    counts = {"live": 0, "finished": 0, "unknown": 0}
    for part in found:
        meaning = statuses.get(part.status, Status.UNKNOWN)
        word = "finished" if meaning in ENDED else meaning.value
        counts[word] += part.count
    return counts


def stuck_runs(found: Sequence[Standing], statuses: Mapping[Scalar, Status]) -> Held:
    """Count live runs without a sign of life for 30 days."""
    held = Held()
    for part in found:
        if statuses.get(part.status) is Status.LIVE and part.age == "stale":
            held.add(part.count, part.oldest)
    return held


def ended_roots(found: Sequence[Standing], statuses: Mapping[Scalar, Status]) -> list[Ended]:
    """Return the roots that ended at a known time, by stream and day."""
    return [
        Ended(part.stream, part.days, part.count)
        for part in found
        if part.root and part.end == "known" and statuses.get(part.status) in ENDED
    ]


def add_outside(look: LookAhead, found: Sequence[Standing], statuses: Mapping[Scalar, Status]) -> None:
    """Add the roots that no page of candidates meets, whatever the age: alive, or with an unknown fact."""
    for part in found:
        meaning = statuses.get(part.status, Status.UNKNOWN)
        if not part.root:
            continue
        if meaning is Status.UNKNOWN:
            look.blocked.setdefault("unknown-status", Held()).add(part.count, part.oldest)
        elif meaning is Status.LIVE:
            look.protected.setdefault("live-member", Held()).add(part.count, part.oldest)
        elif part.end != "known":
            look.blocked.setdefault(part.end, Held()).add(part.count, part.oldest)


def _age(oldest: Instant | None, now: Instant) -> float:
    """Return the days that growth is averaged over."""
    if oldest is None:
        return float(WINDOW_DAYS)
    return min(max((now - oldest) / DAY, 1.0), float(WINDOW_DAYS))


def _growth(
    found: Sequence[Standing], statuses: Mapping[Scalar, Status], *, bytes_a_run: float, age: float
) -> Mapping[str, float]:
    """Return runs made and ended, and about how many bytes came, a day: of what is still there."""
    made = sum(part.count for part in found if part.age == "fresh")
    ended = sum(
        part.count
        for part in found
        if part.end == "known" and 0 <= part.days < WINDOW_DAYS and statuses.get(part.status) in ENDED
    )
    return {
        "days": round(age, 1),
        "created": round(made / age, 2),
        "ended": round(ended / age, 2),
        "bytes": round(made * bytes_a_run / age),
    }


def _beside_content(store: SqlStore, tables: Sequence[TableSize]) -> float:
    """Return the bytes that a row of a unit takes beside its content: in indexes and in its page."""
    own = _of_units(store, tables)
    rows = sum(size.rows for size in own)
    return max(sum(size.total - size.content for size in own), 0) / rows if rows else 0.0


def _of_units(store: SqlStore, tables: Sequence[TableSize]) -> list[TableSize]:
    names = {store.binding.tree.table, *(owned.table for owned in store.binding.owned)}
    return [size for size in tables if size.name in names]


def _bytes_a_run(store: SqlStore, tables: Sequence[TableSize]) -> float:
    """Return the bytes of a run with all that goes with it, on the whole."""
    runs = sum(size.rows for size in tables if size.name == store.binding.tree.table)
    return sum(size.total for size in _of_units(store, tables)) / runs if runs else 0.0
