"""The `removed` backup: a SQLite file with exactly the rows that will go, under the store's own tables."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path
from typing import Final

from afterrun.core.batch import Pace, Sizer
from afterrun.core.errors import BackupFailed, Refused
from afterrun.core.facts import Key, Unit, key_text
from afterrun.core.report import Report
from afterrun.core.row_tables import kind_of
from afterrun.core.sweep import Clock
from afterrun.core.tree import chunks
from afterrun.stores.sql.backed import stored
from afterrun.stores.sql.backups import Going, by_kind
from afterrun.stores.sql.removal import CHUNK, sorted_keys
from afterrun.stores.sql.sqlite.attached import Attached, Tally, attached, backup_errors
from afterrun.stores.sql.sqlite.attached_units import BACKUP, AttachedUnits
from afterrun.stores.sql.sqlite.backup_meta import (
    OWN_TABLES,
    SCHEMA,
    Head,
    add_units,
    head_of,
    holds_run,
    overall,
    read_head,
    unit_kinds,
    unit_sum,
)
from afterrun.stores.sql.sqlite.dialect import SQLite
from afterrun.stores.sql.sqlite.schema import quoted
from afterrun.stores.sql.store import SqlStore

WEIGHED: Final = 1_000
"""Units that are weighed at once before they are copied."""

ROW_BYTES: Final = 256
"""Bytes a row takes beside its content, keys and the list of members included: a generous guess."""

FILLED: Final = 1.5
"""Bytes of a file for each byte of content: pages are not full."""


def room_needed(survey: Report) -> int:
    """Estimate the size of a backup from a plan."""
    return int(survey.logical_bytes * FILLED) + sum(survey.rows.values()) * ROW_BYTES


class RemovedBackup:
    """Writes one backup, piece by piece. Between two pieces nothing of the store is held.

    ``longest`` and ``blocked`` are seconds in which the engine could not commit: at once, and in all.
    """

    def __init__(self, store: SqlStore, tables: Attached, *, pace: Pace, clock: Clock) -> None:
        """Prepare to copy from a store at a sweep's pace."""
        self._store = store
        self._tables = tables
        self._dialect = tables.dialect
        self._pace = pace
        self._clock = clock
        self._sizer = Sizer(pace, most=pace.most_rows)
        self._read = {name: Tally() for name in tables.columns}
        self._listed = Tally()
        self.kinds: Counter[str] = Counter()
        self.longest = self.blocked = 0.0

    @property
    def units(self) -> int:
        """Return how many units were copied, but for rows that are units of their own."""
        return self.kinds.total() - sum(self.kinds[kind] for kind in self._tables.lists.kinds)

    def write(self, draft: Path, going: Going, report: Report) -> Head:
        """Write a whole backup to an empty file. Raises `BackupFailed`; the draft is then worth nothing."""
        with backup_errors():
            self._make_tables(draft)
            with attached(self._dialect, draft, writable=True), _unchecked(self._dialect):
                driver = self._dialect.driver
                driver.execute(f"PRAGMA {BACKUP}.journal_mode=OFF")
                driver.execute(f"PRAGMA {BACKUP}.synchronous=OFF")
                for kind, units in by_kind(going):
                    among = self._tables.kinds[kind]
                    for piece in self._pieces(among, self._unlisted(units)):
                        self._copy(among, piece)
                self._index()
                sums = {name: (tally.rows, tally.checksum) for name, tally in self._read.items()}
                head = head_of(
                    self._store,
                    report,
                    sums,
                    units=(self.units, self._listed.checksum),
                    kinds=+self.kinds,
                    rows=self._tables.listed(),
                )
                driver.execute(f"INSERT INTO {BACKUP}.afterrun_head VALUES (?)", (head.model_dump_json(),))  # noqa: S608 - a constant
        return head

    def _make_tables(self, draft: Path) -> None:
        """Make the tables by the store's own words, through a connection that knows the new file alone."""
        driver = self._dialect.driver
        names, lists = list(self._tables.columns), self._tables.lists
        own = {*OWN_TABLES, *(one.name for one in lists.kinds.values())}
        taken = sorted({name.lower() for name in names}.intersection(own))
        if taken:
            raise Refused("backup-kind", f"the store has a table {taken[0]} itself: use --backup-kind whole")
        encoding = driver.execute("PRAGMA main.encoding").fetchone()[0]
        with closing(sqlite3.connect(draft, isolation_level=None)) as fresh:
            fresh.execute("PRAGMA trusted_schema=OFF")
            fresh.execute(f'PRAGMA encoding="{encoding}"')
            fresh.execute("PRAGMA journal_mode=OFF")
            fresh.execute("PRAGMA synchronous=OFF")
            for name in names:
                found = driver.execute(
                    "SELECT sql FROM main.sqlite_schema WHERE type = 'table' AND name = ?", (name,)
                ).fetchone()
                fresh.execute(found[0])
            fresh.executescript(SCHEMA + lists.script)

    def _index(self) -> None:
        """Give the backup the indexes by which rows are found again, where its tables bring none."""
        driver = self._dialect.driver
        kinds = [among.backed for kind, among in self._tables.kinds.items() if kind in self.kinds]
        ways = dict.fromkeys(way for backed in kinds for way in backed.ways)
        blobs = self._tables.trees.live_blobs
        ways |= dict.fromkeys((part.name, tuple(column.name for column in part.key)) for part in blobs)
        for number, (table, columns) in enumerate(ways):
            if set(columns) not in [set(found[: len(columns)]) for found in _indexes(driver, table)]:
                listed = ", ".join(map(quoted, columns))
                driver.execute(f"CREATE INDEX {BACKUP}.afterrun_{number} ON {quoted(table)} ({listed})")

    def _unlisted(self, units: Iterator[Unit]) -> Iterator[Unit]:
        """Leave out what was copied with its tree, whose run came to life again before this was selected."""
        for unit in units:
            if unit.run is None or not holds_run(self._dialect.driver, unit.run):
                yield unit

    def _pieces(self, among: AttachedUnits, units: Iterator[Unit]) -> Iterator[Sequence[Unit]]:
        """Cut units into pieces that are copied within a batch's time."""
        while weighed := list(islice(units, WEIGHED)):
            piece: list[Unit] = []
            rows = 0
            for unit, weight in zip(weighed, among.backed.weigh(weighed), strict=True):
                if piece and rows + weight > self._sizer.rows:
                    yield piece
                    piece, rows = [], 0
                piece.append(unit)
                rows += weight
            yield piece

    def _copy(self, among: AttachedUnits, piece: Sequence[Unit]) -> None:
        """Copy the rows of some units of one kind out of one state of the store."""
        keys, kind, first = sorted_keys(piece), among.backed.kind, self.units
        began = self._clock.monotonic()
        rows = 0
        with self._dialect.snapshot():
            parts = zip((*among.live, *among.live_links), (*among.kept, *among.kept_links), strict=True)
            for place, (live, kept) in enumerate(parts):
                copied = among.copy(live, kept, keys)
                read = self._read[live.name]
                before = read.rows
                for row in among.rows(place, keys):
                    read.add(row)
                if read.rows - before != copied:
                    raise BackupFailed("changed", f"{copied} rows of {live.name} were copied of those read")
                rows += copied
            rows += self._copy_blobs(among, keys)
            if kind in self._tables.lists.kinds:
                self.kinds[kind] += self._list(among, keys)
                piece = ()
            add_units(self._dialect.driver, kind, piece, first=first)
        for number, unit in enumerate(piece, start=first):
            root = key_text(unit.key)
            for member in unit.members:
                self._listed.add((number, kind, root, stored(member)))
        self.kinds[kind] += len(piece)
        held = self._clock.monotonic() - began
        if not self._dialect.wal:
            self.longest = max(self.longest, held)
            self.blocked += held
        self._sizer.learn(rows=rows, held=held, full=True)
        if not self._dialect.wal and self._pace.min_rest:
            self._clock.sleep(max(held * self._pace.rest, self._pace.min_rest))

    def _list(self, among: AttachedUnits, keys: Sequence[Key]) -> int:
        """List those of these rows that are there, and so were copied; return how many."""
        adding = self._tables.lists.kinds[among.backed.kind].adding(among.live[-1])
        return sum(
            self._dialect.change(adding, {"keys": among.backed.bind(chunk)}) for chunk in chunks(keys, CHUNK)
        )

    def _copy_blobs(self, among: AttachedUnits, keys: Sequence[Key]) -> int:
        """Copy the blobs that the rows of some runs refer to, unless they were copied before."""
        copied = 0
        for part, select, copy in among.copying_blobs(back=False):
            read, read_rows = self._read[part.name], self._dialect.reader(select)
            for chunk in chunks(keys, CHUNK):
                bound = among.backed.bind(chunk)
                before = read.rows
                for row in read_rows(bound):
                    read.add(row)
                found = self._dialect.change(copy, {"keys": bound})
                if read.rows - before != found:
                    raise BackupFailed("changed", f"{found} rows of {part.name} were copied of those read")
                copied += found
        return copied


