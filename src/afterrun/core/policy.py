"""What to keep: a policy is a value, checked when it is made."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import Enum
from typing import TYPE_CHECKING, Final, Literal

from afterrun.core.errors import Refused, UsageError
from afterrun.core.periods import PERIODS, zone_of
from afterrun.core.sizes import format_size
from afterrun.core.times import Instant, format_duration, iso, micros, to_instant

if TYPE_CHECKING:
    from afterrun.core.row_rules import RowRules

DEFAULT_GRACE: Final = timedelta(hours=1)
"""Time after the end before age counts: late writes of a run that has just ended settle in it."""

MAX_KEEP_LAST: Final = 1_000_000_000
MAX_CAP_BYTES: Final = 2**63 - 1

GENERATION_RULES: Final = ("keep_for", "before", "keep_last", "keep_forks")
"""Rules that generations have of their own."""

COUNTS: Final = ("keep_last", *PERIODS)
"""Keep rules that count units, by group."""

CAPS: Final = ("cap_units", "cap_bytes")

MOST: Final = {**dict.fromkeys((*COUNTS, "cap_units"), MAX_KEEP_LAST), "cap_bytes": MAX_CAP_BYTES}
"""The greatest number that a rule takes; the least is 1."""

STATUS: Final = "status"
"""The key of a narrower rule that is not a group column."""


class Forever(Enum):
    """The age limit that no age reaches. A word of its own, never 0 or -1."""

    FOREVER = "forever"


FOREVER: Final = Forever.FOREVER
Age = timedelta | Forever
Counted = Literal["successful", "any"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchRule:
    """A narrower rule: a ``keep_for`` for the units that match, in place of the policy's own.

    ``match`` has a key for the root's ``status``, for a group column of the profile, or for several; a unit
    matches if each of them has one of the words. Words of ``status`` are the engine's own, or ``successful``
    and ``failed`` (ended without success). Raises `UsageError` for a rule that makes no sense.
    """

    match: Mapping[str, Sequence[str]] = field(hash=False)
    keep_for: Age

    def __post_init__(self) -> None:
        """Refuse what cannot be meant; bring the match into one order."""
        _check_age("keep_for", self.keep_for)
        if not self.match:
            raise UsageError("a rule without a match is the general one: say keep_for beside the rules")
        for key, words in self.match.items():
            if isinstance(words, str) or not words or not all(words):
                raise UsageError(f"the match of {key!r} needs a list of words")
        ordered = {key: tuple(sorted(set(self.match[key]))) for key in sorted(self.match)}
        object.__setattr__(self, "match", ordered)

    @property
    def name(self) -> str:
        """Return what reports call it."""
        return f"keep_for[{self.words}]"

    @property
    def words(self) -> str:
        """Return what it matches, for people."""
        return ", ".join(f"{key}={'|'.join(words)}" for key, words in self.match.items())

    def canonical(self) -> dict[str, object]:
        """Return it in one spelling."""
        match = {key: list(words) for key, words in self.match.items()}
        return {"match": match, "keep_for": age_text(self.keep_for)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How long and how many units to keep; each keep rule that is set keeps more.

    Attributes:
        keep_for: keep a unit this long after its end.
        before: keep every unit that ended at this moment or later.
        keep_last: keep a unit while fewer than this many counted units of its group are newer.
        keep_last_counts: which units rules that count take: ``successful`` or ``any``.
        group_by: the profile's group columns that make a group; ``None`` takes all of them.
        grace: a unit that ended less than this ago stays, whatever the other rules say.
        pins: ids of runs whose unit stays.
        generations: what to keep of the superseded generations of runs that stay; ``None`` keeps all. Its
            ``keep_last`` counts the newest of each run, the current one included. Grace and pins are those
            of the whole policy.
        keep_forks: of generations that branch, keep the end of every branch, and not of the newest alone.
            It is a rule for generations, and lets nothing go by itself.
        keep_hourly: keep the newest counted unit of each of the last so many hours of a group that have one.
        keep_daily: the same for days.
        keep_weekly: the same for weeks of the ISO calendar, which begin on Monday.
        keep_monthly: the same for months.
        keep_yearly: the same for years.
        timezone: whose days these are: an IANA name.
        cap_units: beyond the newest so many units that ended, keep rules do not count. A cap alone keeps
            what is within it.
        cap_bytes: the same for so many units as take about this many bytes.
        keep_keys: protect a unit that holds an idempotency key for so long after its end.
        rules: narrower rules; of those that match a unit, the one with most keys decides its ``keep_for``,
            on a tie the longest.
        tables: what to keep of tables like logs, by the profile's names for them; of others all stays.
        is_default: nobody said a rule, so it is that of the profile.

    A policy with nothing but ``generations`` or ``tables`` touches no whole run. Raises `UsageError` for a
    value that makes no sense and `Refused` for a policy without a rule.
    """

    keep_for: Age | None = None
    before: datetime | None = None
    keep_last: int | None = None
    keep_last_counts: Counted = "successful"
    group_by: tuple[str, ...] | None = None
    grace: timedelta = DEFAULT_GRACE
    pins: frozenset[str] = field(default_factory=frozenset)
    generations: Policy | None = None
    keep_forks: bool = True
    keep_hourly: int | None = None
    keep_daily: int | None = None
    keep_weekly: int | None = None
    keep_monthly: int | None = None
    keep_yearly: int | None = None
    timezone: str = "UTC"
    cap_units: int | None = None
    cap_bytes: int | None = None
    keep_keys: Age | None = None
    rules: tuple[MatchRule, ...] = ()
    tables: Mapping[str, RowRules] = field(default_factory=dict, hash=False)
    is_default: bool = field(default=False, compare=False)

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        if self.rules and not self.has_rules:
            raise UsageError(
                "the narrower rules say nothing of all other units: say what is kept of the rest; "
                'keep_for = "forever" keeps it'
            )
        if not self.has_rules and self.generations is None and not self.tables:
            raise no_rule()
        _check_age("keep_for", self.keep_for)
        _check_age("keep_keys", self.keep_keys)
        for name, most in MOST.items():
            value = getattr(self, name)
            if value is not None and not 1 <= value <= most:
                raise UsageError(f"{name} must be at least 1 and at most {most}")
        if not self.counts and self.group_by is not None:
            raise UsageError("group_by says how keep_last counts, and keep_last is not set, nor keep_daily")
        if self.grace < timedelta():
            raise UsageError("grace cannot be negative")
        if self.before is not None and self.before.tzinfo is None:
            raise UsageError("before needs a time zone")
        if self.timezone != "UTC":
            zone_of(self.timezone)
        self._check_parts()

    def _check_parts(self) -> None:
        matches = [json.dumps(rule.canonical()["match"]) for rule in self.rules]
        if len(set(matches)) < len(matches):
            raise UsageError("two rules have the same match: leave one out")
        if self.generations is not None and not self.generations.is_for_generations:
            raise UsageError("generations have no generations of their own, and no groups but their runs")
        if self.generations is not None and self.generations.tables:
            raise UsageError("generations have no tables of rows")

    @property
    def is_for_generations(self) -> bool:
        """Say whether it has no rule but those that generations have."""
        others = (self.generations, self.group_by, self.periods, self.caps, self.keep_keys, self.rules)
        return not any(others)

    @property
    def periods(self) -> Mapping[str, int]:
        """Return the rules by calendar periods that are set."""
        return {name: count for name in PERIODS if (count := getattr(self, name)) is not None}

    @property
    def counts(self) -> Mapping[str, int]:
        """Return the rules that count units and are set."""
        return {name: count for name in COUNTS if (count := getattr(self, name)) is not None}

    @property
    def caps(self) -> Mapping[str, int]:
        """Return the caps that are set."""
        return {name: limit for name in CAPS if (limit := getattr(self, name)) is not None}

    @property
    def has_rules(self) -> bool:
        """Say whether it lets any whole run go."""
        return self._has_keep_rules or bool(self.caps)

    @property
    def _has_keep_rules(self) -> bool:
        return self.keep_for is not None or self.before is not None or bool(self.counts)

    @property
    def general(self) -> Age | None:
        """Return the ``keep_for`` of units that no narrower rule matches; a cap alone keeps what is in it."""
        return self.keep_for if self._has_keep_rules else FOREVER

    def of(self, kind: str) -> Policy | None:
        """Return what it means for units of one kind, or ``None`` where it lets none of them go."""
        if kind != "generation":
            return self if self.has_rules else None
        if self.generations is None:
            return None
        return replace(self.generations, grace=self.grace, pins=self.pins)

    def age_limit(self, now: Instant, keep_for: Age | None) -> Instant | None:
        """Return the instant before which a unit with this ``keep_for`` must have ended, unless it stays."""
        if keep_for is FOREVER:
            return None
        limits = [now - micros(self.grace)]
        if isinstance(keep_for, timedelta):
            limits.append(now - micros(keep_for))
        if self.before is not None:
            limits.append(to_instant(self.before))
        return min(limits)

    def cutoff(self, now: Instant) -> Instant | None:
        """Return the instant before which units must have ended by the rules of age; ``None`` is never."""
        ages = [self.general, *(rule.keep_for for rule in self.rules)]
        limits = [limit for age in ages if (limit := self.age_limit(now, age)) is not None]
        return max(limits, default=None)

    def canonical(self) -> dict[str, object]:
        """Return the rules that are set, in one spelling: for reports and for the fingerprint.

        Pins are a count here: they are ids, and adding one can only keep more.
        """
        words: dict[str, object] = {}
        if self.keep_for is not None:
            words["keep_for"] = age_text(self.keep_for)
        if self.rules:
            rules = [rule.canonical() for rule in self.rules]
            words["rules"] = sorted(rules, key=lambda rule: json.dumps(rule, sort_keys=True))
        if self.before is not None:
            words["before"] = iso(to_instant(self.before))
        words |= self._counting()
        if self.cap_units is not None:
            words["cap_units"] = self.cap_units
        if self.cap_bytes is not None:
            words["cap_bytes"] = format_size(self.cap_bytes)
        words["grace"] = format_duration(self.grace)
        if self.pins:
            words["pins"] = len(self.pins)
        if self.keep_keys is not None:
            words["keep_keys"] = age_text(self.keep_keys)
        if not self.keep_forks:
            words["keep_forks"] = False
        return words | self._of_other_kinds()

    def _of_other_kinds(self) -> dict[str, object]:
        """Return the rules for what is no whole run."""
        words: dict[str, object] = {}
        if self.generations is not None:
            own = self.generations.canonical()
            words["generations"] = {name: own[name] for name in GENERATION_RULES if name in own}
        if self.tables:
            words["tables"] = {name: dict(self.tables[name].canonical()) for name in sorted(self.tables)}
        return words

    def _counting(self) -> dict[str, object]:
        """Return the rules that count units, and how they count."""
        words: dict[str, object] = dict(self.counts)
        if words:
            words["keep_last_counts"] = self.keep_last_counts
            if self.group_by is not None:
                words["group_by"] = list(self.group_by)
        if self.periods:
            words["timezone"] = self.timezone
        return words


def no_rule() -> Refused:
    """Return the refusal of a policy that says nothing of what is kept."""
    return Refused(
        "empty-policy",
        "the policy keeps nothing, so it is refused: give --keep-for 30d, --keep-last 10 or "
        "--before TIMESTAMP (`forever` keeps everything)",
    )


def age_text(age: Age) -> str:
    """Write an age limit as it is read."""
    return format_duration(age) if isinstance(age, timedelta) else FOREVER.value


def _check_age(name: str, age: Age | None) -> None:
    if isinstance(age, timedelta) and age <= timedelta():
        raise UsageError(f"{name} must be longer than nothing; to keep everything write forever")
