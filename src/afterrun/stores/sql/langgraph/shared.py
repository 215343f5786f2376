"""Values that several checkpoints of a thread share: one goes when no checkpoint refers to it any more.

The engine stores a value and the first checkpoint that refers to it in one transaction, and a later
checkpoint refers to it only if the one that it follows does. So what no row refers to, within the
transaction that removed the last such row, is referred to by nobody.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB

from afterrun.core.facts import Key
from afterrun.core.tree import chunks
from afterrun.stores.sql.binding import Binding
from afterrun.stores.sql.dialect import Column
from afterrun.stores.sql.langgraph.places import at_members, given_members, threads_of
from afterrun.stores.sql.langgraph.saver import CHECKPOINTS, KEY
from afterrun.stores.sql.literals import literal
from afterrun.stores.sql.parts import plain_table

CHUNK: Final = 1_000
"""Threads whose references are held together, or values that one statement names."""

MOST_VALUES: Final = 200_000
"""Values of one thread of which is counted how many checkpoints refer to each: some 50 MiB."""

VALUE: Final = ("thread_id", "checkpoint_ns", "channel", "version")

Name: TypeAlias = tuple[str, str, str]
"""Namespace, channel and version of a value."""

References: TypeAlias = dict[Name, int]
"""How many checkpoints of one thread refer to each value."""


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

        self._every = self._references(self._dialect.keys_in(self._rows.c.thread_id, "threads"))
        self._among = self._references(at_members(self._dialect, self._rows))
        self.by_name = sa.delete(self._values).where(*self._named())

    def _references(self, where: Column) -> sa.Select[Any]:
        """Return how many checkpoints refer to each value."""
        each = _versions(self._rows)
        value = [self._rows.c.checkpoint_ns, each.c.key, each.c.value]
        counted = sa.select(*value, sa.func.count()).select_from(self._rows.join(each, sa.true()))
        return counted.where(where).group_by(*value)

    def _named(self) -> list[Column]:
        """Return the condition that a value is one of those given: by each column, then by all together."""
        columns = [self._values.c[name] for name in VALUE]
        each = [self._dialect.keys_in(column, f"{column.name}s") for column in columns]
        return [*each, self._dialect.rows_in(columns).is_(sa.true())]

    def _unreferenced(self, *but: Column) -> list[Column]:
        """Return the condition that no checkpoint refers to a value. The OFFSET makes it one hashed list."""
        rows, values = self._rows, self._values
        each = _versions(rows)
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

    def references(self, thread: Key) -> References | None:
        """Count the references of a whole thread; nothing if there are too many to be held in memory."""
        found = self._dialect.execute(
            self._every.limit(MOST_VALUES + 1), {"threads": self._dialect.bind_keys([thread])}
        )
        if len(found) > MOST_VALUES:
            return None
        return {(row[0], row[1], row[2]): int(row[3]) for row in found}

    def taken_off(self, keys: Sequence[Key], references: References) -> list[Name]:
        """Take the references of some checkpoints of one thread off; return the values that none is left of.

        To be asked before they go.
        """
        free: list[Name] = []
        for row in self._dialect.execute(self._among, given_members(self._dialect, keys)):
            value = (row[0], row[1], row[2])
            left = references.get(value, 0) - int(row[3])
            if left > 0:
                references[value] = left
            else:
                references.pop(value, None)
                free.append(value)
        return free

    def remove_named(self, thread: Key, names: Sequence[Name]) -> int:
        """Remove these values of a thread."""
        removed = 0
        for first in range(0, len(names), CHUNK):
            chunk = names[first : first + CHUNK]
            spaces, channels, versions = (
                self._dialect.bind_keys(sorted({name[place] for name in chunk})) for place in range(3)
            )
            rows = [(str(thread), *name) for name in chunk]
            given = {"checkpoint_nss": spaces, "channels": channels, "versions": versions}
            given |= {"thread_ids": self._dialect.bind_keys([thread]), "keys": self._dialect.bind_rows(rows)}
            removed += self._dialect.change(self.by_name, given)
        return removed

    def count(self, keys: Sequence[Key]) -> int:
        """Count the values that nothing would refer to if these checkpoints went."""
        total = 0
        for chunk in chunks(threads_of(keys), CHUNK):
            among = set(chunk)
            gone = [key for key in keys if isinstance(key, tuple) and key[0] in among]
            given = {"threads": self._dialect.bind_keys(chunk), "gone": self._dialect.bind_rows(gone)}
            total += int(self._dialect.execute(self._count, given)[0][0])
        return total


def _versions(rows: sa.FromClause) -> Any:  # noqa: ANN401 - SQLAlchemy's own
    """Return the values that a checkpoint refers to, each with its channel; what is no object has none."""
    versions = sa.cast(rows.c.checkpoint, JSONB()).op("->")(literal("channel_versions"))
    safe = sa.case(
        (sa.func.jsonb_typeof(versions) == literal("object"), versions),
        else_=sa.literal_column("'{}'::jsonb"),
    )
    return (
        sa.func.jsonb_each_text(safe)
        .table_valued(sa.column("key", sa.Text()), sa.column("value", sa.Text()), name="each")
        .render_derived()
    )
