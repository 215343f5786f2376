"""The file of a `removed` backup of a PostgreSQL store: a ZIP archive of COPY text, in pieces of some units.

``afterrun.json`` says what the file holds. A piece is a folder with units of one kind: ``units.jsonl`` has a
line a unit, and each table with rows has a member with these rows, those of the first unit first. So one unit
is found and read without the others, and ``unzip -p FILE 000000/00-TABLE.copy | psql -c 'COPY ... FROM
STDIN'`` works without afterrun. A ZIP archive has its directory at the end: one that was cut off is none.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import zipfile
import zlib
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Self

from pydantic import ValidationError

from afterrun.core.errors import BackupFailed, Refused
from afterrun.core.facts import Unit
from afterrun.core.row_tables import ROW
from afterrun.stores.sql.postgres.backup_blobs import BlobRows, Needed, needed_by
from afterrun.stores.sql.postgres.backup_head import FORMAT, Head, Totals, UnitHead
from afterrun.stores.sql.postgres.backup_rows import Asked, UnitRows, UnitSum, all_tables
from afterrun.stores.sql.postgres.copying import blocks

HEAD: Final = "afterrun.json"
UNITS: Final = "units.jsonl"
MAX_HEAD: Final = 1_048_576
LEVEL: Final = 1
"""Of compression: text shrinks to a sixth at 90 MB/s, and level 6 takes three times as long for a tenth."""

BUFFER: Final = 262_144
PLAIN: Final = re.compile(r"[A-Za-z0-9_-]{1,63}", re.ASCII)
"""Names of tables that can stand in the name of a file anywhere."""


class Writing:
    """Writes a backup, piece by piece, to an empty file."""

    def __init__(
        self, file: IO[bytes], kinds: Mapping[str, UnitRows], blobs: Mapping[str, Sequence[BlobRows]]
    ) -> None:
        """Begin the archive. ``kinds`` read the units that it may hold.

        ``blobs``, by kind of unit, are copied beside the rows that refer to them.
        """
        self._blobs = blobs
        every = blobs["tree"]
        self._blob_files = {table.name: f"blobs-{_file_of(table.name, i)}" for i, table in enumerate(every)}
        self._blob_totals = {table.name: BlobTotal() for table in every}
        self._zip = zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=LEVEL)
        self._kinds = kinds
        self._tables = all_tables(kinds)
        self._files = {table.name: _file_of(table.name, place) for place, table in enumerate(self._tables)}
        self._totals = Totals([table.name for table in self._tables])
        self._pieces = 0
        self.needed: Needed = ()
        """Which blobs the units of the last piece need."""

    def __enter__(self) -> Self:
        """Return it."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the archive; one that failed is worth nothing, and fails for its first reason."""
        with nullcontext() if error is None else suppress(OSError, ValueError):
            self._zip.close()

    def add(self, kind: str, units: Sequence[Unit]) -> Sequence[UnitSum]:
        """Copy the rows of some units of one kind out, as one piece; return what they come to."""
        rows = self._kinds[kind]
        sums, asked = [UnitSum() for _ in units], Asked(rows.backed, units)
        for table in rows.tables:
            with closing(rows.lines(table, asked, sums)) as lines:
                first = next(lines, None)
                if first is not None:
                    self._write(self._files[table.name], chain([first], lines))
        needed = self.needed = needed_by(self._blobs[kind], units, asked)
        for blob_table in self._blobs[kind]:
            self._add_blobs(blob_table, {key for found in needed for key in found.get(blob_table.name, ())})
        listed = [_line_of(kind, *told) for told in zip(units, sums, needed, strict=True)]
        self._write(UNITS, listed)
        for found, line in zip(sums, listed, strict=True):
            self._totals.add(found, line, kind=kind)
        self._pieces += 1
        return sums

    def _add_blobs(self, table: BlobRows, keys: Collection[str | int]) -> None:
        if keys:
            with closing(table.lines(keys)) as lines:
                self._write(self._blob_files[table.name], self._blob_totals[table.name].counting(lines))

    def _write(self, name: str, lines: Iterable[bytes]) -> None:
        with self._zip.open(f"{self._pieces:06}/{name}", "w", force_zip64=True) as member:
            for block in blocks(lines):
                member.write(block)

    def finish(self, **said: object) -> Head:
        """Write the head, with what is ``said`` of the store beside what was counted; return it."""
        totals = self._totals
        tables = {
            table.name: {
                "file": self._files[table.name],
                "columns": dict(table.columns),
                "rows": totals.tables[table.name][0],
                "checksum": totals.tables[table.name][1],
            }
            for table in self._tables
        }
        blobs = {
            table.name: {
                "file": self._blob_files[table.name],
                "columns": dict(table.columns),
                "rows": self._blob_totals[table.name].rows,
                "checksum": self._blob_totals[table.name].checksum,
            }
            for table in self._blobs["tree"]
        }
        counted = {
            "tables": tables,
            "blobs": blobs,
            "pieces": self._pieces,
            "units": totals.units,
            "kinds": dict(totals.kinds),
            "rows": [kind.removeprefix(ROW) for kind in self._kinds if kind.startswith(ROW)],
            "checksum": totals.checksum,
        }
        head = Head.model_validate({"format": FORMAT, **said, **counted})
        self._zip.writestr(HEAD, head.model_dump_json(indent=1))
        return head


