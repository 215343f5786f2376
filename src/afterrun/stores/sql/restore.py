"""Restore: put removed units back from a `removed` backup, each whole, in a transaction of its own."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy as sa

from afterrun.core.errors import Refused, StoreUnreadable, UnitFailure, UnitNotFound, UsageError
from afterrun.core.facts import Key, Unit, key_text
from afterrun.core.sweep import MAX_UNIT_SECONDS, Clock
from afterrun.core.tree import chunks
from afterrun.stores.new_file import files_of
from afterrun.stores.sql.attached import Attached, attached
from afterrun.stores.sql.backup_meta import Head, Listed, read_head
from afterrun.stores.sql.backups import NAMED, Restored, identity_digest, origin_notices
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
        """Restore the unit of one run, or all. Raises `Refused`, `BackupFailed`, `UnitNotFound`."""
        tables, driver = self._tables, self._tables.dialect.driver
        with _opened(self._store, tables, path) as head:
            report = self.so_far = Restored(
                store=self._store.url,
                profile=self._store.profile_name,
                backup=str(path),
                made_at=head.made_at,
                notices=list(_notices(self._store, head)),
            )
            listed = Listed(driver)
            if run is None:
                for unit in listed.units():
                    self._try(unit, report)
                return report
            found = listed.find(run)
            if found is None:
                raise UnitNotFound(f"the backup {path} has no run with the id {run[:120]!r}")
            self._try(found, report)
            if report.refused:
                raise Refused(
                    "id-is-back", f"not restored: {next(iter(report.refused))}. Nothing was changed"
                )
            return report

    def _try(self, unit: Unit, report: Restored) -> None:
        """Restore a unit, or note why it is not."""
        began = self._clock.monotonic()
        try:
            rows = self._restore(unit)
        except (_NotRestoredError, UnitFailure) as error:
            report.refused[str(error)] += 1
            if len(report.named) < NAMED:
                report.named.append(key_text(unit.key))
            return
        if rows is None:
            report.present += 1
            return
        held = self._clock.monotonic() - began
        report.units += 1
        report.members += len(unit.members)
        report.rows.update(rows)
        self._store.settle()
        pause = max(held * self._rest, 0.025) if self._rest else 0.0
        if pause:
            self._clock.sleep(pause)

    def _restore(self, unit: Unit) -> Counter[str] | None:
        """Copy the rows of one unit, its runs first; ``None`` if they are all there."""
        tables = self._tables
        keys = sorted_keys([unit])
        with tables.dialect.locked(MAX_UNIT_SECONDS):
            there = sum(self._store.count([unit]).values())
            if there:
                if not tables.differing([unit]):
                    return None
                raise _NotRestoredError(
                    "the store has a run or rows with an id of this tree again, and they differ"
                )
            lost = tables.lost_links(keys)
            if lost:
                raise _NotRestoredError(
                    f"rows of {lost} that led to rows of this tree are gone or lead elsewhere"
                )
            rows = self._put_blobs_back(keys)
            for live, kept in reversed(list(zip(tables.live, tables.kept, strict=True))):
                names = list(tables.columns[live.name])
                copy = sa.insert(live.table).from_select(names, tables.select(kept))
                # All runs of a tree go in one statement, since they may refer to each other.
                size = CHUNK if live is not tables.live[-1] else max(len(keys), 1)
                for chunk in chunks(keys, size):
                    rows[live.name] += tables.dialect.change(copy, {"keys": tables.binding.bind_keys(chunk)})
            if rows[tables.live[-1].name] < len(keys):
                raise _NotRestoredError("the backup lacks a run of this tree")
            if tables.differing([unit]):
                raise _NotRestoredError("the store changed a value on the way in, as by a trigger")
        return rows

    def _put_blobs_back(self, keys: Sequence[Key]) -> Counter[str]:
        """Copy the blobs that rows of these runs refer to, before the rows; those that are there stay."""
        rows: Counter[str] = Counter()
        for part, _, copy in self._tables.copying_blobs(back=True):
            for chunk in chunks(keys, CHUNK):
                bound = self._tables.binding.bind_keys(chunk)
                rows[part.name] += self._tables.dialect.change(copy, {"keys": bound})
        return rows


class _NotRestoredError(Exception):
    """A unit that stays in the backup, and why."""


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
