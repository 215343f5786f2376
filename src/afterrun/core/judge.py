"""The judge: a pure function of a unit's facts, the policy's rules and one ``now``.

Order: blocked; protections, pins and keys; grace; caps; keep rules. Every reason is carried, not only the
first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum
from typing import Final, NamedTuple

from afterrun.core.facts import Key, Reason, Scalar, Unit, key_order, key_text
from afterrun.core.match import Matcher
from afterrun.core.periods import period_text
from afterrun.core.policy import FOREVER, Age, Policy, age_text
from afterrun.core.times import CLOCK_SKEW, Instant, iso, micros, to_instant

Group = tuple[Scalar, ...]
Rank = tuple[Instant, object]
"""Place of a unit among those of its group: the root's end, then its key."""

GRACE: Final = "grace"
WITHIN_CAP: Final = "within-cap"
KEYED: Final = "idempotency-key"
PINNED: Final = "pinned"


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
    ``overruled`` are keep rules that do not count since the unit is beyond the cap.
    """

    verdict: Verdict
    blocked: tuple[Reason, ...] = ()
    protected: tuple[Reason, ...] = ()
    kept: tuple[Reason, ...] = ()
    eligible_at: Instant | None = None
    overruled: tuple[Reason, ...] = ()

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """Return all reasons, those of the strongest verdict first."""
        return (*self.blocked, *self.protected, *self.kept)


class Cap(NamedTuple):
    """A cap as it was resolved: its name, how many units it leaves, and the rank of the last of these."""

    name: str
    units: int
    boundary: Rank


@dataclass(frozen=True, slots=True)
class Rules:
    """A policy resolved against one store at one ``now``.

    ``cutoff`` is the instant before which the root of a unit must have ended to be looked at.
    ``places`` are the positions of the grouping columns among a unit's group values. ``newest`` holds, for
    each group that has at least ``keep_last`` counted units, the rank of the last one kept; in any other
    group everything is kept. ``periods`` holds the keys of the units that each rule by periods keeps. Counts
    are resolved once, so later arrivals can only make more stay. Of the ``matchers``, which are the narrower
    rules, the first that matches decides. ``cap`` is there if any unit is beyond it.
    """

    now: Instant
    policy: Policy
    cutoff: Instant | None
    places: tuple[int, ...] = ()
    newest: Mapping[Group, Rank] = field(default_factory=dict)
    periods: Mapping[str, frozenset[Key]] = field(default_factory=dict)
    matchers: tuple[Matcher, ...] = ()
    cap: Cap | None = None
    plain: Instant | None = field(init=False)
    """Before it, a unit goes by age whatever it is; ``None`` where that depends on more than its end."""

    def __post_init__(self) -> None:
        """Tell whether most units can be judged by one comparison."""
        policy = self.policy
        depends = policy.rules or policy.periods or policy.pins or policy.keep_keys is not None
        plain = None if depends else policy.age_limit(self.now, policy.general)
        object.__setattr__(self, "plain", plain)

    def keep_for(self, unit: Unit) -> tuple[Age | None, Matcher | None]:
        """Return how long a unit is kept after its end, and the narrower rule that says so, if one does."""
        for matcher in self.matchers:
            if matcher.matches(unit):
                return matcher.rule.keep_for, matcher
        return self.policy.general, None

    def is_beyond_cap(self, unit: Unit) -> bool:
        """Say whether so many units are newer that age no longer matters."""
        cap = self.cap
        if cap is None or unit.root_end is None:
            return False
        return rank(unit.root_end, unit.key) < cap.boundary


EXPIRED = Judgement(Verdict.EXPIRED)


def page_cutoff(policy: Policy, now: Instant, cap: Cap | None) -> Instant | None:
    """Return the instant before which a root must have ended to be looked at: by age, or beyond the cap."""
    by_age = policy.cutoff(now)
    if cap is None:
        return by_age
    beyond = min(cap.boundary[0] + 1, now - micros(policy.grace))
    return beyond if by_age is None else max(by_age, beyond)


def rank(end: Instant | None, key: Key) -> Rank:
    """Return a unit's place in the order of its group; a unit without an end comes before all others."""
    return (-1 if end is None else end, key_order(key))


def judge(unit: Unit, rules: Rules) -> Judgement:
    """Decide about one unit."""
    policy, plain = rules.policy, rules.plain
    if (
        plain is not None
        and not unit.blocked
        and not unit.protected
        and unit.end is not None
        and unit.end < plain
        and (policy.keep_last is None or (unit.newer is not None and unit.newer >= policy.keep_last))
    ):
        return EXPIRED
    blocked = (*unit.blocked, *_future(unit, rules.now))
    protected = (*unit.protected, *_pins(unit, policy.pins), *_keys(unit, rules))
    kept = tuple(_kept(unit, rules))
    overruled: tuple[Reason, ...] = ()
    if kept and rules.is_beyond_cap(unit):
        overruled = tuple([reason for reason in kept if reason.name != GRACE])
        kept = tuple([reason for reason in kept if reason.name == GRACE])
    if blocked:
        return Judgement(Verdict.BLOCKED, blocked, protected, kept)
    if protected or kept:
        verdict = Verdict.PROTECTED if protected else Verdict.RECENT
        eligible = eligible_at(unit, rules, (*protected, *kept))
        return Judgement(verdict, (), protected, kept, eligible, overruled)
    return Judgement(Verdict.EXPIRED, overruled=overruled) if overruled else EXPIRED


