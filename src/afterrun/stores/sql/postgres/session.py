"""The one connection to a PostgreSQL server: how it is made, and what must be known before it is trusted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from typing import Any, Final

import psycopg
import sqlalchemy as sa
from psycopg import postgres, sql
from sqlalchemy.engine import URL
from sqlalchemy.pool import StaticPool

from afterrun.core.errors import StoreLocked
from afterrun.stores.sql.postgres.errors import classified, opening_error
from afterrun.stores.sql.postgres.texts import loaders

APPLICATION: Final = "afterrun"
CONNECT: Final[Mapping[str, Any]] = {
    "prepare_threshold": None,
    "connect_timeout": 10,
    "client_encoding": "utf8",
}
"""How every connection is made; the time-out is in seconds for each address of the server."""

SET: Final = "SELECT pg_catalog.set_config(%s, %s, false)"

DRIVER: Final = "postgresql+psycopg"

AS_THEY_ARE: Final = ("int2", "int4", "int8", "oid", "float4", "float8", "bool", "bytea")
"""Types whose values come as numbers, truth values or bytes; all others come as the server writes them."""

SETTINGS: Final[Mapping[str, str]] = {
    "statement_timeout": "0",  # first of all: a time-out of the role's may be short
    "transaction_timeout": "0",
    "idle_session_timeout": "0",  # a sweep rests between two batches
    "application_name": APPLICATION,
    "search_path": "pg_catalog, pg_temp",  # every other name is qualified
    "row_security": "off",  # rows that a policy would hide are an error, never a smaller answer
    "jit": "off",  # costs more than these statements take
    "standard_conforming_strings": "on",
    "default_transaction_isolation": "read committed",
    "timezone": "UTC",
    "datestyle": "ISO",
    "intervalstyle": "postgres",
    "extra_float_digits": "1",
    "bytea_output": "hex",
    "client_min_messages": "error",
    "lock_timeout": "1500ms",
    "idle_in_transaction_session_timeout": "2s",
}

WISHES: Final[Mapping[str, str]] = {
    "client_connection_check_interval": "1s",  # a statement ends soon after its client; not on every system
}

PROBES: Final = 4
"""Connections that try to be given the server process of ours, as a transaction-pooling proxy would do."""


def engine_for(url: URL) -> sa.Engine:
    """Return an engine with one connection, in autocommit, without statements prepared on the server.

    A statement is planned for the keys it has: a plan made for any keys may scan a table.
    """
    return sa.create_engine(
        url.set(drivername=DRIVER),
        poolclass=StaticPool,
        isolation_level="AUTOCOMMIT",
        hide_parameters=True,
        connect_args={**CONNECT, "autocommit": True},
    )


def prepare(driver: psycopg.Connection[Any], *, writable: bool) -> None:
    """Make this session's settings, and let values come as the server writes them.

    Without ``writable`` the server itself sees to it that nothing is written.
    """
    text, fixed = loaders(driver)
    for info in postgres.types:
        if info.name not in AS_THEY_ARE:
            driver.adapters.register_loader(info.oid, text)
        if info.array_oid:
            driver.adapters.register_loader(info.array_oid, text)
    driver.adapters.register_loader("bpchar", fixed)
    names = driver.execute("SELECT pg_catalog.lower(name) FROM pg_catalog.pg_settings").fetchall()
    known = {name for (name,) in names}  # of which some are spelled DateStyle and TimeZone
    for name, value in SETTINGS.items():
        if name in known:
            driver.execute(SET, (name, value))
    if not writable:
        driver.execute(SET, ("default_transaction_read_only", "on"))
    for name, value in WISHES.items():
        with suppress(psycopg.DataError, psycopg.ProgrammingError):
            driver.execute(SET, (name, value))


def names_within(schema: str) -> bytes:
    """Return what lets the functions of an engine's triggers find its tables, as its own sessions do.

    For the rest of a transaction, and behind the server's own names.
    """
    return (
        sql.SQL("SET LOCAL search_path = pg_catalog, {}, pg_temp").format(sql.Identifier(schema)).as_bytes()
    )


def pinned(url: URL, driver: psycopg.Connection[Any]) -> bool:
    """Say whether this connection has a server process of its own.

    Directly connected, the process is the one that the protocol named. A proxy names none or another; then
    other connections begin transactions, and if one of them is given our process, or we another one, the
    proxy pools by transaction. Nothing is set meanwhile: it would stay behind in the pool.
    """
    process = backend(driver)
    if driver.info.backend_pid == process:
        return True
    others: list[psycopg.Connection[Any]] = []
    try:
        for _ in range(PROBES):
            other = connect(url, autocommit=False)  # begins a transaction at its first use
            others.append(other)
            if backend(other) == process or backend(driver) != process:
                return False
        return True
    finally:
        for other in others:
            other.close()


def backend(driver: psycopg.Connection[Any]) -> int:
    """Return the server's process behind a connection."""
    row = driver.execute("SELECT pg_catalog.pg_backend_pid()").fetchone()
    return int(row[0]) if row else 0


