"""What SQLite itself finds wrong with a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from afterrun.core.errors import StoreFailure

FOUND: Final = 20
"""Faults after which the check of a file's structure ends."""


def problems(ask: Callable[[str], Sequence[Any]]) -> Iterator[str]:
    """Run its checks of structure and foreign keys; damage that stops a check is a fault it found.

    ``ask`` runs a statement and returns its rows.
    """
    try:
        for (line,) in ask(f"PRAGMA integrity_check({FOUND})"):
            if line != "ok":
                yield f"integrity: {line}"
        for table, parent, count in ask(
            'SELECT "table", parent, count(*) FROM pragma_foreign_key_check GROUP BY 1, 2'
        ):
            yield f"foreign keys: {count} rows of {table} refer to rows of {parent} that are gone"
    except StoreFailure as error:
        if error.kind != "corrupt":
            raise
        yield f"integrity: {error}"
