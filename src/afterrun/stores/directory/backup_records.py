"""What a backup of a directory says of itself: a head, a record before each unit, and an end.

The end has the checksum of all that stands before it, so a file without it was never finished.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated, Final, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from afterrun.core.errors import Refused
from afterrun.core.report import Report
from afterrun.core.times import iso
from afterrun.stores.directory.archive import corrupt
from afterrun.stores.directory.store import DirectoryStore
from afterrun.stores.sql.backups import Rules, identity_digest

HEAD: Final = "afterrun.json"
END: Final = "afterrun-end.json"
UNITS: Final = "units/"
STORE: Final = "store/"
MAX_RECORD: Final = 64 * 1024 * 1024
"""Bytes of one record: that of a tree of a hundred thousand runs fits."""

Hex = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Text = Annotated[str, StringConstraints(max_length=8_192)]
Part = Annotated[str, StringConstraints(min_length=1, max_length=255)]


class Record(BaseModel):
    """A record of a backup; it is input when the backup is read again."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Head(Record):
    """The first record."""

    format: Literal["afterrun-directory-backup/1"]
    afterrun: Text
    store: Text
    identity: Hex
    profile: Text
    layout: Text
    policy: Rules
    fingerprint: Text
    made_at: Text


class Kept(Record):
    """A member of a unit: the id of its run, and where it was below the store."""

    run: Text
    path: tuple[Part, ...] = Field(min_length=1)


class UnitRecord(Record):
    """A unit, before the content of its members, in their order."""

    kind: Literal["directory", "result"]
    unit: Text
    members: tuple[Kept, ...] = Field(min_length=1)


class End(Record):
    """The last record. ``checksum`` is the SHA-256 of all that stands before it."""

    kinds: dict[str, int]
    folders: int
    files: int
    checksum: Hex


Kind = TypeVar("Kind", bound=Record)


def head_of(store: DirectoryStore, report: Report) -> Head:
    """Say what a backup is of."""
    return Head.model_validate(
        {
            "format": "afterrun-directory-backup/1",
            "afterrun": version("afterrun"),
            "store": store.url,
            "identity": identity_digest(store.identity),
            "profile": store.profile_name,
            "layout": store.profile.layout or "custom",
            "policy": report.policy,
            "fingerprint": report.fingerprint,
            "made_at": iso(report.now),
        }
    )


def read_record(kind: type[Kind], raw: bytes) -> Kind:
    """Read one record. Raises `BackupFailed` for a malformed one."""
    try:
        return kind.model_validate_json(raw)
    except ValidationError:
        raise corrupt(f"a record in it is no {kind.__name__.lower()}") from None


def no_backup() -> Refused:
    """Return the error for a file that is something else."""
    return Refused("no-backup", "this file is no backup of a directory that afterrun has finished")
