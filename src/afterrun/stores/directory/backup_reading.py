"""Read a backup of a directory: its records and contents in order, each checked before it is believed."""

from __future__ import annotations

import stat
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import BinaryIO, NamedTuple

from afterrun.stores.directory.archive import Member, Reader, corrupt
from afterrun.stores.directory.backup_records import (
    END,
    HEAD,
    MAX_RECORD,
    STORE,
    UNITS,
    End,
    Head,
    UnitRecord,
    no_backup,
    read_record,
)
from afterrun.stores.directory.folders import MAX_DEPTH
from afterrun.stores.directory.names import MAX_NAME_BYTES, OURS, unsafe


class Content(NamedTuple):
    """An entry of a unit: of which of its members, at which path below it, and what it is."""

    number: int
    path: tuple[str, ...]
    member: Member


Part = Head | UnitRecord | Content | End


class BackupReader:
    """Reads a backup from its beginning. ``reader`` has the content of the part that was yielded last."""

    def __init__(self, file: BinaryIO) -> None:
        """Take an open file."""
        file.seek(0)
        self.reader = Reader(file)
        self._unit: UnitRecord | None = None
        self._seen: set[int] = set()

    def parts(self) -> Iterator[Part]:
        """Yield head, units, contents and end. Raises `Refused` for another file, else `BackupFailed`."""
        members = self.reader.members()
        first = next(members, None)
        if first is None or first.name != HEAD:
            raise no_backup()
        yield read_record(Head, self.reader.content(limit=MAX_RECORD))
        ended = False
        for member in members:
            if ended:
                raise corrupt("it goes on behind its end")
            part = self._part(member)
            ended = isinstance(part, End)
            yield part
        if not ended:
            raise no_backup()

    def _part(self, member: Member) -> UnitRecord | Content | End:
        if member.name.startswith(STORE):
            return self._content(member)
        if self._unit is not None and len(self._seen) < len(self._unit.members):
            raise corrupt("a unit in it is not whole")
        if member.name == END:
            end = read_record(End, self.reader.content(limit=MAX_RECORD))
            if end.checksum != member.before:
                raise corrupt("its checksum is another one")
            return end
        if not member.name.startswith(UNITS):
            raise corrupt("it has a member that is nothing of ours")
        self._unit, self._seen = read_record(UnitRecord, self.reader.content(limit=MAX_RECORD)), set()
        _check_places([kept.path for kept in self._unit.members])
        self._places = {kept.path: number for number, kept in enumerate(self._unit.members)}
        self._lengths = sorted({len(path) for path in self._places})
        return self._unit

    def _content(self, member: Member) -> Content:
        unit = self._unit
        name = member.name[len(STORE) :]
        parts = tuple((name.removesuffix("/") if stat.S_ISDIR(member.kind) else name).split("/"))
        if unit is None or any(_is_unsafe(part) for part in parts):
            raise corrupt("a name in it leads elsewhere")
        found = next((parts[:n] for n in self._lengths if parts[:n] in self._places), None)
        if found is None:
            raise corrupt("it has a file that is of no unit")
        number, path = self._places[found], parts[len(found) :]
        if not path:
            self._begin(unit, number, member)
        elif number not in self._seen or unit.kind == "result" or len(path) > MAX_DEPTH:
            raise corrupt("it has a file in a place where none can be")
        return Content(number, path, member)

    def _begin(self, unit: UnitRecord, number: int, member: Member) -> None:
        """Take in the beginning of a member of a unit."""
        is_right = stat.S_ISDIR if unit.kind == "directory" else stat.S_ISREG
        if number in self._seen or not is_right(member.kind):
            raise corrupt("a run in it is there twice, or is no folder")
        self._seen.add(number)


def verify(file: BinaryIO) -> tuple[Head, End]:
    """Read a whole backup and compare it with what it says of itself. Raises `Refused`, `BackupFailed`."""
    found: list[Head | End] = []
    kinds: Counter[str] = Counter()
    folders = files = 0
    for part in BackupReader(file).parts():
        if isinstance(part, UnitRecord):
            kinds[part.kind] += 1
        elif isinstance(part, Content):
            is_folder = stat.S_ISDIR(part.member.kind)
            folders, files = folders + is_folder, files + (not is_folder)
        else:
            found.append(part)
    head, end = found
    if not isinstance(head, Head) or not isinstance(end, End):
        raise no_backup()
    if (dict(kinds), folders, files) != (end.kinds, end.folders, end.files):
        raise corrupt("it does not hold what it lists")
    return head, end


def _check_places(paths: Sequence[tuple[str, ...]]) -> None:
    """Make sure that members of a unit lie in the store, each in a place of its own."""
    for path in paths:
        if any(unsafe(part) or part.startswith(OURS) for part in path):
            raise corrupt("a name in it leads elsewhere")
    known = set(paths)
    if len(known) < len(paths) or any(path[:n] in known for path in known for n in range(1, len(path))):
        raise corrupt("two runs in it have one place")


def _is_unsafe(part: str) -> bool:
    return (
        part in ("", ".", "..")
        or "\0" in part
        or len(part.encode("utf-8", "surrogateescape")) > MAX_NAME_BYTES
    )
