"""Find the database of a run store from what a person types."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.engine import URL, make_url

from afterrun.core.errors import StoreUnreadable, UsageError
from afterrun.runs.database import Dialect
from afterrun.runs.postgres import Postgres
from afterrun.runs.sqlite import SQLite


def dialect_of(location: str) -> Dialect:
    """Return the dialect for a URL, or for the path of a SQLite file. Raises `UsageError`."""
    if "://" not in location:
        return _in_file(location)
    try:
        url = make_url(location)
    except sa.exc.ArgumentError:
        raise UsageError("the location of the run store is no URL that can be read") from None
    backend = url.get_backend_name()
    if backend == "sqlite":
        return _in_file(url.database or "")
    if backend in ("postgresql", "postgres"):
        return Postgres(_plain(url))
    raise UsageError("a run store is a SQLite file, or a PostgreSQL database by URL")


def _plain(url: URL) -> URL:
    return url.set(drivername="postgresql")


def _in_file(path: str) -> Dialect:
    if path in ("", ":memory:") or path.startswith("file:"):
        raise UsageError("a run store needs a file of its own: give the path of one")
    folder = Path(path).expanduser().absolute()
    if not folder.parent.is_dir():
        raise StoreUnreadable(f"there is no folder {folder.parent} for the run store")
    return SQLite(folder)
