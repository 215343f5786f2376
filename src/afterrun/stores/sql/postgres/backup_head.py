"""What a `removed` backup of a PostgreSQL store says of itself, and the sums that prove it."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from afterrun.core.errors import Refused
from afterrun.core.facts import Key, Unit
from afterrun.stores.sql.backed import fits
from afterrun.stores.sql.backups import Rules
from afterrun.stores.sql.postgres.backup_rows import UnitSum

FORMAT: Final = "afterrun-postgresql-backup/2"
OLD_FORMAT: Final = "afterrun-postgresql-backup/1"
"""The first one had trees alone, and its head does not count units by kind."""

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

    format: Literal["afterrun-postgresql-backup/1", "afterrun-postgresql-backup/2"]
    afterrun: Text
    server: Text
    store: Text
    identity: Hex
    profile: Text
    schema_version: Text
    digest: Text
    policy: Rules
    fingerprint: Text
    made_at: Text
    tables: dict[str, TableHead]
    blobs: dict[str, TableHead] = Field(default_factory=dict, description="shared, once a piece")
    pieces: Number
    units: tuple[int, Hex]
    kinds: dict[str, Number] = Field(default_factory=dict, description="units by kind")
    rows: list[Text] = Field(default_factory=list, description="row tables whose rows may be units")
    checksum: Hex = Field(description="of `tables` and `units`")

    @property
    def by_kind(self) -> Counter[str]:
        """Return the number of units by kind."""
        return Counter({"tree": self.units[0]} if self.format == OLD_FORMAT else self.kinds)


class UnitHead(BaseModel):
    """A line of ``units.jsonl``: one unit, and what its rows come to."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    kind: Text = "tree"
    members: Annotated[list[str | int | tuple[str | int, ...]], Field(min_length=1)]
    rows: dict[str, Annotated[int, Field(gt=0)]]
    size: Number
    digest: Hex
    blobs: dict[str, list[str | int]] = Field(default_factory=dict, description="keys of those it needs")

    def unit(self, *, width: int) -> Unit:
        """Return the unit, of a kind with so many columns in a key. Raises `Refused` for no such key."""
        members: tuple[Key, ...] = tuple(self.members)
        if not all(fits(member, width=width) for member in members):
            raise Refused("no-backup", "the backup lists a unit with a key that no run can have")
        return Unit(members[0], members, None, None, successful=False)


class Totals:
    """What all units of a backup come to, in their order."""

    def __init__(self, tables: Sequence[str]) -> None:
        """Start empty."""
        self.rows = Counter(dict.fromkeys(tables, 0))
        self._tables = {name: hashlib.sha256() for name in tables}
        self._listed = hashlib.sha256()
        self.kinds: Counter[str] = Counter()

    def add(self, found: UnitSum, line: bytes, *, kind: str) -> None:
        """Take in a unit, by what its rows come to and by its line in the list."""
        self.rows.update(found.rows)
        for name, digest in found.tables.items():
            self._tables[name].update(digest)
        self._listed.update(line)
        self.kinds[kind] += 1

    @property
    def tables(self) -> Mapping[str, tuple[int, str]]:
        """Return rows and checksum by table."""
        return {name: (self.rows[name], found.hexdigest()) for name, found in self._tables.items()}

    @property
    def units(self) -> tuple[int, str]:
        """Return the number of units and the checksum of their list."""
        return self.kinds.total(), self._listed.hexdigest()

    @property
    def checksum(self) -> str:
        """Return one checksum over everything."""
        text = json.dumps([sorted((name, *found) for name, found in self.tables.items()), self.units])
        return hashlib.sha256(text.encode()).hexdigest()
