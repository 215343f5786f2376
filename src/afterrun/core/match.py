"""Narrower rules, resolved against what a store's profile knows: which one decides about a unit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from afterrun.core.errors import UsageError, did_you_mean
from afterrun.core.facts import Scalar, Status, Unit, key_text
from afterrun.core.policy import FOREVER, STATUS, MatchRule, Policy

ENDED: Final = (Status.TERMINAL, Status.SUCCESSFUL)
MEANINGS: Final = {"successful": Status.SUCCESSFUL, "failed": Status.TERMINAL}
"""Words for what a status means, wherever the engine has no such word of its own."""


class Matcher(NamedTuple):
    """One narrower rule: the statuses it matches (``None`` is any), and words by place of a group column."""

    rule: MatchRule
    statuses: frozenset[Scalar] | None
    groups: tuple[tuple[int, frozenset[str]], ...]

    def matches(self, unit: Unit) -> bool:
        """Say whether it is a rule for this unit."""
        if self.statuses is not None and unit.status not in self.statuses:
            return False
        if not unit.group:  # a cycle has no root, and so no group
            return not self.groups
        return all(
            (value := unit.group[place]) is not None and key_text(value) in words
            for place, words in self.groups
        )


def matchers(
    policy: Policy, *, statuses: Mapping[Scalar, Status], columns: Sequence[str], profile: str
) -> tuple[Matcher, ...]:
    """Return a policy's narrower rules, so that the first that matches a unit is the one that decides.

    Raises `UsageError` for a column or a status that the profile does not know.
    """
    found = [_matcher(rule, statuses, columns, profile) for rule in policy.rules]
    return tuple(sorted(found, key=_precedence))


def _precedence(matcher: Matcher) -> tuple[object, ...]:
    """Put the most specific rule first, on a tie the longest; then by name, so that the order is one."""
    rule = matcher.rule
    age = (0, 0.0) if rule.keep_for is FOREVER else (1, -rule.keep_for.total_seconds())
    return (-len(rule.match), age, rule.name)


def _matcher(
    rule: MatchRule, statuses: Mapping[Scalar, Status], columns: Sequence[str], profile: str
) -> Matcher:
    ended: frozenset[Scalar] | None = None
    groups = []
    for key, words in rule.match.items():
        if key == STATUS:
            ended = frozenset(word for text in words for word in _statuses(text, statuses, profile))
        elif key in columns:
            groups.append((columns.index(key), frozenset(words)))
        else:
            known = (STATUS, *columns)
            raise UsageError(
                f"a rule cannot match by {key[:40]!r}{did_you_mean(key, known)}; the profile {profile} has "
                f"{', '.join(known)}"
            )
    return Matcher(rule, ended, tuple(groups))


def _statuses(text: str, statuses: Mapping[Scalar, Status], profile: str) -> list[Scalar]:
    """Return the engine's statuses that a word stands for. Raises `UsageError`."""
    own = [word for word in statuses if key_text(word) == text]
    if not own and text in MEANINGS:
        return [word for word, meaning in statuses.items() if meaning is MEANINGS[text]]
    if any(statuses[word] in ENDED for word in own):
        return own
    known = [*(key_text(word) for word, meaning in statuses.items() if meaning in ENDED), *MEANINGS]
    why = "is the status of a run that has not ended" if own else "is no status of a run that has ended"
    raise UsageError(
        f"a rule matches the status {text[:40]!r}, which {why}{'' if own else did_you_mean(text, known)}; "
        f"the profile {profile} has {', '.join(dict.fromkeys(known))}"
    )