def _future(unit: Unit, now: Instant) -> list[Reason]:
    if unit.end is None or unit.end <= now + micros(CLOCK_SKEW):
        return []
    return [Reason("future-end-time", f"it ended {iso(unit.end)}, which is after now")]


def _pins(unit: Unit, pins: frozenset[str]) -> list[Reason]:
    if not pins:
        return []
    names = unit.members if unit.run is None else (*unit.members, unit.run)
    held = [text for text in map(key_text, names) if text in pins]
    return [Reason(PINNED, f"{held[0]} is pinned")] if held else []


def _keys(unit: Unit, rules: Rules) -> list[Reason]:
    """Return whether an idempotency key protects a unit; one that has not ended is held by that anyway."""
    age = rules.policy.keep_keys
    if age is None or not unit.keyed:
        return []
    end, latest = unit.end if unit.settled else None, rules.now + micros(CLOCK_SKEW)
    if isinstance(age, timedelta) and (end is None or end > latest or end + micros(age) < rules.now):
        return []
    return [Reason(KEYED, f"it holds an idempotency key, which is kept {age_words(age)}")]


def age_words(age: Age) -> str:
    """Say an age limit in words."""
    return f"for {age_text(age)}" if isinstance(age, timedelta) else "for ever"


def _kept(unit: Unit, rules: Rules) -> list[Reason]:
    """Return the keep rules that hold a unit; without a known end, no rule of age or rank says anything."""
    age, matcher = rules.keep_for(unit)
    reasons = [_forever(rules.policy, matcher)] if age is FOREVER else []
    if unit.settled and unit.end is not None and unit.end <= rules.now + micros(CLOCK_SKEW):
        reasons += _young(unit.end, age, matcher, rules)
    return [*reasons, *_counted(unit, rules)]


def _young(end: Instant, age: Age | None, matcher: Matcher | None, rules: Rules) -> list[Reason]:
    """Return the rules of age that hold a unit that ended then."""
    policy, reasons = rules.policy, []
    if not end + micros(policy.grace) < rules.now:
        reasons.append(Reason(GRACE, "it ended less than the grace time ago"))
    if isinstance(age, timedelta) and not (end + micros(age) < rules.now):
        said = "" if matcher is None else f" of the rule for {matcher.rule.words}"
        reasons.append(Reason("keep-for", f"it is younger than keep_for{said}"))
    if policy.before is not None and not end < to_instant(policy.before):
        reasons.append(Reason("before", "it did not end before the given moment"))
    return reasons


def _counted(unit: Unit, rules: Rules) -> list[Reason]:
    """Return the rules that hold a unit as one of the newest."""
    policy, reasons = rules.policy, []
    latest = rules.now + micros(CLOCK_SKEW)
    if policy.keep_last is not None and unit.newer is not None:
        if unit.newer < policy.keep_last:
            reasons.append(Reason("keep-last", f"it is among the newest {policy.keep_last} of its run"))
    elif policy.keep_last is not None and unit.root_end is not None and unit.root_end <= latest:
        group = tuple(unit.group[place] for place in rules.places)
        newest = rules.newest.get(group)
        if newest is None or rank(unit.root_end, unit.key) >= newest:
            reasons.append(Reason("keep-last", f"it is among the newest {policy.keep_last}"))
    for name, keys in rules.periods.items():
        if unit.key in keys and unit.root_end is not None:
            period = period_text(name, unit.root_end, policy.timezone)
            reasons.append(Reason(name.replace("_", "-"), f"it is the newest of {period}"))
    return reasons


def _forever(policy: Policy, matcher: Matcher | None) -> Reason:
    """Return the reason of what no age lets go: a rule that says so, or a cap that leaves what is within."""
    if matcher is not None:
        return Reason("keep-for", f"forever, by the rule for {matcher.rule.words}")
    if policy.keep_for is FOREVER:
        return Reason("keep-for", "forever")
    return Reason(WITHIN_CAP, "it is among the newest, which the cap leaves alone")


CLOCKED: Final = frozenset({GRACE, "keep-for", KEYED})
"""Reasons that a clock ends, unless they hold for ever."""


def eligible_at(unit: Unit, rules: Rules, reasons: tuple[Reason, ...]) -> Instant | None:
    """Return when the last of these reasons ends, if a clock ends them all."""
    names = {reason.name for reason in reasons}
    if unit.end is None or not names <= CLOCKED:
        return None
    ages: list[Age | None] = [rules.policy.grace]
    if "keep-for" in names:
        ages.append(rules.keep_for(unit)[0])
    if KEYED in names:
        ages.append(rules.policy.keep_keys)
    if any(age is FOREVER for age in ages):
        return None
    return unit.end + micros(max(age for age in ages if isinstance(age, timedelta))) + 1
