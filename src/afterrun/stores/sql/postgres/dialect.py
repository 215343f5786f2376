"""The PostgreSQL dialect: one schema, through one connection that is also the one that holds the locks."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from hashlib import sha256
from typing import Any, Final

import psycopg
import sqlalchemy as sa
from psycopg.pq import TransactionStatus
from sqlalchemy.engine import URL
from sqlalchemy.sql import quoted_name

from afterrun.core.errors import Refused, StoreFailure, StoreUnreadable, UnitFailure, did_you_mean
from afterrun.core.facts import Key, Scalar, key_text
from afterrun.core.inspection import TableSize
from afterrun.core.schema_space import SchemaSpace
from afterrun.core.space import GivenBack, Room
from afterrun.core.times import CLOCK_SKEW, Instant, micros
from afterrun.profiles import TableShape
from afterrun.profiles.registry import EndFormat
from afterrun.stores.sql.dialect import Column, Index, Rows, Sizes
from afterrun.stores.sql.postgres import durability, rights, session
from afterrun.stores.sql.postgres import keys as postgres_keys
from afterrun.stores.sql.postgres import times as postgres_times
from afterrun.stores.sql.postgres.checks import problems
from afterrun.stores.sql.postgres.column_types import Stored
from afterrun.stores.sql.postgres.errors import classified, opening_error
from afterrun.stores.sql.postgres.schema import Reflected, reflect
from afterrun.stores.sql.postgres.space import measure
from afterrun.stores.sql.postgres.tables import table_sizes
from afterrun.stores.sql.postgres.texts import codec_of, fits, takes_any_bytes
from afterrun.stores.sql.postgres.vacuum import give_back

IDLE_SECONDS: Final = 2.0
"""How long a batch may stand still between two statements: its client may be dead."""

WAYS: Final[Mapping[str, bytes]] = {
    "keys": b"SET enable_seqscan = off; SET enable_mergejoin = off; SET enable_bitmapscan TO DEFAULT",
    "bound": b"SET enable_seqscan = off; SET enable_mergejoin = off; SET enable_bitmapscan = off",
    "one": b"SET enable_seqscan = off; SET enable_mergejoin = off; SET enable_bitmapscan = off",
    "": b"SET enable_seqscan TO DEFAULT; SET enable_mergejoin TO DEFAULT; SET enable_bitmapscan TO DEFAULT",
}
"""What the planner may do, by a parameter that a statement has: whoever has keys goes by them, and a page
reads an index in its order. Without statistics, as after an upgrade of the server, a thousand keys count as
most of a table, and all that is old as too little to stop early. A merge reads an index from its start."""

IN_A_BATCH: Final = (
    b"SET LOCAL enable_seqscan = off; SET LOCAL enable_mergejoin = off; SET LOCAL enable_bitmapscan = on"
)
"""A batch goes by keys throughout, whatever the page before it was told."""

SHARE: Final = 0.8
"""Part of a batch's time that one statement may take: so the limit need not be set anew for each of them."""


