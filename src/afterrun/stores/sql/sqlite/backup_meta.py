"""What a `removed` backup says of itself, in tables of its own beside the rows."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from afterrun.core.errors import BackupFailed, Refused
from afterrun.core.facts import Key, Unit, key_text, readable
from afterrun.core.report import Report
from afterrun.core.times import iso
from afterrun.stores.sql.backed import Backed, fits, loaded, stored
from afterrun.stores.sql.backups import Rules, identity_digest
from afterrun.stores.sql.sqlite.attached import Sums, Tally
from afterrun.stores.sql.sqlite.attached_units import BACKUP
from afterrun.stores.sql.store import SqlStore

Format = Literal["afterrun-backup/1", "afterrun-backup/2"]
"""The first one had trees alone, and does not say of what kind a unit is."""

MAX_HEAD: Final = 1_048_576
SCHEMA: Final = """
CREATE TABLE afterrun_head (json TEXT NOT NULL);
CREATE TABLE afterrun_units (unit INTEGER PRIMARY KEY, kind TEXT NOT NULL, root TEXT NOT NULL);
CREATE INDEX afterrun_units_root ON afterrun_units (root);
CREATE TABLE afterrun_members (
    kind TEXT NOT NULL, key NOT NULL, unit INTEGER NOT NULL, PRIMARY KEY (kind, key)
) WITHOUT ROWID;
CREATE INDEX afterrun_members_unit ON afterrun_members (unit);
"""
"""The key of a member has no type, so that 5 and '5' stay two; one of several columns is JSON."""

OWN_TABLES: Final = ("afterrun_head", "afterrun_units", "afterrun_members")
Hex = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Text = Annotated[str, StringConstraints(max_length=8_192)]


@dataclass(frozen=True, slots=True)
class Lists:
    """Where units and members stand in a backup of one format, as terms of a statement."""

    units: str
    members: str


LISTS: Final[Mapping[Format, Lists]] = {
    "afterrun-backup/1": Lists(
        f"(SELECT unit, 'tree' AS kind, root FROM {BACKUP}.afterrun_units)",  # noqa: S608 - a constant
        f"(SELECT 'tree' AS kind, key, unit FROM {BACKUP}.afterrun_members)",  # noqa: S608 - a constant
    ),
    "afterrun-backup/2": Lists(f"{BACKUP}.afterrun_units", f"{BACKUP}.afterrun_members"),
}


class Head(BaseModel):
    """The head of a backup. It is input when the backup is read again."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Format
    afterrun: Text
    store: Text
    identity: Hex
    profile: Text
    schema_version: Text
    digest: Text
    policy: Rules
    fingerprint: Text
    made_at: Text
    tables: dict[str, tuple[int, Hex]]
    units: tuple[int, Hex]
    kinds: dict[str, int] = Field(default_factory=dict, description="units by kind; none in the first format")
    rows: dict[str, tuple[int, Hex]] = Field(
        default_factory=dict, description="rows that are units of their own, by row table"
    )
    checksum: Hex = Field(description="of `tables`, `units` and `rows`")


def head_of(
    store: SqlStore,
    report: Report,
    sums: Sums,
    *,
    units: tuple[int, str],
    kinds: Mapping[str, int],
    rows: Sums,
) -> Head:
    """Say what a backup holds; ``rows`` are those listed as units of their own, by row table."""
    return Head.model_validate(
        {
            "format": "afterrun-backup/2",
            "afterrun": version("afterrun"),
            "store": store.url,
            "identity": identity_digest(store.identity),
            "profile": store.profile_name,
            "schema_version": store.schema().version,
            "digest": store.digest,
            "policy": report.policy,
            "fingerprint": report.fingerprint,
            "made_at": iso(report.now),
            "tables": dict(sums),
            "units": units,
            "kinds": dict(kinds),
            "rows": dict(rows),
            "checksum": overall(sums, units, rows),
        }
    )


def overall(sums: Sums, units: tuple[int, str], rows: Sums) -> str:
    """Return one checksum over all tables and lists."""
    parts: list[object] = [sorted((name, *found) for name, found in sums.items()), units]
    parts += [sorted((name, *found) for name, found in rows.items())] if rows else []
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


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


def unit_sum(driver: sqlite3.Connection, form: Format) -> tuple[int, str]:
    """Count the attached backup's units, with a checksum over their kinds, roots and members."""
    tally = Tally()
    kind = "" if form == "afterrun-backup/1" else "kind, "
    lists = LISTS[form]
    listed = f"SELECT unit, {kind}root, key FROM {lists.units} JOIN {lists.members} USING (unit, kind)"  # noqa: S608 - constants
    for row in driver.execute(listed):
        tally.add(row)
    count = driver.execute(f"SELECT count(*) FROM {lists.units}").fetchone()[0]  # noqa: S608 - the same
    return int(count), tally.checksum


