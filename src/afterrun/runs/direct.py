"""Statements that are run often enough to go to the driver as they are: text, written once.

What SQLAlchemy does around each execution takes longer than most of these statements do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import sqlalchemy as sa


@dataclass(frozen=True, slots=True)
class Direct:
    """One statement as the driver takes it. ``order`` has the names of its values where they go by place.

    ``answers`` says whether it has rows.
    """

    text: str
    order: tuple[str, ...] | None
    given: Mapping[str, object]
    answers: bool

    @classmethod
    def of(cls, statement: sa.ClauseElement, engine: sa.Engine, schema: str | None) -> Self:
        """Write a statement for an engine, with its tables in a schema."""
        made: Any = statement.compile(
            dialect=engine.dialect, schema_translate_map={None: schema}, render_schema_translate=True
        )
        order = None if made.positiontup is None else tuple(made.positiontup)
        given = {name: value for name, value in made.params.items() if value is not None}
        return cls(
            str(made),
            order,
            given,
            answers=isinstance(statement, sa.SelectBase) or bool(made.effective_returning),
        )

    def send(self, driver: Any, values: Mapping[str, object]) -> Any:  # noqa: ANN401 - a driver's connection and cursor
        """Run it with these values on a driver's connection, and return the cursor that has its rows."""
        cursor = driver.cursor()
        named = {**self.given, **values} if self.given else values
        cursor.execute(self.text, named if self.order is None else [named[name] for name in self.order])
        return cursor

    def rows(self, cursor: Any) -> Sequence[tuple[Any, ...]]:  # noqa: ANN401 - a driver's cursor
        """Return the rows of a cursor, which is closed then."""
        rows: Sequence[tuple[Any, ...]] = cursor.fetchall() if self.answers else ()
        cursor.close()
        return rows


def insert_of(table: sa.Table, *names: str, **others: str) -> sa.Insert:
    """Return the insert of one row with these columns; ``others`` are those whose value has another name."""
    named = {**dict(zip(names, names, strict=True)), **others}
    values = {column: sa.bindparam(name, type_=table.c[column].type) for column, name in named.items()}
    return sa.insert(table).values(values)
