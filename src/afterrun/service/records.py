"""What stays on record of a sweep or manual apply, whatever its end, and which units failed in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from afterrun.core.plan import Plan
from afterrun.core.report import Report
from afterrun.state import StoreState
from afterrun.state.attempts import failure_word
from afterrun.state.files import Record, StateError
from afterrun.telemetry import Watched

FINISHED: Final = ("completed", "budget")
"""Endings of a sweep after which the store is no longer one of first contact."""


class RetryAll:
    """Memory of failed units for a manual apply: it notes failures, and leaves nothing out."""

    def __init__(self, state: StoreState) -> None:
        """Write through to the store's state."""
        self._state = state

    def any(self) -> bool:
        """Say whether any unit is deferred."""
        return self._state.any()

    def waiting(self, unit: str) -> bool:  # noqa: ARG002 - the protocol's signature
        """Leave no unit out: a person asked."""
        return False

    def defer(self, unit: str, kind: str) -> None:
        """Note that this unit failed."""
        self._state.defer(unit, kind)

    def clear(self, unit: str) -> None:
        """Forget a unit that went."""
        self._state.clear(unit)


@contextmanager
def on_record(state: StoreState, plan: Plan, *, command: str) -> Iterator[None]:
    """Keep a sweep on record from before its first batch, whatever its end."""
    state.begin(command, now=plan.rules.now, fingerprint=plan.fingerprint)
    try:
        yield
    except BaseException as error:
        with suppress(StateError):  # what ended the sweep may be what keeps this from being written
            if isinstance(error, KeyboardInterrupt):
                state.abandon("interrupted")
            else:
                state.abandon("failed", why=failure_word(error))
        raise


def record_of(report: Report, command: str, watched: Watched) -> Record:
    """Return the record of a report; what the observer failed at goes on both."""
    if watched.notice:
        report.notices.append(watched.notice)
    why = report.message.partition(":")[0] if report.ended == "failed" else ""
    return Record(
        at=report.now,
        command=command,
        ended=report.ended,
        why=why,
        came_back=_counted(report, "came_back"),
        left=_counted(report, "left"),
        observer_failures=watched.failures.total(),
        fingerprint=report.fingerprint,
        scanned=report.scanned,
        removed=report.removed,
        deferred=report.deferred,
        rows=sum(report.rows.values()) if report.ended != "guard" else 0,
        batches=report.batches,
        backlog=report.backlog_after,
        seconds=round(report.seconds, 3),
        file_before=report.file_before,
        file_after=report.file_after,
    )


def _counted(report: Report, name: str) -> int:
    """Return a count of what an interrupted removal left."""
    return int(str((report.interrupted or {}).get(name, 0)))
