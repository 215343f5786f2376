"""A database as the run store sees it: transactions with a clock, and where databases differ."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cached_property
from typing import Any, Protocol, TypeAlias

import sqlalchemy as sa

from afterrun.core.errors import StoreFailure
from afterrun.core.times import Instant
from afterrun.runs.direct import Direct
from afterrun.runs.errors import NoSealingKey
from afterrun.runs.sealing import Sealing

Clock: TypeAlias = Callable[[], Instant]
"""Tells the time in microseconds since 1970, UTC."""

Values: TypeAlias = Mapping[str, object]
Make: TypeAlias = "Callable[[Dialect], sa.ClauseElement]"
"""Makes a statement for a dialect. Each is a function of a module, by which the statement is remembered."""


Both: TypeAlias = tuple[Sequence[tuple[Any, ...]], Sequence[tuple[Any, ...]]]
"""Rows of two statements."""


class Dialect(Protocol):
    """What differs between databases."""

    schema: str | None
    no_bytes: str
    locks_rows: bool
    """Whether rows are locked one by one; otherwise who writes has the whole store."""
    inserts_together: bool
    """Whether one statement may insert into many tables."""
    clock: sa.ColumnElement[Any]
    """The time as `now` tells it, as a column of a statement; NULL where the database has no clock."""

    def engine(self) -> sa.Engine:
        """Return the engine, with no connection made yet."""

    def reader(self, engine: sa.Engine, *, one: bool) -> sa.Engine:
        """Return an engine on the same connections that only reads: a snapshot, or ``one`` statement each."""

    def begin(self, connection: sa.Connection, *, writing: bool) -> None:
        """Begin a transaction on a connection of the engine with the right to write, or of a reader."""

    def now(self, connection: sa.Connection) -> Instant:
        """Return the time of the database's clock."""

    def locked(self, statement: sa.Select[Any]) -> sa.Select[Any]:
        """Let a statement lock the rows that it returns until the transaction ends."""

    def among(self, column: sa.ColumnElement[Any], name: str) -> sa.ColumnElement[bool]:
        """Test whether a text is among those of a parameter: any number of them, as `listed` gives them."""

    def listed(self, texts: Sequence[str]) -> object:
        """Return texts as one parameter."""

    def insert_new(self, table: sa.Table, conflict: Sequence[str]) -> sa.Insert:
        """Return an insert that passes by rows whose unique ``conflict`` columns are taken."""

    def upsert(self, table: sa.Table, conflict: Sequence[str], update: Sequence[str]) -> sa.Insert:
        """Return an insert that updates these columns where the unique ``conflict`` columns are taken.

        The row is locked then, also against retention.
        """

    def reserve(self, table: sa.Table) -> sa.ClauseElement:
        """Return what finds the blob at ``:address`` and locks it, or else takes the number of a new one.

        Its row is (number, key id, ``None``) or (``None``, ``None``, new number), and then `clock`.
        """

    def look(self, table: sa.Table) -> tuple[sa.ColumnElement[Any], ...]:
        """Return what tells of the blob at ``:address`` as columns: number, key id, new number.

        Where one statement may insert into many tables, only the new number is told: a blob that is there is
        found by its insert. What is told of a blob holds as long as the tree's lock does, or is NULL.
        """

    def together(self, connection: sa.Connection) -> AbstractContextManager[object]:
        """Let statements go to a server without waiting for what the one before says."""

    def hold_table(self, connection: sa.Connection, table: sa.Table) -> None:
        """Keep all others from writing a table until the transaction ends."""

    def is_there(self) -> bool:
        """Say whether there is a database to look at; to look makes none."""

    def make_schema(self, connection: sa.Connection) -> None:
        """Make the schema that holds the tables, unless it is there."""

    def hold_upgrades(self, connection: sa.Connection, key: int) -> None:
        """Wait until no other process upgrades this store, and keep it so until the transaction ends."""

    def failure(self, error: sa.exc.DBAPIError) -> StoreFailure:
        """Say what an error of the database means, without its data."""


