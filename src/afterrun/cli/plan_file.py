"""Plan files: what ``plan --out`` writes and ``prune --plan`` reads.

A plan file comes from outside like any other: it is checked, bounded, and can only narrow what a policy lets
go. It holds the ids of units, so it is readable by its owner alone.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Annotated, Final, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    StringConstraints,
    ValidationError,
    model_validator,
)

from afterrun.cli.text import to_json
from afterrun.core.errors import Refused, UsageError
from afterrun.core.facts import Key, Unit, key_text
from afterrun.core.plan import WHOLE_RUNS, Only
from afterrun.core.report import Report
from afterrun.core.row_tables import ROW, kind_of
from afterrun.core.times import iso
from afterrun.reading import read_small_file
from afterrun.stores.sql.store import SqlStore

FORMAT: Final = "afterrun-plan/3"
MAX_BYTES: Final = 134_217_728
MAX_UNITS: Final = 2_000_000
BESIDE: Final = ("-wal", "-shm", "-journal")
"""Endings by which SQLite finds files beside a database; a file of such a name could harm it."""


MARGIN: Final = 65_536
"""Bytes of a plan file that its end may take."""

RowKey = int | str | Annotated[tuple[int | str, ...], Field(min_length=2)]
"""The key of a row, as the store has it: 5 is not "5", and one of several columns is a list."""

Named = Annotated[list[str], Field(min_length=2, max_length=2)]
"""The kind of a unit and its id."""


class PlanFile(BaseModel):
    """The contents of a plan file. A unit is its id alone, if it is a whole run, or its kind and its id.

    ``rows`` are keys of rows by row table, since the third format.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    format: Literal["afterrun-plan/1", "afterrun-plan/2", "afterrun-plan/3"]
    store: str
    identity: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
    profile: str
    now: str
    policy: dict[str, JsonValue]
    fingerprint: str
    units: list[str | Named] = Field(max_length=MAX_UNITS)
    rows: dict[str, list[RowKey]] = Field(default_factory=dict, max_length=1_000)

    @model_validator(mode="after")
    def _is_of_its_format(self) -> Self:
        if self.rows and self.format != FORMAT:
            raise ValueError("rows came with a later format")
        if sum(map(len, self.rows.values())) > MAX_UNITS:
            raise ValueError("too many rows")
        if any(not isinstance(unit, str) and unit[0].startswith(ROW) for unit in self.units):
            raise ValueError("rows stand under rows")
        return self

    def ids_for(self, store: SqlStore) -> Only:
        """Return the listed ids, by kind but for a file of the first format, which does not tell kinds apart.

        Raises `Refused` for a plan of another store or profile.
        """
        if self.identity != _digest(store.identity):
            raise Refused("other-store", f"the plan file was made for another store: {self.store[:200]}")
        if self.profile != store.profile_name:
            raise Refused(
                "other-profile",
                f"the plan file was made with the profile {self.profile[:40]}, this is {store.profile_name}",
            )
        return self._only()

    def _only(self) -> Only:
        whole = frozenset(unit for unit in self.units if isinstance(unit, str))
        found: dict[str, set[str]] = {}
        for unit in self.units:
            if not isinstance(unit, str):
                found.setdefault(unit[0], set()).add(unit[1])
        if self.format == "afterrun-plan/1":
            return whole.union(*found.values())
        rows: dict[str, frozenset[Key]] = {kind_of(name): frozenset(keys) for name, keys in self.rows.items()}
        return {**dict.fromkeys(WHOLE_RUNS, whole), **found, **rows}


def read_plan(path: Path) -> PlanFile:
    """Read a plan file. Raises `UsageError` for anything that is none."""
    try:
        raw = read_small_file(path, limit=MAX_BYTES)
    except OSError as error:
        raise UsageError(f"the plan file {path} cannot be read: {error.strerror}") from None
    try:
        return PlanFile.model_validate_json(raw)
    except ValidationError as error:
        faults = [
            f"  - {'.'.join(map(str, fault['loc']))[:80] or 'file'}: {fault['msg']}"
            for fault in error.errors(include_url=False, include_input=False)[:10]
        ]
        raise UsageError("\n".join([f"{path} is no plan file of afterrun", *faults])) from None


class PlanWriter:
    """Writes a plan file, unit by unit, rows last. A failure in the middle leaves no file behind.

    ``left_out`` counts rows by kind that the file has no room for: they do not go with it.
    """

    def __init__(self, path: Path, store: SqlStore, report: Report) -> None:
        """Name the file; the report gives its header."""
        self.path = path
        self._forbidden = {f"{store.lock_path}{ending}" for ending in BESIDE}
        self._head = {
            "format": FORMAT,
            "store": store.url,
            "identity": _digest(store.identity),
            "profile": store.profile_name,
            "now": iso(report.now),
            "policy": report.policy,
            "fingerprint": report.fingerprint,
        }
        self._units = self._rows = self._bytes = 0
        self._table = ""
        self.left_out: Counter[str] = Counter()

    def __enter__(self) -> Self:
        """Make the file and write its header. Raises `UsageError` if something is there already."""
        if os.path.realpath(self.path) in self._forbidden:
            raise UsageError(f"{self.path} is a name that SQLite uses for the store: choose another")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            descriptor = os.open(self.path, flags, 0o600)
        except FileExistsError:
            raise UsageError(f"{self.path} exists already: choose a new file") from None
        except OSError as error:
            raise UsageError(f"{self.path} cannot be made: {error.strerror}") from None
        self._file = os.fdopen(descriptor, "w", encoding="ascii")
        self._write(f'{to_json(self._head)[:-1]}, "units": [')
        return self

    def add(self, kind: str, unit: Unit) -> None:
        """Write the kind and the id of one unit. Raises `UsageError` beyond what `read_plan` reads.

        Of rows, the first ones are listed, as many as the file may hold.
        """
        if kind.startswith(ROW):
            self._add_row(kind.removeprefix(ROW), unit.key)
            return
        said = key_text(unit.key) if kind in WHOLE_RUNS else [kind, key_text(unit.key)]
        self._write(f"{',' if self._units else ''}\n{to_json(said)}")
        self._units += 1
        if self._units > MAX_UNITS or self._bytes > MAX_BYTES - MARGIN:
            raise UsageError("the plan has more units than a plan file may list: use a narrower policy")

    def _add_row(self, table: str, key: Key) -> None:
        said = to_json(key)
        if self._rows == MAX_UNITS or self._bytes + len(said) > MAX_BYTES - MARGIN:
            self.left_out[table] += 1
            return
        if table != self._table:
            opened = "], " if self._table else '\n], "rows": {'
            self._write(f"{opened}{to_json(table)}: [\n{said}")
            self._table = table
        else:
            self._write(f",\n{said}")
        self._rows += 1

    def notices(self) -> Iterator[str]:
        """Yield what is to be said of rows that are not listed."""
        for table, count in self.left_out.items():
            yield (
                f"the plan file has no room for {count:,} more rows of {table}: --plan removes those that it "
                "lists, and another plan finds the rest"
            )

    def _write(self, text: str) -> None:
        self._bytes += self._file.write(text)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Finish the file, or take it away."""
        if error is not None:
            self._abandon()
            return
        try:
            self._write("\n]}}\n" if self._table else "\n]}\n")
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
        except BaseException:
            self._abandon()
            raise

    def _abandon(self) -> None:
        self.path.unlink(missing_ok=True)
        try:
            self._file.close()
        except OSError:
            return  # what could not be written belongs to a file that is gone


def _digest(identity: str) -> str:
    return hashlib.sha256(identity.encode("utf-8", "surrogateescape")).hexdigest()
