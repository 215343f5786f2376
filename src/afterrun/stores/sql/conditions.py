"""A profile's test of a column as a condition of a statement."""

from __future__ import annotations

import sqlalchemy as sa

from afterrun.core.facts import UNREADABLE
from afterrun.profiles.words import Condition
from afterrun.stores.sql.dialect import Column, Dialect
from afterrun.stores.sql.literals import literal, one_of


def unknown_holds(dialect: Dialect, column: Column, test: Condition) -> Column:
    """Return one test of what holds a unit, or tells of it, as a condition.

    A NULL column fulfils ``not_in``, and a time that makes no sense is ``future``: unknown means keep.
    """
    parts: list[Column] = []
    if test.equals is not None:
        parts.append(column == literal(test.equals))
    if test.in_ is not None:
        parts.append(one_of(column, test.in_))
    if test.not_in is not None:
        parts.append(sa.or_(column.is_(None), ~one_of(column, test.not_in)))
    if test.null is not None:
        parts.append(column.is_(None) if test.null else column.is_not(None))
    if test.future is not None:
        instant = dialect.instant(column, test.future)
        parts.append(sa.or_(instant > sa.bindparam("now"), instant == literal(UNREADABLE)))
    return sa.and_(*parts)
