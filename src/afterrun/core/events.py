"""What a sweep tells while it runs. Counts and seconds only: no ids, paths or payloads.

An observer is any callable that takes an event; it runs in the sweep's thread and must not block.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class PageRead:
    """A page of candidates was judged."""

    scanned: int
    expired: int


@dataclass(frozen=True, slots=True)
class BatchDone:
    """A batch was committed. ``held`` is how long its locks were held, in seconds."""

    units: int
    members: int
    rows: int
    skipped: int
    held: float


@dataclass(frozen=True, slots=True)
class BatchFailed:
    """A batch was rolled back and will be halved; ``kind`` is that of the `UnitFailure`."""

    units: int
    kind: str


@dataclass(frozen=True, slots=True)
class BlobsDone:
    """A transaction that removed blobs was committed. ``size`` is the bytes of their content."""

    blobs: int
    size: int
    rows: int
    held: float


@dataclass(frozen=True, slots=True)
class UnitDeferred:
    """A unit failed alone and is left for a later sweep."""

    kind: str


@dataclass(frozen=True, slots=True)
class SweepEnded:
    """The pass is over; ``ended`` is the word of the report."""

    ended: str
    removed: int
    seconds: float


Event: TypeAlias = PageRead | BatchDone | BatchFailed | BlobsDone | UnitDeferred | SweepEnded
Observer: TypeAlias = Callable[[Event], None]
