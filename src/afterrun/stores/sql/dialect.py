"""What differs between databases, as a protocol."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import sqlalchemy as sa

from afterrun.core.facts import Key, Scalar
from afterrun.core.inspection import TableSize
from afterrun.core.space import GivenBack, Room, Space
from afterrun.core.times import Instant
from afterrun.profiles import TableShape
from afterrun.profiles.registry import EndFormat

Column: TypeAlias = sa.ColumnElement[Any]
Rows: TypeAlias = Sequence[Any]
"""Rows of a statement whose columns are only known at run time."""


@dataclass(frozen=True, slots=True)
class Index:
    """An index of a real table: its name, its columns in order, and whether no two rows have equal ones."""

    name: str
    columns: tuple[str, ...]
    unique: bool = False


@dataclass(frozen=True, slots=True)
class Sizes:
    """Bytes of a database: on disk now, and of those the part that holds nothing."""

    total: int
    free: int


class Dialect(Protocol):
    """One open database. It owns the only connection; results are read whole before a method returns."""

    name: str

    schema: str
    """Name of the schema that holds the store's tables; empty where a database has but one."""

    hold: float
    """Seconds that a live batch should hold its locks."""

    readers_block: bool
    """Whether an engine's commit may have to wait for a read, so that long ones are cut."""

    index_orders_ties: bool
    """Whether an index by time holds runs that ended at one time in the order of `tie`."""

    has_lateral: bool
    """Whether a sub-select may refer to a row beside it."""

    locks_rows: bool
    """Whether a batch locks its runs one by one, while others may write beside it."""

    returns_removed: bool
    """Whether a DELETE can return the rows that it removes."""

    known_triggers: bool
    """Set to yes: the functions of triggers that a profile knows find the store's tables during a batch."""

    halt: Callable[[], bool]
    """Asked between statements, and while one works or waits for a lock, as far as the database allows: yes
    raises `StoreFailure` at once. A batch in progress is rolled back."""

    @property
    def url(self) -> str:
        """Where it is, with any password masked."""

    @property
    def identity(self) -> str:
        """What names this very database."""

    @property
    def path(self) -> Path | None:
        """Return the real path of the database's file, or nothing where a server has it."""

    def secure_delete(self) -> None:
        """Overwrite removed content on disk, at the price of more writing."""

    @property
    def shapes(self) -> Mapping[str, TableShape]:
        """Tables of the database, as reflected when it was opened."""

    def named(self, table: str, *, schema: str | None = None) -> sa.TableClause:
        """Return a table with its real columns; ``schema`` names another one with a table like it."""

    def obstacles(
        self, tables: Sequence[str], *, locked: str | None, emptied: Sequence[tuple[str, str]] = ()
    ) -> Sequence[str]:
        """Say why no row of these tables can be removed, nor one of ``locked``, if any, be locked.

        ``emptied`` are tables and columns of rows that stay and lose their link to what goes.
        """

    def check_reading(self, tables: Sequence[str]) -> None:
        """Make sure that every row of these tables is seen. Raises `Refused`."""

    def notices(self) -> Sequence[str]:
        """Say what a reader of a plan should know of this database."""

    def sweep_lock(self) -> AbstractContextManager[None] | None:
        """Return the database's lock that keeps one sweep a store; nothing where a file beside it does."""

    def advisory(self, text: str, *, held: str) -> AbstractContextManager[None]:
        """Hold the database's lock of this name, where it has such. Raises `StoreLocked`, saying ``held``."""

    def indexes(self, table: str) -> Sequence[Index]:
        """Return the indexes that find any value of their first column."""

    def tie(self, table: str, alias: str, key: Column) -> Column:
        """Return the column that orders rows whose times are equal, as an index by time has them."""

    def hint(self, statement: sa.Select[Any], table: sa.FromClause, index: str | None) -> sa.Select[Any]:
        """Make a statement use an index where the planner's statistics might mislead it."""

    def keys_in(self, column: Column, parameter: str = "keys") -> Column:
        """Return the condition that a column is one of the keys of one bound array."""

    def bind_keys(self, keys: Sequence[Key]) -> object:
        """Return the value for the parameter of `keys_in`."""

    def among(self, column: Column, values: sa.Select[Any]) -> Column:
        """Return the condition that a column is one of the values of a sub-select, which is read first."""

    def same_key(self, column: Column, key: Column) -> Column:
        """Return the condition that a column holds the key of a row, also where it has another type."""

    def rows_in(self, columns: Sequence[Column], parameter: str = "keys") -> Column:
        """Return the condition that columns, together, are one of the composite keys of one bound value."""

    def bind_rows(self, keys: Sequence[Key]) -> object:
        """Return the value for the parameter of `rows_in`. Numbers and text only."""

    def parameter(self, name: str, value: Scalar) -> Column:
        """Return a parameter that stands for a value as it was read from a column."""

    def bind(self, value: Scalar) -> object:
        """Return what to give for the parameter of `parameter`."""

    def instant(self, column: Column, spelling: EndFormat) -> Column:
        """Return a column's time as an instant, `UNREADABLE` where it makes no sense; NULL stays NULL."""

    def newest(self, column: Column, spelling: EndFormat) -> Column:
        """Return the newest time of a column in a group as `instant`; `UNREADABLE` if one makes no sense."""

    def bound(self, instant: Instant, column: Column, spelling: EndFormat) -> object:
        """Return a raw value such that every such column before ``instant`` compares less than it."""

    def order_key(self, column: Column) -> Column:
        """Return a column so that it compares exactly and sorts like `core.facts.key_order`."""

    def length(self, columns: Sequence[Column]) -> Column:
        """Return the bytes that these columns hold."""

    def held_by(
        self, live: sa.CompoundSelect[Any], *, owner: Column, column: Column, tests: Sequence[Column]
    ) -> sa.Select[Any]:
        """Return which keys stand in ``column`` of rows whose ``owner`` is live and that pass the tests.

        The way is from the live runs to their rows, of which there are few, and not from all rows.
        """

    def execute(self, statement: sa.Executable, parameters: Mapping[str, object] | None = None) -> Rows:
        """Run a statement that returns rows and read them all."""

    def change(self, statement: sa.Executable, parameters: Mapping[str, object]) -> int:
        """Run a statement that changes rows; return how many."""

    @property
    def new_versions(self) -> Callable[[Sequence[str]], int] | None:
        """Where an update writes a row anew, with all its index entries, what counts those of some tables.

        Of this connection, foreign keys included; only differences within one transaction tell something.
        Nothing where rows are changed in place.
        """

    def mark(self) -> object:
        """Return what is equal only as long as nobody changes the database, or ``None`` if nothing tells.

        What is read after it holds for as long as it is shown again. Changes of this connection count.
        """

    def locked(self, seconds: float, *, wait: float | None = None) -> AbstractContextManager[None]:
        """Hold the write lock: commit at the end, roll back on an exception, give up after ``seconds``.

        ``wait`` bounds the seconds that it is waited for, where that may be longer: whoever holds another
        lock meanwhile must not wait long. Raises `UnitFailure` then.
        """

    def asynchronous(self) -> AbstractContextManager[Callable[[], None]]:
        """Let `locked` return before the disk has what it committed; yield what waits until the disk has all.

        Nothing may be told as done before that was called. It raises `StoreFailure`.
        """

    def sql(self, statement: sa.ClauseElement) -> str:
        """Return the text of a statement as this database gets it, with marks for its parameters."""

    def explain(self, statement: sa.ClauseElement, parameters: Mapping[str, object]) -> Sequence[str]:
        """Return the database's plan for a statement, a line a step."""

    def now(self) -> Instant:
        """Read the clock."""

    def settle(self) -> None:
        """Write back what a commit left for later, outside any lock."""

    def sizes(self) -> Sizes:
        """Measure the database."""

    def space(self, tables: Sequence[str]) -> Space:
        """Measure what the database takes: its files, or these tables where others share it."""

    def table_sizes(self, *, exact: bool) -> Sequence[TableSize]:
        """Return the bytes of each table. Raises `Refused` where exact ones cannot be had."""

    def rooms(self) -> Sequence[Room]:
        """Return the room that giving space back needs on this machine, one entry a volume."""

    def give_back(self, tables: Sequence[str], *, gate: Callable[[], bool], rest: float) -> GivenBack:
        """Give space back, in place; ``tables`` as in `space`, ``gate`` and ``rest`` as in `ReclaimOptions`.

        Raises `Refused` before anything is written, and `StoreFailure` with the content as it was.
        """

    def problems(self) -> Iterator[str]:
        """Check the database's own integrity and foreign keys; yield a line for each fault."""

    def close(self) -> None:
        """Let go of the connection."""