def connect(url: URL, *, autocommit: bool = True) -> psycopg.Connection[Any]:
    """Make a connection as the engine makes its own. Its words are handed over one by one, never as a URL."""
    words, named = url.set(drivername=DRIVER).get_dialect()().create_connect_args(url)
    return psycopg.connect(*words, **{**named, **CONNECT, "autocommit": autocommit})


@contextmanager
def advisory_lock(driver: psycopg.Connection[Any], key: int, *, held: str) -> Iterator[None]:
    """Hold a session advisory lock. Raises `StoreLocked`, saying ``held``, if it cannot be had at once.

    It lives on the connection that does the work, so that a lost connection is a lost lock.
    """
    with classified():
        row = driver.execute("SELECT pg_catalog.pg_try_advisory_lock(%s)", (key,)).fetchone()
    if row is None or not row[0]:
        raise StoreLocked(held)
    try:
        yield
    finally:
        with suppress(psycopg.Error):  # on a connection that is lost, it is free
            driver.execute("SELECT pg_catalog.pg_advisory_unlock(%s)", (key,))


def shown(url: URL, schema: str | None = None) -> str:
    """Write where a store is, without anything secret: parameters may hold a password, too."""
    named = url.set(drivername="postgresql", query={} if schema is None else {"schema": schema})
    return named.render_as_string(hide_password=True)


def schemas(driver: psycopg.Connection[Any]) -> list[str]:
    """Return the names of all schemas of a database."""
    rows = driver.execute("SELECT nspname::text FROM pg_catalog.pg_namespace").fetchall()
    return [name for (name,) in rows]


def schemas_with(url: URL, wanted: Sequence[frozenset[str]]) -> list[str]:
    """Return the schemas of a database that have all tables of one of these sets.

    Raises `StoreUnreadable` or `Refused` where it cannot be asked.
    """
    try:
        with closing(connect(url)) as driver:
            rows = driver.execute(
                "SELECT n.nspname, pg_catalog.array_agg(c.relname::text) FROM pg_catalog.pg_class c"
                " JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace"
                " WHERE c.relkind IN ('r', 'p') GROUP BY n.nspname ORDER BY n.nspname"
            ).fetchall()
    except (psycopg.Error, UnicodeDecodeError) as error:
        raise opening_error(error, shown(url)) from None
    return [name for name, tables in rows if any(group.issubset(tables) for group in wanted)]


def identity(driver: psycopg.Connection[Any], schema: str) -> str:
    """Return what names this very schema: of which cluster, database and name. A copy is another one."""
    row = driver.execute(
        "SELECT d.oid, d.datname,"
        " pg_catalog.has_function_privilege('pg_catalog.pg_control_system()', 'EXECUTE')"
        " FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database()"
    ).fetchone()
    number, name, may_ask = row or (0, "", False)
    cluster = f"{driver.info.host}:{driver.info.port}"
    if may_ask:
        found = driver.execute("SELECT system_identifier FROM pg_catalog.pg_control_system()").fetchone()
        cluster = str(found[0]) if found else cluster
    return f"postgresql:{cluster}/{number}-{name}/{schema}"
