"""Row policies: what to keep of a table like a log, whose rows go one by one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from afterrun.core.errors import UsageError
from afterrun.core.policy import FOREVER, MAX_KEEP_LAST, Forever
from afterrun.core.times import Instant, format_duration, micros


@dataclass(frozen=True, slots=True, kw_only=True)
class RowRules:
    """How long and how many rows of one table to keep; a row goes only if no rule keeps it.

    Attributes:
        keep_for: keep a row this long after its end.
        keep_latest: keep the newest so many rows, within each value of the profile's partition columns.
        statuses: only rows in one of these states go; without any, rows in every terminal one.

    Raises `UsageError` for a value that makes no sense, and for rules that keep nothing.
    """

    keep_for: timedelta | Forever | None = None
    keep_latest: int | None = None
    statuses: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        if self.keep_for is None and self.keep_latest is None:
            raise UsageError("rules for rows need keep_for or keep_latest (`forever` keeps every row)")
        if isinstance(self.keep_for, timedelta) and self.keep_for <= timedelta():
            raise UsageError("keep_for must be longer than nothing; to keep every row write forever")
        if self.keep_latest is not None and not 1 <= self.keep_latest <= MAX_KEEP_LAST:
            raise UsageError(f"keep_latest must be at least 1 and at most {MAX_KEEP_LAST}")

    def cutoff(self, now: Instant, *, grace: timedelta) -> Instant | None:
        """Return the instant a row must have ended before; ``None`` is never."""
        if self.keep_for is FOREVER:
            return None
        waits = [grace, self.keep_for] if isinstance(self.keep_for, timedelta) else [grace]
        return now - micros(max(waits))

    def canonical(self) -> Mapping[str, object]:
        """Return the rules that are set, in one spelling."""
        words: dict[str, object] = {}
        if self.keep_for is not None:
            words["keep_for"] = (
                format_duration(self.keep_for) if isinstance(self.keep_for, timedelta) else "forever"
            )
        if self.keep_latest is not None:
            words["keep_latest"] = self.keep_latest
        if self.statuses:
            words["statuses"] = sorted(self.statuses)
        return words
