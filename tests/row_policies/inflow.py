"""Rows that arrive, already old, while sweeps go on: what a table looks like whose retention must keep up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from generations.loops import Row
from row_policies.tables import Shop, ago, keep, policy, written

A_SECOND: Final = 10
"""Rows that arrive in each table in a second."""

OLD: Final = 10.0
"""Days since the end of a row that arrives: as if it had become old at this moment."""

POLICY: Final = policy(logs=keep(7), events=keep(7), tasks=keep(7))
TABLES: Final = ("logs", "events", "tasks")


@dataclass
class Inflow:
    """Writes rows into three tables alike, and counts what of them is left."""

    shop: Shop
    number: int = 0
    owed: float = 0.0
    arrived: int = field(default=0)

    def write(self, count: int) -> None:
        """Add so many old rows to each table, with what belongs to them."""
        numbers = range(self.number, self.number + count)
        self.number += count
        rows: Mapping[str, list[Row]] = {
            "logs": [(n, None, ago(OLD), "x" * 60) for n in numbers],
            "events": [(f"e{n}", written(OLD), "kind") for n in numbers],
            "event_parts": [(f"e{n}", part) for n in numbers for part in (1, 2)],
            "tasks": [(f"t{n}", "ok", ago(OLD), None, None) for n in numbers],
            "task_states": [(n, f"t{n}") for n in numbers],
        }
        for table, found in rows.items():
            self.shop.store.insert(table, found)

    def after(self, seconds: float) -> None:
        """Let the rows of so many seconds arrive; parts of one are owed to the next time."""
        self.owed += seconds * A_SECOND
        count, self.owed = int(self.owed), self.owed - int(self.owed)
        if count:
            self.arrived += count
            self.write(count)

    def left(self) -> Mapping[str, int]:
        """Return the rows of each table, all of them old."""
        counts = self.shop.counts()
        return {table: counts[table] for table in TABLES}
