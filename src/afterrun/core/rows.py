"""The sweep of row tables: pages of one table, batches that adapt to their time, and fair shares of a budget.

Rows go one by one, so this loop knows nothing of units with members. What it shares with the sweep of runs is
the rule that facts are read twice: by the page, and again inside the transaction that removes.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from afterrun.core.batch import Pace
from afterrun.core.errors import StoreFailure, UnitFailure
from afterrun.core.events import BatchDone, BatchFailed, Event, Observer, PageRead, UnitDeferred
from afterrun.core.facts import Key
from afterrun.core.report import UnitCounts
from afterrun.core.row_tables import Outcome, Place, RowPage, RowsGone, RowSource, TableFigures
from afterrun.core.sweep import MAX_DEFERRALS, Clock

FIRST_ROWS: Final = 500
MOST_ROWS: Final = 2_000
LEAST_ROWS: Final = 50
"""Rows of the first, the largest and the smallest batch beside an engine; a failed one is halved further."""

OFFLINE_FIRST: Final = 5_000
OFFLINE_MOST: Final = 10_000
OFFLINE_AIM: Final = 0.1
"""Rows of the first and largest batch, and its seconds, where nobody waits."""

GROWTH: Final = 1.5
QUICK: Final = 0.5
SLOW: Final = 1.5
"""Shares of the time aimed at: a full batch that took less lets the next grow, one that took more cuts it."""

TABLE_FAULTS: Final = ("permission", "schema-changed", "unexpected", "busy", "deferrals", "stuck")
"""Kinds of a store's failure that may be of one table alone: the others are tried all the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowPace:
    """How row tables are swept: rows of batches, seconds that one aims at, and `Pace` for all else."""

    first: int
    most: int
    least: int
    aim: float
    page: int
    pace: Pace


def row_pace(source: RowSource, pace: Pace, *, offline: bool) -> RowPace:
    """Return the pace of a row table."""
    if offline:
        first, most, aim, page = OFFLINE_FIRST, OFFLINE_MOST, OFFLINE_AIM, pace.page
    else:
        first, most, aim, page = FIRST_ROWS, MOST_ROWS, source.aim, source.look
    return RowPace(first=first, most=most, least=LEAST_ROWS, aim=aim, page=page, pace=pace)


