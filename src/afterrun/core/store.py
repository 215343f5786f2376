"""The store protocol: what the sweep, the plan and the explanation ask of any store.

Methods return values and take no callbacks. Reads end their transaction before they return, so that a plan
never keeps an engine from committing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import NamedTuple, Protocol, Self

from afterrun.core.aside import Aside
from afterrun.core.blobs import Blobs
from afterrun.core.facts import Key, Newest, Scalar, Status, Unit
from afterrun.core.judge import Group, Rank
from afterrun.core.times import Instant, Micros


class Cursor(NamedTuple):
    """Place in a store's streams of candidates: after this raw key. It only ever grows."""

    stream: int = 0
    end: Scalar = None
    tie: Scalar = None


class Stream(NamedTuple):
    """One order in which candidates come. ``rare`` ones hold only rows from before an engine's upgrade.

    ``swept`` ones are for automatic sweeps, in place of all others: they leave out what is set aside.
    """

    name: str
    indexed: bool
    rare: bool = False
    swept: bool = False


class Page(NamedTuple):
    """Units whose roots are candidates, how many raw keys were passed, and where to go on."""

    units: Sequence[Unit]
    scanned: int
    cursor: Cursor | None


@dataclass(frozen=True, slots=True)
class Schema:
    """Version of a store's schema; ``problems`` say why it may not be written to."""

    version: str
    read: bool
    problems: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Census:
    """Rows of the run table by status, as text; ``unknown`` are those in no list of the profile.

    Where the database itself refuses unknown ones, they are only counted ``together``.
    """

    statuses: Mapping[str, int]
    unknown: Mapping[str, int]
    together: int = 0

    @property
    def rows(self) -> int:
        """Return the number of rows of the run table."""
        return sum(self.statuses.values()) + self.together


@dataclass(frozen=True, slots=True)
class Outside:
    """What pages never meet, counted by aggregates instead of one by one.

    Attributes:
        recent: units whose root ended too recently to be read.
        protected: units by the one reason that kept them out of the range.
        blocked: units by the one reason that kept them out of the range.
        members: rows of all these units.
        within: rows of the units in the range, as the aggregate counts them.
        unrooted: rows that no root reaches: cycles, and what hangs on them.
    """

    recent: int = 0
    protected: Mapping[str, int] = field(default_factory=dict)
    blocked: Mapping[str, int] = field(default_factory=dict)
    members: int = 0
    within: int = 0
    unrooted: int = 0


class Marks(NamedTuple):
    """What the file of a store is known by: its inode, as text, and ids of its newest runs; or nothing.

    Not by its device: that number may be another one after each start of a machine.
    """

    file: str = ""
    runs: tuple[str, ...] = ()


class Transaction(Protocol):
    """One batch: it holds the store's write lock from entry to exit. An exception rolls it back."""

    held: float
    """Seconds the lock was held; set on exit."""

    beyond: Mapping[str, int]
    """Rows that went with the units in other databases, by name; set on exit."""

    def __enter__(self) -> Self:
        """Take the lock. Raises `StoreFailure` when it cannot be had in time."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Commit, or roll back if there was an exception."""

    def units(self, units: Sequence[Unit]) -> Sequence[Unit]:
        """Read these units again, by the same facts that found them."""

    def remove(self, units: Sequence[Unit], *, max_rows: int) -> Mapping[str, int]:
        """Remove all rows of these units; return the rows removed by table.

        Raises `UnitFailure` of kind ``oversized`` as soon as more than ``max_rows`` rows went.
        """


class Witness(Protocol):
    """What must agree, within the removing transaction, before a unit goes: a backup of it."""

    def recall(self, units: Sequence[Unit]) -> None:
        """Read what the backup holds of the next batch, so that no lock waits for that."""

    def differing(self, units: Sequence[Unit]) -> Collection[Key]:
        """Return the keys of those units whose rows are not all there, exactly as they are now."""

    def saved(self, table: str, keys: Sequence[Key]) -> Collection[Key]:
        """Return those blobs of a table that are in it: only these may go."""

    def confirm(self, rows: Mapping[str, int]) -> None:
        """Compare the rows that went by table, not yet committed, with those of units that did not differ.

        Raises `UnitFailure` where a row came or went in between.
        """


