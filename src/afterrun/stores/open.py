"""Open a store from what a person types: a SQLAlchemy URL or a path."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from afterrun.core.errors import Refused, StoreUnreadable, UsageError
from afterrun.profiles import Profile, built_in_names, detect, load_built_in, load_file
from afterrun.stores.annexes import declared_by, reach_of
from afterrun.stores.sql.dialect import Dialect
from afterrun.stores.sql.made import sql_store
from afterrun.stores.sql.sqlite.dialect import SQLite
from afterrun.stores.sql.store import SqlStore

SCHEMA: Final = "schema"
"""Parameter of a PostgreSQL URL that names the schema; it is ours, and not given to the server."""


def open_store(
    location: str,
    *,
    profile: str | None = None,
    writable: bool = False,
    schema_unverified: bool = False,
    datasources: Sequence[str] = (),
) -> SqlStore:
    """Open the store at a URL or path.

    ``profile`` is a name, or a path that ends in ``.toml``; without it the store's tables tell.
    ``writable`` asks for the right to remove; without it nothing can be written through the store.
    ``schema_unverified`` admits a schema version that was never read. ``datasources`` are other databases
    with rows of its runs, by URL or path.

    Raises `StoreUnreadable`, `ProfileError`, `UsageError`, and `Refused` where the rights do not suffice.
    """
    url = _server_url(location)
    with ExitStack() as opened:
        if url is None:
            dialect = _in_file(location, writable=writable)
            opened.callback(dialect.close)
            given = None if profile is None else read_profile(profile)
        else:  # where the profile says which schema
            given = None if profile is None else read_profile(profile)
            dialect = _of_engine(url, given, writable=writable)
            opened.callback(dialect.close)
        chosen = given or detect(dialect.shapes, _built_in())
        others = []
        for datasource in datasources:
            others.append(_datasource(datasource, chosen, writable=writable))
            opened.callback(others[-1].close)
        reach = reach_of(others, chosen, dialect, schema_unverified=schema_unverified)
        store = sql_store(dialect, chosen, schema_unverified=schema_unverified, reach=reach)
        opened.pop_all()
    return store


def read_profile(profile: str) -> Profile:
    """Return a profile by its name or by the path of its file. Raises `ProfileError`."""
    if profile.endswith(".toml") or "/" in profile:
        return load_file(Path(profile))
    return load_built_in(profile)


def _built_in() -> list[Profile]:
    return [load_built_in(name) for name in built_in_names()]


def _in_file(location: str, *, writable: bool) -> Dialect:
    return SQLite(_sqlite_path(location), writable=writable, recover=writable)


def _server_url(location: str) -> URL | None:
    """Return the URL of a PostgreSQL server, or nothing for anything else."""
    if "://" not in location:
        return None
    url = parse_url(location)
    if url.get_backend_name() not in ("postgresql", "postgres"):
        return None
    if "@" in (url.host or ""):  # what stands before it may be the rest of a password
        raise UsageError("the URL has an @ in its user or password: write %40 for it there")
    return url


def _datasource(location: str, profile: Profile, *, writable: bool) -> Dialect:
    """Open another database with rows of runs. No lock there is long waited for: the store's is held."""
    declared = declared_by(profile)
    try:
        url = _server_url(location)
        if url is None:
            return SQLite(_sqlite_path(location), writable=writable, recover=writable, tries=1)
        named = next((part.schema_name for part in declared if part.schema_name), "public")
        wanted = [frozenset([part.table]) for part in declared]
        return _on_server(url, wanted, named, writable=writable)
    except StoreUnreadable as error:
        raise Refused(
            "datasource", f"the {declared[0].name} cannot be used, and nothing was removed: {error}"
        ) from None


def _of_engine(url: URL, profile: Profile | None, *, writable: bool) -> Dialect:
    """Connect to the schema of an engine's tables."""
    profiles = _built_in() if profile is None else [profile]
    named = [known.detect.schema_name for known in profiles if known.detect.schema_name]
    wanted = [tables for known in profiles for tables in known.detect.sets]
    return _on_server(url, wanted, next(iter(named), "public"), writable=writable)


def _on_server(url: URL, wanted: Collection[frozenset[str]], named: str, *, writable: bool) -> Dialect:
    """Connect to a schema: the one that the URL names, or the only one that has one of these sets of tables.

    ``named`` is the schema whose absence is told if there is none.
    """
    try:
        from afterrun.stores.sql.postgres import dialect as postgres  # noqa: PLC0415 - the driver is an extra
        from afterrun.stores.sql.postgres import session as postgres_session  # noqa: PLC0415 - the driver is an extra
    except ImportError:
        raise UsageError(
            "stores in PostgreSQL need the driver psycopg: pip install 'afterrun[postgres]'"
        ) from None
    schema = url.query.get(SCHEMA)
    url = url.difference_update_query([SCHEMA])
    if isinstance(schema, tuple):
        raise UsageError(f"the URL names several schemas: {', '.join(schema)}; give one")
    if schema is None:
        found = postgres_session.schemas_with(url, list(wanted))
        if len(found) > 1:
            raise UsageError(
                f"an engine's tables are in several schemas: {', '.join(found)}; say which, with "
                "?schema=NAME at the end of the URL"
            )
        schema = found[0] if found else named
    return postgres.Postgres(url, schema=schema, writable=writable)


def _sqlite_path(location: str) -> Path:
    """Return the database file that a location names. Raises `UsageError` for any other kind of store."""
    if "://" not in location:
        if not location or "\0" in location:
            raise UsageError("the store is an empty path or has a NUL character in it")
        return Path(location)
    url = parse_url(location)
    if url.get_backend_name() != "sqlite":
        raise UsageError(
            f"stores of the kind {url.get_backend_name()!r} are not supported; give the path or "
            "sqlite:/// URL of a SQLite file, or a postgresql:// URL"
        )
    if url.query:
        raise UsageError("a SQLite URL takes no parameters here: give sqlite:/// and the path alone")
    if "\0" in (url.database or ""):
        raise UsageError("the store is a path with a NUL character in it")
    if not url.database or url.database == ":memory:":
        raise StoreUnreadable("a SQLite store is a file: give sqlite:/// and its path")
    return Path(url.database)


def parse_url(location: str) -> URL:
    """Parse a URL without repeating it in the error, as it may hold a password. Raises `UsageError`."""
    try:
        url = make_url(location)
    except (ArgumentError, ValueError):
        raise UsageError("the store is no valid URL: write sqlite:////absolute/path or a path") from None
    if "%00" in location or "\0" in location:  # a driver would cut what follows, and go somewhere else
        raise UsageError("the store is a URL with a NUL character in it")
    return url