class RowSizer:
    """Adapts the rows of a batch to the time it takes."""

    def __init__(self, pace: RowPace) -> None:
        """Start with the first size."""
        self._pace = pace
        most = pace.pace.max_units
        self._most = pace.most if most is None else min(pace.most, most)
        self._least = min(pace.least, self._most)
        self.rows = min(pace.first, self._most)

    def learn(self, *, rows: int, seconds: float, full: bool) -> None:
        """Take in what a committed batch of ``rows`` rows took; only a full one lets the next be larger."""
        aim = self._pace.aim
        if seconds > aim * SLOW and rows:
            fitting = int(rows * aim / seconds)
            self.rows = max(self._least, min(self.rows, fitting))
        elif full and seconds < aim * QUICK:
            self.rows = min(self._most, int(self.rows * GROWTH) + 1)

    def failed(self, rows: int) -> None:
        """Halve a batch that failed, below all bounds if need be."""
        self.rows = max(1, rows // 2)

    def recovered(self) -> None:
        """Go back within the bounds once a batch has gone through."""
        self.rows = max(self.rows, min(self._least, self.rows * 2))


@dataclass(frozen=True, slots=True, kw_only=True)
class RowBudget:
    """Bounds of one turn of a table; ``None`` is no bound."""

    seconds: float | None = None
    rows: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RowRequest:
    """What all tables of one sweep have in common; the parts are those of `SweepRequest`."""

    clock: Clock
    gate: Callable[[], bool] = lambda: True
    halt: Callable[[], bool] = lambda: False
    observer: Observer = lambda _event: None


@dataclass(slots=True)
class _Pass:
    """One walk over the rows of a table: how many were found that may go, and how many went.

    A row that differs from its backup counts as gone: no later walk finds it.
    """

    whole: bool
    begun: bool = False
    found: int = 0
    gone: int = 0


@dataclass(slots=True)
class RowResult:
    """What came of one table so far. ``longest`` is how long a batch held its locks at most, in seconds."""

    units: UnitCounts = field(default_factory=UnitCounts)
    rows: Counter[str] = field(default_factory=Counter)
    figures: TableFigures = field(default_factory=TableFigures)
    longest: float = 0.0


class RowSweep:
    """The sweep of one table. It may have several turns, and remembers between them where it was.

    ``place`` is where the next sweep goes on; ``None`` after a whole walk. Nothing is ``drained`` before a
    walk over all of it met no row that may go.
    """

    def __init__(
        self, source: RowSource, ask: RowRequest, pace: RowPace, *, start: Place | None = None
    ) -> None:
        """Prepare; nothing is read yet. ``start`` is where an earlier sweep was cut off."""
        self._source = source
        self._ask = ask
        self._pace = pace
        self._sizer = RowSizer(pace)
        self._pending: deque[Key] = deque()
        self._ends: deque[tuple[int, Place | None]] = deque()
        self._met = self._done = 0
        self._topped = False
        self._walk = _Pass(whole=start is None)
        self._over = False
        self._next: Place | None = None
        self._left_alone: set[Key] = set()
        self._first = True
        self._tried = self._looked = False
        self._failed_in_a_row = 0
        self._began = 0.0
        self._budget = RowBudget()
        self._gone = 0
        self.place = start
        self.seconds = 0.0
        self.result = RowResult()
        if source.problems:
            self.result.figures.outcome, self.result.figures.why = "blocked", source.problems[0]

    @property
    def name(self) -> str:
        """Return the name of the table."""
        return self._source.name

    @property
    def outcome(self) -> Outcome | None:
        """Return how the last turn ended."""
        return self.result.figures.outcome

    @property
    def goes_on(self) -> bool:
        """Say whether another turn may come to something."""
        return self.outcome in (None, "budget")

    def turn(self, budget: RowBudget) -> None:
        """Remove rows until nothing is left, or the budget is. A fault of this table alone ends its turn.

        Raises `StoreFailure` for a fault of the whole store.
        """
        self._budget, self._gone, self._tried, self._looked = budget, 0, False, False
        self._began = self._ask.clock.monotonic()
        try:
            self.result.figures.outcome = self._until_stopped()
        except StoreFailure as failure:
            self.result.figures.outcome = "failed"
            if self._ask.halt():
                self.result.figures.outcome = "interrupted"
            elif failure.kind not in TABLE_FAULTS:
                raise
            else:
                self.result.figures.why = str(failure)
        finally:
            self._note_backlog()
            self.seconds += self._ask.clock.monotonic() - self._began

    def pass_by(self) -> None:
        """Give the table no turn, as the host has work: it is interrupted before it began."""
        self.result.figures.outcome = "interrupted"
        self._note_backlog()

    def _until_stopped(self) -> Outcome:
        while True:
            stop = self._stop()
            if stop is not None:
                return stop
            if self._wants_more():
                self._read()
            elif self._pending:
                self._batch()
            elif (ended := self._ended()) is not None:
                return ended

    def _wants_more(self) -> bool:
        """Say whether to read on. What fills no batch waits for one more page, and not for all of them."""
        if self._over or not self._pending:
            return not self._over
        return len(self._pending) < self._sizer.rows and not self._topped

    def _ended(self) -> Outcome | None:
        """Say how the work ended if a whole walk met nothing that may go; else begin another one."""
        walk = self._walk
        if walk.whole and not walk.found:
            if self._left_alone:
                raise StoreFailure("deferrals", f"{len(self._left_alone)} rows failed alone and are left")
            return "drained"
        if walk.whole and not walk.gone:
            raise StoreFailure("stuck", "rows that may go were locked by others, or changed, all the time")
        self._walk, self._over, self.place, self._first = _Pass(whole=True), False, None, False
        return None

    def _stop(self) -> Outcome | None:
        if self._left() == 0 and self._pending:
            return "budget"
        late = self._budget.seconds is not None and self._elapsed() >= self._budget.seconds
        # however short its time, a turn reads a page and tries a batch: else some table might never get any
        if late and (self._tried or (self._looked and not self._pending)):
            return "budget"
        return None if self._ask.gate() else "interrupted"

    def _elapsed(self) -> float:
        return self._ask.clock.monotonic() - self._began

    def _left(self) -> int | None:
        return None if self._budget.rows is None else max(self._budget.rows - self._gone, 0)

    def _read(self) -> None:
        """Read the next page. The place of the table moves on only when all that was found there is done."""
        self._topped, self._looked = bool(self._pending), True
        start = self._next if self._walk.begun else self.place
        page = self._source.page(start, limit=self._pace.page)
        self._walk.begun = True
        self._tally(page)
        going = [key for key in page.going if key not in self._left_alone]
        self._pending.extend(going)
        self._walk.found += len(going)
        self._over = page.place is None
        self._next = page.place
        self._met += len(going)
        self._ends.append((self._met, page.place))
        self._move_on()
        self._ask.observer(PageRead(page.scanned, len(page.going)))

    def _move_on(self) -> None:
        while self._ends and self._ends[0][0] <= self._done:
            self.place = self._ends.popleft()[1]

    def _tally(self, page: RowPage) -> None:
        units = self.result.units
        units.scanned += page.scanned
        if self._first:  # later walks meet the same rows again
            units.expired += len(page.going) + page.unlisted
            units.recent += page.kept.recent
            units.protected.update(page.kept.protected)
            units.blocked.update(page.kept.blocked)

    def _batch(self) -> None:
        self._tried = True
        left = self._left()
        size = self._sizer.rows if left is None else min(self._sizer.rows, left)
        keys = [self._pending.popleft() for _ in range(min(size, len(self._pending)))]
        asked = self._ask.clock.monotonic()
        try:
            done = self._source.remove(keys, seconds=self._pace.pace.deadline)
        except UnitFailure as error:
            self._fail(keys, error)
            return
        self._failed_in_a_row, self._topped = 0, False
        self._done += len(keys)
        self._move_on()
        self._record(done, asked=asked, tried=len(keys), full=len(keys) == self._sizer.rows)

    def _record(self, done: RowsGone, *, asked: float, tried: int, full: bool) -> None:
        clock, result = self._ask.clock, self.result
        waited = max(clock.monotonic() - asked - done.held, 0.0)
        result.rows.update(done.rows)
        result.units.removed += done.units
        result.figures.rows += done.units
        result.figures.batches += 1
        result.figures.slowest = max(result.figures.slowest, done.slowest)
        result.longest = max(result.longest, done.held)
        self._gone += done.units
        self._walk.gone += done.units + done.changed
        skipped = tried - done.units
        if done.changed:
            result.units.skipped["recheck: changed since the backup"] += done.changed
        if skipped > done.changed:
            result.units.skipped["recheck: changed or locked"] += skipped - done.changed
        self._sizer.recovered()
        self._sizer.learn(rows=done.units, seconds=done.taken, full=full)
        self._tell(BatchDone(done.units, done.units, sum(done.rows.values()), skipped, done.held))
        self._source.settle()
        rest = self._pace.pace.pause(held=done.held, waited=waited)
        if rest:
            clock.sleep(rest)

    def _fail(self, keys: Sequence[Key], error: UnitFailure) -> None:
        """Try a batch that failed again in halves; a row that fails alone is left for a later sweep."""
        if len(keys) > 1:
            self._pending.extendleft(reversed(keys))
            self._sizer.failed(len(keys))
            self._tell(BatchFailed(len(keys), error.kind))
            return
        self.result.units.deferred += 1
        self._done += 1
        self._move_on()
        self._left_alone.add(keys[0])
        self._failed_in_a_row += 1
        self._tell(UnitDeferred(error.kind))
        if self._failed_in_a_row >= MAX_DEFERRALS:
            raise StoreFailure("deferrals", f"{MAX_DEFERRALS} rows failed one after another; last: {error}")

    def _note_backlog(self) -> None:
        """Say how many rows may still go, at most; after a whole walk that is known."""
        figures, walk = self.result.figures, self._walk
        if self.outcome == "drained" or (walk.whole and self._over):
            figures.backlog = walk.found - walk.gone + len(self._left_alone)
            return
        with suppress(StoreFailure, UnitFailure):
            figures.backlog = self._source.backlog(self.place if walk.whole else None)

    def _tell(self, event: Event) -> None:
        self._ask.observer(event)


def fair_turns(
    sweeps: Sequence[RowSweep], budget: RowBudget, *, others: int, gate: Callable[[], bool]
) -> None:
    """Give each table that goes on a turn, with an equal share of what is left.

    ``others`` is how many further shares are left untouched. What a table leaves of its share goes to those
    after it.
    """
    waiting = [sweep for sweep in sweeps if sweep.goes_on]
    seconds = _part(budget.seconds, len(waiting), others)
    part = _part(budget.rows, len(waiting), others)
    rows = None if part is None else math.ceil(part)
    for place, sweep in enumerate(waiting):
        if not gate():
            sweep.pass_by()
            continue
        shares, spent, gone = len(waiting) - place, sweep.seconds, sweep.result.units.removed
        sweep.turn(
            RowBudget(
                seconds=None if seconds is None else seconds / shares,
                rows=None if rows is None else math.ceil(rows / shares),
            )
        )
        seconds = None if seconds is None else max(seconds - (sweep.seconds - spent), 0.0)
        rows = None if rows is None else max(rows - (sweep.result.units.removed - gone), 0)


def _part(whole: float | None, shares: int, others: int) -> float | None:
    """Return what these shares come to of a whole that has others, too."""
    return None if whole is None or not shares else whole * shares / (shares + others)


def turned(names: Sequence[str], *, by: int, first: Sequence[str] = ()) -> Sequence[str]:
    """Return names in an order that rotates from sweep to sweep; those in ``first`` stand before the others.

    A table whose rows also go with those of another comes first, so that each row is counted where the plan
    counts it.
    """
    if not names:
        return ()
    start = by % len(names)
    order = [*names[start:], *names[:start]]
    return sorted(order, key=lambda name: name not in first)