class Store(Protocol):
    """An engine's store of runs, opened with its profile."""

    @property
    def url(self) -> str:
        """Where it is, with any password masked."""

    @property
    def identity(self) -> str:
        """What names this very store in afterrun's own state."""

    @property
    def profile_name(self) -> str:
        """Name of the profile it was opened with."""

    @property
    def kind(self) -> str:
        """Kind of the units it removes, such as ``tree``."""

    @property
    def group_columns(self) -> tuple[str, ...]:
        """Columns by which units can be grouped."""

    @property
    def statuses(self) -> Mapping[Scalar, Status]:
        """What each of the engine's words for the state of a run means, by the profile."""

    @property
    def knows_keys(self) -> bool:
        """Say whether the profile names the idempotency keys of its units."""

    @property
    def hold(self) -> float:
        """Seconds a live batch should hold locks."""

    @property
    def blobs(self) -> Blobs | None:
        """Payloads that rows of several runs share, if the profile knows any."""

    @property
    def aside(self) -> Aside | None:
        """What sets protected trees aside, if the store can remember them."""

    def schema(self) -> Schema:
        """Return the schema's version and whether it was read."""

    def now(self) -> Instant:
        """Read the clock that this store's times are compared with."""

    def newest(self, now: Instant) -> Instant | None:
        """Return the newest credible time anywhere in the run table, as far as indexes tell."""

    def streams(self) -> tuple[Stream, ...]:
        """Return the orders in which candidates come."""

    def has_rows(self, stream: int) -> bool:
        """Say whether a stream has any ended row at all, of whatever age."""

    def page(self, cursor: Cursor, *, cutoff: Instant, limit: int) -> Page:
        """Return the next units of the cursor's stream whose roots ended before ``cutoff``."""

    def remaining(self, cursor: Cursor, *, cutoff: Instant, streams: Collection[int]) -> int:
        """Count candidate roots of these streams after the cursor; an upper bound of what may still go."""

    def find(self, text: str) -> Unit:
        """Return the unit that the run with this id belongs to. Raises `UnitNotFound`."""

    def known(self, texts: Collection[str]) -> frozenset[str]:
        """Return those of these ids that a run has."""

    def describe(self, unit: Unit) -> Sequence[Mapping[str, Scalar]]:
        """Return key, status, end and parent of each member, for people."""

    def newest_kept(
        self, places: Sequence[int], *, count: int, any_status: bool, now: Instant
    ) -> Mapping[Group, Rank]:
        """Return, for each group with at least ``count`` counted units, the rank of the last one kept."""

    def newest_in(
        self, places: Sequence[int], *, slot: Micros, any_status: bool, now: Instant
    ) -> Iterable[Newest]:
        """Return the newest counted root of each group in each slot of so many microseconds since 1970."""

    def groups(self, places: Sequence[int]) -> int:
        """Return how many groups the roots form by these group columns."""

    def content(self) -> tuple[int, int]:
        """Return about how many bytes its units hold, live ones too, and how many units these are."""

    def census(self) -> Census:
        """Count the rows of the run table by status."""

    def outside(self, *, cutoff: Instant | None, now: Instant) -> Outside:
        """Count what the pages never see."""

    def weigh(self, units: Sequence[Unit]) -> Sequence[int]:
        """Return the rows that removing each of these units would take."""

    def count(self, units: Sequence[Unit]) -> Mapping[str, int]:
        """Return the rows by table that removing these units would take."""

    def measure(self, units: Sequence[Unit]) -> tuple[int, int]:
        """Return bytes of content and number of rows of these units, to estimate sizes from."""

    def forgets(self, units: Sequence[Unit]) -> int:
        """Count the idempotency keys that would be forgotten with these units."""

    def transaction(self, *, seconds: float) -> Transaction:
        """Start a batch that may take at most ``seconds``; enter it to take the lock."""

    def settle(self) -> None:
        """Do what a batch leaves for afterwards, outside its lock, such as a checkpoint."""
