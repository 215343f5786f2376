"""What differs between databases, as a protocol."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

import sqlalchemy as sa

from afterrun.core.facts import Key, Scalar
from afterrun.core.inspection import TableSize
from afterrun.core.space import Room, Space
from afterrun.core.times import Instant
from afterrun.profiles import TableShape
from afterrun.profiles.registry import TimeFormat

Column: TypeAlias = sa.ColumnElement[Any]
Rows: TypeAlias = Sequence[Any]
"""Rows of a statement whose columns are only known at run time."""

Ending: TypeAlias = Literal["completed", "pinned", "interrupted"]
"""How giving space back ended; ``pinned``: done, but a reader keeps the file at its size."""


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
    hold: float

    @property
    def url(self) -> str:
        """Where it is, with any password masked."""

    @property
    def identity(self) -> str:
        """What names this very database."""

    @property
    def path(self) -> Path:
        """Return the real path of the database's file."""

    def secure_delete(self) -> None:
        """Overwrite removed content on disk, at the price of more writing."""

    @property
    def shapes(self) -> Mapping[str, TableShape]:
        """Tables of the database, as reflected when it was opened."""

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

    def parameter(self, name: str, value: Scalar) -> Column:
        """Return a parameter that stands for a value as it was read from a column."""

    def bind(self, value: Scalar) -> object:
        """Return what to give for the parameter of `parameter`."""

    def instant(self, column: Column, spelling: TimeFormat) -> Column:
        """Return a column's time as an instant, `UNREADABLE` where it makes no sense; NULL stays NULL."""

    def bound(self, instant: Instant, spelling: TimeFormat) -> object:
        """Return a raw value such that every column before ``instant`` compares less than it."""

    def order_key(self, column: Column) -> Column:
        """Return a column so that it compares exactly and sorts like `core.facts.key_order`."""

    def length(self, columns: Sequence[Column]) -> Column:
        """Return the bytes that these columns hold."""

    def execute(self, statement: sa.Executable, parameters: Mapping[str, object] | None = None) -> Rows:
        """Run a statement that returns rows and read them all."""

    def change(self, statement: sa.Executable, parameters: Mapping[str, object]) -> int:
        """Run a statement that changes rows; return how many."""

    def locked(self, seconds: float) -> AbstractContextManager[None]:
        """Hold the write lock: commit at the end, roll back on an exception, give up after ``seconds``."""

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

    def space(self) -> Space:
        """Measure the database's pages and files."""

    def table_sizes(self, space: Space, *, exact: bool) -> Sequence[TableSize]:
        """Return the bytes of each table. Raises `Refused` where exact ones cannot be had."""

    def rooms(self, space: Space) -> Sequence[Room]:
        """Return the room that giving free pages back needs, one entry a volume."""

    def give_back(self, space: Space, *, gate: Callable[[], bool], rest: float) -> Ending:
        """Give free pages back to the file system, in place; ``gate`` and ``rest`` as in `ReclaimOptions`.

        Raises `Refused` before anything is written, and `StoreFailure` with the content as it was.
        """

    def problems(self) -> Iterator[str]:
        """Check the database's own integrity and foreign keys; yield a line for each fault."""

    def close(self) -> None:
        """Let go of the connection."""