class Transaction:
    """One transaction of the store, on its connection."""

    def __init__(self, connection: sa.Connection, database: Database) -> None:
        """Take a connection on which a transaction has begun."""
        self.connection = connection
        self.dialect = database.dialect
        self._database = database
        self._clock = database.clock

    @cached_property
    def now(self) -> Instant:
        """Return the time of all that the transaction writes.

        It is read at its first use, which is after the tree is locked: changes of one tree have their times
        in the order in which they come.
        """
        return self._clock() if self._clock is not None else self.dialect.now(self.connection)

    @cached_property
    def _driver(self) -> Any:  # noqa: ANN401 - of either driver
        return self.connection.connection.driver_connection

    @property
    def sealing(self) -> Sealing:
        """Return how content is kept here. Raises `NoSealingKey`."""
        if self._database.sealing is None:
            raise NoSealingKey(
                "exact content is neither stored nor opened without a key: set AFTERRUN_SEALING_KEY or "
                "AFTERRUN_SEALING_KEY_FILE, give RunStore.open its keys, or say sealing='off' for a store "
                "that may hold content in the clear"
            )
        return self._database.sealing

    @property
    def has_key(self) -> bool:
        """Say whether content can be stored and opened."""
        return self._database.sealing is not None

    def direct(self, make: Make, values: Values) -> Sequence[tuple[Any, ...]]:
        """Run a statement that depends on the dialect alone, and return its rows as the driver gives them.

        It is made once for the store, and goes to the driver as it is.
        """
        made = self._written(make)
        return made.rows(made.send(self._driver, values))

    def direct_behind(self, first: Make, make: Make, values: Values) -> Both:
        """Run one statement behind another, on one way to a server; return the rows of each."""
        before, made = self._written(first), self._written(make)
        with self.dialect.together(self.connection):
            cursors = before.send(self._driver, values), made.send(self._driver, values)
        return before.rows(cursors[0]), made.rows(cursors[1])

    def together(self) -> AbstractContextManager[object]:
        """Let changes go to a server without waiting for what the one before says: none of them is told.

        What the server refuses is raised at the end.
        """
        return self.dialect.together(self.connection)

    def direct_all(self, makes: Sequence[Make], values: Values) -> None:
        """Run statements whose rows nobody wants, on one way to a server; each takes what it needs."""
        with self.together():
            for make in makes:
                self._written(make).send(self._driver, values)

    def _written(self, make: Make) -> Direct:
        return self._database.statements.get(make) or self._database.write(make)

    def tell(self, now: Instant | None) -> None:
        """Take the time of the database's clock, if a statement has brought it along."""
        if now is not None and self._clock is None:
            self.__dict__.setdefault("now", now)

    def rows(self, statement: sa.Executable, values: Values | None = None) -> Sequence[sa.Row[Any]]:
        """Run a statement and return all its rows."""
        return self.connection.execute(statement, values).fetchall()

    def one(self, statement: sa.Executable) -> sa.Row[Any] | None:
        """Run a statement and return its first row, if it has one."""
        return self.connection.execute(statement).first()

    def value(self, statement: sa.Executable) -> Any:  # noqa: ANN401 - whatever the column holds
        """Run a statement and return its one value, or ``None``."""
        return self.connection.execute(statement).scalar()

    def change(self, statement: sa.Executable, values: Values | Sequence[Values] | None = None) -> int:
        """Run a statement and return how many rows it changed."""
        changed: int = self.connection.execute(statement, values).rowcount
        return changed

    def insert(self, table: sa.Table, **values: object) -> None:
        """Insert one row."""
        self.connection.execute(sa.insert(table), values)


class Database:
    """Makes transactions, each on a connection of its own, from any thread."""

    def __init__(self, dialect: Dialect, *, clock: Clock | None = None) -> None:
        """Take a dialect. ``clock`` replaces the database's, for tests; ``sealing`` is set later."""
        self.dialect = dialect
        self.clock = clock
        self.sealing: Sealing | None = None
        self.statements: dict[Make, Direct] = {}
        self._engine = dialect.engine()
        self._snapshot = dialect.reader(self._engine, one=False)
        self._looker = dialect.reader(self._engine, one=True)
        self.driver_error: type[Exception] = self._engine.dialect.loaded_dbapi.Error
        self._local = threading.local()
        self._turn = nullcontext() if dialect.locks_rows else threading.Lock()
        """Writers of this process wait for each other here, and not with the database's growing pauses."""

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    def write(self, make: Make) -> Direct:
        """Write a statement as the driver takes it, and remember it."""
        made = Direct.of(make(self.dialect), self._engine, self.dialect.schema)
        self.statements[make] = made
        return made

    def writing(self) -> AbstractContextManager[Transaction]:
        """Give a transaction that may write; it is committed at the end, or undone by an exception."""
        return self._transaction(writing=True)

    def reading(self) -> AbstractContextManager[Transaction]:
        """Give a transaction that sees one snapshot, and changes nothing."""
        return self._transaction(writing=False)

    def looking(self) -> AbstractContextManager[Transaction]:
        """Give what sees a snapshot with each statement: for a call that needs no more than one."""
        return self._transaction(writing=False, one=True)

    @contextmanager
    def together(self, *, before_commit: Callable[[], None] = lambda: None) -> Iterator[None]:
        """Put all that this thread does meanwhile into one transaction, committed at the end.

        An exception undoes all of it, whatever raised it; who wants the rest does it again, one by one.
        ``before_commit`` is called when all statements are done and only the commit is left.
        """
        if getattr(self._local, "shared", None) is not None:
            yield
            return
        with self._transaction(writing=True) as transaction:
            self._local.shared = transaction.connection
            try:
                yield
            finally:
                self._local.shared = None
            before_commit()

    @contextmanager
    def _transaction(self, *, writing: bool, one: bool = False) -> Iterator[Transaction]:
        shared: sa.Connection | None = getattr(self._local, "shared", None)
        if shared is not None:
            yield Transaction(shared, self)
            return
        if getattr(self._local, "busy", False):
            raise RuntimeError("a transaction of this store is open in this thread")
        self._local.busy = True
        try:
            engine = self._engine if writing else self._looker if one else self._snapshot
            with self._turn if writing else nullcontext(), engine.connect() as connection:
                connection.begin()
                if not one:
                    self.dialect.begin(connection, writing=writing)
                yield Transaction(connection, self)
                if writing:
                    connection.commit()
        except sa.exc.DBAPIError as error:
            raise self.dialect.failure(error) from None
        except self.driver_error as error:
            raise self.dialect.failure(sa.exc.DBAPIError("", None, error, hide_parameters=True)) from None
        finally:
            self._local.busy = False
