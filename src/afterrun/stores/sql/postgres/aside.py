"""Rows that are in a backup as units of their own, by their content, on disk."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Mapping
from typing import Self

from afterrun.core.row_tables import ROW
from afterrun.stores.sql.postgres.backup_file import BackupFile
from afterrun.stores.sql.postgres.backup_rows import UnitRows


class AsideRows:
    """Digests of rows by kind and table, in a nameless database of our own that goes with this process."""

    def __init__(self) -> None:
        """Begin without any."""
        self._database = sqlite3.connect("", isolation_level=None)
        self._database.execute("PRAGMA journal_mode = OFF")
        self._database.execute(
            "CREATE TABLE aside (name TEXT, digest BLOB, kind TEXT, PRIMARY KEY (name, digest, kind))"
            " WITHOUT ROWID"
        )
        self._database.execute("BEGIN")

    def __enter__(self) -> Self:
        """Return it."""
        return self

    def __exit__(self, *_: object) -> None:
        """Let go of it."""
        self.close()

    def has(self, kind: str, table: str, digest: bytes) -> bool:
        """Say whether a kind other than this one has a row of this content in a table."""
        ask = "SELECT 1 FROM aside WHERE name = ? AND digest = ? AND kind <> ?"
        return self._database.execute(ask, (table, digest, kind)).fetchone() is not None

    def note(self, kind: str, table: str, digest: bytes) -> None:
        """Take down a row of a unit of this kind."""
        self._database.execute("INSERT OR IGNORE INTO aside VALUES (?, ?, ?)", (table, digest, kind))

    def take_down(self, backup: BackupFile, kinds: Mapping[str, UnitRows]) -> None:
        """Take down the rows of units in a backup that other kinds may have, too."""
        for kept in backup.units():
            kind = kept.said.kind
            if kind.startswith(ROW):
                for table in kinds[kind].shared & kept.said.rows.keys():
                    for line in kept.lines(table):
                        self.note(kind, table, hashlib.sha256(line).digest())

    def close(self) -> None:
        """Let go of it."""
        self._database.close()
