"""Set trees aside: what an automatic sweep finds protected, later ones need not look at every day.

A store that can do this keeps, for each tree that is set aside, when to look again. Whatever may end the
protection brings the tree back at once, so the time is only there for what nobody has told the store.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Final, Protocol

from afterrun.core.batch import Pace
from afterrun.core.errors import StoreFailure, UnitFailure
from afterrun.core.facts import Key, Unit
from afterrun.core.judge import Judgement, Rules, Verdict
from afterrun.core.times import DAY, Instant

LEAST_DAYS: Final = 8
MOST_DAYS: Final = 64
"""Days after which a sweep looks again, at first and at the latest: powers of two."""

FIRST: Final = 200
"""Trees of the first transaction; later ones adapt to the time that it took."""

MISSING: Final = (
    "this role may not set protected trees aside, so every sweep reads them again: it needs UPDATE on both "
    "columns that the profile names for that"
)


class Aside(Protocol):
    """Remembers trees that are set aside."""

    def put(self, until: Mapping[Key, Instant], *, seconds: float) -> float:
        """Set the trees with these roots aside until then, each if it is still protected.

        Looks again at each of them, in the transaction that sets it aside. A time that ends a protection
        by itself comes first. Gives up after ``seconds``; returns how many seconds it held locks.
        """


class Waits(Protocol):
    """A monotonic clock and a pause."""

    def monotonic(self) -> float:
        """Return seconds from some fixed moment."""

    def sleep(self, seconds: float) -> None:
        """Wait."""


def look_again(unit: Unit, rules: Rules) -> Instant:
    """Return when to look again at a protected tree: in 8 days, then 16, 32 and 64.

    It is as long again as the tree has been held beyond its age, and a little more, in whole powers of two:
    so nobody has to count the looks.
    """
    past = 0 if rules.cutoff is None or unit.root_end is None else (rules.cutoff - unit.root_end) // DAY
    days = min(max(past, 0) + LEAST_DAYS, MOST_DAYS)
    return rules.now + (1 << (days.bit_length() - 1)) * DAY


class SettingAside:
    """Sets aside what one sweep finds protected, some trees at a time."""

    def __init__(self, aside: Aside, rules: Rules, *, pace: Pace, clock: Waits) -> None:
        """Start with nothing to set aside."""
        self._aside = aside
        self._rules = rules
        self._pace = pace
        self._clock = clock
        self._pending: dict[Key, Instant] = {}
        self._most = FIRST
        self.missing = ""
        """What a reader of the report should know: nothing can be set aside."""

    def note(self, judged: Iterable[tuple[Unit, Judgement]]) -> None:
        """Take in what was judged; the protections that only this policy knows count for nothing."""
        for unit, judgement in judged:
            if judgement.verdict is Verdict.PROTECTED and unit.protected and unit.root_end is not None:
                self._pending[unit.key] = look_again(unit, self._rules)

    def put(self, *, rest: bool = False) -> None:
        """Set aside what makes a full transaction; with ``rest``, all."""
        while len(self._pending) >= (1 if rest else self._most):
            part = dict(islice(self._pending.items(), self._most))
            for key in part:
                del self._pending[key]
            if self.missing:
                continue
            asked = self._clock.monotonic()
            try:
                held = self._aside.put(part, seconds=self._pace.deadline)
            except UnitFailure:  # they are looked at the next time
                self._most = max(1, self._most // 2)
                continue
            except StoreFailure as error:
                if error.kind != "permission":
                    raise
                self.missing = MISSING
                continue
            self._adapt(held, full=len(part) == self._most)
            self._rest(held, waited=self._clock.monotonic() - asked - held)

    def _adapt(self, held: float, *, full: bool) -> None:
        if held > self._pace.hold:
            self._most = max(1, self._most // 2)
        elif full and held * 2 < self._pace.hold:
            self._most = min(self._most * 2, self._pace.page)

    def _rest(self, held: float, *, waited: float) -> None:
        pause = self._pace.pause(held=held, waited=max(waited, 0.0))
        if pause:
            self._clock.sleep(pause)
