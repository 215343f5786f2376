"""The SQLite dialect.

While this process is connected to a database file, nothing else here opens that file or its -wal, -shm or
-journal: closing any other descriptor of the file would drop the locks SQLite holds on it.
"""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, Final, TypeVar

import sqlalchemy as sa
from sqlalchemy.dialects.sqlite.base import SQLiteCompiler
from sqlalchemy.engine import URL
from sqlalchemy.pool import StaticPool
from sqlalchemy.sql import quoted_name
from sqlalchemy.sql.compiler import ExpandedState

from afterrun.core.errors import Refused, StoreFailure, StoreUnreadable, UnitFailure
from afterrun.core.facts import Key, Scalar
from afterrun.core.inspection import TableSize
from afterrun.core.space import FileSpace, GivenBack, Room
from afterrun.core.times import Instant
from afterrun.profiles import TableShape
from afterrun.profiles.registry import EndFormat
from afterrun.stores.sql.dialect import Column, Index, Rows, Sizes
from afterrun.stores.sql.sqlite import keys as sqlite_keys
from afterrun.stores.sql.sqlite import times as sqlite_times
from afterrun.stores.sql.sqlite.checks import problems
from afterrun.stores.sql.sqlite.errors import classified, opening_error
from afterrun.stores.sql.sqlite.files import BUSY_MS, address, check_file, decode, encode, is_broken
from afterrun.stores.sql.sqlite.schema import reflect, reflect_indexes
from afterrun.stores.sql.sqlite.space import give_back, measure, rooms
from afterrun.stores.sql.sqlite.tables import table_sizes
from afterrun.stores.sql.sqlite.trust import distrust

Answer = TypeVar("Answer")

BEGIN_TRIES: Final = 6
"""How often a lock is asked for, `BUSY_MS` each, before the store counts as busy."""

LOOKS: Final = 10
"""Looks at `halt` in the time of one such try for the write lock."""

CACHE_KIB: Final = 16_384
PROGRESS_STEPS: Final = 10_000
"""Virtual machine steps between looks at the deadline: well under a millisecond."""


class _HintedCompiler(SQLiteCompiler):
    """SQLAlchemy writes no table hints for SQLite; this writes them as they are."""

    def get_from_hint_text(self, table: sa.FromClause, text: str | None) -> str | None:  # noqa: ARG002
        return text


