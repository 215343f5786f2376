"""Restore: put removed units back from a `removed` backup, each whole, in a transaction of its own."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from afterrun.core.errors import Refused, StoreUnreadable, UnitFailure, UnitNotFound, UsageError
from afterrun.core.facts import Key, Reason, Unit
from afterrun.core.sweep import MAX_UNIT_SECONDS, Clock
from afterrun.core.tree import chunks
from afterrun.stores.new_file import files_of
from afterrun.stores.sql.attached import Attached, attached
from afterrun.stores.sql.attached_units import AttachedUnits
from afterrun.stores.sql.backed import check_kinds
from afterrun.stores.sql.backup_meta import Head, Listed, read_head
from afterrun.stores.sql.backups import (
    IS_BACK,
    NotRestoredError,
    Restored,
    identity_digest,
    origin_notices,
)
from afterrun.stores.sql.removal import CHUNK, sorted_keys
from afterrun.stores.sql.removed_backup import check_sums
from afterrun.stores.sql.store import SqlStore


class Restore:
    """Puts units back into a live store from an attached backup."""

    def __init__(self, store: SqlStore, *, clock: Clock, rest: float = 1.0) -> None:
        """Prepare; ``rest`` is the pause after a transaction, as a multiple of the time it held its lock."""
        self._store = store
        self._tables = Attached(store)
        self._clock = clock
        self._rest = rest
        self.so_far: Restored | None = None

    def run(self, path: Path, run: str | None) -> Restored:
        """Restore the unit with one id, or all, trees first.

        Raises `Refused`, `BackupFailed`, and `UnitNotFound`.
        """
        tables = self._tables
        with _opened(self._store, tables, path) as head:
            report = self.so_far = Restored(
                store=self._store.url,
                profile=self._store.profile_name,
                backup=str(path),
                made_at=head.made_at,
                notices=list(_notices(self._store, head)),
            )
            listed = [
                (among, Listed(tables.dialect.driver, among.backed, head.format))
                for among in tables.kinds.values()
            ]
            if run is None:
                for among, units in listed:
                    for unit in units.units():
                        self._try(among, unit, report)
            else:
                self._one(listed, run, report)
            return report

    def _one(self, listed: Sequence[tuple[AttachedUnits, Listed]], run: str, report: Restored) -> None:
        """Restore the unit with one id. Where a run and a generation have it, the run is meant."""
        for among, units in listed:
            found = units.find(run)
            if found is not None:
                reason = self._try(among, found, report)
                if reason:
                    said = f"not restored: {next(iter(report.refused))}. Nothing was changed"
                    raise Refused(reason, said)
                return
        raise UnitNotFound(f"the backup {report.backup} has no unit with the id {run[:120]!r}")

    def _try(self, among: AttachedUnits, unit: Unit, report: Restored) -> str:
        """Restore a unit, or note why it is not; return the name of the reason."""
        began = self._clock.monotonic()
        try:
            rows = self._restore(among, unit)
        except (NotRestoredError, UnitFailure) as error:
            report.refuse(unit, str(error))
            return error.reason if isinstance(error, NotRestoredError) else IS_BACK
        if rows is None:
            report.present += 1
            return ""
        held = self._clock.monotonic() - began
        report.count(among.backed.kind, unit)
        report.rows.update(rows)
        self._store.settle()
        pause = max(held * self._rest, 0.025) if self._rest else 0.0
        if pause:
            self._clock.sleep(pause)
        return ""

    def _restore(self, among: AttachedUnits, unit: Unit) -> Counter[str] | None:
        """Copy the rows of one unit, those it is known by first; ``None`` if they are all there."""
        keys, kind = sorted_keys([unit]), among.backed.kind
        with self._tables.dialect.locked(MAX_UNIT_SECONDS):
            # rows may refer to each other in a circle, and no order of tables is right: asked at the commit
            self._tables.dialect.driver.execute("PRAGMA defer_foreign_keys=ON")
            if not among.is_empty(unit):
                if not among.differing([unit]):
                    return None
                raise NotRestoredError(Reason(IS_BACK, among.backed.is_back))
            _check_obstacles(among, unit)
            rows = _put_blobs_back(among, keys)
            for live, kept in reversed(list(zip(among.live, among.kept, strict=True))):
                # All runs of a tree go in one statement, since they may refer to each other.
                size = CHUNK if live is not among.live[-1] else max(len(keys), 1)
                rows[live.name] += among.copy(kept, live, keys, size=size)
            if rows[among.live[-1].name] < len(keys):
                raise NotRestoredError(Reason("incomplete", f"the backup lacks a row that makes this {kind}"))
            if among.differing([unit]):
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


def _check_obstacles(among: AttachedUnits, unit: Unit) -> None:
    """Make sure that what the rows of a unit need is in the store. Raises `NotRestoredError`."""
    obstacle = among.backed.obstacle([unit])
    lost = among.lost_links(sorted_keys([unit]))
    if lost:
        said = f"rows of {lost} that led to rows of this {among.backed.kind} are gone or lead elsewhere"
        obstacle = Reason("link-is-lost", said)
    if obstacle is not None:
        raise NotRestoredError(obstacle)


@contextmanager
def _opened(store: SqlStore, tables: Attached, path: Path) -> Iterator[Head]:
    """Attach a backup read-only and check it. Raises `Refused` if it does not belong to this store."""
    _check_file(path, tables.dialect.path)
    with attached(tables.dialect, path.resolve()):
        driver = tables.dialect.driver
        head = read_head(driver)
        if head.profile != store.profile_name:
            raise Refused(
                "other-profile",
                f"the backup was made with the profile {head.profile[:40]}, this is {store.profile_name}",
            )
        check_kinds(head.kinds, tables.kinds)
        tables.integrity()
        tables.check_columns()
        check_sums(tables, head)
        yield head


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