def verify_removed(tables: Attached, head: Head) -> None:
    """Read the attached backup again and compare it with what it says of itself. Raises `BackupFailed`."""
    with backup_errors():
        tables.integrity()
        if read_head(tables.dialect.driver) != head:
            raise BackupFailed("corrupt", "the head of the backup is not what was written")
        tables.check_columns()
        check_sums(tables, head)


def check_sums(tables: Attached, head: Head) -> None:
    """Compare rows and checksums with the head. Raises `BackupFailed`."""
    sums: Mapping[str, tuple[int, str]] = tables.sums()
    driver = tables.dialect.driver
    units, kinds = unit_sum(driver, head.format), unit_kinds(driver, head.format)
    rows = tables.listed()
    kinds = {**kinds, **{kind_of(name): count for name, (count, _) in rows.items() if count}}
    expected = {name: tuple(found) for name, found in head.tables.items()}
    for name, found in sums.items():
        if expected.get(name) != found:
            raise BackupFailed("corrupt", f"the rows of {name} in the backup are not those that it lists")
    if rows != {name: tuple(found) for name, found in head.rows.items()}:
        raise BackupFailed("corrupt", "the rows of row tables in the backup are not those that it lists")
    if units != tuple(head.units) or kinds != head.kinds or head.checksum != overall(sums, units, rows):
        raise BackupFailed("corrupt", "the units in the backup are not those that it lists")


def _indexes(driver: sqlite3.Connection, table: str) -> Sequence[Sequence[str]]:
    """Return the columns of each index of a table of the attached backup, in order."""
    found: dict[str, list[str]] = {}
    listed = driver.execute(
        "SELECT l.name, i.name FROM pragma_index_list(?, ?) AS l, pragma_index_info(l.name, ?) AS i"
        " WHERE NOT l.partial ORDER BY l.name, i.seqno",
        (table, BACKUP, BACKUP),
    )
    for index, column in listed:
        found.setdefault(index, []).append(column)
    return list(found.values())


@contextmanager
def _unchecked(dialect: SQLite) -> Iterator[None]:
    """Let rows come in any order; the store itself is only read meanwhile."""
    dialect.driver.execute("PRAGMA foreign_keys=OFF")
    try:
        yield
    finally:
        if dialect.driver.in_transaction:
            dialect.driver.execute("ROLLBACK")
        dialect.driver.execute("PRAGMA foreign_keys=ON")