class SQLite:
    """One SQLite file, opened through its only connection."""

    name = "sqlite"
    schema = ""
    hold = 0.020
    readers_block = True
    index_orders_ties = True
    has_lateral = False
    known_triggers = False
    locks_rows = False
    returns_removed = sqlite3.sqlite_version_info >= (3, 35)
    new_versions = None

    def __init__(self, path: Path, *, writable: bool, recover: bool = True, tries: int = BEGIN_TRIES) -> None:
        """Open and reflect a file. Raises `StoreUnreadable`, or `Refused` where the rights do not suffice.

        SQLite puts a journal that a crash left into the file; with ``recover=False`` it may not. ``tries`` is
        how often a read asks for its lock, `BUSY_MS` each.
        """
        check_file(path)
        self.path: Path = Path(os.path.realpath(path))
        self._writable = writable
        self._recover = recover
        self._tries = tries
        self.halt: Callable[[], bool] = lambda: False
        self._deadline: float | None = None
        self._engine = sa.create_engine(
            "sqlite://", creator=self._connect, poolclass=StaticPool, hide_parameters=True
        )
        self._engine.dialect.statement_compiler = _HintedCompiler
        self._indexes: dict[str, Sequence[Index]] = {}
        try:
            self._connection = self._engine.connect()
            self._schema_version = self._driver.execute("PRAGMA schema_version").fetchone()[0]
            self.shapes: Mapping[str, TableShape] = reflect(self._driver)
        except (sqlite3.Error, sa.exc.DBAPIError) as error:
            self._engine.dispose()
            raise opening_error(error, path) from None
        except BaseException:
            self._engine.dispose()
            raise
        if self._driver.execute("PRAGMA encoding").fetchone()[0] != "UTF-8":
            self.close()
            raise StoreUnreadable(f"{path} holds its text in UTF-16; only databases in UTF-8 are read")
        self._wal = self._driver.execute("PRAGMA journal_mode").fetchone()[0] == "wal"

    def _connect(self) -> sqlite3.Connection:
        rights = os.W_OK | os.R_OK if self._writable else os.R_OK
        if not os.access(self.path, rights):
            raise Refused("rights", f"this user may not {'write' if self._writable else 'read'} {self.path}")
        connection = sqlite3.connect(
            address(self.path, recover=self._recover),
            uri=True,
            isolation_level=None,
            check_same_thread=False,
            timeout=BUSY_MS / 1_000,
        )
        try:
            self._prepare(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        connection.text_factory = decode
        distrust(connection)
        settings = [
            "foreign_keys=ON",
            f"cache_size=-{CACHE_KIB}",
            "temp_store=FILE",  # a small table stays in memory all the same
            "wal_autocheckpoint=0",
        ]
        settings.append("secure_delete=FAST" if self._writable else "query_only=ON")
        for setting in settings:
            connection.execute(f"PRAGMA {setting}")
        pages, size = (
            connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size")
        )
        wal = Path(f"{self.path}-wal")
        if self.path.stat().st_size < pages * size and not (wal.exists() and wal.stat().st_size):
            raise StoreUnreadable(
                f"{self.path} is truncated: it says that it has {pages} pages of {size} bytes"
            )
        connection.set_progress_handler(self._overdue, PROGRESS_STEPS)

    def secure_delete(self) -> None:
        """Overwrite removed content on disk, at the price of more writing."""
        self._ask("PRAGMA secure_delete=ON")

    @property
    def _driver(self) -> sqlite3.Connection:
        if not self._connection.closed:
            driver: object = self._connection.connection.dbapi_connection
            if isinstance(driver, sqlite3.Connection):
                return driver
        raise StoreFailure("lost-connection", "the connection to the database is closed")

    @property
    def url(self) -> str:
        """Return the file as a SQLAlchemy URL."""
        return URL.create("sqlite", database=str(self.path)).render_as_string(hide_password=True)

    @property
    def identity(self) -> str:
        """Return the real path: a copy elsewhere is another store."""
        return f"sqlite:{self.path}"

    def named(self, table: str, *, schema: str | None = None) -> sa.TableClause:
        """Return a table with its real columns; values keep the types the database has, not declared ones."""
        columns: list[sa.ColumnClause[Any]] = [
            sa.column(quoted_name(column, quote=True)) for column in self.shapes[table].columns
        ]
        return sa.table(quoted_name(table, quote=True), *columns, schema=schema)

    def obstacles(self, tables: Sequence[str], *, locked: str | None, emptied: object = ()) -> Sequence[str]:  # noqa: ARG002 - for servers
        """Return nothing: who may write the file may remove any row."""
        return ()

    def check_reading(self, tables: Sequence[str]) -> None:
        """Do nothing: who may read the file sees every row."""

    def notices(self) -> Sequence[str]:
        """Return nothing."""
        return ()

    def sweep_lock(self) -> AbstractContextManager[None] | None:
        """Return nothing: the lock is a file beside the database."""
        return None

    def advisory(self, text: str, *, held: str) -> AbstractContextManager[None]:  # noqa: ARG002 - for servers
        """Hold nothing: SQLite has no locks of that kind, so no engine takes one."""
        return nullcontext()

    def indexes(self, table: str) -> Sequence[Index]:
        """Return the indexes of a table."""
        if table not in self._indexes:
            self._indexes[table] = reflect_indexes(self._driver, table)
        return self._indexes[table]

    def tie(self, table: str, alias: str, key: Column) -> Column:
        """Return the rowid, by which every index orders equal entries; the key where a table has none."""
        shape = self.shapes[table]
        taken = {column.lower() for column in shape.columns}
        free = [name for name in ("rowid", "_rowid_", "oid") if name not in taken]
        return sa.literal_column(f"{alias}.{free[0]}") if shape.has_rowid and free else key

    def hint(self, statement: sa.Select[Any], table: sa.FromClause, index: str | None) -> sa.Select[Any]:
        """Name the index: after ANALYZE, SQLite takes a mostly NULL one for useless and scans the table."""
        if index is None:
            return statement
        quoted = self._engine.dialect.identifier_preparer.quote_identifier(index).replace("%", "%%")
        return statement.with_hint(table, f"INDEXED BY {quoted}", "sqlite")

    def keys_in(self, column: Column, parameter: str = "keys") -> Column:
        """Compare with a JSON array, so that any number of keys is one parameter."""
        return sqlite_keys.among(column, sa.bindparam(parameter))

    def bind_keys(self, keys: Sequence[Key]) -> object:
        """Return the keys as a JSON array."""
        return json.dumps(list(keys), ensure_ascii=False)

    def among(self, column: Column, values: sa.Select[Any]) -> Column:
        """Name the values in a sub-select, which SQLite reads first."""
        return column.in_(values)

    def same_key(self, column: Column, key: Column) -> Column:
        """Compare the two, which SQLite does for any types."""
        return key == column

    def rows_in(self, columns: Sequence[Column], parameter: str = "keys") -> Column:
        """Compare with a JSON array of arrays."""
        return sqlite_keys.rows_among(columns, sa.bindparam(parameter), is_text=self._is_text)

    def _is_text(self, column: Column) -> bool:
        """Say whether a column of a real table makes text of all values but NULL and bytes."""
        table = getattr(column, "table", None)
        real = table.element if isinstance(table, sa.Alias) else table
        name = str(getattr(real, "name", ""))
        return name in self.shapes and self.shapes[name].kinds.get(str(column.key)) == "text"

    def bind_rows(self, keys: Sequence[Key]) -> object:
        """Return the keys as a JSON array of arrays."""
        return json.dumps(keys, ensure_ascii=False)

    def parameter(self, name: str, value: Scalar) -> Column:
        """Return a parameter; text that is no UTF-8 can only be bound as bytes."""
        parameter: sa.BindParameter[Any] = sa.bindparam(name)
        return sa.cast(parameter, sa.Text()) if is_broken(value) else parameter

    def bind(self, value: Scalar) -> object:
        """Return a value; text that is no UTF-8 as the bytes it was read from."""
        return encode(value) if is_broken(value) else value

    def instant(self, column: Column, spelling: EndFormat) -> Column:
        """Return microseconds; what makes no sense as a time is `UNREADABLE`."""
        return sqlite_times.instant(column, spelling)

    def newest(self, column: Column, spelling: EndFormat) -> Column:
        """Return the newest of a group: each is read by itself, since text does not sort by time."""
        return sqlite_times.newest(column, spelling)

    def bound(self, instant: Instant, column: Column, spelling: EndFormat) -> object:  # noqa: ARG002 - has no type here
        """Return a raw value that is later than every earlier one."""
        return sqlite_times.bound(instant, spelling)

    def order_key(self, column: Column) -> Column:
        """Compare text by its bytes, whatever the column's own collation."""
        return sa.collate(column, "BINARY")

    def length(self, columns: Sequence[Column]) -> Column:
        """Return the bytes of content, as stored: text in UTF-8, numbers as their digits."""
        lengths = [sa.func.coalesce(sa.func.length(sa.cast(column, sa.LargeBinary)), 0) for column in columns]
        total: Column = lengths[0]
        for length in lengths[1:]:
            total = total + length
        return total

    def held_by(
        self, live: sa.CompoundSelect[Any], *, owner: Column, column: Column, tests: Sequence[Column]
    ) -> sa.Select[Any]:
        """Name the live keys in a sub-select, which SQLite reads first."""
        return sa.select(column).where(self.keys_in(column), *tests, owner.in_(live))

    def execute(self, statement: sa.Executable, parameters: Mapping[str, object] | None = None) -> Rows:
        """Read all rows; outside `locked`, the read ends with this call."""
        return self._patiently(lambda: self._connection.execute(statement, parameters or {}).all())

    def change(self, statement: sa.Executable, parameters: Mapping[str, object]) -> int:
        """Change rows within `locked`."""
        with classified():
            return self._connection.execute(statement, parameters).rowcount

    def reader(self, statement: sa.ClauseElement) -> Callable[[object], Iterator[Any]]:
        """Compile a statement whose one parameter is an array of keys, to be run again and again.

        What it returns yields rows one by one, each as a plain tuple of what is stored.
        """
        whole = self._expanded(statement, {})
        marks = len(whole.positiontup or ())

        def read(keys: object) -> Iterator[Any]:
            with classified():
                yield from self._driver.execute(whole.statement, (keys,) * marks)

        return read

    @property
    def driver(self) -> sqlite3.Connection:
        """Return the only connection, for attaching other files and for online backups."""
        return self._driver

    @property
    def wal(self) -> bool:
        """Say whether readers let the engine commit meanwhile."""
        return bool(self._wal)

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Read from one state of the store. With a rollback journal nobody can commit meanwhile."""
        self._patiently(self._begin_reading)
        try:
            yield
            with classified():
                self._driver.execute("COMMIT")
        except BaseException:
            self._roll_back()
            raise

    def _begin_reading(self) -> None:
        self._driver.execute("BEGIN")
        try:
            self._driver.execute("SELECT 1 FROM main.sqlite_schema LIMIT 1").fetchall()
        except BaseException:
            self._roll_back()
            raise

    def _ask(self, text: str) -> Sequence[Any]:
        """Run a fixed statement, such as a PRAGMA, and read all rows."""
        return self._patiently(lambda: self._driver.execute(text).fetchall())

    def _patiently(self, run: Callable[[], Answer], *, tries: int | None = None) -> Answer:
        """Run a statement that needs a lock first. Raises `StoreFailure` if it cannot be had in 30 s.

        With a rollback journal, an engine under load leaves only moments between its commits. Within a batch
        there is one try: waiting longer would keep the engine out.
        """
        for _ in range(1 if self._driver.in_transaction else tries or self._tries):
            if self.halt():
                raise StoreFailure("halted", "the host shuts down")
            try:
                with classified():
                    return run()
            except UnitFailure as error:
                if error.kind != "lock" or self._driver.in_transaction:
                    raise
        raise StoreFailure("busy", f"another process held a lock for {BEGIN_TRIES * BUSY_MS // 1_000} s")

    def mark(self) -> object:
        """Return SQLite's count of what others committed, and that of rows which this connection changed."""
        return self._ask("PRAGMA main.data_version")[0][0], self._driver.total_changes

    @contextmanager
    def locked(self, seconds: float, *, wait: float | None = None) -> Iterator[None]:
        """Hold the write lock. Raises `StoreFailure` if it cannot be had in 30 s.

        With ``wait`` nothing waits longer than that, and the failure is a `UnitFailure`.
        """
        if wait is None:
            self._begin_writing()
        else:
            self._begin_soon(wait)
        self._deadline = time.monotonic() + seconds
        try:
            with classified():
                self._check_schema()
                yield
                self._deadline = None
                if wait is not None:
                    self._driver.execute(f"PRAGMA busy_timeout={round(wait * 1_000)}")
                self._driver.execute("COMMIT")
        except BaseException:
            self._deadline = None
            self._roll_back()
            raise
        finally:
            if wait is not None:
                with suppress(sqlite3.Error, StoreFailure):
                    self._driver.execute(f"PRAGMA busy_timeout={BUSY_MS}")

    def _begin_writing(self, *, tries: int = BEGIN_TRIES * LOOKS) -> None:
        """Wait for the write lock in short tries: SQLite asks nobody while it waits."""
        self._driver.execute(f"PRAGMA busy_timeout={BUSY_MS // LOOKS}")
        try:
            self._patiently(lambda: self._driver.execute("BEGIN IMMEDIATE"), tries=tries)
        finally:
            self._driver.execute(f"PRAGMA busy_timeout={BUSY_MS}")

    def _begin_soon(self, seconds: float) -> None:
        """Wait for the write lock for so long and no longer: another one is held meanwhile."""
        try:
            self._begin_writing(tries=max(1, round(seconds * 1_000 / (BUSY_MS // LOOKS))))
        except StoreFailure as failure:
            if failure.kind != "busy":
                raise
            raise UnitFailure("lock", "another process held a lock") from None

    def _check_schema(self) -> None:
        """Make sure that the tables are those the statements were made for. Raises `StoreFailure`."""
        version = self._driver.execute("PRAGMA schema_version").fetchone()[0]
        if version == self._schema_version:
            return
        if reflect(self._driver) != self.shapes:
            raise StoreFailure("schema-changed", "tables were changed during the sweep; run it again")
        self._schema_version = version

    def _roll_back(self) -> None:
        """Undo the batch. A failure here changes nothing: the next to open the file undoes it then."""
        with suppress(sqlite3.Error, StoreFailure):
            if self._driver.in_transaction:
                self._driver.execute("ROLLBACK")

    def _overdue(self) -> bool:
        return self.halt() or (self._deadline is not None and time.monotonic() > self._deadline)

    def sql(self, statement: sa.ClauseElement) -> str:
        """Compile a statement, its constants written out."""
        return str(self._expanded(statement, {}).statement)

    def explain(self, statement: sa.ClauseElement, parameters: Mapping[str, object]) -> Sequence[str]:
        """Return the details of EXPLAIN QUERY PLAN."""
        whole = self._expanded(statement, parameters)
        text = f"EXPLAIN QUERY PLAN {whole.statement}"
        with classified():
            return [row[3] for row in self._driver.execute(text, whole.positional_parameters)]

    def _expanded(self, statement: sa.ClauseElement, parameters: Mapping[str, object]) -> ExpandedState:
        compiled = statement.compile(self._engine)
        if not isinstance(compiled, SQLiteCompiler):
            raise TypeError(type(compiled))
        given = {name: parameters.get(name) for name, bind in compiled.binds.items() if bind.required}
        return compiled.construct_expanded_state(given)

    @contextmanager
    def asynchronous(self) -> Iterator[Callable[[], None]]:
        """Change nothing: whether a commit waits for the disk is the engine's setting of the file."""
        yield lambda: None

    def now(self) -> Instant:
        """Read this machine's clock: the engine writes its times by it."""
        return time.time_ns() // 1_000

    def settle(self) -> None:
        """Move committed pages from the WAL into the database, as far as readers allow."""
        if self._wal:
            self._ask("PRAGMA wal_checkpoint(PASSIVE)")

    def sizes(self) -> Sizes:
        """Ask the database for its pages; the file itself is never opened."""
        pages, free, size = (
            self._ask(f"PRAGMA {name}")[0][0] for name in ("page_count", "freelist_count", "page_size")
        )
        return Sizes(total=pages * size, free=free * size)

    def space(self, tables: Sequence[str] = ()) -> FileSpace:  # noqa: ARG002 - a file is one for all of them
        """Measure pages and files."""
        return measure(self._driver, self.path)

    def table_sizes(self, *, exact: bool) -> Sequence[TableSize]:
        """Return the bytes of each table."""
        space = self.space()
        return table_sizes(self._driver, self.shapes, live=space.live, page_size=space.page_size, exact=exact)

    def rooms(self) -> Sequence[Room]:
        """Return the room that giving free pages back needs."""
        return rooms(self.space(), self.path)

    def give_back(self, tables: Sequence[str], *, gate: Callable[[], bool], rest: float) -> GivenBack:
        """Give free pages back, in place."""
        return GivenBack(ended=give_back(self._driver, self.space(tables), gate=gate, rest=rest))

    def problems(self) -> Iterator[str]:
        """Run SQLite's integrity and foreign key checks; damage that stops a check is a fault it found."""
        return problems(self._ask)

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()
        self._engine.dispose()
