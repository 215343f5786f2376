"""Backups of PostgreSQL stores: made in one snapshot, verified, and a witness while units go."""

from __future__ import annotations

import errno
import sqlite3
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Final

from afterrun.core.batch import Pace
from afterrun.core.errors import BackupFailed, StoreFailure, UnitFailure
from afterrun.core.facts import Key, Unit, key_text
from afterrun.core.report import Report
from afterrun.core.row_tables import ROW
from afterrun.core.sweep import Clock
from afterrun.core.times import iso
from afterrun.stores.new_file import NewFile
from afterrun.stores.sql.backed import stored
from afterrun.stores.sql.backed_rows import BackedRows, cascading
from afterrun.stores.sql.backups import (
    Backup,
    BackupKind,
    BackupOrder,
    Going,
    Held,
    Maker,
    Restorer,
    by_kind,
    identity_digest,
)
from afterrun.stores.sql.postgres.aside import AsideRows
from afterrun.stores.sql.postgres.backup_blobs import Needed, blob_rows, needed_by
from afterrun.stores.sql.postgres.backup_file import BackupFile, Writing
from afterrun.stores.sql.postgres.backup_head import Head
from afterrun.stores.sql.postgres.backup_rows import Asked, UnitRows, UnitSum, all_tables, pieces, rows_of
from afterrun.stores.sql.postgres.backup_whole import WholeDump, table_bytes
from afterrun.stores.sql.postgres.programs import programs
from afterrun.stores.sql.postgres.restore import PostgresRestore
from afterrun.stores.sql.store import SqlStore

ROW_BYTES: Final = 128
"""Bytes a row takes beside its content: the text of its keys and numbers, the list of members."""

FILLED: Final = 1.2
"""Bytes of a file for each byte of content: what was compressed in a table is so in the file again."""

HOLDS: Final = (
    "holds ACCESS SHARE locks on their tables, for which an upgrade of the engine would have to wait, and a "
    "snapshot, for which VACUUM keeps what is removed anywhere in the database; the engine can work meanwhile"
)


class PostgresBackups:
    """What can be done about backups of one PostgreSQL store."""

    def __init__(self, store: SqlStore) -> None:
        """Take a store."""
        self._store = store

    def notices(self, kind: BackupKind, *, rows: Collection[str] = ()) -> Sequence[str]:
        """Say what a backup of this kind means for the engine while it is made."""
        if kind == "removed":
            return [f"for as long as a backup copies the rows that go, it {HOLDS}"]
        trees = rows_of(self._store)["tree"]
        names = [*trees.names, *self._store.binding.blob_tables()]
        parts = (part for name, part in self._store.profile.units.rows.items() if name in rows)
        names = list(dict.fromkeys([*names, *(table for part in parts for table in part.tables)]))
        names = [name for name in names if name in self._store.dialect.shapes]
        size = table_bytes(trees.dialect, names)
        whole = (
            f"a whole backup runs pg_dump on {len(names)} tables of {size:,} bytes and reads them once "
            "more to compare"
        )
        return [f"{whole}; for as long as that takes, it {HOLDS}"]

    def maker(
        self,
        order: BackupOrder,
        *,
        pace: Pace,  # noqa: ARG002 - reading blocks nobody
        clock: Clock,
        rows: Collection[str] = (),
    ) -> Maker:
        """Prepare a backup; nothing is written yet."""
        return PostgresMaker(self._store, order, clock=clock, rows=rows)

    def restorer(self, *, clock: Clock, rest: float, rows: Collection[str] = ()) -> Restorer:
        """Prepare a restore."""
        return PostgresRestore(self._store, clock=clock, rest=rest, rows=rows)


