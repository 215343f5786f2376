"""Blobs: payloads that rows of several runs share. They go when nothing refers to them any more.

Candidates are what removed rows referred to. They are looked at after the commit of the batch that removed
those rows, in transactions of their own: whatever ends a sweep in between leaves too much, never too little.
A full pass finds what was left so.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, Protocol

from afterrun.core.batch import LIVE_BLOBS, Pace, Sizer
from afterrun.core.errors import UnitFailure
from afterrun.core.events import BlobsDone, Observer
from afterrun.core.facts import Key, Scalar, Unit

MAX_FAILURES: Final = 10
"""Blobs that could not be removed one after another, after which a sweep tries no more of them."""

MAX_STUCK: Final = 1_000
"""Blobs that could not be removed, after which a sweep tries no more of them."""

LOOK_BLOBS: Final = 2_000
"""Blobs that one statement of a full pass looks at: no engine waits for it longer than for a batch."""


@dataclass(slots=True)
class BlobCounts:
    """Blobs that went or would go, and the bytes of their content."""

    count: int = 0
    size: int = 0

    def as_json(self) -> dict[str, object]:
        """Return plain values."""
        return {"count": self.count, "bytes": self.size}


class Batch(NamedTuple):
    """Candidates of one table that are looked at in one transaction."""

    table: str
    keys: Sequence[Key]


class Gone(NamedTuple):
    """What one transaction removed: so many blobs, the bytes of their content, and rows by table.

    ``held`` is how long its locks were held, ``waited`` how long they were waited for, in seconds.
    """

    blobs: int
    size: int
    rows: Mapping[str, int]
    held: float
    waited: float


class Place(NamedTuple):
    """Where a full pass goes on: after this key of a table."""

    table: int = 0
    after: Scalar = None


class Looked(NamedTuple):
    """What a full pass saw: where it goes on, and how many unneeded blobs it left, by why.

    ``young`` ones are less than a day old; nothing tells how old the ``ageless`` ones are.
    """

    place: Place | None
    young: int = 0
    ageless: int = 0


class FullPass(NamedTuple):
    """A pass over all blobs that came to its end, and how many it left as less than a day old."""

    young: int


class BlobSurvey(Protocol):
    """Counts the blobs that would go with units, for a plan."""

    def add(self, units: Sequence[Unit]) -> None:
        """Take in the units of a page."""

    def counts(self) -> tuple[BlobCounts, Mapping[str, int]]:
        """Return blobs and bytes that nothing would refer to any more, and the rows by table."""

    def close(self) -> None:
        """Let go of what was remembered."""


class Blobs(Protocol):
    """The blobs of one store. Candidates come in when a batch that removed references is committed."""

    @property
    def waiting(self) -> int:
        """Number of candidates."""

    def take(self, most: int) -> Batch:
        """Take the next candidates, all of one table."""

    def put_back(self, batch: Batch) -> None:
        """Let candidates wait again."""

    def remove(self, batch: Batch, *, seconds: float) -> Gone:
        """Remove those candidates that nothing refers to and no lease holds, in one transaction.

        Raises `UnitFailure` with the store as it was, and `StoreFailure`.
        """

    def look(self, place: Place, *, limit: int) -> Looked:
        """Make candidates of the next unneeded blobs that are older than a day, whatever left them."""

    def survey(self) -> BlobSurvey:
        """Start to count for a plan."""


class Pause(Protocol):
    """A clock that can wait."""

    def sleep(self, seconds: float) -> None:
        """Wait."""


class Collector:
    """Removes candidates beside a sweep, at its pace.

    ``counts``, ``rows`` and ``longest`` grow as blobs go; ``young`` and ``ageless`` count those that a full
    pass left.
    """

    def __init__(
        self,
        blobs: Blobs,
        *,
        pace: Pace,
        clock: Pause,
        settle: Callable[[], None],
        observer: Observer,
        saved: Callable[[str, Sequence[Key]], Collection[Key]] | None = None,
    ) -> None:
        """Prepare; ``settle`` does what a transaction leaves for afterwards.

        Where there is a backup, ``saved`` tells which blobs are in it, and only they go.
        """
        self._saved = saved
        self._observer = observer
        self._blobs = blobs
        self._pace = pace
        self._clock = clock
        self._settle = settle
        first = replace(pace, rows=min(pace.rows, LIVE_BLOBS))
        self._sizer = Sizer(first, most=min(pace.blobs, pace.most_rows))
        self._narrowed: int | None = None
        self._failed_in_a_row = 0
        self.counts = BlobCounts()
        self.rows: dict[str, int] = {}
        self.longest = 0.0
        self._stuck: set[tuple[str, Key]] = set()
        self.young = self.ageless = 0
        self.last_failure = ""

    def catch_up(self) -> None:
        """Look at candidates while they fill a transaction, so that few ever wait."""
        while self._blobs.waiting >= self._sizer.rows and not self._gives_up:
            self._one()

    def finish(self) -> None:
        """Look at all candidates that wait."""
        while self._blobs.waiting and not self._gives_up:
            self._one()

    def full_pass(self, stop: Callable[[], bool]) -> bool:
        """Find and remove what nothing refers to; return whether it ended before ``stop`` said yes."""
        place: Place | None = Place()
        while place is not None:
            if stop() or self._gives_up:
                return False
            place, young, ageless = self._blobs.look(place, limit=LOOK_BLOBS)
            self.young += young
            self.ageless += ageless
            while self._blobs.waiting and not self._gives_up:
                if stop():
                    return False
                self._one()
        return True

    def notices(self) -> Iterator[str]:
        """Say what of the blobs stays although nothing needs it."""
        if self._stuck:
            tried = "; no more were tried" if self._gives_up else ""
            yield f"{len(self._stuck)} blobs could not be removed ({self.last_failure}) and stay{tried}"
        if self.ageless:
            yield f"{self.ageless} blobs that nothing refers to stay, since nothing tells how old they are"

    @property
    def _gives_up(self) -> bool:
        return self._failed_in_a_row >= MAX_FAILURES or len(self._stuck) >= MAX_STUCK

    def _one(self) -> None:
        """Run one transaction; after a failure the next is half as large. A blob that fails alone stays."""
        most = self._sizer.rows if self._narrowed is None else min(self._sizer.rows, self._narrowed)
        batch = self._blobs.take(most)
        full = len(batch.keys) == self._sizer.rows
        if self._saved is not None:
            known = self._saved(batch.table, batch.keys)
            batch = batch._replace(keys=[key for key in batch.keys if key in known])
            if not batch.keys:
                return
        try:
            gone = self._blobs.remove(batch, seconds=self._pace.deadline)
        except UnitFailure as error:
            self._note_failure(batch, error)
            return
        self._failed_in_a_row = 0
        self._narrowed = None if self._narrowed is None or self._narrowed > len(batch.keys) else most * 2
        self.counts.count += gone.blobs
        self.counts.size += gone.size
        for table, rows in gone.rows.items():
            self.rows[table] = self.rows.get(table, 0) + rows
        self.longest = max(self.longest, gone.held)
        self._sizer.learn(rows=len(batch.keys), held=gone.held, full=full)
        self._observer(BlobsDone(gone.blobs, gone.size, sum(gone.rows.values()), gone.held))
        self._settle()
        rest = self._pace.pause(held=gone.held, waited=gone.waited)
        if rest:
            self._clock.sleep(rest)

    def _note_failure(self, batch: Batch, error: UnitFailure) -> None:
        if len(batch.keys) > 1:
            self._blobs.put_back(batch)
            self._narrowed = len(batch.keys) // 2
            return
        self._stuck.add((batch.table, batch.keys[0]))
        self._failed_in_a_row += 1
        self.last_failure = error.kind
        self._narrowed = None
