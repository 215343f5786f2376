"""What a `removed` backup says of itself, in tables of its own beside the rows."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from afterrun.core.errors import BackupFailed, Refused
from afterrun.core.facts import Key, Unit, key_text, readable
from afterrun.core.report import Report
from afterrun.core.times import iso
from afterrun.stores.sql.attached import BACKUP, Sums, Tally
from afterrun.stores.sql.backups import identity_digest
from afterrun.stores.sql.store import SqlStore

FORMAT: Final = "afterrun-backup/1"
MAX_HEAD: Final = 1_048_576
SCHEMA: Final = """
CREATE TABLE afterrun_head (json TEXT NOT NULL);
CREATE TABLE afterrun_units (unit INTEGER PRIMARY KEY, root TEXT NOT NULL);
CREATE INDEX afterrun_units_root ON afterrun_units (root);
CREATE TABLE afterrun_members (key PRIMARY KEY NOT NULL, unit INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX afterrun_members_unit ON afterrun_members (unit);
"""
"""The key of a member has no type, so that 5 and '5' stay two."""

OWN_TABLES: Final = ("afterrun_head", "afterrun_units", "afterrun_members")
Hex = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Text = Annotated[str, StringConstraints(max_length=8_192)]


class Head(BaseModel):
    """The head of a backup. It is input when the backup is read again."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal["afterrun-backup/1"]
    afterrun: Text
    store: Text
    identity: Hex
    profile: Text
    schema_version: Text
    digest: Text
    policy: dict[str, str | int | list[str]]
    fingerprint: Text
    made_at: Text
    tables: dict[str, tuple[int, Hex]]
    units: tuple[int, Hex]
    checksum: Hex = Field(description="of `tables` and `units`")


def head_of(store: SqlStore, report: Report, sums: Sums, units: tuple[int, str]) -> Head:
    """Say what a backup holds."""
    return Head(
        format="afterrun-backup/1",
        afterrun=version("afterrun"),
        store=store.url,
        identity=identity_digest(store.identity),
        profile=store.profile_name,
        schema_version=store.schema().version,
        digest=store.digest,
        policy=dict(report.policy),
        fingerprint=report.fingerprint,
        made_at=iso(report.now),
        tables=dict(sums),
        units=units,
        checksum=overall(sums, units),
    )


def overall(sums: Sums, units: tuple[int, str]) -> str:
    """Return one checksum over all tables."""
    text = json.dumps([sorted((name, *found) for name, found in sums.items()), units])
    return hashlib.sha256(text.encode()).hexdigest()


def read_head(driver: sqlite3.Connection) -> Head:
    """Read the head of the attached backup. Raises `Refused` for any other file."""
    ask = f"SELECT substr(json, 1, {MAX_HEAD}) FROM {BACKUP}.afterrun_head LIMIT 1"  # noqa: S608 - constants
    try:
        return Head.model_validate_json(driver.execute(ask).fetchone()[0])
    except sqlite3.OperationalError:  # there is no such table
        pass
    except sqlite3.DatabaseError:
        raise BackupFailed("corrupt", "the backup is damaged, or it is not a SQLite database") from None
    except (ValidationError, TypeError):
        pass
    raise Refused(
        "no-backup",
        "this file is no `removed` backup of afterrun that was finished; a `whole` backup is a copy of the "
        "database, which the engine opens as it is",
    )


def unit_sum(driver: sqlite3.Connection) -> tuple[int, str]:
    """Count the attached backup's units, with a checksum over their roots and members."""
    tally = Tally()
    listed = f"""
        SELECT unit, root, key FROM {BACKUP}.afterrun_units JOIN {BACKUP}.afterrun_members USING (unit)
    """  # noqa: S608 - constants
    for row in driver.execute(listed):
        tally.add(row)
    count = driver.execute(f"SELECT count(*) FROM {BACKUP}.afterrun_units").fetchone()[0]  # noqa: S608 - the same
    return int(count), tally.checksum


def add_units(driver: sqlite3.Connection, units: Sequence[Unit], *, first: int) -> None:
    """Note units and their members in the attached backup, numbered from ``first``."""
    numbered = list(enumerate(units, start=first))
    driver.executemany(
        f"INSERT INTO {BACKUP}.afterrun_units VALUES (?, ?)",  # noqa: S608 - a constant
        [(number, key_text(unit.key)) for number, unit in numbered],
    )
    driver.executemany(
        f"INSERT INTO {BACKUP}.afterrun_members VALUES (?, ?)",  # noqa: S608 - a constant
        [(member, number) for number, unit in numbered for member in unit.members],
    )


class Listed:
    """The units of the attached backup, looked up there rather than held in memory."""

    def __init__(self, driver: sqlite3.Connection) -> None:
        """Read through the store's own connection."""
        self._driver = driver

    def __contains__(self, root: object) -> bool:
        """Say whether the unit with this root is in the backup."""
        ask = f"SELECT 1 FROM {BACKUP}.afterrun_units WHERE root = ?"  # noqa: S608 - a constant
        return self._driver.execute(ask, (root,)).fetchone() is not None

    def __len__(self) -> int:
        """Count them."""
        return int(self._driver.execute(f"SELECT count(*) FROM {BACKUP}.afterrun_units").fetchone()[0])  # noqa: S608 - a constant

    def __iter__(self) -> Iterator[str]:
        """Yield their roots."""
        for (root,) in self._driver.execute(f"SELECT root FROM {BACKUP}.afterrun_units ORDER BY unit"):  # noqa: S608 - a constant
            yield str(root)

    def units(self) -> Iterator[Unit]:
        """Yield all units, oldest first, each with its members. Raises `Refused` for an unreadable key."""
        last = -1
        ask = f"SELECT unit FROM {BACKUP}.afterrun_units WHERE unit > ? ORDER BY unit LIMIT 1"  # noqa: S608 - a constant
        while (found := self._driver.execute(ask, (last,)).fetchone()) is not None:
            last = found[0]
            yield self._unit(last)

    def find(self, run: str) -> Unit | None:
        """Return the unit that a run belongs to."""
        candidates: list[Key] = [run]
        if run.lstrip("-").isascii() and run.lstrip("-").isdigit():
            candidates.append(int(run))
        ask = f"SELECT unit FROM {BACKUP}.afterrun_members WHERE key = ?"  # noqa: S608 - a constant
        for key in candidates:
            if not readable(key):
                continue
            found = self._driver.execute(ask, (key,)).fetchone()
            if found is not None:
                return self._unit(found[0])
        return None

    def _unit(self, number: int) -> Unit:
        ask = f"SELECT root FROM {BACKUP}.afterrun_units WHERE unit = ?"  # noqa: S608 - a constant
        root = self._driver.execute(ask, (number,)).fetchone()
        ask = f"SELECT key FROM {BACKUP}.afterrun_members WHERE unit = ? ORDER BY key"  # noqa: S608 - a constant
        keys: list[Key] = [key for (key,) in self._driver.execute(ask, (number,))]
        first = [key for key in keys if root is not None and key_text(key) == root[0]]
        if not first or not all(readable(key) for key in keys):
            raise Refused("no-backup", "the backup lists a unit with a key that no run can have")
        members = (first[0], *(key for key in keys if key != first[0] or type(key) is not type(first[0])))
        return Unit(first[0], members, None, None, successful=False)
