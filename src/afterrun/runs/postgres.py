"""The run store in a schema of a PostgreSQL database. Nothing here knows of other databases."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY, insert
from sqlalchemy.engine import URL

from afterrun.core.errors import StoreFailure, UsageError
from afterrun.core.times import Instant
from afterrun.runs.columns import unique_rows

SCHEMA: Final = "afterrun"
"""The schema that the store has unless the URL says another."""

PARAMETER: Final = "schema"
"""Parameter of a URL that names it; it is ours, and not given to the server."""

NOW: Final = "CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint)"
CLOCK: Final = sa.text(f"SELECT {NOW}")
CLASSES: Final = {
    "08": "lost-connection",
    "23": "constraint",
    "25": "read-only",
    "28": "permission",
    "42": "schema-changed",
    "53": "disk-full",
    "57": "lost-connection",
}
BUSY: Final = {"40001": "serialization", "40P01": "deadlock", "55P03": "busy"}


class Postgres:
    """One schema. Writers of different trees do not wait for each other."""

    no_bytes = "''::bytea"
    locks_rows = True
    inserts_together = True
    clock: sa.ColumnElement[Any] = sa.literal_column(NOW)

    def __init__(self, url: URL) -> None:
        """Take the URL of a server. Raises `UsageError` where the driver is missing."""
        named = url.query.get(PARAMETER, SCHEMA)
        self.schema: str | None = named if isinstance(named, str) else named[0]
        self._url = url.difference_update_query([PARAMETER]).set(drivername="postgresql+psycopg")

    def engine(self) -> sa.Engine:
        """Return the engine. Tables are named with their schema, so no proxy can lose a setting."""
        try:
            engine = sa.create_engine(self._url, hide_parameters=True)
        except ModuleNotFoundError:
            raise UsageError("PostgreSQL needs its driver: pip install 'afterrun[postgres]'") from None
        return engine.execution_options(schema_translate_map={None: self.schema})

    def reader(self, engine: sa.Engine, *, one: bool) -> sa.Engine:
        """Return an engine whose transactions are one snapshot each, or that has none around a statement."""
        if one:
            return engine.execution_options(isolation_level="AUTOCOMMIT")
        return engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)

    def begin(self, connection: sa.Connection, *, writing: bool) -> None:
        """Do nothing: it begins in READ COMMITTED, where `locked` rows are read as they are."""

    def now(self, connection: sa.Connection) -> Instant:
        """Return the server's time: that of this moment, and not of the transaction's beginning."""
        moment: Instant = connection.execute(CLOCK).scalar_one()
        return moment

    def locked(self, statement: sa.Select[Any]) -> sa.Select[Any]:
        """Lock the rows that the statement returns; a sweep passes them by."""
        return statement.with_for_update()

    def among(self, column: sa.ColumnElement[Any], name: str) -> sa.ColumnElement[bool]:
        """Compare with the elements of an array."""
        return column == sa.any_(sa.bindparam(name, type_=ARRAY(sa.Text())))

    def listed(self, texts: Sequence[str]) -> object:
        """Return a list, which the driver sends as an array."""
        return list(texts)

    def insert_new(self, table: sa.Table, conflict: Sequence[str]) -> sa.Insert:
        """Return an insert that passes by rows that are there."""
        where = unique_rows(table, conflict)
        return insert(table).on_conflict_do_nothing(index_elements=conflict, index_where=where)

    def upsert(self, table: sa.Table, conflict: Sequence[str], update: Sequence[str]) -> sa.Insert:
        """Return an insert that updates the row that is there."""
        made = insert(table)
        return made.on_conflict_do_update(
            index_elements=conflict, set_={name: made.excluded[name] for name in update}
        )

    def reserve(self, table: sa.Table) -> sa.CompoundSelect[Any]:
        """Look for a blob and lock it; where there is none, take a number from the sequence."""
        wanted = sa.select(table.c.id, table.c.key_id).where(table.c.address == sa.bindparam("address"))
        there = wanted.with_for_update().cte("there")
        none = sa.select(*self.look(table), self.clock)
        none = none.where(~sa.exists(sa.select(there.c.id)))
        found = sa.select(there.c.id, there.c.key_id, sa.null().label("new"), self.clock.label("clock"))
        return found.union_all(none)

    def look(self, table: sa.Table) -> tuple[sa.ColumnElement[Any], ...]:
        """Take a number from the sequence."""
        return sa.null(), sa.null(), sa.Sequence(f"{table.name}_id_seq").next_value()

    def together(self, connection: sa.Connection) -> AbstractContextManager[object]:
        """Use the protocol's pipeline: each statement still sees what was committed before it began."""
        driver: Any = connection.connection.driver_connection
        pipeline: AbstractContextManager[object] = driver.pipeline()
        return pipeline

    def hold_table(self, connection: sa.Connection, table: sa.Table) -> None:
        """Lock a table: who wants to write, or to lock a row of it, waits."""
        name = connection.dialect.identifier_preparer.quote_identifier(table.name)
        schema = connection.dialect.identifier_preparer.quote_identifier(str(self.schema))
        connection.exec_driver_sql(f"LOCK TABLE {schema}.{name} IN EXCLUSIVE MODE")

    def is_there(self) -> bool:
        """Say yes: to connect makes nothing on a server."""
        return True

    def make_schema(self, connection: sa.Connection) -> None:
        """Make the schema; who may not make one needs it made by somebody else before."""
        if self.schema and not sa.inspect(connection).has_schema(self.schema):
            connection.execute(sa.schema.CreateSchema(self.schema, if_not_exists=True))

    def hold_upgrades(self, connection: sa.Connection, key: int) -> None:
        """Hold an advisory lock of this schema."""
        mine = sa.func.hashtext(str(self.schema))
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(sa.literal(key, sa.BigInteger()) + mine)))

    def failure(self, error: sa.exc.DBAPIError) -> StoreFailure:
        """Say what an error means."""
        state = getattr(error.orig, "sqlstate", None) or ""
        if state in BUSY:
            return StoreFailure(BUSY[state], "another transaction was in the way; try again")
        if not state:
            return StoreFailure("lost-connection", "there is no connection to the run store's server")
        kind = CLASSES.get(state[:2], "error")
        return StoreFailure(kind, f"the database refused a change of the run store (SQLSTATE {state})")
