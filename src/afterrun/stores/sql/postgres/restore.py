"""Restore of a PostgreSQL store: removed units go back whole, several small ones in a transaction."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from psycopg import sql

from afterrun.core.errors import Refused, StoreUnreadable, UnitFailure, UnitNotFound
from afterrun.core.facts import Key, Reason, Unit, key_text
from afterrun.core.row_tables import ROW, kind_of
from afterrun.core.sweep import MAX_UNIT_SECONDS, Clock
from afterrun.stores.sql.backed import check_kinds
from afterrun.stores.sql.backups import (
    IS_BACK,
    LEFT,
    NotRestoredError,
    Restored,
    Wanted,
    identity_digest,
    origin_notices,
)
from afterrun.stores.sql.postgres.aside import AsideRows
from afterrun.stores.sql.postgres.backup_blobs import blob_rows
from afterrun.stores.sql.postgres.backup_file import BackupFile, Kept
from afterrun.stores.sql.postgres.backup_head import Head, UnitHead
from afterrun.stores.sql.postgres.backup_rows import UnitRows, all_tables, rows_of
from afterrun.stores.sql.postgres.errors import classified
from afterrun.stores.sql.store import SqlStore

GROUP_UNITS: Final = 100
GROUP_ROWS: Final = 1_000
GROUP_BYTES: Final = 4 * 1024 * 1024
"""Units that go back in one transaction, or rows that are units of their own; and bytes of what goes with
them, which is held in memory meanwhile."""

MIN_PAUSE: Final = 0.025
"""Shortest pause between two transactions beside a working engine, in seconds."""

CHANGED: Final = (
    "what the store has then is not what was removed: a trigger changed a value, or a row that leads to "
    "others is gone or leads elsewhere"
)

RIGHTS: Final = """
SELECT pg_catalog.format('%%I.%%I', n.nspname, c.relname), pg_catalog.format('%%I', current_user),
    pg_catalog.has_table_privilege(c.oid, 'INSERT'),
    (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user)
    AND EXISTS (SELECT 1 FROM pg_catalog.pg_trigger t JOIN pg_catalog.pg_proc p ON p.oid = t.tgfoid
        JOIN pg_catalog.pg_roles o ON o.oid IN (p.proowner, c.relowner)
        WHERE t.tgrelid = c.oid AND NOT t.tgisinternal AND t.tgenabled <> 'D' AND (t.tgtype & 4) <> 0
            AND NOT o.rolsuper)
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid = ANY (%(tables)s) ORDER BY 1
"""

SEQUENCES: Final = """
SELECT a.attrelid, a.attname, s.schemaname, s.sequencename, coalesce(s.last_value, 0)
FROM pg_catalog.pg_attribute a
    JOIN pg_catalog.pg_depend d ON d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass
        AND d.refobjid = a.attrelid AND d.refobjsubid = a.attnum AND d.deptype IN ('a', 'i')
        AND d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass
    JOIN pg_catalog.pg_class c ON c.oid = d.objid AND c.relkind = 'S'
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_catalog.pg_sequences s ON s.schemaname = n.nspname AND s.sequencename = c.relname
WHERE a.attrelid = ANY (%(tables)s) AND s.increment_by > 0
"""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A unit on its way in. ``rows`` are at hand, or of a large unit in the file and read once."""

    kind: str
    unit: Unit
    size: int
    digest: str
    counts: Mapping[str, int]
    rows: Mapping[str, Iterable[bytes]]
    piece: int
    blobs: Mapping[str, Sequence[str | int]]