class Postgres:
    """One schema of a PostgreSQL database, opened through its only connection."""

    name = "postgresql"
    hold = 0.020
    readers_block = False
    index_orders_ties = False
    has_lateral = True
    known_triggers = False
    locks_rows = True
    returns_removed = True
    path = None

    def __init__(self, url: URL, *, schema: str, writable: bool) -> None:
        """Connect and reflect a schema. Raises `StoreUnreadable`, or `Refused` for what cannot be trusted."""
        self._url = url
        self.schema = schema
        self._writable = writable
        self._deadline: float | None = None
        self._allowed = 0.0
        self._way: str | None = None
        self._waits = True
        self.halt: Callable[[], bool] = lambda: False
        self._engine = session.engine_for(url)
        try:
            self._connection = self._engine.connect()
            self._open()
        except (psycopg.Error, sa.exc.DBAPIError, UnicodeDecodeError) as error:
            self._engine.dispose()
            raise opening_error(error, self.url) from None
        except BaseException:
            self._engine.dispose()
            raise

    def _open(self) -> None:
        driver = self.driver
        if not session.pinned(self._url, driver):
            raise Refused(
                "proxy",
                f"{self.url} is a proxy that pools by transaction (such as PgBouncer), where no lock and no "
                "setting lasts: give the address of the server itself",
            )
        self._read_only = rights.is_read_only(driver)
        session.prepare(driver, writable=self._writable)
        self._codec = codec_of(driver)
        self._reflected = reflect(driver, self.schema)
        if not self._reflected.shapes:
            others = [name for name in session.schemas(driver) if name != self.schema]
            near = did_you_mean(self.schema, others)
            raise StoreUnreadable(f"{self.url} has no schema {self.schema!r} with a table in it{near}")
        if takes_any_bytes(driver) and not all(map(str.isascii, self._names())):
            raise StoreUnreadable(f"{self.url} has names beyond ASCII in a database without an encoding")
        self._identity = session.identity(driver, self.schema)

    def _names(self) -> Iterator[str]:
        """Yield all names that may come into a statement."""
        for name, shape in self._reflected.shapes.items():
            yield from (*self._reflected.places[name], *shape.columns)

    @property
    def driver(self) -> psycopg.Connection[Any]:
        """Return the only connection. Raises `StoreFailure` once it is lost: it is never made again."""
        if not self._connection.closed and not self._connection.invalidated:
            driver: object = self._connection.connection.driver_connection
            if isinstance(driver, psycopg.Connection) and not driver.closed:
                return driver
        raise _lost()

    @property
    def url(self) -> str:
        """Return where it is, with the schema and without anything secret."""
        return session.shown(self._url, self.schema)

    @property
    def identity(self) -> str:
        """Return what names this very schema."""
        return self._identity

    def secure_delete(self) -> None:
        """Refuse: PostgreSQL leaves removed content in its pages until they are used again."""
        raise Refused(
            "secure-delete",
            "PostgreSQL cannot overwrite removed rows: VACUUM makes their place free to use again, and "
            "copies stay in the WAL and in backups for as long as these are kept",
        )

    @property
    def reflected(self) -> Reflected:
        """Return the schema as it was when it was opened."""
        return self._reflected

    @property
    def shapes(self) -> Mapping[str, TableShape]:
        """Return the tables of the schema, and those elsewhere that refer to them."""
        return self._reflected.shapes

    def indexes(self, table: str) -> Sequence[Index]:
        """Return the indexes of a table."""
        return self._reflected.indexes.get(table, ())

    def named(self, table: str, *, schema: str | None = None) -> sa.TableClause:
        """Return a table with its real columns and their types, qualified by its schema."""
        space, name = self._reflected.places[table]
        columns: list[sa.ColumnClause[Any]] = [
            sa.column(quoted_name(column, quote=True), Stored(spelling))
            for column, spelling in self._reflected.types[table].items()
        ]
        return sa.table(
            quoted_name(name, quote=True), *columns, schema=quoted_name(schema or space, quote=True)
        )

    def obstacles(
        self, tables: Sequence[str], *, locked: str | None, emptied: Sequence[tuple[str, str]] = ()
    ) -> Sequence[str]:
        """Say why no row of these tables can be removed, one of ``locked`` locked, or a link emptied."""
        oids = self._reflected.oids
        with classified():
            return list(
                rights.obstacles(
                    self.driver,
                    removed=[oids[table] for table in tables],
                    locked=None if locked is None else oids[locked],
                    emptied=[(oids[table], column) for table, column in emptied],
                    read_only=self._read_only,
                )
            )

    def check_reading(self, tables: Sequence[str]) -> None:
        """Make sure that every row of these tables is seen. Raises `Refused`."""
        with classified():
            rights.check_reading(self.driver, [self._reflected.oids[table] for table in tables])

    def notices(self) -> Sequence[str]:
        """Say what a reader of a plan should know of this database."""
        apart = abs(self.now() - time.time_ns() // 1_000)
        if apart <= micros(CLOCK_SKEW):
            return ()
        return (
            f"the server's clock and this machine's are {apart // 1_000_000} s apart: the server's counts",
        )

    def sweep_lock(self) -> AbstractContextManager[None]:
        """Return the lock that keeps one sweep a schema, on the connection that does the work."""
        held = f"another sweep holds this store ({self.url}); try again later"
        return self.advisory(f"afterrun.sweep.{self.schema}", held=held)

    @contextmanager
    def advisory(self, text: str, *, held: str) -> Iterator[None]:
        """Hold the session lock that a text names. Raises `StoreLocked`, saying ``held``."""
        key = int.from_bytes(sha256(text.encode()).digest()[:8], "big", signed=True)
        with session.advisory_lock(self.driver, key, held=held):
            yield

    def tie(self, table: str, alias: str, key: Column) -> Column:  # noqa: ARG002 - SQLite needs them
        """Return the key."""
        return key

    def hint(self, statement: sa.Select[Any], table: sa.FromClause, index: str | None) -> sa.Select[Any]:  # noqa: ARG002 - no hints here
        """Return the statement as it is: PostgreSQL takes no hints."""
        return statement

    def keys_in(self, column: Column, parameter: str = "keys") -> Column:
        """Compare with one bound array of text, cast to the column's type; what cannot be cast is no key."""
        return postgres_keys.among(column, sa.bindparam(parameter))

    def among(self, column: Column, values: sa.Select[Any]) -> Column:
        """Make an array of the values: for a join, a planner may read all of a column that is mostly NULL."""
        return column == sa.func.any(sa.func.array(values.scalar_subquery()))

    def bind_keys(self, keys: Sequence[Key]) -> object:
        """Return the keys as the server writes an array of text: a list would be escaped key by key."""
        texts = [key if isinstance(key, str) else key_text(key) for key in keys]
        if self._codec is not None:
            texts = [text for text in texts if fits(text, self._codec)]
        if not texts:
            return "{}"
        joined = "\0".join(texts)  # which no key holds
        if "\\" in joined or '"' in joined:
            joined = joined.replace("\\", "\\\\").replace('"', '\\"')
        return '{"' + joined.replace("\0", '","') + '"}'

    def same_key(self, column: Column, key: Column) -> Column:
        """Compare the two; a key of another type is cast to that of the column, if that type knows it."""
        return postgres_keys.same(column, key)

    def rows_in(self, columns: Sequence[Column], parameter: str = "keys") -> Column:
        """Compare with a JSON array of arrays, each value cast to the type of its column."""
        return postgres_keys.rows_among(columns, sa.bindparam(parameter))

    def bind_rows(self, keys: Sequence[Key]) -> object:
        """Return the keys as a JSON array of arrays."""
        return json.dumps(keys, ensure_ascii=False)

    def parameter(self, name: str, value: Scalar) -> Column:  # noqa: ARG002 - SQLite needs it
        """Return a parameter whose type the server takes from what it is compared with."""
        return sa.bindparam(name, type_=sa.types.NullType())

    def bind(self, value: Scalar) -> object:
        """Return a value."""
        return value

    def instant(self, column: Column, spelling: EndFormat) -> Column:
        """Return microseconds; what makes no sense as a time is `UNREADABLE`."""
        return postgres_times.instant(column, spelling)

    def newest(self, column: Column, spelling: EndFormat) -> Column:
        """Return the newest of a group; of a type of time, only that one is read."""
        return postgres_times.newest(column, spelling)

    def bound(self, instant: Instant, column: Column, spelling: EndFormat) -> object:
        """Return a raw value that is later than every earlier one."""
        return postgres_times.bound(instant, column, spelling)

    def order_key(self, column: Column) -> Column:
        """Compare text by its bytes, whatever the column's own collation."""
        if isinstance(column.type, Stored) and column.type.kind == "number":
            return column
        return sa.collate(sa.cast(column, sa.Text()), "C")

    def length(self, columns: Sequence[Column]) -> Column:
        """Return the bytes of content as they are stored, compressed where the server compresses."""
        lengths = [sa.func.coalesce(sa.func.pg_column_size(column), 0) for column in columns]
        total: Column = lengths[0]
        for length in lengths[1:]:
            total = total + length
        return sa.cast(total, sa.BigInteger)

    def held_by(
        self, live: sa.CompoundSelect[Any], *, owner: Column, column: Column, tests: Sequence[Column]
    ) -> sa.Select[Any]:
        """Go from each live run to its own rows: without the OFFSET, the server may hash the whole table."""
        runs = live.subquery("live")
        one = sa.select(column.label("held")).where(owner == next(iter(runs.c)), *tests)
        rows = one.offset(sa.literal_column("0")).lateral("rows")
        held = rows.c.held
        return sa.select(held).select_from(runs.join(rows, sa.true())).where(self.keys_in(held))

    def execute(self, statement: sa.Executable, parameters: Mapping[str, object] | None = None) -> Rows:
        """Read all rows. Outside `locked`, each statement sees the newest state."""
        self.hurry()
        with classified():
            self._steer(parameters or ())
            return self._connection.execute(statement, parameters or {}).all()

    def _steer(self, parameters: Collection[str]) -> None:
        """Tell the planner the way of a statement with these parameters, unless a batch has told it."""
        way = next((name for name in WAYS if name in parameters), "")
        if self._deadline is None and self._way != way:
            self.driver.execute(WAYS[way])
            self._way = way

    def change(self, statement: sa.Executable, parameters: Mapping[str, object]) -> int:
        """Change rows within `locked`."""
        self.hurry()
        with classified():
            return self._connection.execute(statement, parameters).rowcount

    def hurry(self) -> None:
        """Give the next statement of a batch what is left of its time. Raises `UnitFailure` if nothing is."""
        if self._connection.invalidated:
            raise _lost()
        if self.halt():
            raise StoreFailure("halted", "the host shuts down")
        if self._deadline is None:
            return
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise UnitFailure("timeout", "the batch took too long")
        if left >= self._allowed:
            return
        self._allowed = left * SHARE
        with classified():
            self.driver.execute(_timeout(self._allowed))

    def new_versions(self, tables: Sequence[str]) -> int:
        """Ask the server for what it has counted, which it does unless a superuser has told it not to."""
        self.hurry()
        with classified():
            row = self.driver.execute(
                "SELECT coalesce(sum(pg_catalog.pg_stat_get_xact_tuples_updated(t)), 0)::bigint"
                " FROM unnest(%s::oid[]) AS t",
                ([self._reflected.oids[table] for table in tables],),
            ).fetchone()
        return int(row[0]) if row else 0

    def mark(self) -> object:
        """Return nothing: a server has no such count of one schema."""
        return None

    @contextmanager
    def locked(self, seconds: float, *, wait: float | None = None) -> Iterator[None]:  # noqa: ARG002 - lock_timeout bounds every wait
        """Run one transaction: commit at the end, roll back on an exception, within ``seconds``."""
        driver = self.driver
        limit = int((seconds + IDLE_SECONDS) * 1_000)
        newer = [f"SET LOCAL transaction_timeout = {limit}".encode()] if self._has_transaction_timeout else []
        with classified():
            begin = b"BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
            names = [session.names_within(self.schema)] if self.known_triggers else []
            later = [] if self._waits else [durability.LATER]
            driver.execute(b"; ".join([begin, *newer, *later, *names, IN_A_BATCH, _timeout(seconds * SHARE)]))
        self._deadline, self._allowed = time.monotonic() + seconds, seconds * SHARE
        try:
            yield
            self.hurry()
            self._deadline = None
            with classified():
                driver.execute("COMMIT")
        except BaseException:
            self._deadline = None
            self._roll_back()
            raise

    @contextmanager
    def asynchronous(self) -> Iterator[Callable[[], None]]:
        """Let batches commit without waiting for the disk, where this role can wait for all of them later."""
        self._waits = not durability.can_wait_later(self.driver)
        try:
            yield lambda: durability.wait(self.driver)
        finally:
            self._waits = True

    @property
    def _has_transaction_timeout(self) -> bool:
        return self.driver.info.server_version >= 170_000  # noqa: PLR2004 - PostgreSQL 17 brought it

    def _roll_back(self) -> None:
        """Undo the batch. Where the connection is gone, the server does."""
        self._way = None  # a setting made in a transaction goes with it
        with suppress(psycopg.Error, StoreFailure):
            if self.driver.info.transaction_status != TransactionStatus.IDLE:
                self.driver.execute("ROLLBACK")

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Read from one state of the store; nobody is kept from committing."""
        with classified():
            self.driver.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        try:
            with classified():  # a snapshot may stay idle while what it read is written elsewhere
                self.driver.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
            yield
            with classified():
                self.driver.execute("COMMIT")
        except BaseException:
            self._roll_back()
            raise

    def sql(self, statement: sa.ClauseElement) -> str:
        """Compile a statement, its constants written out."""
        return str(statement.compile(self._engine, compile_kwargs={"render_postcompile": True}))

    def explain(self, statement: sa.ClauseElement, parameters: Mapping[str, object]) -> Sequence[str]:
        """Return the lines of EXPLAIN."""
        compiled = statement.compile(self._engine, compile_kwargs={"render_postcompile": True})
        given = {**compiled.params, **parameters}
        with classified():
            self._steer(given)
            rows = self.driver.execute(f"EXPLAIN {compiled}".encode(), given).fetchall()
        return [line for (line,) in rows]

    def now(self) -> Instant:
        """Read the server's clock."""
        with classified():
            row = self.driver.execute(
                "SELECT (extract(epoch FROM pg_catalog.clock_timestamp()) * 1000000)::bigint"
            ).fetchone()
        return int(row[0]) if row else 0

    def settle(self) -> None:
        """Do nothing: the server writes back and vacuums by itself."""

    def sizes(self) -> Sizes:
        """Ask the server for the bytes of the schema's tables with their indexes."""
        with classified():
            row = self.driver.execute(
                "SELECT coalesce(sum(pg_catalog.pg_total_relation_size(t)), 0)::bigint"
                " FROM unnest(%s::oid[]) AS t",
                (list(self._reflected.oids.values()),),
            ).fetchone()
        return Sizes(total=int(row[0]) if row else 0, free=0)

    def space(self, tables: Sequence[str]) -> SchemaSpace:
        """Measure these tables, and what keeps their dead rows."""
        return measure(self.driver, self._reflected, tables)

    def table_sizes(self, *, exact: bool) -> Sequence[TableSize]:
        """Return the bytes of each table."""
        return table_sizes(self.driver, self._reflected, exact=exact)

    def rooms(self) -> Sequence[Room]:
        """Return nothing: a plain VACUUM needs no room, and none of it on this machine."""
        return ()

    def give_back(self, tables: Sequence[str], *, gate: Callable[[], bool], rest: float) -> GivenBack:
        """Vacuum these tables."""
        return give_back(self.driver, self._reflected, tables, gate=gate, rest=rest)

    def problems(self) -> Iterator[str]:
        """Ask the server for what it knows of broken indexes, foreign keys and unfinished work."""
        yield from problems(self.driver, list(self._reflected.oids.values()))

    def close(self) -> None:
        """Let go of the connection, and with it of its locks."""
        with suppress(psycopg.Error, sa.exc.DBAPIError):  # it may be lost already
            self._connection.close()
        self._engine.dispose()


def _lost() -> StoreFailure:
    return StoreFailure("lost-connection", "the connection to the server is closed")


def _timeout(seconds: float) -> bytes:
    return f"SET LOCAL statement_timeout = {max(int(seconds * 1_000), 1)}".encode()
