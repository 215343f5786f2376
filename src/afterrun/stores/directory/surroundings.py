"""What a directory says of runs that a plan's pages do not read, and what an inspection measures.

Pages come by name, since nothing orders folders by time; so where other ages are asked about, the pages reach
down to the shortest of them, and here is told only what they leave.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Final

from afterrun.core.facts import UNREADABLE, Key, Status, key_text
from afterrun.core.inspection import HORIZONS, Ended, Held, Inspection, LookAhead, Looker, TableSize
from afterrun.core.outlook import Standings
from afterrun.core.plan import make_plan
from afterrun.core.policy import Policy
from afterrun.core.store import Cursor
from afterrun.core.times import DAY, Instant
from afterrun.stores.directory.entries import MALFORMED
from afterrun.stores.directory.kind import SAMPLE
from afterrun.stores.directory.run_units import RunUnits
from afterrun.stores.directory.space import DirectorySpace
from afterrun.stores.directory.store import DirectoryStore

STALE_DAYS: Final = 30
"""Days without a sign of life after which a live run counts as stuck."""


class DirectorySurroundings:
    """The counts of one store's runs. ``asked`` is whether the asked policy lets any age go."""

    def __init__(self, runs: RunUnits, *, asked: bool, widest: Instant) -> None:
        """Take the runs of a store; from now on their pages reach at least down to ``widest``."""
        self._runs = runs
        self._asked = asked
        runs.widest = widest

    def standings(self, now: Instant) -> Standings:
        """Return what pages do not meet: live runs. Where the policy reads no page, what they would."""
        found = LookAhead([])
        index = self._runs.index
        for key in index.order:
            if index.status(key) is Status.LIVE:
                found.protected.setdefault("live-member", Held()).add(1, _seen(self._runs, key))
        ended = [] if self._asked else self._ended(now)
        return Standings(ended, found, self.stuck(now))

    def _ended(self, now: Instant) -> list[Ended]:
        index = self._runs.index
        ends = (index.ended(key) for key in index.order)
        days = Counter(max(now - end, 0) // DAY for end in ends if end is not None)
        return [Ended(0, day, count) for day, count in days.items()]

    def stuck(self, now: Instant) -> Held:
        """Count live runs of which nothing was written for 30 days."""
        held = Held()
        for key in self._stuck(now):
            held.add(1, _seen(self._runs, key))
        return held

    def _stuck(self, now: Instant) -> list[Key]:
        index, limit = self._runs.index, now - STALE_DAYS * DAY
        live = (key for key in index.entries if index.status(key) is Status.LIVE)
        return [key for key in live if (seen := _seen(self._runs, key)) is not None and seen < limit]

    def cursor_at(self, stream: int, moment: Instant) -> Cursor:  # noqa: ARG002 - pages come by name
        """Return the beginning: pages come by name."""
        return Cursor(stream)

    def examples(self, reason: str, now: Instant, *, limit: int) -> Sequence[str]:
        """Return ids of runs that stand so."""
        keys = self._stuck(now) if reason == "stuck" else []
        return [key_text(key) for key in keys[:limit]]

    def kept_by_day(self, *, cutoff: Instant | None, now: Instant) -> Mapping[int, int]:  # noqa: ARG002 - of the protocol
        """Count ended roots that pages never meet by the day of their end."""
        index = self._runs.index
        days: Counter[int] = Counter()
        for key in index.order:
            end = index.ended(key)
            if end is not None and not (cutoff is not None and self._runs.in_range(key, cutoff)):
                days[end // DAY] += 1
        return days


def _seen(runs: RunUnits, key: Key) -> Instant | None:
    """Return the last sign of life of a run, as its folder and status tell."""
    end = runs.index.entries[key].end
    return None if end == UNREADABLE else end


def inspect_directory(store: DirectoryStore, *, exact: bool) -> Inspection:
    """Say what a directory holds. ``exact`` walks through all folders; else a sample is measured."""
    began, runs = time.monotonic(), store.runs
    now = runs.now()
    around = DirectorySurroundings(runs, asked=True, widest=now - min(HORIZONS) * DAY)
    plan = make_plan(runs, Policy(keep_for=timedelta(days=min(HORIZONS))), now=now)
    look = Looker(runs, plan, place=around.cursor_at, bytes_a_row=0.0).look([])
    for name, held in around.standings(now).outside.protected.items():
        look.protected.setdefault(name, Held()).add(held.count, held.oldest)
    seen = [moment for key in runs.index.entries if (moment := _seen(runs, key))]
    tables = _measured(store, exact=exact)
    total = sum(table.table for table in tables)
    fresh = sum(1 for moment in seen if moment > now - STALE_DAYS * DAY)
    return Inspection(
        store=store.url,
        profile=store.profile_name,
        engine=store.profile.engine,
        schema=store.schema(),
        now=now,
        exact=exact,
        runs=_states(runs),
        stuck=around.stuck(now),
        oldest=min(seen, default=None),
        newest=runs.newest(now),
        growth={
            "days": float(STALE_DAYS),
            "created": round(fresh / STALE_DAYS, 2),
            "ended": round(fresh / STALE_DAYS, 2),
            "bytes": round(total / len(seen) * fresh / STALE_DAYS) if seen else 0,
        },
        tables=tables,
        look=look,
        space=DirectorySpace(bytes=total, measured=exact),
        rooms=(),
        seconds=time.monotonic() - began,
    )


def _states(runs: RunUnits) -> Mapping[str, int]:
    counts = Counter(_state(runs, key) for key in runs.index.entries)
    return {word: counts[word] for word in ("live", "finished", "unknown")}


def _state(runs: RunUnits, key: Key) -> str:
    status = runs.index.status(key)
    if runs.index.entries[key].state == MALFORMED or status is Status.UNKNOWN:
        return "unknown"
    return "live" if status is Status.LIVE else "finished"


def _measured(store: DirectoryStore, *, exact: bool) -> list[TableSize]:
    """Measure folders of runs, and files of results."""
    keys = list(store.runs.index.entries)
    step = 1 if exact else max(1, len(keys) // SAMPLE)
    taken = keys[::step]
    size, entries = store.runs.measure_all(taken)
    scale = len(keys) / len(taken) if taken else 0.0
    content = round(size * scale)
    tables = [TableSize("runs", round(entries * scale), content, 0, content, rows_estimated=step > 1)]
    if store.results is not None:
        paths = [path for names in store.results.sources.values() for path in names]
        taken_files = paths[:: 1 if exact else max(1, len(paths) // SAMPLE)]
        size = sum(_size(store, path) for path in taken_files)
        content = round(size * len(paths) / len(taken_files)) if taken_files else 0
        tables.append(TableSize("results", len(paths), content, 0, content, rows_estimated=False))
    return tables


def _size(store: DirectoryStore, path: str) -> int:
    try:
        facts = os.stat(path, dir_fd=store.site.root.descriptor, follow_symlinks=False)
    except OSError:
        return 0
    return facts.st_blocks * 512
