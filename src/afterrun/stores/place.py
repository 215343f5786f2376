"""What names a store before it is opened, or where it cannot be opened: its place."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from afterrun.core.errors import UsageError
from afterrun.stores.open import SCHEMA, parse_url

NAMING: Final = (SCHEMA, "host", "hostaddr", "port", "dbname", "service")
"""Parameters of a server's URL that say which store it is; any other one may hold a password."""

FILE: Final = "sqlite:"
"""How the name of a SQLite file begins; the whole of it is what `SQLite.identity` is once it is open."""

DIRECTORY: Final = "directory:"
"""How the name of a directory begins, likewise."""


def place_of(location: str) -> str:
    """Return the real path of a file, or a server's URL without its user and what only says how to connect.

    Two locations of one store have one place. Raises `UsageError` for what can be no location.
    """
    if "\0" in location:
        raise UsageError("the store is a path with a NUL character in it")
    if "://" not in location:
        path = os.path.realpath(location)
        return f"{DIRECTORY if Path(path).is_dir() else FILE}{path}"
    url = parse_url(location)
    if url.get_backend_name() == "sqlite":
        return f"{FILE}{os.path.realpath(url.database or '')}"
    server = url.difference_update_query([name for name in url.query if name not in NAMING])
    kind = url.get_backend_name().replace("postgresql", "postgres")
    return server._replace(drivername=kind, username=None, password=None).render_as_string()
