"""Backups before a manual removal: made, verified, and at hand as a witness while units go."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

from afterrun.core.batch import Pace
from afterrun.core.errors import BackupFailed
from afterrun.core.facts import Key, key_text
from afterrun.core.report import Report
from afterrun.core.sweep import Clock
from afterrun.stores.new_file import NewFile
from afterrun.stores.sql.backups import PAGE, Backup, BackupOrder, Going, Held, by_kind
from afterrun.stores.sql.sqlite.attached import Attached, attached
from afterrun.stores.sql.sqlite.attached_units import BACKUP
from afterrun.stores.sql.sqlite.backup_meta import Listed
from afterrun.stores.sql.sqlite.removed_backup import RemovedBackup, room_needed, verify_removed
from afterrun.stores.sql.sqlite.whole_backup import Counted, WholeBackup, file_checksum
from afterrun.stores.sql.store import SqlStore


class BackupMaker:
    """Makes one backup of a store. Raises `UsageError` or `Refused` at once for a place that is not safe."""

    def __init__(
        self, store: SqlStore, order: BackupOrder, *, pace: Pace, clock: Clock, rows: Collection[str] = ()
    ) -> None:
        """Check the place; nothing is written yet. ``rows`` are row tables of which rows go, too."""
        self._store = store
        self._order = order
        self._pace = pace
        self._clock = clock
        self._tables = Attached(store, rows, lists=BACKUP if order.kind == "removed" else "temp")
        self._file = NewFile(order.path, store=store.lock_path)

    @property
    def draft(self) -> Path:
        """Return the name that the file grows under."""
        return self._file.draft

    @contextmanager
    def made(self, survey: Report, going: Going) -> Iterator[Backup]:
        """Make one file with all that is ``going``, verify it, and keep it attached.

        ``survey`` is what a plan told of it. Raises `BackupFailed` or `Refused`: the store is unchanged, no
        file stays.
        """
        making = self._removed(survey, going) if self._order.kind == "removed" else self._whole(going)
        with making as backup:
            foreign_keys = self._tables.dialect.driver.execute("PRAGMA foreign_keys").fetchone()[0]
            if not foreign_keys:
                raise BackupFailed("io", "foreign keys cannot be enforced; nothing was removed")
            yield backup

    @contextmanager
    def _removed(self, survey: Report, going: Going) -> Iterator[Backup]:
        began = self._clock.monotonic()
        tables, file = self._tables, self._file
        file.room(room_needed(survey))
        writer = RemovedBackup(self._store, tables, pace=self._pace, clock=self._clock)
        with file:
            head = writer.write(file.draft, going, survey)
            with attached(tables.dialect, file.draft):
                verify_removed(tables, head)
            file.publish()
        with attached(tables.dialect, file.path):
            facts = self._facts(
                began,
                writer,
                rows={name: head.tables[name][0] for name in tables.counted},
            )
            facts |= {
                "units": writer.kinds.total(),
                "kinds": dict(+writer.kinds),
                "checksum": head.checksum,
            }
            lists = tables.lists.kinds
            held = {
                kind: Held(lists.get(kind) or Listed(tables.dialect.driver, among.backed, head.format), among)
                for kind, among in tables.kinds.items()
            }
            yield Backup(held=held, facts=facts)

    @contextmanager
    def _whole(self, going: Going) -> Iterator[Backup]:
        began = self._clock.monotonic()
        tables, file = self._tables, self._file
        file.room(self._store.sizes().total)
        only = self._selected(going)
        counted = Counted(tables)
        writer = WholeBackup(tables.dialect, pace=self._pace, clock=self._clock)
        with file:
            writer.write(file.draft)
            with attached(tables.dialect, file.draft):
                rows = counted.verify()
            checksum = file_checksum(file.draft)
            file.publish()
        with attached(tables.dialect, file.path):
            kinds = {kind: len(ids) for kind, ids in only.items()}
            facts = self._facts(began, writer, rows=rows)
            facts |= {"units": sum(kinds.values()), "kinds": kinds, "checksum": checksum}
            yield Backup(
                held={kind: Held(ids, tables.kinds[kind]) for kind, ids in only.items()}, facts=facts
            )

    def _selected(self, going: Going) -> Mapping[str, Collection[Key]]:
        """Take down what goes: rows on disk, since there may be many."""
        lists = self._tables.lists
        lists.make_in_temp()
        only: dict[str, Collection[Key]] = {}
        for kind, units in by_kind(going):
            rows = lists.kinds.get(kind)
            if rows is None:
                only[kind] = frozenset(key_text(unit.key) for unit in units)
            else:
                only[kind] = rows
                while keys := [unit.key for unit in islice(units, PAGE)]:
                    rows.add(keys)
        return only

    def _facts(
        self, began: float, writer: RemovedBackup | WholeBackup, *, rows: Mapping[str, int]
    ) -> dict[str, object]:
        return {
            "kind": self._order.kind,
            "path": str(self._file.path),
            "bytes": self._file.path.stat().st_size,
            "rows": dict(rows),
            "seconds": round(self._clock.monotonic() - began, 6),
            "longest_hold": round(writer.longest, 6),
            "blocked": round(writer.blocked, 6),
            "cleared": self._file.cleared,
        }
