"""What the tables of the run store are made of. Types are strict in both databases: SQLite checks them, too.

Migrations are written with these words as well: one that is here changes no more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import sqlalchemy as sa

NAMES: Final = {
    "pk": "pk_%(table_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
}
"""Names of constraints and indexes: the same in both databases, so that a migration can name them."""

Number: Final = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
"""A whole number of 64 bits. SQLite knows it as INTEGER alone in its strict tables."""


def text(name: str, *, null: bool = False, **more: Any) -> sa.Column[str]:  # noqa: ANN401 - as SQLAlchemy has them
    """Return a column of text."""
    return sa.Column(name, sa.Text(), nullable=null, **more)


def number(name: str, *, null: bool = False, **more: Any) -> sa.Column[int]:  # noqa: ANN401 - as SQLAlchemy has them
    """Return a column of whole numbers; times are microseconds since 1970 in UTC."""
    return sa.Column(name, Number, nullable=null, autoincrement=False, **more)


def table(metadata: sa.MetaData, name: str, *parts: sa.schema.SchemaItem, **more: Any) -> sa.Table:  # noqa: ANN401 - as SQLAlchemy has them
    """Return a table that is strict in SQLite."""
    return sa.Table(name, metadata, *parts, sqlite_strict=True, **more)


def one_of(column: str, words: Iterable[str], *, name: str = "") -> sa.CheckConstraint:
    """Return the check that a column holds one of these words."""
    return sa.CheckConstraint(f"{column} IN ({_listed(words)})", name=name or column)


def null_while(column: str, status: str, words: Iterable[str]) -> sa.CheckConstraint:
    """Return the check that a column is NULL exactly while the status is one of these words."""
    return sa.CheckConstraint(f"({column} IS NULL) = ({status} IN ({_listed(words)}))", name=column)


def together(name: str, *columns: str) -> sa.CheckConstraint:
    """Return the check that all of these columns are set, or none."""
    first, *others = columns
    tests = " AND ".join(f"({first} IS NULL) = ({other} IS NULL)" for other in others)
    return sa.CheckConstraint(tests, name=name)


def some(name: str, column: str, condition: str, *, unique: bool = False) -> sa.Index:
    """Return an index over a column of some rows only."""
    where = sa.text(condition)
    return sa.Index(name, column, unique=unique, sqlite_where=where, postgresql_where=where)


def some_of(name: str, condition: str, *columns: str, unique: bool = False) -> sa.Index:
    """Return an index over several columns of some rows only."""
    where = sa.text(condition)
    return sa.Index(name, *columns, unique=unique, sqlite_where=where, postgresql_where=where)


def where_set(name: str, column: str, *, unique: bool = False) -> sa.Index:
    """Return the index of a column that is mostly NULL, over the rows where it is not."""
    return some(name, column, f"{column} IS NOT NULL", unique=unique)


def unique_rows(made: sa.Table, columns: Sequence[str]) -> sa.ColumnElement[bool] | None:
    """Return the condition of the index that keeps columns unique; ``None`` if it is one of all rows."""
    some = [made.c[name].is_not(None) for name in columns if made.c[name].nullable]
    return sa.and_(*some) if some else None


def content(table_name: str, column: str) -> tuple[sa.Column[int], sa.Index]:
    """Return a column that refers to a blob, or not, with its index."""
    made: sa.Column[int] = sa.Column(column, Number, sa.ForeignKey("blobs.id"))
    return made, where_set(f"ix_{table_name}_{column}", column)


def of_run() -> sa.Column[str]:
    """Return the column that says whose rows these are, as the first part of their key."""
    return sa.Column("run_id", sa.Text(), sa.ForeignKey("runs.id"), primary_key=True, nullable=False)


def key(name: str) -> sa.Column[int]:
    """Return a further part of the primary key."""
    return sa.Column(name, Number, primary_key=True, nullable=False, autoincrement=False)


def of_generation() -> tuple[sa.Column[str], sa.Column[int], sa.ForeignKeyConstraint]:
    """Return the columns that say of which generation rows are, as the first parts of their key."""
    run: sa.Column[str] = sa.Column("run_id", sa.Text(), primary_key=True, nullable=False)
    link = sa.ForeignKeyConstraint(["run_id", "generation"], ["generations.run_id", "generations.number"])
    return run, key("generation"), link


def _listed(words: Iterable[str]) -> str:
    return ", ".join(f"'{word}'" for word in words)
