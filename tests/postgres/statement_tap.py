"""Watches every statement of a product's connection to PostgreSQL, and acts between two of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, Self, cast

import psycopg

from afterrun.core.store import Store
from afterrun.stores.sql.postgres.dialect import Postgres
from afterrun.stores.sql.store import SqlStore

Moment = Literal["before", "after"]
Act = Callable[[], object]


def driver_of(store: Store) -> psycopg.Connection[Any]:
    """Return the only connection of a store."""
    return dialect_of(store).driver


def dialect_of(store: Store) -> Postgres:
    """Return the dialect of a store."""
    dialect = cast("SqlStore", store).dialect
    assert isinstance(dialect, Postgres)
    return dialect


class Tap:
    """Hears of each statement, in order, before and after the server has it.

    What is said by `once` happens at the first statement that fits the pattern, and only then.
    """

    def __init__(self) -> None:
        """Hear nothing yet."""
        self.statements: list[str] = []
        self.hear: Callable[[Moment, str], object] = lambda _moment, _text: None
        self._waiting: list[tuple[Moment, re.Pattern[str], Act]] = []

    def once(self, moment: Moment, pattern: str, act: Act) -> Self:
        """Act before or after the next statement in which this pattern is found."""
        self._waiting.append((moment, re.compile(pattern), act))
        return self

    @property
    def all_done(self) -> bool:
        """Say whether everything that was planned has happened."""
        return not self._waiting

    def tell(self, moment: Moment, text: str) -> None:
        """Take in one statement."""
        if moment == "before":
            self.statements.append(text)
        self.hear(moment, text)
        for planned in [plan for plan in self._waiting if plan[0] == moment and plan[1].search(text)]:
            self._waiting.remove(planned)
            planned[2]()


@contextmanager
def tapped(store: Store) -> Iterator[Tap]:
    """Watch the connection of an open store."""
    driver, tap = driver_of(store), Tap()
    plain = driver.cursor_factory

    class Tapped(psycopg.Cursor[Any]):
        def execute(self, query: Any, *args: Any, **words: Any) -> Self:  # noqa: ANN401 - as the driver's
            text = query.decode() if isinstance(query, bytes) else str(query)
            tap.tell("before", text)
            super().execute(query, *args, **words)
            tap.tell("after", text)
            return self

    driver.cursor_factory = Tapped
    try:
        yield tap
    finally:
        driver.cursor_factory = plain