class PostgresRestore:
    """Puts units back into a live store from a backup."""

    def __init__(
        self, store: SqlStore, *, clock: Clock, rest: float = 1.0, rows: Collection[str] = ()
    ) -> None:
        """Prepare; ``rest`` is the pause after a transaction, as a multiple of the time it took.

        With ``rows``, only rows of these row tables are put back.
        """
        self._store = store
        self._only = rows
        self._kinds = rows_of(store)
        self._rows = self._kinds["tree"]
        self._tables = all_tables(self._kinds)
        self._blobs = blob_rows(store, self._rows)
        self._came: Counter[str] = Counter()
        self._clock = clock
        self._rest = rest
        self.so_far: Restored | None = None

    def run(self, path: Path, run: str | None) -> Restored:
        """Restore the unit with one id, or all, trees first and rows of row tables last.

        Raises `Refused`, `BackupFailed`, and `UnitNotFound`.
        """
        wanted = Wanted(run, self._only)
        self._check_rights()
        _check_file(path)
        with BackupFile(path) as backup, AsideRows() as aside:
            self._take_kinds(backup.head)
            self._check_head(backup.head)
            backup.verify()
            report = self.so_far = self._report(path, backup.head)
            if backup.head.rows:
                aside.take_down(backup, self._kinds)
            for rows in self._kinds.values():
                rows.aside = aside
            kinds = wanted.kinds(list(self._kinds), backup=report.backup)
            if run is None:
                self._all(backup, kinds, report)
            else:
                self._one(backup, kinds, wanted, report)
        report.notices.extend(self._late_sequences())
        return report

    def _take_kinds(self, head: Head) -> None:
        """Learn the row tables whose rows a backup may hold. Raises `Refused`."""
        if head.rows:
            self._kinds = rows_of(self._store, head.rows)
            self._tables = all_tables(self._kinds)
            self._check_rights()
        check_kinds([*head.kinds, *map(kind_of, head.rows)], self._kinds)

    def _all(self, backup: BackupFile, kinds: Collection[str], report: Restored) -> None:
        """Restore all units of these kinds. Rows are written before runs, and come back after them."""
        whole = [kind for kind in kinds if not kind.startswith(ROW)]
        for among in (whole, *([kind] for kind in kinds if kind.startswith(ROW))):
            if among:
                units = (kept for kept in backup.units() if kept.said.kind in among)
                for group in self._grouped(units):
                    self._try(group, backup, report)

    def _one(self, backup: BackupFile, kinds: Collection[str], wanted: Wanted, report: Restored) -> None:
        """Restore the unit with one id. Where a run and a generation have it, the run is meant."""
        for kept in backup.units():
            if kept.said.kind in kinds and self._is_named(kept.said, wanted.run or ""):
                reason = self._try([self._loaded(kept)], backup, report)
                if reason:
                    said = f"not restored: {next(iter(report.refused))}. Nothing was changed"
                    raise Refused(reason, said)
                return
        raise UnitNotFound(f"the backup {report.backup} {wanted.lacking}")

    def _is_named(self, said: UnitHead, run: str) -> bool:
        """Say whether an id is that of a run of a unit, or that of a row."""
        if said.kind.startswith(ROW):
            return said.members[0] in self._kinds[said.kind].backed.spelled(run)
        return run in map(key_text, said.members)

    def _grouped(self, units: Iterable[Kept]) -> Iterator[Sequence[Loaded]]:
        """Yield small units of one kind in groups and large ones alone, in bounded memory."""
        group: list[Loaded] = []
        size = 0
        for kept in units:
            most = GROUP_ROWS if kept.said.kind.startswith(ROW) else GROUP_UNITS
            full = len(group) >= most or size + kept.said.size > GROUP_BYTES
            if group and (full or group[0].kind != kept.said.kind):
                yield group
                group, size = [], 0
            if kept.said.size > GROUP_BYTES:
                yield [self._loaded(kept)]
            else:
                group.append(self._loaded(kept, hold=True))
                size += kept.said.size
        if group:
            yield group

    def _loaded(self, kept: Kept, *, hold: bool = False) -> Loaded:
        """Take a unit of a backup; with ``hold`` its rows are read into memory."""
        said = kept.said
        rows: dict[str, Iterable[bytes]] = {name: kept.lines(name) for name in said.rows}
        if hold:
            rows = {name: list(lines) for name, lines in rows.items()}
        unit = said.unit(width=self._kinds[said.kind].backed.width)
        return Loaded(said.kind, unit, said.size, said.digest, said.rows, rows, kept.piece, said.blobs)

    def _report(self, path: Path, head: Head) -> Restored:
        notices = origin_notices(
            same=head.identity == identity_digest(self._store.identity),
            place=head.store,
            version=head.schema_version,
            current=self._store.schema().version,
        )
        return Restored(
            store=self._store.url,
            profile=self._store.profile_name,
            backup=str(path),
            made_at=head.made_at,
            notices=list(notices),
        )

    def _try(self, group: Sequence[Loaded], backup: BackupFile, report: Restored) -> str:
        """Restore units in one transaction; if one of them is in the way, in halves.

        Returns the name of the reason why the last of them stays, or nothing.
        """
        began = self._clock.monotonic()
        try:
            there = self._restore(group, backup)
        except (NotRestoredError, UnitFailure) as error:
            if len(group) > 1:
                half = len(group) // 2
                return [self._try(part, backup, report) for part in (group[:half], group[half:])][-1]
            report.refuse(group[0].unit, _why(error, group[0].kind))
            return error.reason if isinstance(error, NotRestoredError) else IS_BACK
        if there:
            report.present += len(group)
            return ""
        report.rows.update(self._came)
        for one in group:
            report.count(one.kind, one.unit)
            report.rows.update(one.counts)
        if self._rest:
            self._clock.sleep(max((self._clock.monotonic() - began) * self._rest, MIN_PAUSE))
        return ""

    def _restore(self, group: Sequence[Loaded], backup: BackupFile) -> bool:
        """Put units of one kind back, blobs and what they are known by first; say whether all were there."""
        rows, units = self._kinds[group[0].kind], [one.unit for one in group]
        expected = [one.digest for one in group]
        with rows.dialect.locked(MAX_UNIT_SECONDS):
            there = list(rows.sums(units))
            if any(found.rows for found in there):
                if [found.digest for found in there] == expected:
                    return True
                raise NotRestoredError(Reason(IS_BACK, rows.backed.is_back))
            _check_obstacles(rows, units)
            self._came = self._put_blobs_back(group, backup)
            for table in reversed(rows.tables):
                count = sum(one.counts.get(table.name, 0) for one in group)
                lines = (line for one in group for line in one.rows.get(table.name, ()))
                if count and rows.put(table, lines) != count:
                    raise NotRestoredError(Reason("changed", CHANGED))
            rows.close_circles()
            if [found.digest for found in rows.sums(units)] != expected:
                raise NotRestoredError(Reason("changed", CHANGED))
            _check_obstacles(rows, units)  # again, since nothing keeps others from a run meanwhile
        return False

    def _put_blobs_back(self, group: Sequence[Loaded], backup: BackupFile) -> Counter[str]:
        """Put back the blobs that these units need; those that are there stay as they are."""
        came: Counter[str] = Counter()
        for table in self._blobs:
            needed: defaultdict[int, set[Key]] = defaultdict(set)
            for one in group:
                needed[one.piece].update(one.blobs.get(table.name, ()))
            for piece, keys in needed.items():
                if keys:
                    came[table.name] += table.put(keys, backup.blob_lines(table.name, piece))
        return came

    def _check_head(self, head: Head) -> None:
        """Make sure that the backup's tables are those of this store. Raises `Refused`."""
        profile = self._store.profile_name
        if head.profile != profile:
            made = f"the backup was made with the profile {head.profile[:40]}"
            raise Refused("other-profile", f"{made}, this is {profile}")
        here = {table.name: table.columns for table in self._tables}
        here |= {table.name: table.columns for table in self._blobs}
        held = {**head.tables, **head.blobs}
        for name, columns in here.items():
            kept = held.get(name)
            if kept is None:
                raise Refused("schema", f"the backup has no table {name}, which this store has")
            if dict(kept.columns) != dict(columns):
                raise Refused(
                    "schema",
                    f"the table {name} has other columns or types in the backup than in this store: "
                    "the engine was upgraded in between. Unpack the backup with unzip to read it",
                )
            if list(kept.columns) != list(columns):
                raise Refused("schema", f"the columns of {name} stand in another order in the backup")
        strange = held.keys() - here.keys()
        if strange:
            raise Refused("schema", f"the backup has a table {min(strange)[:63]}, which this store has not")

    def _check_rights(self) -> None:
        """Make sure that rows may be put back. Raises `Refused` with what to grant."""
        blobs = [table.name for table in self._blobs]
        for name, role, may_insert, foreign in self._asked(RIGHTS, blobs):
            if not may_insert:
                raise Refused(
                    "rights", f"this role may not put rows into {name}: GRANT INSERT ON {name} TO {role}"
                )
            if foreign:
                raise Refused(
                    "rights",
                    f"{name} has a trigger that a superuser would run with all rights, and its owner is none:"
                    " connect as the owner of the tables, or as a role with rights on them",
                )

    def _late_sequences(self) -> Iterator[str]:
        """Yield which sequences stand before a number that a table has: the engine would use it again."""
        dialect = self._rows.dialect
        places = {dialect.reflected.oids[table.name]: table.name for table in self._tables}
        for oid, column, schema, sequence, last in self._asked(SEQUENCES):
            table = sql.Identifier(*dialect.reflected.places[places[oid]])
            ask = sql.SQL("SELECT pg_catalog.max({}) FROM {}").format(sql.Identifier(column), table)
            with classified():
                row = dialect.driver.execute(ask).fetchone()
            if row and row[0] is not None and row[0] > last:
                yield (
                    f"{places[oid]} ({column}) has numbers up to {row[0]} and its sequence "
                    f"{schema}.{sequence} stands at {last}: set it with setval, or one is given out twice"
                )

    def _asked(self, statement: str, more: Sequence[str] = ()) -> Sequence[tuple[Any, ...]]:
        dialect = self._rows.dialect
        oids = [dialect.reflected.oids[name] for name in (*(table.name for table in self._tables), *more)]
        with classified():
            return dialect.driver.execute(statement.encode(), {"tables": oids}).fetchall()


def _why(error: NotRestoredError | UnitFailure, kind: str) -> str:
    """Say why a unit stays in the backup."""
    by_key = isinstance(error, UnitFailure) and error.kind == "constraint"
    return LEFT if by_key and kind.startswith(ROW) else str(error)


def _check_obstacles(rows: UnitRows, units: Sequence[Unit]) -> None:
    """Make sure that what these units need is in the store. Raises `NotRestoredError`."""
    obstacle = rows.backed.obstacle(units)
    if obstacle is not None:
        raise NotRestoredError(obstacle)


def _check_file(path: Path) -> None:
    """Look at the file before it is opened: who opens a pipe may wait for ever. Raises `StoreUnreadable`."""
    try:
        regular = path.is_file()
        path.stat()
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it has a NUL character"
        raise StoreUnreadable(f"the backup {path} cannot be reached: {why}") from None
    if not regular:
        raise StoreUnreadable(f"the backup {path} is no regular file")
    if not os.access(path, os.R_OK):
        raise Refused("rights", f"this user may not read {path}")
