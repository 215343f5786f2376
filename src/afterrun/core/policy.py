"""What to keep: a policy is a value, checked when it is made."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import Enum
from typing import Final, Literal

from afterrun.core.errors import Refused, UsageError
from afterrun.core.times import Instant, format_duration, iso, micros, to_instant

DEFAULT_GRACE: Final = timedelta(hours=1)
"""Time after the end before age counts: late writes of a run that has just ended settle in it."""

MAX_KEEP_LAST: Final = 1_000_000_000

GENERATION_RULES: Final = ("keep_for", "before", "keep_last", "keep_forks")
"""Rules that generations have of their own."""


class Forever(Enum):
    """The age limit that no age reaches. A word of its own, never 0 or -1."""

    FOREVER = "forever"


FOREVER: Final = Forever.FOREVER
Counted = Literal["successful", "any"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How long and how many units to keep; each rule that is set keeps more.

    Attributes:
        keep_for: keep a unit this long after its end.
        before: keep every unit that ended at this moment or later.
        keep_last: keep a unit while fewer than this many counted units of its group are newer.
        keep_last_counts: which units ``keep_last`` counts: ``successful`` or ``any``.
        group_by: the profile's group columns that make a group; ``None`` takes all of them.
        grace: a unit that ended less than this ago stays, whatever the other rules say.
        pins: ids of runs whose unit stays.
        generations: what to keep of the superseded generations of runs that stay; ``None`` keeps all. Its
            ``keep_last`` counts the newest of each run, the current one included. Grace and pins are those
            of the whole policy.
        keep_forks: of generations that branch, keep the end of every branch, and not of the newest alone.
            It is a rule for generations, and lets nothing go by itself.

    A policy with nothing but ``generations`` touches no whole run. Raises `UsageError` for a value that makes
    no sense and `Refused` for a policy without a rule.
    """

    keep_for: timedelta | Forever | None = None
    before: datetime | None = None
    keep_last: int | None = None
    keep_last_counts: Counted = "successful"
    group_by: tuple[str, ...] | None = None
    grace: timedelta = DEFAULT_GRACE
    pins: frozenset[str] = field(default_factory=frozenset)
    generations: Policy | None = None
    keep_forks: bool = True

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        if not self.has_rules and self.generations is None:
            raise Refused(
                "empty-policy",
                "the policy keeps nothing, so it is refused: give --keep-for 30d, --keep-last 10 or "
                "--before TIMESTAMP (`forever` keeps everything)",
            )
        if isinstance(self.keep_for, timedelta) and self.keep_for <= timedelta():
            raise UsageError("keep_for must be longer than nothing; to keep everything write forever")
        if self.keep_last is not None and not 1 <= self.keep_last <= MAX_KEEP_LAST:
            raise UsageError(f"keep_last must be at least 1 and at most {MAX_KEEP_LAST}")
        if self.keep_last is None and self.group_by is not None:
            raise UsageError("group_by says how keep_last counts, and keep_last is not set")
        if self.grace < timedelta():
            raise UsageError("grace cannot be negative")
        if self.before is not None and self.before.tzinfo is None:
            raise UsageError("before needs a time zone")
        if self.generations is not None and (self.generations.generations or self.generations.group_by):
            raise UsageError("generations have no generations of their own, and no groups but their runs")

    @property
    def has_rules(self) -> bool:
        """Say whether it lets any whole run go."""
        return self.keep_for is not None or self.before is not None or self.keep_last is not None

    def of(self, kind: str) -> Policy | None:
        """Return what it means for units of one kind, or ``None`` where it lets none of them go."""
        if kind != "generation":
            return self if self.has_rules else None
        if self.generations is None:
            return None
        return replace(self.generations, grace=self.grace, pins=self.pins)

    def cutoff(self, now: Instant) -> Instant | None:
        """Return the instant a unit must have ended before, by the rules of age; ``None`` is never."""
        if self.keep_for is FOREVER:
            return None
        limits = [now - micros(self.grace)]
        if isinstance(self.keep_for, timedelta):
            limits.append(now - micros(self.keep_for))
        if self.before is not None:
            limits.append(to_instant(self.before))
        return min(limits)

    def canonical(self) -> dict[str, object]:
        """Return the rules that are set, in one spelling: for reports and for the fingerprint.

        Pins are a count here: they are ids, and adding one can only keep more.
        """
        words: dict[str, object] = {}
        if self.keep_for is not None:
            words["keep_for"] = (
                format_duration(self.keep_for) if isinstance(self.keep_for, timedelta) else "forever"
            )
        if self.before is not None:
            words["before"] = iso(to_instant(self.before))
        if self.keep_last is not None:
            words["keep_last"] = self.keep_last
            words["keep_last_counts"] = self.keep_last_counts
            if self.group_by is not None:
                words["group_by"] = list(self.group_by)
        words["grace"] = format_duration(self.grace)
        if self.pins:
            words["pins"] = len(self.pins)
        if not self.keep_forks:
            words["keep_forks"] = False
        if self.generations is not None:
            rules = self.generations.canonical()
            words["generations"] = {name: rules[name] for name in GENERATION_RULES if name in rules}
        return words
