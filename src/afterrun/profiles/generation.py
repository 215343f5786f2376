"""What a profile says of generations: the executions of one run, of which the past ones may go."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Self

from pydantic import Field, StrictBool, model_validator

from afterrun.profiles.registry import TimeFormat
from afterrun.profiles.words import Condition, Model, Name, Word


class GenerationRows(Model):
    """Rows of another table that belong to a generation: ``on`` maps its columns to those of the generation.

    ``optional`` tables exist in some versions of the schema only.
    """

    table: Name
    on: dict[Name, Name] = Field(min_length=1)
    optional: StrictBool = False


class GenerationEnd(Model):
    """Where the end of a generation stands: in its own column, or as the newest value among rows of its own.

    The first source that is not NULL decides.
    """

    column: Name
    format: TimeFormat
    rows: GenerationRows | None = None


class GenerationProtection(Model):
    """Rows that hold a generation: those of ``rows`` that pass ``where``; without ``rows``, its own row."""

    reason: Word
    rows: GenerationRows | None = None
    where: dict[Name, Condition] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if self.rows is None and not self.where:
            raise ValueError(
                "without rows, a protection is a condition on the generation's own row: give where"
            )
        return self


class Generation(Model):
    """The executions of one run: all but the current one may go while the run lives on.

    ``key`` is the column that holds the key of the run, and the column of a number that grows with each
    generation. ``current`` is the column of the run's own row that holds the number of the current one: only
    what is below it is superseded. ``owned`` is the order of removal; the generation's own row comes last.
    ``superseded`` is the state that every superseded generation has, and no current one. With it, automatic
    sweeps read these alone, by an index over end and key of the rows in that state.
    """

    table: Name
    key: tuple[Name, Name]
    current: Name
    status: Name
    terminal: tuple[str, ...] = Field(min_length=1)
    live: tuple[str, ...] = ()
    superseded: str | None = None
    end: tuple[GenerationEnd, ...] = Field(min_length=1)
    protect: tuple[GenerationProtection, ...] = ()
    owned: tuple[GenerationRows, ...] = ()

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        both = sorted(set(self.live) & set(self.terminal))
        if both:
            raise ValueError(f"{both[0]!r} is listed as live and as terminal")
        if self.superseded is not None and self.superseded not in self.terminal:
            raise ValueError(f"{self.superseded!r} is superseded but not terminal")
        if self.superseded is not None and len(self.end) > 1:
            raise ValueError("superseded generations are read by their end, so that is one column")
        if self.end[0].rows is not None:
            raise ValueError("the first end is a column of the generation's own row")
        for rows in self.owned:
            if set(rows.on.values()) != set(self.key):
                raise ValueError(f"rows of {rows.table} that go with a generation need its whole key")
        names = [rows.table for rows in self.owned]
        if self.table in names or len(set(names)) < len(names):
            raise ValueError("owned lists the generation's own table, which always goes last, or one twice")
        return self

    @property
    def rows(self) -> tuple[GenerationRows, ...]:
        """Return all rows of other tables that it speaks of."""
        some = [end.rows for end in self.end] + [protection.rows for protection in self.protect]
        return (*self.owned, *(rows for rows in some if rows is not None))

    def addressed(self, run_table: str) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Yield each table that it names, with columns of it."""
        own = [self.status, *(end.column for end in self.end if end.rows is None)]
        own += [column for part in self.protect if part.rows is None for column in part.where]
        yield self.table, (*self.key, *own)
        yield run_table, (self.current,)
        for rows in self.rows:
            yield rows.table, tuple(rows.on)
            yield self.table, tuple(rows.on.values())
        for end in self.end:
            if end.rows is not None:
                yield end.rows.table, (end.column,)
        for part in self.protect:
            if part.rows is not None:
                yield part.rows.table, tuple(part.where)

    @property
    def tables(self) -> tuple[str, ...]:
        """Return the tables that a removal takes rows from, in its order."""
        return (*(rows.table for rows in self.owned), self.table)