class PostgresMaker:
    """Makes one backup. Raises `UsageError` or `Refused` at once for a place that is not safe."""

    def __init__(
        self, store: SqlStore, order: BackupOrder, *, clock: Clock, rows: Collection[str] = ()
    ) -> None:
        """Check the place, and for a ``whole`` one PostgreSQL's own programs; nothing is written yet.

        ``rows`` are row tables of which rows go, too.
        """
        self._store = store
        self._order = order
        self._clock = clock
        self._kinds = rows_of(store, rows)
        self._rows = self._kinds["tree"]
        self._blobs = {kind: blob_rows(store, rows) for kind, rows in self._kinds.items()}
        backed = [kind.backed for kind in self._kinds.values()]
        along = [name for one in backed if isinstance(one, BackedRows) for name in cascading(one.binding)]
        names = [*(table.name for table in all_tables(self._kinds)), *store.binding.blob_tables(), *along]
        self._names = list(dict.fromkeys(names))
        self._file = NewFile(order.path, store=None)
        self._programs = (
            programs(self._rows.dialect.driver.info.server_version) if order.kind == "whole" else None
        )

    @property
    def draft(self) -> Path:
        """Return the name that the file grows under."""
        return self._file.draft

    @contextmanager
    def made(self, survey: Report, going: Going) -> Iterator[Backup]:
        """Make one file with all that is ``going``, verify it, and keep what its units came to at hand."""
        began = self._clock.monotonic()
        with closing(Selected()) as selected, AsideRows() as aside:
            for kind, rows in self._kinds.items():
                rows.aside, rows.noting = aside, kind.startswith(ROW)
            with backup_errors():
                if self._programs is None:
                    facts = self._removed(going, selected, survey)
                else:
                    facts = self._whole(going, selected)
            for rows in self._kinds.values():
                rows.noting = False
            kinds = selected.kinds()
            facts |= {
                "kind": self._order.kind,
                "path": str(self._file.path),
                "bytes": self._file.path.stat().st_size,
                "units": sum(kinds.values()),
                "kinds": kinds,
                "seconds": round(self._clock.monotonic() - began, 6),
                "longest_hold": 0.0,  # nobody waits for a reader
                "blocked": 0.0,
                "cleared": self._file.cleared,
            }
            held = {
                kind: Held(SelectedKind(selected, kind), PostgresWitness(rows, selected))
                for kind, rows in self._kinds.items()
            }
            yield Backup(held=held, facts=facts)

    def _removed(self, going: Going, selected: Selected, survey: Report) -> dict[str, object]:
        """Copy the rows of units, all from one state of the store in which they are selected, too."""
        file = self._file
        file.room(int(survey.logical_bytes * FILLED) + sum(survey.rows.values()) * ROW_BYTES)
        with file:
            with file.draft.open("wb") as draft, Writing(draft, self._kinds, self._blobs) as writing:
                with self._rows.dialect.snapshot():
                    for kind, units in by_kind(going):
                        for piece in pieces(units):
                            selected.add(kind, piece, writing.add(kind, piece), writing.needed)
                head = writing.finish(**self._said(survey))
            _verify(file.draft, head)
            file.publish()
        held = {**head.tables, **head.blobs}
        return {"rows": {name: table.rows for name, table in held.items()}, "checksum": head.checksum}

    def _said(self, survey: Report) -> Mapping[str, object]:
        store = self._store
        return {
            "afterrun": version("afterrun"),
            "server": self._rows.dialect.driver.info.parameter_status("server_version") or "",
            "store": store.url,
            "identity": identity_digest(store.identity),
            "profile": store.profile_name,
            "schema_version": store.schema().version,
            "digest": store.digest,
            "policy": dict(survey.policy),
            "fingerprint": survey.fingerprint,
            "made_at": iso(survey.now),
        }

    def _whole(self, going: Going, selected: Selected) -> dict[str, object]:
        """Let pg_dump copy the tables, and read them from the same snapshot to compare."""
        file, rows = self._file, self._rows
        if self._programs is None:
            raise ValueError(self._order.kind)
        dump = WholeDump(rows.dialect, self._programs, self._names)
        file.room(table_bytes(rows.dialect, self._names))
        with file:
            with rows.dialect.snapshot():
                checksum = dump.write(file.draft)
                sums = dump.sums()
                for kind, units in by_kind(going):
                    among = self._kinds[kind]
                    for piece in pieces(units):
                        needed = needed_by(self._blobs[kind], piece, Asked(among.backed, piece))
                        selected.add(kind, piece, list(among.sums(piece)), needed)
            dump.verify(file.draft, sums)
            file.publish()
        return {"rows": dump.rows(sums), "checksum": checksum}


