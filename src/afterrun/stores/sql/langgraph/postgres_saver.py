"""The PostgreSQL saver: checkpoints and metadata as JSONB, most values in a table that checkpoints share."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB

from afterrun.profiles.langgraph import (
    DELTA_MARKS,
    PEEK,
    Checkpoint,
    Metadata,
    Outline,
    outline_of_json,
)
from afterrun.profiles.langgraph.keep import SENDS_INSIDE
from afterrun.stores.sql.binding import Binding
from afterrun.stores.sql.dialect import Column
from afterrun.stores.sql.langgraph.saver import LeftOut
from afterrun.stores.sql.literals import literal

EMPTY: Final = "empty"
"""Type of a shared value that is none."""

MAX_DIGITS: Final = 6
PLAIN_VERSION: Final = str(SENDS_INSIDE)


class PostgresSaver:
    """Tables of the package langgraph-checkpoint-postgres."""

    writes = "checkpoint_writes"
    blobs: str | None = "checkpoint_blobs"

    def __init__(self, binding: Binding) -> None:
        """Take the tables."""
        self._binding = binding

    def version(self, name: Column) -> Column | None:
        """Return a hash of the id and of the transaction that wrote the row."""
        writer = sa.cast(sa.cast(sa.literal_column("xmin"), sa.Text()), sa.BigInteger())
        return sa.func.hashtextextended(sa.collate(name, "C"), writer)

    def payload(self, table: sa.FromClause, most: int) -> tuple[Column, ...]:
        """Return the text, and the first bytes of values that may run a node."""
        fits = sa.func.pg_column_size(table.c.checkpoint) <= literal(most)
        text = sa.func.left(sa.cast(table.c.checkpoint, sa.Text()), most + 1)
        return sa.case((fits, text)), self._triggers(table)

    def outline(self, columns: tuple[Any, ...], most: int) -> Outline:
        """Read the text."""
        text, triggers = columns
        if not isinstance(text, str) or len(text) > most:
            raise LeftOut(f"it is larger than {most} characters, or not there")
        found: Mapping[str, str] = json.loads(triggers or "{}")
        return outline_of_json(text, {channel: bytes.fromhex(value) for channel, value in found.items()})

    def gathered(self, table: sa.FromClause, most: int) -> tuple[Column, ...]:  # noqa: ARG002 - the server looks
        """Return whether there is a snapshot."""
        return (self._snapshot(table),)

    def has_snapshot(self, columns: tuple[Any, ...], most: int) -> bool:  # noqa: ARG002 - the server looked
        """Return it."""
        return bool(columns[0])

    def slim(self, table: sa.FromClause) -> tuple[Column, ...]:
        """Return kinds of metadata and parents, marks of a DeltaChannel, root, and version of the format."""
        metadata = _json(table.c.metadata)
        parents = metadata.op("->")(literal("parents"))
        marks = [sa.func.jsonb_exists(metadata, literal(mark)) for mark in DELTA_MARKS]
        return (
            sa.func.jsonb_typeof(metadata),
            sa.func.jsonb_typeof(parents),
            sa.or_(*marks),
            parents.op("->>")(literal("")),
            sa.func.left(_json(table.c.checkpoint).op("->>")(literal("v")), MAX_DIGITS),
        )

    def checkpoint(self, row: Sequence[Any]) -> Checkpoint:
        """Read what the server took out of the row."""
        _, namespace, name, parent, kind, parents, delta, root, version = row
        if version == PLAIN_VERSION and kind == "object" and parents == "object" and not delta and not root:
            return Checkpoint(namespace, name, parent)
        readable = kind == "object" and parents in ("object", "null", None)
        known = version is not None and version.isascii() and version.isdecimal()
        told = Metadata(bool(delta), root or None, readable)
        return Checkpoint(namespace, name, parent, told, int(version) if known else None)

    def _triggers(self, table: sa.FromClause) -> Column:
        """Return, by channel, the first bytes in hexadecimal of the head's values that may run a node."""
        blobs = self._binding.table(str(self.blobs), "b")
        each = self._each(table, "channel_versions", "jsonb_each_text", sa.Text())
        named = sa.or_(
            *(each.c.key == literal(name) for name in ("__start__", "__pregel_tasks")),
            *(each.c.key.like(literal(pattern)) for pattern in ("branch:%%", "start:%%", "join:%%")),
        )
        start = sa.func.substr(sa.func.coalesce(blobs.c.blob, sa.literal_column("''::bytea")), 1, PEEK)
        return (
            sa.select(
                sa.cast(
                    sa.func.jsonb_object_agg(blobs.c.channel, sa.func.encode(start, literal("hex"))),
                    sa.Text(),
                )
            )
            .select_from(each)
            .join(blobs, sa.and_(*self._its_blob(blobs, table), blobs.c.channel == each.c.key))
            .where(blobs.c.version == each.c.value, blobs.c.type != literal(EMPTY), named)
            .correlate(table)
            .scalar_subquery()
        )

    def _snapshot(self, table: sa.FromClause) -> Column:
        """Return whether a value is a bare ``true`` with a value behind it: so a snapshot is marked."""
        checkpoint = _json(table.c.checkpoint)
        marked = sa.func.jsonb_path_exists(
            checkpoint, sa.literal_column("'$.channel_values.* ? (@ == true)'::jsonpath")
        )
        blobs = self._binding.table(str(self.blobs), "b")
        each = self._each(table, "channel_values", "jsonb_each", JSONB())
        version = checkpoint.op("->")(literal("channel_versions")).op("->>")(each.c.key)
        behind = (
            sa.select(sa.literal_column("1"))
            .select_from(each)
            .join(blobs, sa.and_(*self._its_blob(blobs, table), blobs.c.channel == each.c.key))
            .where(each.c.value == sa.literal_column("'true'::jsonb"), blobs.c.version == version)
            .correlate(table)
            .exists()
        )
        return sa.case((marked, behind), else_=sa.false())

    @staticmethod
    def _its_blob(blobs: sa.FromClause, table: sa.FromClause) -> list[Column]:
        return [blobs.c[name] == table.c[name] for name in ("thread_id", "checkpoint_ns")]

    @staticmethod
    def _each(table: sa.FromClause, part: str, function: str, kind: sa.types.TypeEngine[Any]) -> Any:  # noqa: ANN401 - SQLAlchemy's own
        """Return the entries of an object of a checkpoint; what is no object has none."""
        found = _json(table.c.checkpoint).op("->")(literal(part))
        safe = sa.case(
            (sa.func.jsonb_typeof(found) == literal("object"), found),
            else_=sa.literal_column("'{}'::jsonb"),
        )
        columns = sa.column("key", sa.Text()), sa.column("value", kind)
        return getattr(sa.func, function)(safe).table_valued(*columns, name="each").render_derived()


def _json(column: Column) -> Column:
    return sa.cast(column, JSONB())
