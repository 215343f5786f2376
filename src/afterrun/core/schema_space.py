"""Space of tables on a database server: bytes, dead rows, and who keeps those on disk.

A removed row stays on disk until no snapshot can see it and a VACUUM has passed. Then its place is used
again; only an empty end of a table goes back to the file system.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from afterrun.core.space import Method, Space, compared_sizes
from afterrun.core.times import Instant, iso

HolderKind = Literal["session", "standby", "prepared", "slot"]

FULL_LOCK: Final = "ACCESS EXCLUSIVE: nobody reads or writes the table meanwhile"
REPACK_LOCK: Final = "ACCESS EXCLUSIVE, for moments at the beginning and at the end"

REPACK_COPIES: Final = 2
HOUR: Final = 3_600
MINUTE: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Something whose snapshot keeps dead rows on disk: those that died after it began stay.

    ``transactions`` counts what began since, ``seconds`` the time; nothing where this role may not see it.
    ``oldest`` names the first transaction that it may not see the end of.
    """

    kind: HolderKind
    name: str
    transactions: int
    seconds: float | None = None
    state: str = ""
    process: int | None = None
    oldest: str = ""

    @property
    def identity(self) -> tuple[str, str, int | None, str]:
        """Return what is the same at another moment, if this snapshot is still held then."""
        return self.kind, self.name, self.process, self.oldest

    def words(self) -> str:
        """Describe it in a part of a sentence."""
        since = f"{self.transactions:,} transactions behind"
        if self.seconds is not None:
            since = f"{_duration(self.seconds)} old, {since}"
        if self.kind == "slot":
            return f"the replication slot {self.name} ({self.state}, {since})"
        if self.kind == "prepared":
            return f"a prepared transaction of the role {self.name} ({since})"
        doing = f", {self.state}" if self.state else ""
        who = "the feedback of a standby" if self.kind == "standby" else f"a session of the role {self.name}"
        return f"{who} (process {self.process}{doing}, {since})"

    def as_json(self) -> dict[str, object]:
        """Return plain values."""
        return {
            "kind": self.kind,
            "name": self.name,
            "transactions": self.transactions,
            "seconds": self.seconds,
            "state": self.state,
            "process": self.process,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTable:
    """One table. Bytes are measured; ``rows`` is an estimate, ``dead`` the server's count, if it has one.

    ``tail`` is an upper bound for the bytes at the end that hold no row, ``lean`` about what the table with
    its indexes would take written anew; nothing where this role may not read it.
    """

    name: str
    heap: int
    indexes: int
    toast: int
    rows: int
    dead: int | None
    tail: int | None
    lean: int | None
    last_vacuum: Instant | None
    last_autovacuum: Instant | None
    may_vacuum: bool

    @property
    def total(self) -> int:
        """Return all its bytes."""
        return self.heap + self.indexes + self.toast

    @property
    def gain(self) -> int | None:
        """Return about how much smaller it would be written anew."""
        return None if self.lean is None else max(self.total - self.lean, 0)

    @property
    def stale(self) -> bool:
        """Say whether a plain VACUUM may change anything: dead rows, or none counted, or an empty end."""
        return self.dead is None or self.dead > 0 or bool(self.tail)

    def as_json(self) -> dict[str, object]:
        """Return plain values."""
        return {
            "name": self.name,
            "bytes": self.total,
            "heap": self.heap,
            "indexes": self.indexes,
            "toast": self.toast,
            "rows": self.rows,
            "dead_rows": self.dead,
            "tail": self.tail,
            "last_vacuum": iso(self.last_vacuum),
            "last_autovacuum": iso(self.last_autovacuum),
            "may_vacuum": self.may_vacuum,
            "rewrite": None
            if self.lean is None
            else {"room": self.lean, "wal": self.lean, "frees": self.gain},
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaSpace:
    """Tables that removals touch, and what keeps their dead rows, the oldest first."""

    tables: tuple[StoredTable, ...]
    holders: tuple[Holder, ...]
    notices: tuple[str, ...] = ()

    @property
    def tables_measured(self) -> bool:
        """Say yes: the server knows the bytes of each table."""
        return True

    @property
    def moves_content(self) -> bool:
        """Say no: a plain VACUUM leaves rows where they are."""
        return False

    @property
    def on_disk(self) -> int:
        """Return the bytes of all tables with their indexes and large values."""
        return sum(table.total for table in self.tables)

    @property
    def dead(self) -> int:
        """Return how many dead rows the server has counted."""
        return sum(table.dead or 0 for table in self.tables)

    @property
    def tail(self) -> int:
        """Return how many bytes at the ends of tables are free at most."""
        return sum(table.tail or 0 for table in self.tables)

    @property
    def method(self) -> Method:
        """Return how space can be made free."""
        return "plain-vacuum" if any(table.stale for table in self.tables) else "none"

    @property
    def worth(self) -> bool:
        """Say whether there is anything to do: what has no dead rows costs nothing."""
        return self.method != "none"

    @property
    def why_not_worth(self) -> str:
        """Say why there is nothing to do."""
        return "not worth it: no table has dead rows or an empty end, so VACUUM would change nothing"

    @property
    def rewrite(self) -> dict[str, object]:
        """Return what it would take to write all tables anew, one after the other, and what that would free.

        ``VACUUM FULL`` needs room for the new copy of one table, and as much WAL again; pg_repack, by its own
        documentation, twice the table. Both are about the largest table.
        """
        room = max((table.lean or 0 for table in self.tables), default=0)
        largest = max((table.total for table in self.tables), default=0)
        return {
            "frees": sum(table.gain or 0 for table in self.tables),
            "vacuum_full": {"room": room, "wal": room, "lock": FULL_LOCK},
            "pg_repack": {"room": REPACK_COPIES * largest, "lock": REPACK_LOCK},
        }

    def sizes(self) -> Mapping[str, int]:
        """Return sizes by name, in bytes."""
        return {
            "file": self.on_disk,
            "heap": sum(table.heap for table in self.tables),
            "indexes": sum(table.indexes for table in self.tables),
            "toast": sum(table.toast for table in self.tables),
        }

    def compared(self, after: Space) -> Mapping[str, object]:
        """Return sizes and dead rows before and after, in all and by table."""
        later = after if isinstance(after, SchemaSpace) else self
        found = {table.name: table for table in later.tables}
        return {
            "bytes": compared_sizes(self, later),
            "dead_rows": {"before": self.dead, "after": later.dead},
            "tables": [
                {"name": table.name, "bytes_before": table.total, "bytes_after": found[table.name].total}
                for table in self.tables
                if table.name in found
            ],
        }

    def as_json(self) -> dict[str, object]:
        """Return plain values."""
        return {
            **self.sizes(),
            "dead_rows": self.dead,
            "tail": self.tail,
            "tables": [table.as_json() for table in self.tables],
            "held_back_by": [holder.as_json() for holder in self.holders],
            "rewrite": self.rewrite,
            "notices": list(self.notices),
        }


def _duration(seconds: float) -> str:
    for word, width in (("h", HOUR), ("min", MINUTE)):
        if seconds >= 2 * width:
            return f"{seconds / width:.0f} {word}"
    return f"{seconds:.0f} s"
