"""What a `removed` backup of a PostgreSQL store says of itself, and the sums that prove it."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from afterrun.core.errors import Refused
from afterrun.core.facts import Key, Unit, readable
from afterrun.stores.sql.postgres_backup_rows import UnitSum

FORMAT: Final = "afterrun-postgresql-backup/1"

Hex = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Text = Annotated[str, StringConstraints(max_length=8_192)]
Number = Annotated[int, Field(ge=0)]


class TableHead(BaseModel):
    """What a backup holds of one table."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    file: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,80}\.copy$")]
    columns: dict[str, str] = Field(description="their types, in the order of the values")
    rows: Number
    checksum: Hex = Field(description="of the units' digests of this table, in order")


class Head(BaseModel):
    """The head of a backup. It is input when the backup is read again."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal["afterrun-postgresql-backup/1"]
    afterrun: Text
    server: Text
    store: Text
    identity: Hex
    profile: Text
    schema_version: Text
    digest: Text
    policy: dict[str, str | int | list[str]]
    fingerprint: Text
    made_at: Text
    tables: dict[str, TableHead]
    blobs: dict[str, TableHead] = Field(default_factory=dict, description="shared, once a piece")
    pieces: Number
    units: tuple[int, Hex]
    checksum: Hex = Field(description="of `tables` and `units`")


class UnitHead(BaseModel):
    """A line of ``units.jsonl``: one unit, and what its rows come to."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    members: Annotated[list[str | int], Field(min_length=1)]
    rows: dict[str, Annotated[int, Field(gt=0)]]
    size: Number
    digest: Hex
    blobs: dict[str, list[str | int]] = Field(default_factory=dict, description="keys of those it needs")

    @property
    def unit(self) -> Unit:
        """Return the unit. Raises `Refused` for a key that no run can have."""
        members: tuple[Key, ...] = tuple(self.members)
        if not all(map(readable, members)):
            raise Refused("no-backup", "the backup lists a unit with a key that no run can have")
        return Unit(members[0], members, None, None, successful=False)


class Totals:
    """What all units of a backup come to, in their order."""

    def __init__(self, tables: Sequence[str]) -> None:
        """Start empty."""
        self.rows = Counter(dict.fromkeys(tables, 0))
        self._tables = {name: hashlib.sha256() for name in tables}
        self._listed = hashlib.sha256()
        self._units = 0

    def add(self, found: UnitSum, line: bytes) -> None:
        """Take in a unit, by what its rows come to and by its line in the list."""
        self.rows.update(found.rows)
        for name, digest in found.tables.items():
            self._tables[name].update(digest)
        self._listed.update(line)
        self._units += 1

    @property
    def tables(self) -> Mapping[str, tuple[int, str]]:
        """Return rows and checksum by table."""
        return {name: (self.rows[name], found.hexdigest()) for name, found in self._tables.items()}

    @property
    def units(self) -> tuple[int, str]:
        """Return the number of units and the checksum of their list."""
        return self._units, self._listed.hexdigest()

    @property
    def checksum(self) -> str:
        """Return one checksum over everything."""
        text = json.dumps([sorted((name, *found) for name, found in self.tables.items()), self.units])
        return hashlib.sha256(text.encode()).hexdigest()
