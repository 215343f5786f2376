"""How a sweep of the schedule ended."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Final, Literal, Self

from afterrun.core.errors import MESSAGE_LIMIT, AfterrunError, Refused, StoreLocked
from afterrun.core.report import Ended, Report

log = logging.getLogger("afterrun.schedule")

LOUD: Final = ("failed", "guard", "refused")
"""Endings that somebody should look at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One sweep, or one attempt to start it.

    Attributes:
        ended: the word of the report, or ``refused``: declined, because doing it could lose something.
        kind: the stable word of a failure or refusal, such as ``StoreUnreadable`` or ``schema``. It tells
            nothing of the store and may stand in logs and metrics.
        message: what happened and what to do, at most 240 characters. It may name the store.
        removed: units removed.
        deferred: units that failed alone.
        backlog: units that may still go.
        seconds: how long it took.
        report: the whole report, where there is one.
    """

    ended: Ended | Literal["refused"]
    kind: str = ""
    message: str = ""
    removed: int = 0
    deferred: int = 0
    backlog: int = 0
    seconds: float = 0.0
    report: Report | None = field(default=None, repr=False, compare=False)

    @property
    def undone(self) -> bool:
        """Say whether some units failed alone, or a row table as a whole."""
        return bool(self.deferred) or (self.report is not None and self.report.undone)

    @classmethod
    def of(cls, report: Report) -> Self:
        """Sum up the report of a sweep."""
        kind, colon, _ = report.message.partition(": ") if report.ended == "failed" else ("", "", "")
        return cls(
            ended=report.ended,
            kind=kind if colon else "",
            message=report.message[:MESSAGE_LIMIT],
            removed=report.removed,
            deferred=report.deferred,
            backlog=report.backlog_after,
            seconds=report.seconds,
            report=report,
        )

    @classmethod
    def raised(cls, error: BaseException) -> Self:
        """Say in bounded words what kept a sweep from a report. Of a bug, only its class is told."""
        name = type(error).__name__
        if isinstance(error, StoreLocked):
            return cls(ended="locked", kind="locked", message=str(error)[:MESSAGE_LIMIT])
        if isinstance(error, Refused):
            return cls(ended="refused", kind=error.reason, message=str(error)[:MESSAGE_LIMIT])
        if isinstance(error, AfterrunError):
            kind = getattr(error, "kind", name)
            return cls(ended="failed", kind=kind, message=str(error)[:MESSAGE_LIMIT])
        if isinstance(error, OSError):
            return cls(ended="failed", kind=name, message=(error.strerror or name)[:MESSAGE_LIMIT])
        return cls(ended="failed", kind=name, message=f"unexpected {name}: this is a bug")


def log_outcome(outcome: Outcome) -> None:
    """Write one line to the log ``afterrun.schedule``: counts and stable words, no store's name."""
    level = logging.WARNING if outcome.ended in LOUD else logging.INFO
    what = f"{outcome.ended} ({outcome.kind})" if outcome.kind else outcome.ended
    log.log(level, "sweep %s: %d units removed in %.1f s", what, outcome.removed, outcome.seconds)