def unit_kinds(driver: sqlite3.Connection, form: Format) -> Mapping[str, int]:
    """Count the attached backup's units by kind, as its head does."""
    if form == "afterrun-backup/1":
        return {}
    return dict(driver.execute(f"SELECT kind, count(*) FROM {BACKUP}.afterrun_units GROUP BY kind"))  # noqa: S608 - a constant


def add_units(driver: sqlite3.Connection, kind: str, units: Sequence[Unit], *, first: int) -> None:
    """Note units and their members in the attached backup, numbered from ``first``."""
    numbered = list(enumerate(units, start=first))
    driver.executemany(
        f"INSERT INTO {BACKUP}.afterrun_units VALUES (?, ?, ?)",  # noqa: S608 - a constant
        [(number, kind, key_text(unit.key)) for number, unit in numbered],
    )
    driver.executemany(
        f"INSERT INTO {BACKUP}.afterrun_members VALUES (?, ?, ?)",  # noqa: S608 - a constant
        [(kind, stored(member), number) for number, unit in numbered for member in unit.members],
    )


def holds_run(driver: sqlite3.Connection, run: Key) -> bool:
    """Say whether a tree in the attached backup, of the newest format, has this run."""
    ask = f"SELECT 1 FROM {BACKUP}.afterrun_members WHERE kind = 'tree' AND key = ?"  # noqa: S608 - a constant
    return driver.execute(ask, (run,)).fetchone() is not None


class Listed:
    """The units of one kind in the attached backup, looked up there rather than held in memory."""

    def __init__(self, driver: sqlite3.Connection, backed: Backed, form: Format) -> None:
        """Read through the store's own connection."""
        self._driver = driver
        self._backed = backed
        self._lists = LISTS[form]

    def _rows(self, ask: str, *values: object) -> sqlite3.Cursor:
        """Run a statement over ``{units}`` or ``{members}`` of this kind."""
        text = ask.format(units=self._lists.units, members=self._lists.members)
        return self._driver.execute(text, (self._backed.kind, *values))

    def __contains__(self, root: object) -> bool:
        """Say whether the unit with this root is in the backup."""
        return self._rows("SELECT 1 FROM {units} WHERE kind = ? AND root = ?", root).fetchone() is not None

    def __len__(self) -> int:
        """Count them."""
        return int(self._rows("SELECT count(*) FROM {units} WHERE kind = ?").fetchone()[0])

    def __iter__(self) -> Iterator[str]:
        """Yield their roots."""
        for (root,) in self._rows("SELECT root FROM {units} WHERE kind = ? ORDER BY unit"):
            yield str(root)

    def pages(self) -> Iterator[Sequence[Unit]]:
        """Yield the units that go back in one transaction: each alone."""
        yield from ([unit] for unit in self.units())

    def units(self) -> Iterator[Unit]:
        """Yield all units, oldest first, each with its members. Raises `Refused` for an unreadable key."""
        last = -1
        ask = "SELECT unit FROM {units} WHERE kind = ? AND unit > ? ORDER BY unit LIMIT 1"
        while (found := self._rows(ask, last).fetchone()) is not None:
            last = found[0]
            yield self._unit(last)

    def find(self, text: str) -> Unit | None:
        """Return the unit that the row with this id belongs to."""
        ask = "SELECT unit FROM {members} WHERE kind = ? AND key = ?"
        for key in self._backed.spelled(text):
            found = self._rows(ask, stored(key)).fetchone() if readable(key) else None
            if found is not None:
                return self._unit(found[0])
        return None

    def _unit(self, number: int) -> Unit:
        root = self._rows("SELECT root FROM {units} WHERE kind = ? AND unit = ?", number).fetchone()
        found = self._rows("SELECT key FROM {members} WHERE kind = ? AND unit = ? ORDER BY key", number)
        keys = [loaded(value, width=self._backed.width) for (value,) in found]
        first = [key for key in keys if root is not None and key_text(key) == root[0]]
        if not first or not all(fits(key, width=self._backed.width) for key in keys):
            raise Refused("no-backup", "the backup lists a unit with a key that no run can have")
        members = (first[0], *(key for key in keys if key != first[0] or type(key) is not type(first[0])))
        return Unit(first[0], members, None, None, successful=False)
