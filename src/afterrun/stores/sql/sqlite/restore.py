"""Restore: put removed units back from a `removed` backup, each whole, in a transaction of its own."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from afterrun.core.errors import Refused, StoreUnreadable, UnitFailure, UnitNotFound, UsageError
from afterrun.core.facts import Key, Reason, Unit
from afterrun.core.row_tables import kind_of
from afterrun.core.sweep import MAX_UNIT_SECONDS, Clock
from afterrun.core.tree import chunks
from afterrun.stores.new_file import files_of
from afterrun.stores.sql.backed import check_kinds
from afterrun.stores.sql.backed_rows import BackedRows
from afterrun.stores.sql.backups import (
    IS_BACK,
    LEFT,
    NotRestoredError,
    Restored,
    Wanted,
    identity_digest,
    origin_notices,
)
from afterrun.stores.sql.removal import CHUNK, sorted_keys
from afterrun.stores.sql.row_lists import RowList
from afterrun.stores.sql.sqlite.attached import Attached, attached, sqlite_of
from afterrun.stores.sql.sqlite.attached_units import AttachedUnits
from afterrun.stores.sql.sqlite.backup_meta import Head, Listed, read_head
from afterrun.stores.sql.sqlite.removed_backup import check_sums
from afterrun.stores.sql.store import SqlStore


class Restore:
    """Puts units back into a live store from an attached backup."""

    def __init__(
        self, store: SqlStore, *, clock: Clock, rest: float = 1.0, rows: Collection[str] = ()
    ) -> None:
        """Prepare; ``rest`` is the pause after a transaction, as a multiple of the time it held its lock.

        With ``rows``, only rows of these row tables are put back.
        """
        self._store = store
        self._dialect = sqlite_of(store)
        self._rows = rows
        self._clock = clock
        self._rest = rest
        self.so_far: Restored | None = None

    def run(self, path: Path, run: str | None) -> Restored:
        """Restore the unit with one id, or all, trees first and rows of row tables last.

        Raises `Refused`, `BackupFailed`, and `UnitNotFound`.
        """
        wanted = Wanted(run, self._rows)
        with _opened(self._store, path) as (head, tables):
            report = self.so_far = Restored(
                store=self._store.url,
                profile=self._store.profile_name,
                backup=str(path),
                made_at=head.made_at,
                notices=list(_notices(self._store, head)),
            )
            kinds = wanted.kinds(list(tables.kinds), backup=report.backup)
            listed = [
                (
                    tables.kinds[kind],
                    tables.lists.kinds.get(kind)
                    or Listed(self._dialect.driver, tables.kinds[kind].backed, head.format),
                )
                for kind in kinds
            ]
            if run is None:
                for among, units in listed:
                    for group in units.pages():
                        self._try(among, group, report)
            else:
                self._one(listed, wanted, report)
            return report

    def _one(
        self, listed: Sequence[tuple[AttachedUnits, Listed | RowList]], wanted: Wanted, report: Restored
    ) -> None:
        """Restore the unit with one id. Where a run and a generation have it, the run is meant."""
        for among, units in listed:
            found = units.find(wanted.run or "")
            if found is not None:
                reason = self._try(among, [found], report)
                if reason:
                    said = f"not restored: {next(iter(report.refused))}. Nothing was changed"
                    raise Refused(reason, said)
                return
        raise UnitNotFound(f"the backup {report.backup} {wanted.lacking}")

    def _try(self, among: AttachedUnits, units: Sequence[Unit], report: Restored) -> str:
        """Restore units in one transaction, or in halves where one is in the way; note why it stays.

        Returns the name of the reason why the last of them stays, or nothing.
        """
        if not units:
            return ""
        began = self._clock.monotonic()
        try:
            rows = self._restore(among, units)
        except (NotRestoredError, UnitFailure) as error:
            if len(units) > 1:
                half = len(units) // 2
                return [self._try(among, part, report) for part in (units[:half], units[half:])][-1]
            report.refuse(units[0], _why(error, among))
            return error.reason if isinstance(error, NotRestoredError) else IS_BACK
        if rows is None:
            report.present += len(units)
            return ""
        held = self._clock.monotonic() - began
        for unit in units:
            report.count(among.backed.kind, unit)
        report.rows.update(rows)
        self._store.settle()
        pause = max(held * self._rest, 0.025) if self._rest else 0.0
        if pause:
            self._clock.sleep(pause)
        return ""

    def _restore(self, among: AttachedUnits, units: Sequence[Unit]) -> Counter[str] | None:
        """Copy the rows of units, those they are known by first; ``None`` if they are all there."""
        keys, kind = sorted_keys(units), among.backed.kind
        with self._dialect.locked(MAX_UNIT_SECONDS):
            # rows may refer to each other in a circle, and no order of tables is right: asked at the commit
            self._dialect.driver.execute("PRAGMA defer_foreign_keys=ON")
            if not among.is_empty(units):
                if among.equal(units):
                    return None
                raise NotRestoredError(Reason(IS_BACK, among.backed.is_back))
            _check_obstacles(among, units)
            rows = _put_blobs_back(among, keys)
            for live, kept in reversed(list(zip(among.live, among.kept, strict=True))):
                # All runs of a tree go in one statement, since they may refer to each other.
                size = CHUNK if live is not among.live[-1] else max(len(keys), 1)
                rows[live.name] += among.copy(kept, live, keys, size=size)
            if rows[among.live[-1].name] < len(keys):
                raise NotRestoredError(Reason("incomplete", f"the backup lacks a row that makes this {kind}"))
            if not among.equal(units):
                said = "the store changed a value on the way in, as by a trigger"
                raise NotRestoredError(Reason("changed", said))
        return rows


def _put_blobs_back(among: AttachedUnits, keys: Sequence[Key]) -> Counter[str]:
    """Copy the blobs that rows of these keys refer to, before the rows; those that are there stay."""
    rows: Counter[str] = Counter()
    for part, _, copy in among.copying_blobs(back=True):
        for chunk in chunks(keys, CHUNK):
            rows[part.name] += among.dialect.change(copy, {"keys": among.backed.bind(chunk)})
    return rows


def _why(error: NotRestoredError | UnitFailure, among: AttachedUnits) -> str:
    """Say why a unit stays in the backup."""
    by_key = isinstance(error, UnitFailure) and error.kind == "constraint"
    return LEFT if by_key and isinstance(among.backed, BackedRows) else str(error)


def _check_obstacles(among: AttachedUnits, units: Sequence[Unit]) -> None:
    """Make sure that what the rows of units need is in the store. Raises `NotRestoredError`."""
    obstacle = among.backed.obstacle(units)
    lost = among.lost_links(sorted_keys(units))
    if lost:
        said = f"rows of {lost} that led to rows of this {among.backed.kind} are gone or lead elsewhere"
        obstacle = Reason("link-is-lost", said)
    if obstacle is not None:
        raise NotRestoredError(obstacle)


@contextmanager
def _opened(store: SqlStore, path: Path) -> Iterator[tuple[Head, Attached]]:
    """Attach a backup read-only and check it. Raises `Refused` if it does not belong to this store."""
    dialect = sqlite_of(store)
    _check_file(path, dialect.path)
    with attached(dialect, path.resolve()):
        head = read_head(dialect.driver)
        if head.profile != store.profile_name:
            raise Refused(
                "other-profile",
                f"the backup was made with the profile {head.profile[:40]}, this is {store.profile_name}",
            )
        tables = Attached(store, head.rows)
        check_kinds([*head.kinds, *map(kind_of, head.rows)], tables.kinds)
        tables.integrity()
        tables.check_columns()
        check_sums(tables, head)
        yield head, tables


def _check_file(path: Path, store: Path) -> None:
    """Look at the file without opening it: it may be the store itself. Raises `StoreUnreadable`."""
    try:
        status = path.stat()
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it has a NUL character"
        raise StoreUnreadable(f"the backup {path} cannot be reached: {why}") from None
    if not path.is_file():
        raise StoreUnreadable(f"the backup {path} is no regular file")
    if not os.access(path, os.R_OK):
        raise Refused("rights", f"this user may not read {path}")
    for own in files_of(store):
        if own.exists() and os.path.samestat(own.stat(), status):
            raise UsageError(f"{path} belongs to the store itself")


def _notices(store: SqlStore, head: Head) -> Iterator[str]:
    return origin_notices(
        same=head.identity == identity_digest(store.identity),
        place=head.store,
        version=head.schema_version,
        current=store.schema().version,
    )
