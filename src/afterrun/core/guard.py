"""The guard: an automatic sweep asks before its first removal, and before an unusually large one.

`decide` is pure. What it needs to know of the past comes from afterrun's state; the approvals are kept there.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final, NamedTuple

from afterrun.core.times import Instant, micros

LARGE_SHARE: Final = 0.5
"""Share of all runs from which a sweep is unusually large."""

LARGE_COUNT: Final = 100
"""Units below which no sweep is unusually large."""

LARGE_ROWS: Final = 10_000
"""Rows of one row table below which no sweep is unusually large for it."""

APPROVED_FACTOR: Final = 1.2
"""How far beyond the count it was shown an approval reaches: the store went on while a person thought."""

LONG_SILENCE: Final = timedelta(days=30)
"""A clock so far after everything in the store is more likely wrong, or the store long forgotten."""


class Count(NamedTuple):
    """Units, and the runs they have in all. A share is taken of runs, since trees differ in size."""

    units: int
    runs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """What is on record of a store.

    ``swept``: a sweep or a manual apply has finished. ``runs``: rows of the run table at the last census.
    ``shown``: units that the last guarded sweep with this fingerprint counted, and that nobody approved yet.
    ``allowance``: units that an approval of this fingerprint still admits.
    """

    swept: bool
    runs: int | None = None
    shown: int | None = None
    allowance: int | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether a sweep may remove, and in words why not. ``allowance`` is what its approval admits in all."""

    allowed: bool
    allowance: int | None = None
    why: str = ""


def counting_limit(history: History) -> Count:
    """Return the count beyond which counting more changes no decision."""
    approved = int((history.shown or 0) * APPROVED_FACTOR)
    units = max(LARGE_COUNT, approved, history.allowance or 0)
    return Count(units, int((history.runs or 0) * LARGE_SHARE))


def is_first_contact(history: History, *, now: Instant, newest: Instant | None) -> bool:
    """Say whether this store must be treated as one that no sweep has seen."""
    return not history.swept or (newest is not None and now - newest > micros(LONG_SILENCE))


def is_large(history: History, expired: Count) -> bool:
    """Say whether removing this much would be unusual; with no census on record, over 100 units are."""
    if expired.units <= LARGE_COUNT:
        return False
    return history.runs is None or expired.runs > history.runs * LARGE_SHARE


def is_large_table(rows: int, *, expired: int) -> bool:
    """Say whether removing so many of a row table's rows would be unusual."""
    return expired > LARGE_ROWS and expired > rows * LARGE_SHARE


def decide(
    history: History, *, first: bool, expired: Count, approved: bool, table: str | None = None
) -> Decision:
    """Decide about a sweep that found ``expired`` units.

    ``approved``: the caller gave this plan's fingerprint. ``table``: a row table that would lose unusually
    many of its rows.
    """
    if not (first or table is not None or is_large(history, expired)):
        return Decision(allowed=True)
    allowance = history.allowance
    if approved and history.shown is not None:
        allowance = int(history.shown * APPROVED_FACTOR)
    if allowance is not None:
        if expired.units <= allowance:
            return Decision(allowed=True, allowance=allowance)
        return Decision(
            allowed=False, why=f"{expired.units} units would go, more than the {allowance} approved"
        )
    return Decision(allowed=False, why=_question(history, first=first, expired=expired, table=table))


def _question(history: History, *, first: bool, expired: Count, table: str | None) -> str:
    """Say why a sweep that nobody approved has to ask."""
    if first and history.swept:
        return "now is more than 30 days later than anything in the store, so the clock may be wrong"
    if first:
        return "no sweep of this store is on record yet, so it asks before it removes anything"
    if table is not None:
        return f"more than half of the rows of {table} would go, and more than {LARGE_ROWS}"
    return f"{expired.units} units with {expired.runs} runs would go, more than half of all"
