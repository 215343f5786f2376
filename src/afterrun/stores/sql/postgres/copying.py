"""Rows on their way through PostgreSQL's COPY as text: a line a row, and no further when a host halts."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping
from typing import Final

from psycopg import sql

from afterrun.core.errors import StoreFailure
from afterrun.stores.sql.postgres.dialect import Postgres
from afterrun.stores.sql.postgres.errors import classified

LOOK: Final = 1_000
"""Rows between two looks at whether the host shuts down."""

BLOCK: Final = 65_536
"""Bytes that are given to COPY at once."""

FORMAT: Final = "(FORMAT text, ENCODING 'UTF8')"
NOTHING: Final = b"\\N"
"""How COPY writes NULL."""


def copied_out(
    dialect: Postgres, statement: bytes | sql.Composed, parameters: Mapping[str, object] | None = None
) -> Generator[bytes]:
    """Yield the rows of a COPY as they come. No other statement runs until this is at its end or closed."""
    dialect.hurry()
    with classified(), dialect.driver.cursor() as cursor, cursor.copy(statement, parameters) as copy:
        for number, row in enumerate(copy):
            if number % LOOK == 0 and dialect.halt():
                raise StoreFailure("halted", "the host shuts down")
            yield bytes(row)


def copied_in(dialect: Postgres, statement: sql.Composed, lines: Iterable[bytes]) -> int:
    """Let a COPY take rows in; return their number."""
    dialect.hurry()
    with classified(), dialect.driver.cursor() as cursor:
        with cursor.copy(statement) as copy:
            for block in blocks(lines):
                copy.write(block)
        return cursor.rowcount


def blocks(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Join rows, so that fewer and larger parts are written."""
    block: list[bytes] = []
    size = 0
    for line in lines:
        block.append(line)
        size += len(line)
        if size >= BLOCK:
            yield b"".join(block)
            block, size = [], 0
    yield b"".join(block)
