"""What an interrupted removal left between a store and its other databases, and how the next start ends it.

A batch commits in the other databases first and in the store right after. Killed before the first commit, it
has changed nothing; killed after the second, nothing is left to do. Killed between them, runs stand without
their rows elsewhere: harmless until one is resumed, which would repeat a step that only such a row knew of.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Final

from afterrun.core.errors import Refused, StoreLocked, UnitFailure
from afterrun.core.facts import Key, Unit, key_text
from afterrun.core.judge import Rules, Verdict, judge
from afterrun.core.plan import MAX_UNIT_ROWS, NAMED
from afterrun.core.report import Report
from afterrun.core.sweep import MAX_UNIT_SECONDS, SECONDS_A_ROW, changed, check_census
from afterrun.state.files import StateError
from afterrun.state.intents import Intents
from afterrun.stores.sql.elsewhere import Intent
from afterrun.stores.sql.store import SqlStore

PAGE: Final = 500
"""Units that are looked at together."""

SECONDS: Final = 5.0
"""Deadline of the removal of one unit of ordinary size."""


@dataclass(slots=True)
class Settled:
    """What became of the units that an interrupted removal was about.

    Attributes:
        found: units that were pending.
        finished: units that are removed now.
        members: their runs.
        keys: idempotency keys that were forgotten with them.
        leftovers: rows elsewhere whose runs were gone, by table; they are removed now.
        rows: all rows removed now, by table.
        came_back: units that changed after their rows elsewhere had gone: resumed, or an id used again.
        left: units that stand without their rows elsewhere and may not go now.
    """

    found: int = 0
    finished: int = 0
    members: int = 0
    keys: int = 0
    leftovers: Counter[str] = field(default_factory=Counter)
    rows: Counter[str] = field(default_factory=Counter)
    came_back: list[str] = field(default_factory=list)
    left: int = 0

    def count(self, report: Report) -> None:
        """Put what was removed on the report of the sweep that follows."""
        report.rows.update(self.rows)
        report.units.expired += self.finished
        report.units.removed += self.finished
        report.units.members += self.members
        report.keys_forgotten += self.keys
        report.batches += self.finished

    def tell(self, report: Report) -> None:
        """Say on a report what became of all of them."""
        if self.found or self.left:
            report.interrupted = self.as_json()
            report.notices[:0] = self._lines()

    def as_json(self) -> dict[str, object]:
        """Return counts, and a few ids of units that came back."""
        return {
            "found": self.found,
            "finished": self.finished,
            "leftover_rows": self.leftovers.total(),
            "came_back": len(self.came_back),
            "ids": self.came_back[:NAMED],
            "left": self.left,
        }

    def _lines(self) -> list[str]:
        lines = []
        if self.came_back:
            lines.append(
                f"ATTENTION: {len(self.came_back)} units changed while they stood without their rows in the "
                "other database, after an interrupted removal: a resumed run may have repeated a step there"
            )
        if self.left:
            lines.append(
                f"ATTENTION: {self.left} units stand without their rows in the other database, after an "
                "interrupted removal, and may not go now: if one is resumed, it may repeat a step there"
            )
        if self.finished or self.leftovers:
            lines.append(
                f"an interrupted removal was finished first: {self.finished} units, and "
                f"{self.leftovers.total()} rows in the other database whose runs were gone"
            )
        return lines


class Interrupted:
    """The units of a store whose removal was interrupted. Whoever settles them holds its sweep lock."""

    def __init__(self, store: SqlStore, intents: Intents) -> None:
        """Let the store's batches remember by these intents; nothing is read yet."""
        self._store = store
        self._intents = intents
        self._settled = Settled()
        store.reach.memory = intents

    def mention(self, report: Report) -> None:
        """Say on a dry run's report that something is pending. Raises `StateError`."""
        count = len(self._intents.pending())
        if not count:
            return
        report.interrupted = Settled(found=count, left=count).as_json()
        places = ", ".join(self._intents.places().values())
        report.notices.insert(
            0,
            f"ATTENTION: a removal of {count} units from this store and {places} is running or was "
            "interrupted; the next sweep or prune --apply with the same --datasource ends it before all else",
        )

    def faults(self, lock: Callable[[], AbstractContextManager[object]]) -> Iterator[str]:
        """Say that something is pending, unless a sweep is running: then it has the ``lock``."""
        try:
            if not self._intents.pending():
                return
            with lock():
                count = len(self._intents.pending())
                places = ", ".join(self._intents.places().values())
        except (StoreLocked, Refused):
            return
        except StateError as error:
            yield f"state: {error}"
            return
        if count:
            yield (
                f"leftover: {count} units were being removed from this store and {places} when a removal was "
                "interrupted. The next sweep or prune --apply with that --datasource ends it"
            )

    def count(self, report: Report) -> None:
        """Put on the report of a sweep what was removed before it."""
        self._settled.count(report)

    def tell(self, report: Report) -> None:
        """Say on a report what became of all that was pending, the sweep's own batches included."""
        self._settled.left = len(self._intents.pending())
        self._settled.tell(report)

    def check(self) -> None:
        """Make sure that what is pending can be settled. Raises `Refused`, naming the database it needs."""
        self._settled = Settled()
        pending, reached = self._intents.pending(), self._store.reach.places
        missing = [url for identity, url in self._intents.places().items() if identity not in reached]
        if pending and missing:
            raise Refused(
                "interrupted",
                f"a removal of {len(pending)} units from this store and {', '.join(missing)} was "
                "interrupted: give that database with --datasource, so that it can be finished first. "
                f"Nothing was removed now. If the database is gone for good, move {self._intents.path} away",
            )

    def settle(self, rules: Rules, *, gate: Callable[[], bool], remove: bool = True) -> None:
        """Look at both databases again, and finish what may be finished.

        A unit that is gone: rows elsewhere of runs that are not there go. One that is as it was: if its rows
        elsewhere are there, nothing has happened; else it goes, if the rules still let it and ``remove`` says
        so. One that has changed stays, and is reported if its rows elsewhere are gone.

        Raises `StoreFailure`, and `Refused` for a store whose runs have a status that nobody knows.
        """
        pending = self._intents.pending()
        self._settled = Settled(found=len(pending))
        if pending and remove:
            check_census(self._store.census(), profile=self._store.profile_name)
        for start in range(0, len(pending), PAGE):
            self._settle(pending[start : start + PAGE], rules, remove=lambda: remove and gate())

    def _settle(self, intents: Sequence[Intent], rules: Rules, *, remove: Callable[[], bool]) -> None:
        units = {unit.key: unit for unit in self._store.units([intent.unit for intent in intents])}
        held = self._store.reach.rows_of([key for intent in intents for key in intent.held])
        over: list[Key] = []
        for intent in intents:
            unit = units.get(intent.unit)
            lost = any(held[key] < rows for key, rows in intent.held.items())
            if unit is None:
                over += [intent.unit] if self._clear(intent) else []
            elif not intent.fits(unit):
                over.append(intent.unit)
                self._settled.came_back += [key_text(intent.unit)] if lost else []
            elif not lost:
                over.append(intent.unit)
            elif remove():
                self._remove(unit, rules)
        self._intents.forget(over)

    def _clear(self, intent: Intent) -> bool:
        """Remove rows elsewhere of runs that are gone; say whether that is settled now."""
        known = self._store.known(intent.held)
        gone = [key for key in intent.held if key not in known]
        try:
            rows = self._store.reach.clear(self._store.dialect, gone, known=self._store.known) if gone else {}
        except UnitFailure:
            return False
        self._settled.leftovers.update(rows)
        self._settled.rows.update(rows)
        return True

    def _remove(self, unit: Unit, rules: Rules) -> None:
        """Remove a unit whose rows elsewhere are gone, if it may go; the commit forgets its intent."""
        rows = self._store.weigh([unit])[0]
        if judge(unit, rules).verdict is not Verdict.EXPIRED or rows > MAX_UNIT_ROWS:
            return
        seconds = min(max(SECONDS, rows * SECONDS_A_ROW), MAX_UNIT_SECONDS)
        transaction = self._store.transaction(seconds=seconds)
        try:
            with transaction:
                fresh = next(iter(transaction.units([unit])), None)
                if changed(unit, fresh, rules):
                    return
                keys = self._store.forgets([unit])
                removed = transaction.remove([unit], max_rows=MAX_UNIT_ROWS)
        except UnitFailure:
            return
        self._store.settle()
        settled = self._settled
        settled.rows.update(removed)
        settled.rows.update(transaction.beyond)
        settled.finished += 1
        settled.members += len(unit.members)
        settled.keys += keys
