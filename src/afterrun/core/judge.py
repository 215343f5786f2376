"""The judge: a pure function of a unit's facts, the policy's rules and one ``now``.

Order of verdicts: blocked, protected, recent, expired. Every reason is carried, not only the first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum

from afterrun.core.facts import Key, Reason, Scalar, Unit, key_order, key_text
from afterrun.core.policy import FOREVER, Policy
from afterrun.core.times import CLOCK_SKEW, Instant, iso, micros, to_instant

Group = tuple[Scalar, ...]
Rank = tuple[Instant, object]
"""Place of a unit among those of its group: the root's end, then its key."""


class Verdict(Enum):
    """What becomes of a unit."""

    EXPIRED = "expired"
    RECENT = "recent"
    PROTECTED = "protected"
    BLOCKED = "blocked"


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict with all its reasons; ``eligible_at`` is when it would expire if nothing changed.

    ``eligible_at`` is ``None`` where no clock decides: a protection, a block, a count, or for ever.
    """

    verdict: Verdict
    blocked: tuple[Reason, ...] = ()
    protected: tuple[Reason, ...] = ()
    kept: tuple[Reason, ...] = ()
    eligible_at: Instant | None = None

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """Return all reasons, those of the strongest verdict first."""
        return (*self.blocked, *self.protected, *self.kept)


@dataclass(frozen=True, slots=True)
class Rules:
    """A policy resolved against one store at one ``now``.

    ``places`` are the positions of the grouping columns among a unit's group values. ``newest`` holds, for
    each group that has at least ``keep_last`` counted units, the rank of the last one kept; in any other
    group everything is kept. It is resolved once, so later arrivals can only make more stay.
    """

    now: Instant
    policy: Policy
    cutoff: Instant | None
    places: tuple[int, ...] = ()
    newest: Mapping[Group, Rank] = field(default_factory=dict)


EXPIRED = Judgement(Verdict.EXPIRED)


def rank(end: Instant | None, key: Key) -> Rank:
    """Return a unit's place in the order of its group; a unit without an end comes before all others."""
    return (-1 if end is None else end, key_order(key))


def judge(unit: Unit, rules: Rules) -> Judgement:
    """Decide about one unit."""
    policy = rules.policy
    if (
        not unit.blocked
        and not unit.protected
        and rules.cutoff is not None
        and unit.end is not None
        and unit.end < rules.cutoff
        and (policy.keep_last is None or (unit.newer is not None and unit.newer >= policy.keep_last))
        and not policy.pins
    ):
        return EXPIRED
    blocked = (*unit.blocked, *_future(unit, rules.now))
    protected = (*unit.protected, *_pins(unit, policy.pins))
    kept = tuple(_kept(unit, rules))
    if blocked:
        return Judgement(Verdict.BLOCKED, blocked, protected, kept)
    if protected:
        return Judgement(Verdict.PROTECTED, blocked, protected, kept)
    if kept:
        return Judgement(Verdict.RECENT, kept=kept, eligible_at=_eligible_at(unit, rules, kept))
    return EXPIRED


def _future(unit: Unit, now: Instant) -> list[Reason]:
    if unit.end is None or unit.end <= now + micros(CLOCK_SKEW):
        return []
    return [Reason("future-end-time", f"it ended {iso(unit.end)}, which is after now")]


def _pins(unit: Unit, pins: frozenset[str]) -> list[Reason]:
    if not pins:
        return []
    names = unit.members if unit.run is None else (*unit.members, unit.run)
    held = [text for text in map(key_text, names) if text in pins]
    return [Reason("pinned", f"{held[0]} is pinned")] if held else []


def _kept(unit: Unit, rules: Rules) -> list[Reason]:
    """Return the keep rules that hold a unit; without a known end, no rule of age or rank says anything."""
    policy, reasons = rules.policy, []
    latest = rules.now + micros(CLOCK_SKEW)
    if policy.keep_for is FOREVER:
        reasons.append(Reason("keep-for", "forever"))
    if unit.settled and unit.end is not None and unit.end <= latest:
        if not unit.end + micros(policy.grace) < rules.now:
            reasons.append(Reason("grace", "it ended less than the grace time ago"))
        if isinstance(policy.keep_for, timedelta) and not (unit.end + micros(policy.keep_for) < rules.now):
            reasons.append(Reason("keep-for", "it is younger than keep_for"))
        if policy.before is not None and not unit.end < to_instant(policy.before):
            reasons.append(Reason("before", "it did not end before the given moment"))
    if policy.keep_last is not None and unit.newer is not None:
        if unit.newer < policy.keep_last:
            reasons.append(Reason("keep-last", f"it is among the newest {policy.keep_last} of its run"))
    elif policy.keep_last is not None and unit.root_end is not None and unit.root_end <= latest:
        group = tuple(unit.group[place] for place in rules.places)
        newest = rules.newest.get(group)
        if newest is None or rank(unit.root_end, unit.key) >= newest:
            reasons.append(Reason("keep-last", f"it is among the newest {policy.keep_last}"))
    return reasons


def _eligible_at(unit: Unit, rules: Rules, kept: tuple[Reason, ...]) -> Instant | None:
    names = {reason.name for reason in kept}
    if unit.end is None or rules.policy.keep_for is FOREVER or names & {"keep-last", "before"}:
        return None
    waits = [rules.policy.grace]
    if isinstance(rules.policy.keep_for, timedelta):
        waits.append(rules.policy.keep_for)
    return unit.end + micros(max(waits)) + 1