class Selected:
    """The units of a backup by kind, and what their rows came to, on disk."""

    def __init__(self) -> None:
        """Begin a database of our own that has no name and goes with this process."""
        self._database = sqlite3.connect("", isolation_level=None)
        self._database.execute("PRAGMA journal_mode = OFF")
        self._database.execute(
            "CREATE TABLE units (kind TEXT, root TEXT, digest TEXT NOT NULL, PRIMARY KEY (kind, root))"
            " WITHOUT ROWID"
        )
        self._database.execute("CREATE TABLE blobs (name TEXT, key, PRIMARY KEY (name, key)) WITHOUT ROWID")
        self._database.execute("BEGIN")

    def add(self, kind: str, units: Sequence[Unit], sums: Sequence[UnitSum], needed: Needed) -> None:
        """Note units, and the blobs that they need."""
        self._database.executemany(
            "INSERT OR IGNORE INTO blobs VALUES (?, ?)",
            [(name, key) for found in needed for name, keys in found.items() for key in keys],
        )
        self._database.executemany(
            "INSERT INTO units VALUES (?, ?, ?)",
            [(kind, _root(kind, unit.key), found.digest) for unit, found in zip(units, sums, strict=True)],
        )

    def blobs(self, table: str, keys: Sequence[Key]) -> Collection[Key]:
        """Return those of these blobs that a unit needs."""
        ask = "SELECT 1 FROM blobs WHERE name = ? AND key = ?"
        return {key for key in keys if self._database.execute(ask, (table, key)).fetchone()}

    def digest(self, kind: str, root: object) -> str | None:
        """Return what a unit's rows came to; nothing for a unit that was not selected."""
        ask = "SELECT digest FROM units WHERE kind = ? AND root = ?"
        found = self._database.execute(ask, (kind, _root(kind, root))).fetchone()
        return None if found is None else str(found[0])

    def kinds(self) -> dict[str, int]:
        """Count them by kind."""
        return dict(self._database.execute("SELECT kind, count(*) FROM units GROUP BY kind"))

    def roots(self, kind: str) -> Iterator[str]:
        """Yield the roots of one kind."""
        for (root,) in self._database.execute("SELECT root FROM units WHERE kind = ?", (kind,)):
            yield str(root)

    def close(self) -> None:
        """Let go of it."""
        self._database.close()


def _root(kind: str, root: object) -> str | None:
    """Return what a unit is known by here: of rows with several columns in a key, no two have the same."""
    if not isinstance(root, str | int | tuple):
        return None
    return str(stored(root)) if kind.startswith(ROW) else key_text(root)


class SelectedKind:
    """The units of one kind of a backup: a collection of roots."""

    def __init__(self, selected: Selected, kind: str) -> None:
        """Look them up there."""
        self._selected = selected
        self._kind = kind

    def __contains__(self, root: object) -> bool:
        """Say whether the unit with this root was selected."""
        return self._selected.digest(self._kind, root) is not None

    def __len__(self) -> int:
        """Count them."""
        return self._selected.kinds().get(self._kind, 0)

    def __iter__(self) -> Iterator[str]:
        """Yield their roots."""
        return self._selected.roots(self._kind)


class PostgresWitness:
    """Compares what goes of one kind with what was copied."""

    def __init__(self, rows: UnitRows, selected: Selected) -> None:
        """Read through the store's own connection, within the removing transaction."""
        self._rows = rows
        self._selected = selected
        self._recalled: dict[Key, str | None] = {}
        self._expected: Counter[str] = Counter()

    def recall(self, units: Sequence[Unit]) -> None:
        """Look up what the rows of these units came to."""
        kind = self._rows.backed.kind
        self._recalled = {unit.key: self._selected.digest(kind, unit.key) for unit in units}

    def differing(self, units: Sequence[Unit]) -> Collection[Key]:
        """Return the keys of those units whose rows are not exactly those that were copied."""
        self._expected.clear()
        differing: list[Key] = []
        for unit, found in zip(units, self._rows.sums(units), strict=True):
            if self._recalled.get(unit.key) == found.digest:
                self._expected.update(found.rows)
                self._expected.update(found.aside)
            else:
                differing.append(unit.key)
        return differing

    def saved(self, table: str, keys: Sequence[Key]) -> Collection[Key]:
        """Return those of these blobs that were copied."""
        return self._selected.blobs(table, keys)

    def confirm(self, rows: Mapping[str, int]) -> None:
        """Make sure that no row came, or went, between the comparison and the removal."""
        if self._expected != +Counter(rows):
            raise UnitFailure("serialization", "a row came or went after a unit was compared")


def _verify(draft: Path, head: Head) -> None:
    """Read a backup again and compare it with what was written. Raises `BackupFailed`."""
    with BackupFile(draft) as backup:
        if backup.head != head:
            raise BackupFailed("corrupt", "the head of the backup is not what was written")
        backup.verify()


@contextmanager
def backup_errors() -> Iterator[None]:
    """Turn what fails while a backup is made into `BackupFailed`."""
    try:
        yield
    except (StoreFailure, UnitFailure) as error:
        raise BackupFailed(error.kind, f"the backup failed: {error}; the store is unchanged") from None
    except sqlite3.Error as error:
        raise BackupFailed("io", f"the backup failed: {error}; the store is unchanged") from None
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        why = error.strerror or type(error).__name__
        kind = "disk-full" if full else "io"
        raise BackupFailed(kind, f"the backup failed: {why}; the store is unchanged") from None
