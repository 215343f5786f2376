"""What both of the engine's savers have in common: three questions about threads, as statements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol

import sqlalchemy as sa

from afterrun.profiles.langgraph import Checkpoint, Malformed, Outline
from afterrun.stores.sql.binding import Binding
from afterrun.stores.sql.dialect import Column
from afterrun.stores.sql.literals import literal

CHECKPOINTS: Final = "checkpoints"
KEY: Final = ("thread_id", "checkpoint_ns", "checkpoint_id")
ROOT: Final = ""


BOUND: Final = "bound"
"""Parameter for where a page begins. By this name a dialect knows that the statement follows an index."""

SMALL: Final = 32_768
"""Bytes of a checkpoint that is read together with others; a larger one is read alone."""


class LeftOut(Malformed):
    """A checkpoint was too large to be read with others, or at all."""


class Saver(Protocol):
    """One of the engine's savers: how it keeps payloads and metadata."""

    writes: str
    """Table of what tasks wrote to a checkpoint."""

    blobs: str | None
    """Table of values that several checkpoints share, where there is one."""

    def version(self, name: Column) -> Column | None:
        """Return a number for the row with this id that another version of the row would hardly have.

        Nothing where the database tells of any change.
        """

    def payload(self, table: sa.FromClause, most: int) -> tuple[Column, ...]:
        """Return what an outline is made of, a checkpoint larger than ``most`` left out."""

    def outline(self, columns: tuple[Any, ...], most: int) -> Outline:
        """Make an outline of these columns. Raises `LeftOut` and `Malformed`."""

    def gathered(self, table: sa.FromClause, most: int) -> tuple[Column, ...]:
        """Return what tells of a DeltaChannel's snapshot, a checkpoint larger than ``most`` left out."""

    def has_snapshot(self, columns: tuple[Any, ...], most: int) -> bool:
        """Tell it from these columns. Raises `LeftOut` and `Malformed`."""

    def slim(self, table: sa.FromClause) -> tuple[Column, ...]:
        """Return what decides about a checkpoint beside its key and its parent."""

    def checkpoint(self, row: Sequence[Any]) -> Checkpoint:
        """Make a checkpoint of thread, namespace, id, parent, and what `slim` names."""


def heads(binding: Binding, saver: Saver) -> sa.Select[Any]:
    """Return the statement that reads the heads of given threads.

    Its columns: thread, id of the head, newest and oldest id in any namespace, a channel that was written to
    the head, the newest id that anything was written to, payload.
    """
    threads = _grouped(binding)
    head = binding.table(CHECKPOINTS, "h")
    at = sa.and_(
        head.c.thread_id == threads.c.thread,
        head.c.checkpoint_ns == literal(ROOT),
        head.c.checkpoint_id == threads.c.head,
    )
    columns = [threads.c.thread, threads.c.head, threads.c.newest, threads.c.oldest]
    return sa.select(
        *columns,
        _written(binding, saver, threads).label("written"),
        _last_written(binding, saver, threads).label("last"),
        *saver.payload(head, SMALL),
    ).select_from(threads.outerjoin(head, at))


def _grouped(binding: Binding) -> sa.Subquery:
    rows = binding.table(CHECKPOINTS, "m")
    in_root = sa.case((rows.c.checkpoint_ns == literal(ROOT), rows.c.checkpoint_id))
    return (
        sa.select(
            rows.c.thread_id.label("thread"),
            sa.func.max(in_root).label("head"),
            sa.func.max(rows.c.checkpoint_id).label("newest"),
            sa.func.min(rows.c.checkpoint_id).label("oldest"),
        )
        .where(binding.dialect.keys_in(rows.c.thread_id))
        .group_by(rows.c.thread_id)
        .subquery("threads")
    )


def _written(binding: Binding, saver: Saver, threads: sa.Subquery) -> sa.ScalarSelect[Any]:
    writes = binding.table(saver.writes, "w")
    return (
        sa.select(sa.func.min(writes.c.channel))
        .where(
            writes.c.thread_id == threads.c.thread,
            writes.c.checkpoint_ns == literal(ROOT),
            writes.c.checkpoint_id == threads.c.head,
        )
        .correlate(threads)
        .scalar_subquery()
    )


def _last_written(binding: Binding, saver: Saver, threads: sa.Subquery) -> sa.ScalarSelect[Any]:
    writes = binding.table(saver.writes, "e")
    return (
        sa.select(sa.func.max(writes.c.checkpoint_id))
        .where(writes.c.thread_id == threads.c.thread)
        .correlate(threads)
        .scalar_subquery()
    )


def slim_rows(binding: Binding, saver: Saver) -> sa.Select[Any]:
    """Return the statement, without a condition, that reads checkpoints without their payloads.

    Its columns: thread, namespace, id, parent, and those of the saver. Its table is called ``c``.
    """
    rows = binding.table(CHECKPOINTS, "c")
    return sa.select(
        *(rows.c[name] for name in KEY), rows.c.parent_checkpoint_id, *saver.slim(rows)
    ).select_from(rows)
