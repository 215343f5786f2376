"""Values that several checkpoints of a thread share: one goes when no checkpoint refers to it any more.

The engine stores a value and the first checkpoint that refers to it in one transaction, and a later
checkpoint refers to it only if the one that it follows does. So what no row refers to, within the
transaction that removed the last such row, is referred to by nobody.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB

from afterrun.core.facts import Key
from afterrun.core.tree import chunks
from afterrun.stores.sql.binding import Binding
from afterrun.stores.sql.dialect import Column
from afterrun.stores.sql.langgraph.places import threads_of
from afterrun.stores.sql.langgraph.saver import CHECKPOINTS, KEY
from afterrun.stores.sql.literals import literal
from afterrun.stores.sql.parts import plain_table

CHUNK: Final = 1_000
"""Threads whose references are held together."""


class SharedValues:
    """The statements that remove and count shared values."""

    def __init__(self, binding: Binding, name: str) -> None:
        """Compile them."""
        self.name = name
        self._dialect = binding.dialect
        self._rows = binding.table(CHECKPOINTS, "c")
        self._values = plain_table(binding, name)
        self.delete = sa.delete(self._values).where(*self._unreferenced())
        gone = self._dialect.rows_in([self._rows.c[name] for name in KEY], "gone")
        self._count = sa.select(sa.func.count()).select_from(self._values).where(*self._unreferenced(~gone))

    def _unreferenced(self, *but: Column) -> list[Column]:
        """Return the condition that no checkpoint refers to a value. The OFFSET makes it one hashed list."""
        rows, values = self._rows, self._values
        versions = sa.cast(rows.c.checkpoint, JSONB()).op("->")(literal("channel_versions"))
        safe = sa.case(
            (sa.func.jsonb_typeof(versions) == literal("object"), versions),
            else_=sa.literal_column("'{}'::jsonb"),
        )
        each = (
            sa.func.jsonb_each_text(safe)
            .table_valued(sa.column("key", sa.Text()), sa.column("value", sa.Text()), name="each")
            .render_derived()
        )
        kept = (
            sa.select(rows.c.thread_id, rows.c.checkpoint_ns, each.c.key, each.c.value)
            .select_from(rows.join(each, sa.true()))
            .where(self._dialect.keys_in(rows.c.thread_id, "threads"), *but)
            .offset(sa.literal_column("0"))
            .subquery("kept")
        )
        its = [
            kept.c.thread_id == values.c.thread_id,
            kept.c.checkpoint_ns == values.c.checkpoint_ns,
            kept.c.key == values.c.channel,
            kept.c.value == values.c.version,
        ]
        one: sa.Select[Any] = sa.select(sa.literal_column("1")).select_from(kept).where(*its)
        return [
            self._dialect.keys_in(values.c.thread_id, "threads"),
            ~one.correlate(values).exists(),
        ]

    def remove(self, threads: Sequence[Key]) -> int:
        """Remove the values of these threads that no checkpoint refers to."""
        return sum(
            self._dialect.change(self.delete, {"threads": self._dialect.bind_keys(chunk)})
            for chunk in chunks(threads, CHUNK)
        )

    def count(self, keys: Sequence[Key]) -> int:
        """Count the values that nothing would refer to if these checkpoints went."""
        total = 0
        for chunk in chunks(threads_of(keys), CHUNK):
            among = set(chunk)
            gone = [key for key in keys if isinstance(key, tuple) and key[0] in among]
            given = {"threads": self._dialect.bind_keys(chunk), "gone": self._dialect.bind_rows(gone)}
            total += int(self._dialect.execute(self._count, given)[0][0])
        return total