class BlobTotal:
    """What all blobs of one table in a backup come to, in their order."""

    def __init__(self) -> None:
        """Start empty."""
        self.rows = 0
        self._sum = hashlib.sha256()

    def counting(self, lines: Iterable[bytes]) -> Iterator[bytes]:
        """Pass lines on and take them in."""
        for line in lines:
            self.rows += 1
            self._sum.update(hashlib.sha256(line).digest())
            yield line

    @property
    def checksum(self) -> str:
        """Return the SHA-256 of the digests of all rows."""
        return self._sum.hexdigest()


@dataclass(frozen=True, slots=True)
class Kept:
    """One unit in a backup. Its rows can be read once, until the next unit is asked for."""

    line: bytes
    said: UnitHead
    piece: int
    _rows: Mapping[str, Iterator[bytes]]

    def lines(self, table: str) -> Iterator[bytes]:
        """Yield the rows of one table."""
        return self._rows.get(table, iter(()))


class BackupFile:
    """A backup that is there. It is input: nothing in it counts but names, numbers and rows."""

    def __init__(self, path: Path) -> None:
        """Open it and read its head. Raises `Refused` for a file of another kind, or one that was cut off."""
        try:
            self._zip = zipfile.ZipFile(path)
        except (OSError, zipfile.BadZipFile, NotImplementedError, ValueError):
            raise no_backup() from None
        try:
            with self._zip.open(HEAD) as member:
                self.head = Head.model_validate_json(member.read(MAX_HEAD))
        except (KeyError, OSError, EOFError, zipfile.BadZipFile, zlib.error, RuntimeError, ValidationError):
            self._zip.close()
            raise no_backup() from None

    def __enter__(self) -> Self:
        """Return it."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self._zip.close()

    def units(self) -> Iterator[Kept]:
        """Yield all units, in the order in which they were written. Raises `BackupFailed` for damage."""
        names = set(self._zip.namelist())
        for piece in range(self.head.pieces):
            yield from self._piece(piece, names)

    def _piece(self, piece: int, names: set[str]) -> Iterator[Kept]:
        with ExitStack() as stack:
            listed = self._opened(f"{piece:06}/{UNITS}", stack)
            tables = {
                name: self._opened(f"{piece:06}/{table.file}", stack)
                for name, table in self.head.tables.items()
                if f"{piece:06}/{table.file}" in names
            }
            for line in listed:
                said = _unit_head(line)
                if not said.rows.keys() <= tables.keys():
                    raise BackupFailed("corrupt", "the backup lacks rows of a unit that it lists")
                rows = {name: islice(tables[name], count) for name, count in said.rows.items()}
                yield Kept(line, said, piece, rows)
                for left in rows.values():
                    deque(left, maxlen=0)
            if any(member.read(1) for member in tables.values()):  # its end is where ZIP compares its CRC
                raise BackupFailed("corrupt", "the backup has rows of no unit that it lists")

    def _opened(self, name: str, stack: ExitStack) -> io.BufferedReader:
        """Open a member so that lines are read from it as fast as from a file."""
        with damage():
            member = stack.enter_context(self._zip.open(name))
        return stack.enter_context(io.BufferedReader(_Member(member), BUFFER))

    def blob_lines(self, table: str, piece: int) -> Iterator[bytes]:
        """Yield the blobs of one table that the units of a piece need."""
        name = f"{piece:06}/{self.head.blobs[table].file}"
        if name in self._zip.namelist():
            with ExitStack() as stack:
                yield from self._opened(name, stack)

    def _verify_blobs(self) -> None:
        for name, said in self.head.blobs.items():
            total = BlobTotal()
            for piece in range(self.head.pieces):
                deque(total.counting(self.blob_lines(name, piece)), maxlen=0)
            if (total.rows, total.checksum) != (said.rows, said.checksum):
                raise BackupFailed("corrupt", f"the rows of {name} in the backup are not those that it lists")

    def verify(self) -> None:
        """Read everything and compare it with what the file says of itself. Raises `BackupFailed`."""
        self._verify_blobs()
        totals = Totals(list(self.head.tables))
        for kept in self.units():
            found = UnitSum()
            for name in kept.said.rows:
                lines = list[bytes]()
                size = 0
                for line in kept.lines(name):
                    lines.append(hashlib.sha256(line).digest())
                    size += len(line)
                found.note(name, lines, size)
            if (found.rows, found.size, found.digest) != (kept.said.rows, kept.said.size, kept.said.digest):
                raise BackupFailed("corrupt", "the rows of a unit in the backup are not those that it lists")
            totals.add(found, kept.line, kind=kept.said.kind)
        said = {name: (table.rows, table.checksum) for name, table in self.head.tables.items()}
        if (totals.tables, totals.units, totals.checksum) != (said, self.head.units, self.head.checksum):
            raise BackupFailed("corrupt", "the units in the backup are not those that it lists")
        if totals.kinds != self.head.by_kind:
            raise BackupFailed("corrupt", "the units in the backup are of other kinds than it says")


def no_backup() -> Refused:
    """Say that a file cannot be restored from."""
    return Refused(
        "no-backup",
        "this file is no `removed` backup of a PostgreSQL store that afterrun made and finished; a `whole` "
        "backup is one of pg_dump's, which pg_restore reads",
    )


@contextmanager
def damage() -> Iterator[None]:
    """Turn what a damaged file makes of its readers into `BackupFailed`."""
    try:
        yield
    except (
        KeyError,
        OSError,
        EOFError,
        ValueError,
        RuntimeError,
        zipfile.BadZipFile,
        zlib.error,
    ) as error:
        raise BackupFailed("corrupt", f"the backup is damaged ({type(error).__name__})") from None


class _Member(io.RawIOBase):
    """One file of the archive, whose damage is a `BackupFailed`."""

    def __init__(self, member: IO[bytes]) -> None:
        self._member = member

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:  # noqa: ANN401 - whatever has room for bytes
        view = memoryview(buffer).cast("B")
        with damage():
            part = self._member.read(len(view))
        view[: len(part)] = part
        return len(part)


def _unit_head(line: bytes) -> UnitHead:
    with damage():
        return UnitHead.model_validate_json(line)


def _line_of(kind: str, unit: Unit, found: UnitSum, blobs: Mapping[str, Sequence[str | int]]) -> bytes:
    said = {
        "kind": kind,
        "members": unit.members,
        "rows": found.rows,
        "size": found.size,
        "digest": found.digest,
    }
    said |= {"blobs": blobs} if blobs else {}
    return json.dumps(said, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _file_of(table: str, place: int) -> str:
    """Return the name of a table's members, with its own in it where that can be part of any file's name."""
    return f"{place:02}-{table}.copy" if PLAIN.fullmatch(table) else f"{place:02}.copy"
