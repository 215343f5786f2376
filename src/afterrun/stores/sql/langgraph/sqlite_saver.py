"""The SQLite saver: each checkpoint whole, as MessagePack, its metadata as JSON text in a BLOB."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import sqlalchemy as sa

from afterrun.profiles.langgraph import (
    MAX_METADATA,
    Checkpoint,
    Malformed,
    Outline,
    outline,
    read_metadata,
    version_of_prefix,
)
from afterrun.stores.sql.dialect import Column
from afterrun.stores.sql.langgraph.saver import LeftOut
from afterrun.stores.sql.literals import literal

MESSAGEPACK: Final = "msgpack"
PREFIX: Final = 8
"""First bytes of a payload, in which the version of its format stands."""

TOO_LARGE: Final = "too large"
"""What comes in the place of metadata that is not looked into: it is no JSON."""


class SqliteSaver:
    """Tables of the package langgraph-checkpoint-sqlite."""

    writes = "writes"
    blobs: str | None = None

    def version(self, name: Column) -> Column | None:  # noqa: ARG002 - SQLite tells of any change
        """Return nothing."""
        return None

    def payload(self, table: sa.FromClause, most: int) -> tuple[Column, ...]:
        """Return encoding and bytes."""
        size = sa.func.length(table.c.checkpoint)  # of a BLOB, this reads its header alone
        return table.c.type, sa.case((size <= literal(most), table.c.checkpoint))

    def outline(self, columns: tuple[Any, ...], most: int) -> Outline:
        """Walk over the bytes."""
        encoding, payload = columns
        if encoding != MESSAGEPACK:
            raise Malformed("it is encoded in another way than MessagePack")
        if payload is None:
            raise LeftOut(f"it is larger than {most} bytes, or not there")
        if not isinstance(payload, bytes):
            raise Malformed("it is no bytes")
        return outline(payload)

    def gathered(self, table: sa.FromClause, most: int) -> tuple[Column, ...]:
        """Return encoding and bytes."""
        return self.payload(table, most)

    def has_snapshot(self, columns: tuple[Any, ...], most: int) -> bool:
        """Look for it in the outline."""
        return self.outline(columns, most).snapshot

    def slim(self, table: sa.FromClause) -> tuple[Column, ...]:
        """Return encoding, first bytes, and metadata."""
        size = sa.func.length(table.c.metadata)
        metadata = sa.case((size > literal(MAX_METADATA), literal(TOO_LARGE)), else_=table.c.metadata)
        return table.c.type, sa.func.substr(table.c.checkpoint, 1, PREFIX), metadata

    def checkpoint(self, row: Sequence[Any]) -> Checkpoint:
        """Read metadata and the version of the format."""
        _, namespace, name, parent, encoding, prefix, metadata = row
        known = encoding == MESSAGEPACK and isinstance(prefix, bytes)
        told = read_metadata(metadata if isinstance(metadata, str | bytes | None) else TOO_LARGE)
        return Checkpoint(namespace, name, parent, told, version_of_prefix(prefix) if known else None)
