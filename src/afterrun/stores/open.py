"""Open a store from what a person types: a SQLAlchemy URL or a path."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from afterrun.core.errors import StoreUnreadable, UsageError
from afterrun.profiles import Profile, built_in_names, detect, load_built_in, load_file
from afterrun.stores.sql.sqlite import SQLite
from afterrun.stores.sql.store import SqlStore


def open_store(
    location: str, *, profile: str | None = None, writable: bool = False, schema_unverified: bool = False
) -> SqlStore:
    """Open the store at a URL or path.

    ``profile`` is a name, or a path that ends in ``.toml``; without it the store's tables tell.
    ``writable`` asks for the right to remove; without it nothing can be written through the store.
    ``schema_unverified`` admits a schema version that was never read.

    Raises `StoreUnreadable`, `ProfileError`, `UsageError`, and `Refused` where the rights do not suffice.
    """
    dialect = SQLite(_sqlite_path(location), writable=writable)
    try:
        chosen = _choose(profile, dialect)
        return SqlStore(dialect, chosen, schema_unverified=schema_unverified)
    except BaseException:
        dialect.close()
        raise


def read_profile(profile: str) -> Profile:
    """Return a profile by its name or by the path of its file. Raises `ProfileError`."""
    if profile.endswith(".toml") or "/" in profile:
        return load_file(Path(profile))
    return load_built_in(profile)


def _choose(profile: str | None, dialect: SQLite) -> Profile:
    if profile is not None:
        return read_profile(profile)
    return detect(dialect.shapes, [load_built_in(name) for name in built_in_names()])


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
            "sqlite:/// URL of a SQLite file"
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
        return make_url(location)
    except (ArgumentError, ValueError):
        raise UsageError("the store is no valid URL: write sqlite:////absolute/path or a path") from None
