"""Which rule decided: what each one of a policy says of one unit, and how often it had its say in a plan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from typing import Final, NamedTuple

from afterrun.core.facts import Unit
from afterrun.core.judge import GRACE, KEYED, PINNED, WITHIN_CAP, Judgement, Rules, Verdict
from afterrun.core.periods import period_text
from afterrun.core.policy import FOREVER, Age, Policy, age_text
from afterrun.core.sizes import format_size
from afterrun.core.times import Instant, format_duration, iso, micros, to_instant

BY_AGE: Final = "age"
"""What counts units that are too young for every rule of age, where several rules may be the one."""

UNCOUNTED: Final = frozenset({WITHIN_CAP})
"""Reasons that are no rule's: a cap is counted by what it lets go."""


def names_of(policy: Policy) -> list[str]:
    """Return the names of the rules of a policy that can decide, in the order in which they are asked."""
    names = ["pins"] if policy.pins else []
    names += ["keep_keys"] if policy.keep_keys is not None else []
    names += [GRACE, *policy.caps]
    names += sorted(rule.name for rule in policy.rules)
    names += [name for name in ("keep_for", "before") if getattr(policy, name) is not None]
    return [*names, *policy.counts]


def deciders(unit: Unit, judgement: Judgement, rules: Rules) -> Iterator[str]:
    """Yield the rules that decided about a unit, by name: those that keep it, or the cap that does not."""
    if judgement.verdict is Verdict.EXPIRED:
        if judgement.overruled and rules.cap is not None:
            yield rules.cap.name
    elif judgement.verdict is Verdict.PROTECTED:
        names = {reason.name for reason in judgement.protected}
        yield from (name for word, name in ((PINNED, "pins"), (KEYED, "keep_keys")) if word in names)
    elif judgement.verdict is Verdict.RECENT:
        for reason in judgement.kept:
            if reason.name not in UNCOUNTED:
                yield _name(reason.name, unit, rules)


def _name(reason: str, unit: Unit, rules: Rules) -> str:
    matcher = rules.keep_for(unit)[1] if reason == "keep-for" else None
    return reason.replace("-", "_") if matcher is None else matcher.rule.name


def of_the_young(rules: Rules) -> str | None:
    """Return what keeps units whose root ended too recently to be looked at; ``None`` if no rule does."""
    policy, by_age = rules.policy, rules.policy.cutoff(rules.now)
    if by_age is None:
        kept = policy.keep_for is FOREVER
        return BY_AGE if policy.rules else "keep_for" if kept else None
    if by_age == rules.now - micros(policy.grace):
        return GRACE
    if policy.before is not None and by_age == to_instant(policy.before):
        return "before"
    return BY_AGE if policy.rules else "keep_for"


def tallied(policy: Policy, found: Counter[str]) -> Counter[str]:
    """Return a count for every rule that can decide, none left out, in order."""
    return Counter({name: found[name] for name in [*names_of(policy), *found]})


class Ruling(NamedTuple):
    """What one rule says of one unit.

    ``keeps`` is whether it holds the unit; ``until`` is when its time ends, if a clock ends it; ``says`` adds
    what is to be known, such as the period.
    """

    rule: str
    value: object
    keeps: bool
    until: Instant | None = None
    says: str = ""


def rulings(unit: Unit, judgement: Judgement, rules: Rules) -> list[Ruling]:
    """Return what each rule of a policy says of a unit, in the order in which they are asked."""
    return list(_Rulings(unit, judgement, rules).each())


class _Rulings:
    def __init__(self, unit: Unit, judgement: Judgement, rules: Rules) -> None:
        self._unit = unit
        self._rules = rules
        self._policy = rules.policy
        self._end = unit.end if unit.settled else None
        self._overruled = bool(judgement.overruled)
        self._held = {reason.name for reason in (*judgement.reasons, *judgement.overruled)}
        self._matcher = rules.keep_for(unit)[1]

    def each(self) -> Iterator[Ruling]:
        policy = self._policy
        if policy.pins:
            yield Ruling("pins", len(policy.pins), PINNED in self._held)
        if policy.keep_keys is not None:
            says = "" if self._unit.keyed else "it holds no idempotency key"
            until = self._until(policy.keep_keys) if self._unit.keyed else None
            yield Ruling("keep_keys", age_text(policy.keep_keys), KEYED in self._held, until, says)
        grace = format_duration(policy.grace)
        yield Ruling(GRACE, grace, GRACE in self._held, self._until(policy.grace))
        yield from self._caps()
        yield from self._ages()
        yield from self._counts()

    def _until(self, age: Age) -> Instant | None:
        return self._end + micros(age) if self._end is not None and isinstance(age, timedelta) else None

    def _caps(self) -> Iterator[Ruling]:
        cap = self._rules.cap
        for name, units in self._policy.caps.items():
            limit = format_size(units) if name == "cap_bytes" else units
            if cap is None or cap.name != name:
                says = "no unit is beyond it" if cap is None else "the lower cap decides"
                yield Ruling(name, limit, keeps=False, says=says)
                continue
            beyond = self._rules.is_beyond_cap(self._unit)
            place = "beyond" if beyond else "within"
            says = f"it is {place} the newest {cap.units}, of which the last ended {iso(cap.boundary[0])}"
            yield Ruling(name, limit, keeps=WITHIN_CAP in self._held and not beyond, says=says)

    def _ages(self) -> Iterator[Ruling]:
        policy = self._policy
        for rule in sorted(policy.rules, key=lambda rule: rule.name):
            decides = self._matcher is not None and self._matcher.rule is rule
            keeps = decides and "keep-for" in self._held
            yield self._age(rule.name, rule.keep_for, decides=decides, keeps=keeps)
        if policy.keep_for is not None:
            decides = self._matcher is None
            keeps = decides and "keep-for" in self._held
            yield self._age("keep_for", policy.keep_for, decides=decides, keeps=keeps)
        if policy.before is not None:
            until = to_instant(policy.before)
            yield self._counted("before", iso(until), "", until=until)

    def _age(self, name: str, age: Age, *, decides: bool, keeps: bool) -> Ruling:
        if not decides:
            other = "another rule is more specific" if name != "keep_for" else "a narrower rule decides"
            says = other if self._matcher is not None else "it does not match"
            return Ruling(name, age_text(age), keeps=False, says=says)
        says = "it is beyond the cap" if self._overruled and keeps else ""
        return Ruling(name, age_text(age), keeps and not self._overruled, self._until(age), says)

    def _counts(self) -> Iterator[Ruling]:
        policy = self._policy
        for name, count in policy.counts.items():
            says = ""
            if name in policy.periods and self._unit.root_end is not None and self._unit.root_end >= 0:
                says = f"it ended in {period_text(name, self._unit.root_end, policy.timezone)}"
            yield self._counted(name, count, says)

    def _counted(self, name: str, value: object, says: str, *, until: Instant | None = None) -> Ruling:
        keeps = name.replace("_", "-") in self._held
        if keeps and self._overruled:
            says = "; ".join(filter(None, (says, "it is beyond the cap")))
        return Ruling(name, value, keeps and not self._overruled, until, says)
